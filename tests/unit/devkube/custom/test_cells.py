"""JSONPath and printer columns."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devkube.custom import cells

OBJ: dict[str, Any] = {
    "spec": {"n": 3, "names": ["a", "b", "c"], "a.b": 1, "on": True, "ratio": 0.5},
    "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Old", "status": "False", "n": 2}]},
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".spec.n", [3]),
        (".spec.missing.deeper", []),
        (".spec.names[0]", ["a"]),
        (".spec.names[-1]", ["c"]),
        (".spec.names[-4]", []),
        (".spec.names[9]", []),
        (".spec.names[*]", ["a", "b", "c"]),
        (".spec['n']", [3]),
        (r".spec.a\.b", [1]),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        (".status.conditions[?(@.n==2)].type", ["Old"]),
        (".", [OBJ]),
    ],
)
def test_paths(path: str, found: list[Any]) -> None:
    assert cells.parse(path)(OBJ) == found


@pytest.mark.parametrize("path", [".a[", ".a[?(@", ".a[x]", ".a[]", ".a[?(@.b == x)]"])
def test_what_is_no_path(path: str) -> None:
    with pytest.raises(ValueError, match=r"unrecognized|Expecting"):
        cells.parse(path)


@pytest.mark.parametrize(
    ("kind", "value", "shown"),
    [
        ("string", "a", "a"),
        ("string", 3, "3"),
        ("string", True, "true"),
        ("string", ["a"], '["a"]'),
        ("integer", "3", None),
        ("number", 3, 3),
        ("boolean", True, True),
        ("boolean", "true", None),
        ("integer", True, None),
        ("date", "1970-01-01T00:00:00Z", "100s"),
        ("date", "yesterday", "<invalid>"),
        ("date", "0001-01-01T00:00:00+23:59", "<invalid>"),
        ("string", None, None),
    ],
)
def test_cells(kind: str, value: Any, shown: Any) -> None:
    assert cells.cell(kind, [value], 100) == shown


@given(st.text(st.sampled_from(".[]*?@('\"ab01:=)"), max_size=12))
def test_any_text_is_a_path_or_refused(text: str) -> None:
    try:
        find = cells.parse(text)
    except ValueError:
        return
    assert isinstance(find({"a": [{"b": 1}], "b": "x"}), list)
