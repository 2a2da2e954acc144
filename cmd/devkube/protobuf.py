"""The few bodies that are read from protobuf: what kubectl asks for itself and has no `-f FILE` for.

`kubectl auth can-i`, `auth whoami` and `create token` send SelfSubjectAccessReview, SelfSubjectRulesReview,
SelfSubjectReview and TokenRequest in protobuf only. Field numbers: generated.proto of authorization/v1 and
authentication/v1; the envelope: apimachinery's runtime.Unknown behind four magic bytes. Everything else is refused
with a 415 that tells the way out, and so is a field that is not known here: it might change the answer.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from devkube.errors import unsupported_media_type

MEDIA: Final = "application/vnd.kubernetes.protobuf"
MAGIC: Final = b"k8s\x00"
_REFUSED: Final = (
    "this server reads JSON and YAML, no protobuf, which typed kubectl commands send: use "
    "`kubectl create -f FILE` or `kubectl apply -f FILE` (`--dry-run=client -o yaml` writes the file)"
)
# Field number -> name, and what it holds: str, list (of strings), int, bytes, or the fields of a message.
Message = Mapping[int, tuple[str, Any]]


def _strings(*names: str) -> Message:
    return {number: (name, str) for number, name in enumerate(names, 1)}


_SPECS: Final[Mapping[str, Message]] = {
    "SelfSubjectAccessReview": {
        1: ("resourceAttributes", _strings("namespace", "verb", "group", "version", "resource", "subresource", "name")),
        2: ("nonResourceAttributes", _strings("path", "verb")),
    },
    "SelfSubjectRulesReview": {1: ("namespace", str)},
    "SelfSubjectReview": {},
    "TokenRequest": {
        1: ("audiences", list),
        3: ("boundObjectRef", _strings("kind", "apiVersion", "name", "uid")),
        4: ("expirationSeconds", int),
    },
}
_META: Final[Message] = {1: ("name", str), 2: ("generateName", str), 3: ("namespace", str), 5: ("uid", str)}
_ENVELOPE: Final[Message] = {1: ("type", _strings("apiVersion", "kind")), 2: ("raw", bytes)}


class _Unreadable(Exception):
    """Damaged, or more than is known here."""


def to_json(body: bytes) -> bytes:
    """The object as JSON, without its status. StatusError 415 for everything but the questions above."""
    try:
        if not body.startswith(MAGIC):
            raise _Unreadable
        envelope = _read(body[len(MAGIC) :], _ENVELOPE)
        kind = (envelope.get("type") or {}).get("kind", "")
        if kind not in _SPECS:
            raise _Unreadable
        outer: Message = {1: ("metadata", _META), 2: ("spec", _SPECS[kind])}
        if kind == "SelfSubjectReview":
            outer = {1: ("metadata", _META)}
        found = _read(_without_status(envelope.get("raw", b""), kind), outer)
    except (IndexError, UnicodeDecodeError, _Unreadable):
        raise unsupported_media_type(_REFUSED) from None
    api = envelope["type"].get("apiVersion", "")
    return msgspec.json.encode({"apiVersion": api, "kind": kind, "metadata": {}, **found})


def _without_status(data: bytes, kind: str) -> bytes:
    """A message without the field that only the server fills."""
    status = 2 if kind == "SelfSubjectReview" else 3
    return b"".join(raw for number, _, raw in _fields(data) if number != status)


def _read(data: bytes, message: Message) -> dict[str, Any]:
    """What is set in a message; Go writes empty strings too, they are left out."""
    found: dict[str, Any] = {}
    for number, value, _ in _fields(data):
        if number not in message:
            if message is _ENVELOPE or not value or (message is _META and number == 8):
                continue  # nothing in it, or a creationTimestamp, which is never unset
            raise _Unreadable
        name, kind = message[number]
        if isinstance(value, int) != (kind is int):
            raise _Unreadable
        if kind is int:
            found[name] = value - (1 << 64) if value >= 1 << 63 else value
        elif kind is str:
            if value:
                found[name] = value.decode()
        elif kind is list:
            found.setdefault(name, []).append(value.decode())
        else:
            found[name] = value if kind is bytes else _read(value, kind)
    return found


def _fields(data: bytes) -> Iterator[tuple[int, Any, bytes]]:
    """Number, value (int or bytes) and the bytes of the whole field. IndexError where they end too early."""
    at = 0
    while at < len(data):
        start = at
        tag, at = _varint(data, at)
        value: int | bytes
        match tag & 7:
            case 0:
                value, at = _varint(data, at)
            case 2:
                size, at = _varint(data, at)
                if at + size > len(data):
                    raise IndexError
                value, at = data[at : at + size], at + size
            case _:
                raise _Unreadable
        yield tag >> 3, value, data[start:at]


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise _Unreadable
