"""The few bodies that are read from protobuf: what kubectl asks for itself and has no `-f FILE` for.

`kubectl auth can-i`, `auth whoami` and `create token` send SelfSubjectAccessReview, SelfSubjectRulesReview,
SelfSubjectReview and TokenRequest in protobuf only. Field numbers: generated.proto of authorization/v1 and
authentication/v1; the envelope: apimachinery's runtime.Unknown behind four magic bytes. Everything else in protobuf is
refused with a 415.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from devkube.errors import bad_request
from devkube.kinds import Object

MAGIC: Final = b"k8s\x00"
# field number -> name and what it holds: a string, strings, an integer, a message
Message = Mapping[int, tuple[str, Any]]
_META: Final[Message] = {1: ("name", str), 3: ("namespace", str)}
_RESOURCE: Final = ("namespace", "verb", "group", "version", "resource", "subresource", "name")
_REFERENCE: Final = ("kind", "apiVersion", "name", "uid")


def _strings(names: tuple[str, ...]) -> Message:
    return {number: (name, str) for number, name in enumerate(names, 1)}


_SPECS: Final[Mapping[str, Message]] = {
    "SelfSubjectAccessReview": {
        1: ("resourceAttributes", _strings(_RESOURCE)),
        2: ("nonResourceAttributes", _strings(("path", "verb"))),
    },
    "SelfSubjectRulesReview": {1: ("namespace", str)},
    "SelfSubjectReview": {},
    "TokenRequest": {
        1: ("audiences", list),
        3: ("boundObjectRef", _strings(_REFERENCE)),
        4: ("expirationSeconds", int),
    },
}
_ENVELOPE: Final[Message] = {1: ("type", _strings(("apiVersion", "kind"))), 2: ("raw", bytes)}


def review(body: bytes) -> Object | None:
    """The object in the body, None when it is of a kind that is not read here. StatusError 400 for damaged bytes."""
    try:
        envelope = _read(body.removeprefix(MAGIC), _ENVELOPE)
        kind = (envelope.get("type") or {}).get("kind", "")
        spec = _SPECS.get(kind)
        if spec is None:
            return None
        found = _read(envelope.get("raw", b""), {1: ("metadata", _META), 2: ("spec", spec)})
    except (IndexError, UnicodeDecodeError) as error:
        raise bad_request(f"the protobuf body is damaged: {error}") from None
    return {"apiVersion": envelope["type"].get("apiVersion", ""), "kind": kind, **found}


def _read(data: bytes, message: Message) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for number, value in _fields(data):
        name, kind = message.get(number, ("", None))
        if kind is None:
            continue
        if kind is int or isinstance(value, int):
            found[name] = value
        elif kind is str:
            found[name] = value.decode()
        elif kind is list:
            found.setdefault(name, []).append(value.decode())
        else:
            found[name] = value if kind is bytes else _read(value, kind)
    return found


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Numbers and raw values. IndexError where the bytes end too early."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        match tag & 7:
            case 0:
                value, at = _varint(data, at)
                yield tag >> 3, value
            case 2:
                size, at = _varint(data, at)
                if at + size > len(data):
                    raise IndexError("a field is longer than what is left")
                yield tag >> 3, data[at : at + size]
                at += size
            case other:
                raise IndexError(f"wire type {other} is not used by these messages")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
