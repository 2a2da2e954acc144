"""Names in NATS subjects: escaping, its inverse, and every subject that Warmlog uses.

A Kubernetes name may hold dots and a subject token may not, so each byte of a name outside [A-Za-z0-9-] is written
as %XX (upper-case hex of UTF-8). An absent name is the token `_`; a name that is really `_` is `%5F` by the same rule.
Subjects over 254 bytes are refused: nats-server stores them, but its own limits and file names suffer.

Rules: design.md section 2 (control log), section 3 (WARMLOG_KV).
"""

import functools
import hashlib
from typing import NamedTuple

_SAFE = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-")
_LONGEST = 254
_SHORT = 88  # bytes of a token of which a subject may hold two beside the longest name of a webhook
PARTITIONS = 64
_PARTITION_TOKENS = frozenset(map(str, range(PARTITIONS)))


class SubjectError(ValueError):
    """A name that cannot become a subject, or a subject that is none of ours."""


@functools.lru_cache(4096)  # webhooks, kinds and namespaces are few
def escape(name: str) -> str:
    """One subject token for any text; `unescape` gives the text back. Raises SubjectError for what is no text."""
    if not name:
        return "_"
    try:
        raw = name.encode()
    except UnicodeEncodeError:  # half a surrogate pair, as Python makes of arguments that are no UTF-8
        raise SubjectError(f"the name {name[:80]!r} is no UTF-8 text") from None
    return "".join(chr(byte) if byte in _SAFE else f"%{byte:02X}" for byte in raw)


def shortened(name: str) -> str:
    """`escape`, or a hash where that is long: for subjects that must never be refused. `escape` writes no "=". The name
    itself is in the event's data."""
    token = escape(name)
    return token if len(token) <= _SHORT else f"={hashlib.sha256(name.encode()).hexdigest()[:32]}"


def unescape(token: str) -> str:
    """The text that `escape` was given. Raises SubjectError for a token that `escape` never writes."""
    if token == "_":
        return ""
    raw = bytearray()
    at = 0
    while at < len(token):
        if token[at] == "%":
            try:
                raw.append(int(token[at + 1 : at + 3], 16))
            except ValueError:
                raise SubjectError(f"{token!r} has a broken escape at {at}; expected % and two hex digits") from None
            at += 3
        else:
            raw += token[at].encode(errors="surrogatepass")
            at += 1
    try:
        name = raw.decode()
    except UnicodeDecodeError:
        raise SubjectError(f"{token!r} does not decode to UTF-8") from None
    if escape(name) != token:
        raise SubjectError(f"{token!r} is not how the name {name!r} is written; expected {escape(name)!r}")
    return name


def join(*tokens: str) -> str:
    """A subject of already escaped tokens, refused when too long."""
    subject = ".".join(tokens)
    if len(subject) > _LONGEST:
        raise SubjectError(f"subject of {len(subject)} bytes exceeds {_LONGEST}: {subject[:80]}…; shorten the names")
    return subject


# The control log -----------------------------------------------------------------------------------------------------


def object_subject(group_plural: str, namespace: str, name: str) -> str:
    """`object.seen` and `object.gone`; group_plural as in `cachepolicies.inferencecache.io`."""
    return join("wl", "object", escape(group_plural), escape(namespace), escape(name))


def kind_subject(group_plural: str) -> str:
    return join("wl", "kind", escape(group_plural))


def settings_subject(role: str) -> str:
    return join("wl", "settings", escape(role))


def replica_subject(tenant: str, replica: str) -> str:
    return join("wl", "replica", escape(tenant), escape(replica))


def index_subject(shard: str) -> str:
    return join("wl", "index", escape(shard))


def admission_subject(webhook: str, namespace: str, name: str) -> str:
    """`admission.decided`; a Pod that has no name yet is told under its generateName. A reader may ask for
    all webhooks, as "*"."""
    return join("wl", "admission", "*" if webhook == "*" else escape(webhook), shortened(namespace), shortened(name))


def effect_subject(group_plural: str, namespace: str, name: str) -> str:
    """`effect.applied` and `effect.failed`: what was written must be told, whatever its name."""
    return join("wl", "effect", escape(group_plural), shortened(namespace), shortened(name))


def timer_subject(handler: str) -> str:
    return join("wl", "timer", escape(handler))


MOMENT = "wl.moment"
WATCH = "wl.watch"
LEADER = "wl.leader"
CONTROL_LOG = "wl.>"


# Beside it -----------------------------------------------------------------------------------------------------------

SNAP_HEAD = "wlsnap.head"
SNAPSHOTS = "wlsnap.>"
DEAD_LETTERS = "wldead.>"


def snap_subject(sequence: int) -> str:
    """The pieces of the keyframe of one position."""
    return join("wlsnap", "chunk", str(sequence))


def dead_subject(stream: str, incarnation: str, sequence: int) -> str:
    """One subject for each event that a fold passed over, so that it is reported once."""
    return join("wldead", escape(stream), escape(incarnation), str(sequence))


# What engines hold ---------------------------------------------------------------------------------------------------


class KVSubject(NamedTuple):
    partition: int
    tenant: str
    replica: str


def partition_of(tenant: str, model: str) -> int:
    """FNV-1a (32 bit) of tenant and model, modulo 64: a publisher computes it, a reader checks it."""
    value = 0x811C9DC5
    for byte in (tenant + model).encode():
        value = ((value ^ byte) * 0x01000193) & 0xFFFFFFFF
    return value % PARTITIONS


def kv_subject(tenant: str, model: str, replica: str) -> str:
    return join("wlkv", str(partition_of(tenant, model)), escape(tenant), escape(replica))


def parse_kv_subject(subject: str) -> KVSubject:
    """The inverse of `kv_subject`. Tenant and replica are believed from here and never from a payload."""
    parts = subject.split(".")
    if len(parts) != 4 or parts[0] != "wlkv" or parts[1] not in _PARTITION_TOKENS:
        raise SubjectError(f"{subject!r} is not wlkv.<partition>.<tenant>.<replica>")
    return KVSubject(int(parts[1]), unescape(parts[2]), unescape(parts[3]))


def kv_control_subject(tenant: str, replica: str) -> str:
    """Where a subscriber listens for `keyframe` and `fenced` (never stored)."""
    return join("wlkv", "ctl", escape(tenant), escape(replica))


#: The stream's subjects are listed one by one so that `wlkv.ctl.…` stays outside it.
KV_STREAM_SUBJECTS = tuple(f"wlkv.{number}.*.*" for number in range(PARTITIONS))
LOOKUP = "wlq.lookup"
