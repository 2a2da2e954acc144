"""Decoding as Go does it: types, unknown fields, nulls, canonical scalars."""

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devkube.builtin.document import schema_of
from devkube.builtin.types import Undecodable
from devkube.builtin.types import decode as read
from devkube.errors import StatusError
from devkube.kinds import Catalog, Object

CANNOT = "json: cannot unmarshal"
WRONG = [
    ({"metadata": {"name": 1}}, f"{CANNOT} number 1 into field metadata.name of type string"),
    ({"spec": {"containers": {}}}, f"{CANNOT} object into field spec.containers of type array"),
    ({"spec": {"containers": [{}, {"name": []}]}}, f"{CANNOT} array into field spec.containers[1].name of type string"),
    (
        {"spec": {"terminationGracePeriodSeconds": "30"}},
        f"{CANNOT} string into field spec.terminationGracePeriodSeconds",
    ),
    ({"spec": {"priority": 2**31}}, f"{CANNOT} number 2147483648 into field spec.priority of type int32"),
    ({"spec": {"priority": 1.5}}, f"{CANNOT} number 1.5 into field spec.priority of type int32"),
    ({"spec": {"hostNetwork": "yes"}}, f"{CANNOT} string into field spec.hostNetwork of type boolean"),
    ({"metadata": {"labels": {"a": True}}}, f"{CANNOT} bool into field metadata.labels.a of type string"),
    ({"spec": "none"}, f"{CANNOT} string into field spec of type object"),
    ({"metadata": {"creationTimestamp": "now"}}, 'metadata.creationTimestamp: parsing time "now" as "2006-01-02T15'),
    (
        {"spec": {"containers": [{"resources": {"limits": {"cpu": "much"}}}]}},
        "spec.containers[0].resources.limits.cpu: quantities must match the regular expression",
    ),
]


def decode(catalog: Catalog, obj: Object, validation: Any = "Strict", kind: str = "Pod") -> list[str]:
    found = catalog.of_kind("v1", kind)
    assert found is not None
    return found.rules.decode(obj, validation=validation)


@pytest.mark.parametrize(("obj", "message"), WRONG, ids=[message[:60] for _, message in WRONG])
@pytest.mark.parametrize("validation", ["Ignore", "Warn", "Strict"])
def test_wrong_types_are_bad_requests(catalog: Catalog, obj: Object, message: str, validation: str) -> None:
    with pytest.raises(StatusError) as caught:
        decode(catalog, deepcopy(obj), validation)
    assert (caught.value.code, caught.value.reason) == (400, "BadRequest")
    assert f'Pod in version "v1" cannot be handled as a Pod: {message}' in caught.value.message


def test_the_group_is_not_named(catalog: Catalog) -> None:
    found = catalog.of_kind("apps/v1", "Deployment")
    assert found is not None
    with pytest.raises(StatusError, match=r'^Deployment in version "v1" cannot be handled as a Deployment: '):
        found.rules.decode({"spec": 1}, validation="Ignore")


def unknown() -> Object:
    return {"spec": {"contaners": [], "containers": [{"name": "a"}, {"name": "b", "imge": "x"}]}, "sepc": {}}


def test_unknown_fields_are_refused_when_strict(catalog: Catalog) -> None:
    with pytest.raises(StatusError) as caught:
        decode(catalog, unknown())
    assert caught.value.message == (
        'Pod in version "v1" cannot be handled as a Pod: strict decoding error: unknown field "spec.contaners", '
        'unknown field "spec.containers[1].imge", unknown field "sepc"'
    )


def test_unknown_fields_are_warned_of_and_dropped(catalog: Catalog) -> None:
    obj = unknown()
    assert decode(catalog, obj, "Warn") == [
        'unknown field "spec.contaners"',
        'unknown field "spec.containers[1].imge"',
        'unknown field "sepc"',
    ]
    assert obj == {"spec": {"containers": [{"name": "a"}, {"name": "b"}]}}


def test_unknown_fields_are_dropped_in_silence_when_asked(catalog: Catalog) -> None:
    obj = unknown()
    assert decode(catalog, obj, "Ignore") == []
    assert "sepc" not in obj


def test_nulls_are_zero_values(catalog: Catalog) -> None:
    obj: Object = {
        "metadata": {"creationTimestamp": None, "labels": {"a": None}},
        "spec": {"nodeName": None, "containers": [{"name": "a", "args": ["x", None], "env": None}, None]},
    }
    decode(catalog, obj)
    assert obj == {
        "metadata": {"labels": {"a": ""}},
        "spec": {"containers": [{"name": "a", "args": ["x", ""]}, {}]},
    }


def test_empty_lists_and_maps_are_left_out_and_empty_structs_are_kept(catalog: Catalog) -> None:
    obj: Object = {"metadata": {"labels": {}}, "spec": {"tolerations": [], "containers": [], "securityContext": {}}}
    decode(catalog, obj)
    assert obj == {"metadata": {}, "spec": {"containers": [], "securityContext": {}}}


def test_scalars_are_written_canonically(catalog: Catalog) -> None:
    obj: Object = {
        "metadata": {"creationTimestamp": "2026-11-30T12:00:00+02:00"},
        "spec": {"containers": [{"resources": {"limits": {"cpu": 0.5, "memory": "1024Mi", "n": 2000}}}]},
    }
    decode(catalog, obj)
    assert obj["metadata"]["creationTimestamp"] == "2026-11-30T10:00:00Z"
    assert obj["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "500m", "memory": "1Gi", "n": "2k"}


def test_bytes_of_a_secret(catalog: Catalog) -> None:
    decode(catalog, {"data": {"a": "YWJj"}}, kind="Secret")
    with pytest.raises(StatusError, match="illegal base64 data at input byte 3"):
        decode(catalog, {"data": {"a": "abc-"}}, kind="Secret")


def test_ports_by_number_or_name(catalog: Catalog) -> None:
    decode(catalog, {"spec": {"ports": [{"port": 80, "targetPort": 8080}, {"targetPort": "web"}]}}, kind="Service")
    with pytest.raises(StatusError, match="cannot unmarshal bool into field"):
        decode(catalog, {"spec": {"ports": [{"targetPort": True}]}}, kind="Service")


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
FIELDS = ("metadata", "spec", "containers", "name", "image", "env", "value", "ports", "containerPort", "resources")
fields = st.sampled_from((*FIELDS, "limits", "cpu", "volumes", "labels"))
objects = st.recursive(json, lambda inner: st.dictionaries(fields, inner, max_size=4) | st.lists(inner, max_size=2))


@given(objects)
def test_what_is_decoded_stays_as_it_is(value: Any) -> None:
    """Whatever comes in: it is refused, or it is what Go would write and a second pass changes nothing."""
    node = schema_of("", "v1", "Pod").node
    try:
        once = read(value, node, "", [])
    except Undecodable:
        return
    again: list[str] = []
    assert read(deepcopy(once), node, "", again) == once
    assert again == []
