"""What can be said in the control log: one Struct per event type, its name written by hand.

Not here: how an event travels (envelope), under which subject (subjects), how an old version is lifted (upcast).
A shipped type is never edited; a change is a new version and an upcast. `decode` never raises: bytes that are no event
of ours come back as a value that says why, so that a fold can record them as skipped and go on.

Rules: design.md section 2, the table of types. Types of later systems join the table when something appends them.
"""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from eventstore import envelope, store, upcast


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Base of all event data. Unknown fields are ignored when read: a newer minor may have added them."""


class SettingsSeen(Event, frozen=True, kw_only=True):
    """A role's effective settings, at its start and on change. Values are as given on the command line, no secrets."""

    role: str
    instance: str
    version: str
    settings: dict[str, str]


class ObjectSeen(Event, frozen=True, kw_only=True):
    """A Kubernetes object as observed, narrowed to the shape that handlers read."""

    uid: str
    resource_version: str
    shape: int
    object: dict[str, Any]


class ObjectGone(Event, frozen=True, kw_only=True):
    """A deletion, also one that was missed while nobody watched."""

    uid: str
    resource_version: str = ""


class KindListed(Event, frozen=True, kw_only=True):
    """A complete list of a kind. Before the first one, absence means unknown, not deleted."""

    list_version: str
    shape: int
    count: int


Edge = Literal["first-event", "restart", "gap", "partial", "complete", "silent", "recovered", "gone", "statistics"]


class ReplicaObserved(Event, frozen=True, kw_only=True):
    """An edge in the life of an engine replica, read off `WARMLOG_KV`."""

    tenant: str
    replica: str
    model: str
    scheme: str
    uid: str
    session: str
    edge: Edge
    reason: str = ""
    kv_sequence: int  # the message that showed it
    kv_incarnation: str
    blocks: int = 0
    statistics: dict[str, float] = {}


class ReplicaSummary(msgspec.Struct, frozen=True, omit_defaults=True):
    tenant: str
    replica: str
    model: str
    state: str
    blocks: int
    last_heard: str = ""
    hit_rate: float = 0.0
    keyframe: int = 0  # sequence of the begin of its last agreed keyframe: reading may start there


class IndexSummarised(Event, frozen=True, kw_only=True):
    """Counts per replica and tenant at a position of `WARMLOG_KV`; on change, rounded, every 30 to 60 s.

    `tenants` are distinct keys that count now, by tenant; null where an older version said nothing of them.
    """

    shard: str
    kv_sequence: int
    kv_incarnation: str
    blocks: int
    replicas: list[ReplicaSummary]
    tenants: dict[str, int] | None = None


class Moment(Event, frozen=True, kw_only=True):
    """Pairs this event's own position with one of `WARMLOG_KV`, so that a route can be asked about the past."""

    kv_sequence: int
    kv_incarnation: str


class WatchContact(Event, frozen=True, kw_only=True):
    """The Kubernetes API was heard by the leader's watches: a quiet log is not a stale one. Every 2 s at most."""

    epoch: int


class LeaderElected(Event, frozen=True, kw_only=True):
    """A controller holds the Lease. A leader that folds a higher epoch than its own stops at once."""

    epoch: int
    instance: str


Verdict = Literal["patched", "allowed", "refused"]


class AdmissionDecided(Event, frozen=True, kw_only=True):
    """What an AdmissionReview was answered, and all that the answer was computed from.

    `view` is what `decide` was given: values that are not on the allow-list are opaque tokens in it, and the patch
    template speaks of them by token. `reads` are the world's keys that were read with the sequence of each; `live` is
    what was read from the API instead, by the same keys; of many objects only those that the decision looked at.
    Deciding again at `position` gives the same template.
    """

    review: str  # uid of the AdmissionReview
    webhook: str
    operation: str  # CREATE, UPDATE, DELETE
    kind: str  # <plural>.<group>
    namespace: str
    name: str = ""
    generate_name: str = ""
    owner: str = ""  # <kind>/<name>/<uid> of the controlling owner: ties a generated name to its decision
    position: str  # incarnation:sequence of the world that was read
    logic: str  # version of the deciding code
    settings: str  # hash of the effective settings
    view: dict[str, Any]
    old: dict[str, Any] = {}  # of an update: the same view of the object before it
    reads: dict[str, int]
    live: dict[str, Any] = {}
    verdict: Verdict
    check: str  # the check that decided
    reason: str = ""
    warnings: list[str] = []
    patch: list[dict[str, Any]] = []  # JSON Patch, a template
    digest: str = ""  # SHA-256 of the response's bytes
    owned: str = ""  # SHA-256 of the values at the patched paths: what the object must show when this patch won


class EffectApplied(Event, frozen=True, kw_only=True):
    """A write to Kubernetes or a store that succeeded. `body` is what was sent; of a large one, only its hash."""

    verb: Literal["apply", "status", "patch", "create", "delete", "event"]
    kind: str
    namespace: str
    name: str
    uid: str = ""
    resource_version: str = ""  # after the write
    generation: int = 0  # after the write; a later one means that somebody else changed the spec
    body: dict[str, Any] = {}
    desired: str  # SHA-256 of the canonical body
    position: str  # of the world that wanted it
    handler: str
    key: str  # the key that was reconciled, <kind>/<namespace>/<name>
    epoch: int
    attempt: int = 1


