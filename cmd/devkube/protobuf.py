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
# Field number -> JSON name, and the message that it holds (None: a text or a number).
Message = Mapping[int, tuple[str, Any]]
_REPEATED: Final = ("audiences", "dryRun")


def _flat(*names: str) -> Message:
    return {number: (name, None) for number, name in enumerate(names, 1) if name}


_META: Final = _flat("name", "generateName", "namespace", "", "uid", "resourceVersion")
_RESOURCE: Final = _flat("namespace", "verb", "group", "version", "resource", "subresource", "name")
_ACCESS: Final = {1: ("resourceAttributes", _RESOURCE), 2: ("nonResourceAttributes", _flat("path", "verb"))}
_BOUND: Final = _flat("kind", "apiVersion", "name", "uid")
_TOKEN: Final = {**_flat("audiences", "", "", "expirationSeconds"), 3: ("boundObjectRef", _BOUND)}
_DELETE: Final = {
    **_flat("gracePeriodSeconds", "", "", "propagationPolicy", "dryRun"),
    2: ("preconditions", _flat("uid", "resourceVersion")),
}
# Kind -> the name of its second field and what that is. The first is metadata; a status is never read.
_KINDS: Final[Mapping[str, tuple[str, Message | None]]] = {
    "authorization.k8s.io/v1 SelfSubjectAccessReview": ("spec", _ACCESS),
    "authorization.k8s.io/v1 SelfSubjectRulesReview": ("spec", _flat("namespace")),
    "authentication.k8s.io/v1 SelfSubjectReview": ("status", None),
    "authentication.k8s.io/v1 TokenRequest": ("spec", _TOKEN),
    "policy/v1 Eviction": ("deleteOptions", _DELETE),
}


def to_json(body: bytes) -> bytes:
    """A question as JSON. StatusError 415 for everything else."""
    try:
        # runtime.Unknown: 1 the type, 2 the object's bytes.
        envelope = dict(_fields(body.removeprefix(MAGIC)))
        named = _read(envelope[1], _flat("apiVersion", "kind"))
        second, message = _KINDS[f"{named['apiVersion']} {named['kind']}"]
        found = _read(envelope[2], {1: ("metadata", _META), 2: (second, message), 3: ("status", None)})
    except (KeyError, ValueError, TypeError, IndexError, AttributeError):  # no protobuf, or one that is not known here
        raise refused() from None
    return msgspec.json.encode({**named, **found})


def refused() -> StatusError:
    return unsupported_media_type(
        "this server reads JSON and YAML, no protobuf, which typed kubectl commands send: use "
        "`kubectl create -f FILE` or `kubectl apply -f FILE` (`--dry-run=client -o yaml` writes the file)"
    )


def _read(raw: Any, message: Message) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for number, value in _fields(raw):
        name, inner = message.get(number, ("", None))
        if not name:
            if value:  # more than Go's empty text, zero, or empty message (creationTimestamp)
                raise ValueError(f"field {number} is not known")
        elif inner is not None:
            found[name] = _read(value, inner)
        elif name in _REPEATED:
            found.setdefault(name, []).append(value.decode())
        elif name.endswith("Seconds"):
            found[name] = int(value)
        elif name != "status" and (text := value.decode()):
            found[name] = text
    return found


def _fields(raw: bytes) -> Iterator[tuple[int, Any]]:
    """Field numbers and values: bytes for what has a length, numbers for the rest."""
    at = 0
    while at < len(raw):
        key, at = _varint(raw, at)
        value, at = _varint(raw, at)
        if key & 7 == 0:
            yield key >> 3, value
        elif key & 7 == 2 and 0 <= value <= len(raw) - at:
            yield key >> 3, raw[at : at + value]
            at += value
        else:
            raise ValueError("it ends in the middle, or has numbers of a fixed size")


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    """An IndexError where it does not end."""
    value = shift = 0
    while True:
        byte = raw[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80 or shift > 63:
            return (value - (1 << 64) if value >> 63 else value), at
