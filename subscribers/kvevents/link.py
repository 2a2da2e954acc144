"""The state of a connection as facts: connected, disconnected, gone, never heard. Pure: time comes as an argument.

An engine is gone when its socket, after having been connected, closed and was refused for 2 s. One that was never
reached is waited for without end: a model may take minutes to load. One that never says anything gets one line that
names what usually is wrong.

Rules: design.md section 3 (gone), TR-10, TR-12.
"""

from enum import Enum, auto
from typing import Final

import msgspec

from subscribers.kvevents import facts

GONE_AFTER: Final = 2.0  # seconds


class Event(Enum):
    """What a socket monitor reports."""

    CONNECTED = auto()
    DISCONNECTED = auto()
    REFUSED = auto()  # an attempt to connect failed


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """`since` is when the state was entered. Times are seconds of one monotonic clock."""

    endpoint: str
    topic: str = ""
    since: float
    silent_after: float | None  # None: something was heard, or the line was said
    connected: bool = False
    lost: bool = False  # it was connected once and is not now
    refused: bool = False  # … and an attempt to connect failed since
    gone: bool = False


def changed(link: Link, event: Event, now: float) -> tuple[Link, facts.Fact | None]:
    """A monitor's event."""
    if event is Event.CONNECTED:
        if link.connected:
            return link, None
        link = msgspec.structs.replace(link, since=now, connected=True, lost=False, refused=False, gone=False)
        return link, facts.Connected(link.endpoint)
    if event is Event.DISCONNECTED:
        if not link.connected:
            return link, None
        return msgspec.structs.replace(link, since=now, connected=False, lost=True), facts.Disconnected(link.endpoint)
    return (link if link.connected else msgspec.structs.replace(link, refused=True)), None


def heard(link: Link) -> Link:
    """A message arrived: it is not silent."""
    return link if link.silent_after is None else msgspec.structs.replace(link, silent_after=None)


def due(link: Link) -> float | None:
    """When `ticked` has something to say at the earliest."""
    times = [link.since + GONE_AFTER] if _leaving(link) else []
    if link.silent_after is not None:
        times.append(link.silent_after)
    return min(times, default=None)


def ticked(link: Link, now: float) -> tuple[Link, facts.Fact | None]:
    """Time passed."""
    if _leaving(link) and now >= link.since + GONE_AFTER:
        return msgspec.structs.replace(link, gone=True), facts.Gone(link.endpoint, now - link.since)
    if link.silent_after is not None and now >= link.silent_after:
        return msgspec.structs.replace(link, silent_after=None), facts.Silent(link.endpoint, advice(link))
    return link, None


def advice(link: Link) -> str:
    """One line for somebody whose engine says nothing."""
    enable = "vLLM and SGLang publish only with --kv-events-config '{\"enable_kv_cache_events\": true, …}'"
    if not link.connected:
        return (
            f"nothing listens on {link.endpoint}: {enable}, and bind only when the endpoint in it has a wildcard, as "
            "in tcp://*:5557 (rank r: port + r)"
        )
    if link.topic:
        return (
            f"connected to {link.endpoint} and nothing came with a topic that begins with {link.topic!r}: other topics "
            "cannot be seen; leave --topic empty, or give the engine's"
        )
    return f"connected to {link.endpoint} and nothing came: it served no request yet, or events are off ({enable})"


def _leaving(link: Link) -> bool:
    return link.lost and link.refused and not link.gone
