"""What makes two events the same fact, and what no store accepts: shared by every event store.

Two events are the same fact when type, subject and data agree. Who saw it, when, and from which cause are not part of
it: a restarted role that sees an object again appends the same fact with a later time, and it is stored once.

Rules: design.md section 2, "Form" and "Identity".
"""

import functools
import re
from typing import Final

import msgspec

from eventstore import envelope, store

_SUBJECT: Final = re.compile(r"[\x21-\x7e]+")

encode = msgspec.json.Encoder().encode


def check(event: envelope.Envelope, size: int) -> None:
    """Raises TooLarge or Refused before anything is sent; `size` is that of the encoded event in bytes."""
    if size > envelope.MAX_BYTES:
        raise store.TooLarge(
            f"{event.subject}: the event has {size} bytes, at most {envelope.MAX_BYTES} are allowed; "
            "split or shorten it"
        )
    if not _is_subject(event.subject):
        raise store.Refused(f"{event.subject!r} cannot be a subject; build it with eventstore.subjects")
    if not event.id.isprintable() or event.id.strip() != event.id or not event.id:
        raise store.Refused(f"{event.subject}: the id {event.id!r} is empty or has control characters or outer spaces")


@functools.lru_cache(4096)
def _is_subject(subject: str) -> bool:
    return bool(_SUBJECT.fullmatch(subject)) and "*" not in subject and ">" not in subject


class _Fact(msgspec.Struct):
    type: str
    subject: str
    data: msgspec.Raw


_decode = msgspec.json.Decoder(_Fact).decode


def same(event: envelope.Envelope, stored: bytes) -> bool:
    """Whether the stored bytes say what the event says. False for bytes that are no event."""
    try:
        other = _decode(stored)
        if (event.type, event.subject) != (other.type, other.subject):
            return False
        if bytes(event.data) == bytes(other.data):
            return True
        return bool(msgspec.json.decode(event.data) == msgspec.json.decode(other.data))
    except msgspec.DecodeError:
        return False


def alarm(event: envelope.Envelope, sequence: int) -> store.IdentityAlarm:
    return store.IdentityAlarm(
        f"{event.subject}: the id {event.id} is taken by a different event at sequence {sequence}; "
        "two facts were given one id: this is a defect, report it"
    )