class EffectFailed(Event, frozen=True, kw_only=True):
    """A write that was refused, or failed for good. Retries of a passing trouble are counted, not told one by one."""

    verb: Literal["apply", "status", "patch", "create", "delete", "event"]
    kind: str
    namespace: str
    name: str
    desired: str
    position: str
    handler: str
    key: str
    epoch: int
    attempt: int = 1
    code: int = 0  # HTTP status, 0 when there was no answer
    reason: str = ""
    message: str = ""


class TimerFired(Event, frozen=True, kw_only=True):
    """A deadline that the world asked for has passed. `due_ns` is the deadline, nanoseconds of the stream's clock."""

    handler: str
    key: str
    due_ns: int
    epoch: int


#: Every type that today's code reads and appends. Names are forever.
TYPES: dict[str, type[Event]] = {
    "io.warmlog.settings.seen.v1": SettingsSeen,
    "io.warmlog.object.seen.v1": ObjectSeen,
    "io.warmlog.object.gone.v1": ObjectGone,
    "io.warmlog.kind.listed.v1": KindListed,
    "io.warmlog.replica.observed.v1": ReplicaObserved,
    "io.warmlog.index.summarised.v2": IndexSummarised,
    "io.warmlog.moment.v1": Moment,
    "io.warmlog.watch.contact.v1": WatchContact,
    "io.warmlog.leader.elected.v1": LeaderElected,
    "io.warmlog.admission.decided.v1": AdmissionDecided,
    "io.warmlog.effect.applied.v1": EffectApplied,
    "io.warmlog.effect.failed.v1": EffectFailed,
    "io.warmlog.timer.fired.v1": TimerFired,
}
_NAMES = {struct: name for name, struct in TYPES.items()}
_encoder = msgspec.json.Encoder()


def name_of(data: Event) -> str:
    return _NAMES[type(data)]


def event(
    data: Event, *, id: str, source: str, subject: str, time_ns: int, actor: str, cause: str | None = None
) -> envelope.Envelope:
    """Data in its envelope. `id` is deterministic: appending the same fact twice stores it once."""
    return envelope.Envelope(
        id=id,
        source=source,
        type=name_of(data),
        time=envelope.rfc3339(time_ns),
        subject=subject,
        actor=actor,
        causationid=msgspec.UNSET if cause is None else cause,
        data=msgspec.Raw(_encoder.encode(data)),
    )


class Decoded(msgspec.Struct, frozen=True, gc=False):
    """An event that this program understands. `stored` is where it lies, `data` one of TYPES."""

    stored: store.Stored
    envelope: envelope.Envelope
    data: Event


class Undecodable(msgspec.Struct, frozen=True):
    """What lies in the log and cannot be understood. `kind` says whether an upgrade could help."""

    stored: store.Stored
    kind: Literal["not-an-event", "unknown-type", "bad-data"]
    reason: str  # one line
    type: str = ""  # when it got that far


_envelopes = msgspec.json.Decoder(envelope.Envelope)
_decoders = {name: msgspec.json.Decoder(struct) for name, struct in TYPES.items()}


def decode(stored: store.Stored, *, upcasts: Mapping[str, upcast.Upcast] = upcast.UPCASTS) -> Decoded | Undecodable:
    """Total: every sequence of bytes has an answer. Extension attributes and unknown fields are ignored."""
    try:
        found = _envelopes.decode(stored.body)
    except (msgspec.MsgspecError, RecursionError) as error:
        return Undecodable(stored, "not-an-event", f"no CloudEvent of ours: {error}")
    if found.specversion != envelope.SPECVERSION:
        return Undecodable(stored, "not-an-event", f"CloudEvents {found.specversion!r}, expected 1.0", found.type)
    if found.subject != stored.subject:
        return Undecodable(stored, "not-an-event", f"it calls itself {found.subject!r}, stored elsewhere", found.type)
    try:
        if (decoder := _decoders.get(found.type)) is not None:
            return Decoded(stored, found, decoder.decode(found.data))
        if found.type not in upcasts:
            return Undecodable(stored, "unknown-type", _unknown(found.type), found.type)
        old = msgspec.json.decode(found.data, type=dict[str, Any])
        name, data = upcast.lift(found.type, old, current=TYPES, upcasts=upcasts)
        return Decoded(stored, found, msgspec.convert(data, TYPES[name]))
    except (msgspec.MsgspecError, RecursionError, upcast.UpcastError) as error:
        return Undecodable(stored, "bad-data", f"data of {found.type}: {error}", found.type)


def _unknown(name: str) -> str:
    """Told apart, because only one of the two goes away with an upgrade."""
    if name.startswith(envelope.PREFIX):
        return f"type {name} is unknown here: a newer version wrote it; upgrade this program to read it"
    return f"type {name[:100]} is none of Warmlog's"
