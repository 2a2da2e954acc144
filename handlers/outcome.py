"""What a handler wants done, as data. Handlers return it, `handlers.effects` carries it out, nobody else writes.

An `Outcome` is the whole answer for one key at one moment: every object that should be, the status that should be read,
the Events that should have been told, when to look again. It is level-based: computing it twice gives the same bytes,
and what is right already costs nothing.

Rules: design.md section 1 ("handlers are pure"), section 5 ("deletes and creates carry preconditions").
"""

import hashlib
from typing import Any, Literal, NamedTuple

import msgspec

Object = dict[str, Any]  # a Kubernetes object or a part of one, as JSON


class Key(NamedTuple):
    """One object: `kind` is `<plural>.<group>`, core kinds are `pods`, `services`; namespace "" for cluster scope."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.namespace}/{self.name}"


class Apply(msgspec.Struct, frozen=True, kw_only=True):
    """Server-side apply of an object that we own. Fields that are left out are given up, so `body` is complete.

    `owner` is the uid that the live object's controller reference must have, where it exists: a foreign object of the
    same name is never taken over. What was applied before is applied again when the body changed, when the object's
    generation says that somebody else changed it, or when the handler saw so itself (`drifted`).
    """

    key: Key
    body: Object
    owner: str
    drifted: bool = False


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """The whole status of an object of ours, through its subresource. Written only when it differs.

    `lazy`: only counts changed, which nobody waits for; at most one such write per 5 s and object.
    """

    key: Key
    uid: str
    status: Object
    lazy: bool = False


class Patch(msgspec.Struct, frozen=True, kw_only=True):
    """A merge patch of somebody else's object, of exactly this uid, over the version that is there when it is written:
    what handlers do not read may have changed since `resource_version`, which is only where the handler saw it."""

    key: Key
    uid: str
    resource_version: str
    patch: Object


class Delete(msgspec.Struct, frozen=True, kw_only=True):
    """Deletes exactly this object, or nothing."""

    key: Key
    uid: str
    resource_version: str = ""


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """A Kubernetes Event. `transition` counts the changes of what it tells, and names the Event: the same transition is
    never told twice, not by a second leader either."""

    about: Key
    uid: str
    api_version: str
    object_kind: str  # CacheBackend, Pod
    type: Literal["Normal", "Warning"]
    reason: str
    message: str
    transition: str


def event_name(told: Told) -> str:
    """The name of the Kubernetes Event: the same for the same transition, whoever writes it."""
    said = "\n".join((told.uid, told.reason, told.transition)).encode()
    return f"{told.about.name[:63].rstrip('-.')}.{hashlib.sha256(said).hexdigest()[:16]}"


Intent = Apply | Status | Patch | Delete | Told


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What should be, for one key.

    `again_ns` is a moment of the stream's clock at which the answer may change with nothing happening; 0 is never.
    `waits` names kinds that must be listed before anything can be said: then there are no intents.
    """

    intents: tuple[Intent, ...] = ()
    again_ns: int = 0
    waits: tuple[str, ...] = ()


NOTHING = Outcome()
