"""The envelope of every event: CloudEvents 1.0, JSON, structured mode.

`causationid` names the event that this one follows from, `actor` the role (and verified identity) that appended it.
Only `Nats-Msg-Id` (equal to `id`) and the expected-sequence header travel outside the body, so any NATS client can
read an event whole. Types are written by hand as `io.warmlog.<name>.v<number>` and never edited.

Rules: design.md section 2, "Form"; CloudEvents 1.0 and its NATS binding.
"""

import functools
from datetime import UTC, datetime
from typing import Final

import msgspec

SPECVERSION: Final = "1.0"
MAX_BYTES: Final = 256 * 1024
PREFIX: Final = "io.warmlog."


class Envelope(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One immutable event. `data` is raw JSON until its type is known (events.decode)."""

    specversion: str = SPECVERSION
    id: str
    source: str
    type: str
    time: str  # RFC 3339, UTC
    subject: str  # the NATS subject that the event is stored under
    datacontenttype: str = "application/json"
    causationid: str | msgspec.UnsetType = msgspec.UNSET
    actor: str | msgspec.UnsetType = msgspec.UNSET
    data: msgspec.Raw


class EnvelopeError(ValueError):
    """Bytes that are no event of ours; the message says why."""


def rfc3339(nanoseconds: int) -> str:
    """Nanoseconds since the epoch as RFC 3339 in UTC, to the microsecond."""
    return f"{_seconds(nanoseconds // 1_000_000_000)}.{nanoseconds // 1_000 % 1_000_000:06d}Z"


@functools.lru_cache(64)  # what happens now happens in the same second
def _seconds(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}"
