"""The few protobuf bodies that are read after all: questions kubectl asks only so (`auth can-i`, `auth whoami`).
Everything else in protobuf is refused, with the way out.

Field numbers: generated.proto of authorization/v1 and meta/v1. Go writes every field, also those that are empty, so
what is empty is left out as its JSON would; a field that is not known here and says something is refused, never
dropped. Statuses are the server's to fill and are not read.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from devkube.errors import StatusError, unsupported_media_type

MAGIC: Final = b"k8s\x00"
MEDIA: Final = "application/vnd.kubernetes.protobuf"
_VARINT: Final = re.compile(rb"[\x80-\xff]{0,8}[\x00-\x7f]")
# Field number -> JSON name, and the message that it holds (None: a text).
Message = Mapping[int, tuple[str, Any]]


def _texts(*names: str) -> Message:
    return {number: (name, None) for number, name in enumerate(names, 1) if name}


_TYPE: Final = _texts("apiVersion", "kind")
_META: Final = _texts("name", "generateName", "namespace", "", "uid", "resourceVersion")
_RESOURCE: Final = _texts("namespace", "verb", "group", "version", "resource", "subresource", "name")
_ACCESS: Final = {1: ("resourceAttributes", _RESOURCE), 2: ("nonResourceAttributes", _texts("path", "verb"))}
_KINDS: Final[Mapping[str, Message]] = {
    "SelfSubjectAccessReview": {1: ("metadata", _META), 2: ("spec", _ACCESS), 3: ("status", None)},
    "SelfSubjectRulesReview": {1: ("metadata", _META), 2: ("spec", _texts("namespace")), 3: ("status", None)},
    "SelfSubjectReview": {1: ("metadata", _META), 2: ("status", None)},
}


def to_json(body: bytes) -> bytes:
    """A question as JSON. StatusError 415 for everything else."""
    try:
        # runtime.Unknown: 1 the type, 2 the object's bytes.
        envelope = dict(_fields(body.removeprefix(MAGIC)))
        named = _read(envelope[1], _TYPE)
        return msgspec.json.encode({**named, **_read(envelope[2], _KINDS[named["kind"]])})
    except (KeyError, ValueError):  # no protobuf, or one that is not known here
        raise refused() from None


def refused() -> StatusError:
    return unsupported_media_type(
        "this server reads JSON and YAML, no protobuf, which typed kubectl commands send: use "
        "`kubectl create -f FILE` or `kubectl apply -f FILE` (`--dry-run=client -o yaml` writes the file)"
    )


def _read(raw: bytes, message: Message) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for number, value in _fields(raw):
        name, inner = message.get(number, ("", None))
        if inner is not None:
            found[name] = _read(value, inner)
        elif name and name != "status" and value:
            found[name] = value.decode()
        elif not name and value:  # more than Go's empty text or empty message (creationTimestamp)
            raise ValueError(f"field {number} is not known")
    return found


def _fields(raw: bytes) -> Iterator[tuple[int, bytes]]:
    """Field numbers and what they hold; Go's zeros (numbers are not expected) as nothing."""
    at = 0
    while at < len(raw):
        key, at = _varint(raw, at)
        value, at = _varint(raw, at)
        if key & 7 == 2 and at + value <= len(raw):
            yield key >> 3, raw[at : at + value]
            at += value
        elif key & 7 or value:
            raise ValueError("it ends in the middle, or says a number")


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    """A number and where it ends; the numbers here are small."""
    found = _VARINT.match(raw, at)
    if found is None:
        raise ValueError("a number does not end")
    return sum((byte & 0x7F) << 7 * place for place, byte in enumerate(found[0])), found.end()
