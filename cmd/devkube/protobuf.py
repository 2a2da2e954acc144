"""The few protobuf bodies that are read after all: questions kubectl asks only so (`auth can-i`, `auth whoami`, `create
token`, `drain`). Everything else in protobuf is refused, with the way out.

Field numbers: generated.proto of authorization/v1, authentication/v1, policy/v1 and meta/v1. Go writes every field,
also those that are empty, so what is empty is left out as its JSON would; a field that is not known here and says
something is refused, never dropped. Statuses are the server's to fill and are not read.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from devkube.errors import StatusError, unsupported_media_type

MAGIC: Final = b"k8s\x00"
MEDIA: Final = "application/vnd.kubernetes.protobuf"
TEXT, TEXTS, NUMBER, IGNORED = "text", "texts", "number", "ignored"
Message = Mapping[int, tuple[str, Any]]  # field number -> JSON name, and what it is: one of the above or a message


def _texts(*names: str) -> Message:
    return {number: (name, TEXT) for number, name in enumerate(names, 1)}


def _question(spec: Message) -> Message:
    return {1: ("metadata", _META), 2: ("spec", spec), 3: ("status", IGNORED)}


_META: Final[Message] = {**_texts("name", "generateName", "namespace"), 5: ("uid", TEXT), 6: ("resourceVersion", TEXT)}
_RESOURCE: Final = _texts("namespace", "verb", "group", "version", "resource", "subresource", "name")
_ACCESS: Final[Message] = {1: ("resourceAttributes", _RESOURCE), 2: ("nonResourceAttributes", _texts("path", "verb"))}
_TOKEN: Final[Message] = {
    1: ("audiences", TEXTS),
    3: ("boundObjectRef", _texts("kind", "apiVersion", "name", "uid")),
    4: ("expirationSeconds", NUMBER),
}
_DELETE: Final[Message] = {
    1: ("gracePeriodSeconds", NUMBER),
    2: ("preconditions", _texts("uid", "resourceVersion")),
    4: ("propagationPolicy", TEXT),
    5: ("dryRun", TEXTS),
}
QUESTIONS: Final[Mapping[tuple[str, str], Message]] = {
    ("authorization.k8s.io/v1", "SelfSubjectAccessReview"): _question(_ACCESS),
    ("authorization.k8s.io/v1", "SelfSubjectRulesReview"): _question(_texts("namespace")),
    ("authentication.k8s.io/v1", "SelfSubjectReview"): {1: ("metadata", _META), 2: ("status", IGNORED)},
    ("authentication.k8s.io/v1", "TokenRequest"): _question(_TOKEN),
    ("policy/v1", "Eviction"): {1: ("metadata", _META), 2: ("deleteOptions", _DELETE)},
}


class Unreadable(ValueError):
    """Bytes that are no protobuf, or a field that is not known here."""


def refused() -> StatusError:
    return unsupported_media_type(
        "this server reads JSON and YAML, no protobuf, which typed kubectl commands send: use "
        "`kubectl create -f FILE` or `kubectl apply -f FILE` (`--dry-run=client -o yaml` writes the file)"
    )


def to_json(body: bytes) -> bytes:
    """A question as JSON. StatusError 415 for everything else."""
    try:
        if not body.startswith(MAGIC):
            raise Unreadable("no envelope")
        # runtime.Unknown: 1 the type, 2 the object's bytes.
        envelope = dict(_fields(body[len(MAGIC) :]))
        named = _read(envelope.get(1, b""), _texts("apiVersion", "kind"))
        message = QUESTIONS.get((named.get("apiVersion", ""), named.get("kind", "")))
        if message is None:
            raise Unreadable("another kind")
        return msgspec.json.encode({**named, **_read(envelope.get(2, b""), message)})
    except Unreadable:
        raise refused() from None


def _read(raw: bytes | int, message: Message) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if not isinstance(raw, bytes):
        raise Unreadable("a number where a message should be")
    for number, value in _fields(raw):
        if number not in message:
            if value:  # more than Go's empty text, zero, or empty message (creationTimestamp)
                raise Unreadable(f"field {number} is not known")
            continue
        name, kind = message[number]
        if kind == IGNORED:
            continue
        if kind == NUMBER:
            if not isinstance(value, int):
                raise Unreadable(f"{name} is no number")
            found[name] = value - (1 << 64) if value >> 63 else value
        elif kind == TEXTS:
            found.setdefault(name, []).append(_text(value))
        elif kind == TEXT:
            if text := _text(value):
                found[name] = text
        else:
            found[name] = _read(value, kind)
    return found


def _text(value: bytes | int) -> str:
    if not isinstance(value, bytes):
        raise Unreadable("a number where a text should be")
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise Unreadable("no UTF-8") from None


def _fields(raw: bytes) -> Iterator[tuple[int, bytes | int]]:
    """Field numbers and values: bytes for what has a length, numbers for the rest."""
    at = 0
    while at < len(raw):
        key, at = _varint(raw, at)
        number, wire = key >> 3, key & 7
        value: bytes | int
        if wire == 0:
            value, at = _varint(raw, at)
        elif wire in (1, 2, 5):
            size = {1: 8, 5: 4}.get(wire, 0)
            if wire == 2:
                size, at = _varint(raw, at)
            value, at = raw[at : at + size], at + size
            if at > len(raw):
                raise Unreadable("it ends in the middle")
        else:
            raise Unreadable(f"wire type {wire}")
        yield number, value


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(raw) or shift > 63:
            raise Unreadable("a number does not end")
        byte = raw[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
