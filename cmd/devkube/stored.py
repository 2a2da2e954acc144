"""One version of an object as the store holds it, and one change in its history."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from devkube.kinds import Object

ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
NOTHING: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class Stored:
    """One version of one object."""

    key: str
    namespace: str
    name: str
    uid: str
    version: int
    raw: bytes
    head: int  # length of the beginning `{"apiVersion":"…","kind":"…"`
    labels: Mapping[str, str]
    fields: Mapping[str, str]  # what field selectors may ask for, besides name and namespace
    owners: tuple[str, ...]  # uids

    def body(self, group_version: str, kind: str) -> bytes:
        """The object as a client of this version reads it."""
        head = beginning(group_version, kind)
        return self.raw if self.raw.startswith(head + b",") else head + self.raw[self.head :]


@dataclass(frozen=True, slots=True)
class Change:
    """One line of history. `after` is the new state, or for DELETED the last one under the deletion's version."""

    version: int
    type: ChangeType
    before: Stored | None
    after: Stored
    # Forms of it by API version, while it is fresh: watchers that keep up share them.
    encoded: dict[str, dict[object, bytes]] = field(default_factory=dict, compare=False)


class Lost(Exception):
    """A write that expected another version than there is (`found` None: no such object)."""

    def __init__(self, found: Stored | None) -> None:
        super().__init__("the version expected is not the version found")
        self.found = found


class Gone(Exception):
    """History before `floor` is forgotten."""

    def __init__(self, floor: int) -> None:
        super().__init__(f"history begins after version {floor}")
        self.floor = floor


def beginning(group_version: str, kind: str) -> bytes:
    return f'{{"apiVersion":"{group_version}","kind":"{kind}"'.encode()


def load(stored: Stored) -> Object:
    """A fresh copy, as it was stored."""
    found: Object = _decode(stored.raw)
    return found


def encode(obj: object) -> bytes:
    return _encode(obj)


def stored_from(key: str, obj: Object, version: int, fields: Mapping[str, str]) -> Stored:
    """The bytes of an object under its new version, which is written into `obj` too."""
    meta = obj["metadata"]
    meta["resourceVersion"] = str(version)
    head = beginning(obj["apiVersion"], obj["kind"])
    rest = {k: v for k, v in obj.items() if k not in ("apiVersion", "kind")}
    return Stored(
        key=key,
        namespace=meta.get("namespace") or "",
        name=meta["name"],
        uid=meta.get("uid") or "",
        version=version,
        raw=head + b"," + _encode(rest)[1:],
        head=len(head),
        labels=meta.get("labels") or NOTHING,
        fields=fields or NOTHING,
        owners=tuple(o.get("uid", "") for o in meta.get("ownerReferences") or ()),
    )
