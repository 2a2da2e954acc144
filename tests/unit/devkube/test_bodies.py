"""What a body may be, and what is said of one that is not."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devkube import bodies
from devkube.errors import StatusError
from devkube.kinds import Resource
from tests.unit.devkube.doubles import RESOURCES

PODS, WIDGETS = RESOURCES["pods"], RESOURCES["widgets"]
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def told(body: bytes, resource: Resource = PODS, media: str = "application/json") -> StatusError:
    with pytest.raises(StatusError) as caught:
        bodies.decode_object(body, media, resource)
    return caught.value


def test_kind_and_version_are_filled_in_for_built_ins() -> None:
    obj, repeated = bodies.decode_object(b'{"metadata":{"name":"a"}}', "application/json", PODS)
    assert (obj["apiVersion"], obj["kind"], repeated) == ("v1", "Pod", [])


@pytest.mark.parametrize(
    ("body", "part"),
    [
        (b"", "json parse error"),
        (b"{", "couldn't get version/kind; json parse error"),
        (b"[]", "no JSON object"),
        (b"null", "no JSON object"),
        (b'{"kind":1}', "kind and apiVersion must be strings"),
        (b'{"kind":"Node","apiVersion":"v1"}', 'Node in version "v1" cannot be handled as a Pod'),
        (b'{"kind":"Pod","apiVersion":"v2"}', "(v2) does not match the expected API version (v1)"),
        (b'{"a":' * 300 + b"1" + b"}" * 300, "nested deeper than 200 levels"),
        (b'{"a":"\xff"}', "json parse error"),
    ],
)
def test_bodies_that_are_none(body: bytes, part: str) -> None:
    error = told(body)
    assert (error.code, error.reason) == (400, "BadRequest")
    assert part in error.message


def test_custom_objects_must_say_their_kind() -> None:
    assert "Object 'Kind' is missing" in told(b'{"metadata":{"name":"a"}}', WIDGETS).message


def test_yaml_has_only_the_types_of_json() -> None:
    text = b"kind: Pod\nmetadata:\n  name: a\n  annotations: {date: 2026-01-02, 1: 'x'}\n"
    obj, _ = bodies.decode_object(text, "application/yaml", PODS)
    assert obj["metadata"]["annotations"] == {"date": "2026-01-02", "1": "x"}


@pytest.mark.parametrize("text", [b"a: [", b"- x: &a [*a]", b"a: .nan"])
def test_yaml_that_is_none(text: bytes) -> None:
    assert told(text, media="application/yaml").code == 400


def test_repeated_keys_are_told_with_their_path() -> None:
    text = b'{"a":{"b":1,"b":2},"c":[{"d":1,"d":2}],"a":{"b":1}}'
    found = bodies.duplicates(text)
    assert found == ['duplicate field "a.b"', 'duplicate field "c[0].d"', 'duplicate field "a"']


@given(JSON_VALUES, st.booleans())
def test_no_key_is_repeated_in_what_a_library_writes(value: object, ascii_only: bool) -> None:
    assert bodies.duplicates(json.dumps(value, ensure_ascii=ascii_only).encode()) == []


@given(JSON_VALUES, st.text(max_size=6))
def test_a_key_repeated_is_found_whatever_is_around_it(value: object, key: str) -> None:
    name = json.dumps(key)
    text = f"{{{name} : {json.dumps(value)}, {name}: 1}}".encode()
    assert f'duplicate field "{key}"' in bodies.duplicates(text)
