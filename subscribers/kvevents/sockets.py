"""Receiving an engine's KV events: a SUB socket and its monitor in a thread of their own, feeding a bounded queue.

The thread never waits for the event loop. When the queue is full, batches are dropped and counted, the consumer finds
the hole in the numbers and asks for a replay: a stalled loop costs a replay, never memory. Frames that are no event
(wrong count, short sequence) are counted and dropped; a payload beyond the limit keeps its number and loses its
content. No message of any kind closes the socket (KV-13).

Order: a monitor's events are queued before the frames that were read in the same turn, so a frame of a new connection
is never seen before the news of that connection.

A frame after a quiet time is handed over at once; then the thread looks away for `pause` seconds, so that an engine's
next steps come together: waking a thread and a loop for each costs more than reading it. ZeroMQ keeps them meanwhile.

Not here: what the numbers mean (cursor.py, source.py). Rules: TR-12, TR-13.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

import msgspec
import structlog
import xxhash
import zmq
from zmq.utils import monitor

from subscribers.kvevents import link

log = structlog.get_logger()

_TURN: Final = 64  # frames read between two looks at the monitor
#: Well under the time that a reconnect takes at least, so that what an engine said last is read before it is back.
LONGEST_PAUSE_MS: Final = 20
_MONITORED: Final = {
    int(zmq.Event.HANDSHAKE_SUCCEEDED): link.Event.CONNECTED,
    int(zmq.Event.DISCONNECTED): link.Event.DISCONNECTED,
    int(zmq.Event.CLOSED): link.Event.REFUSED,
    int(zmq.Event.HANDSHAKE_FAILED_NO_DETAIL): link.Event.REFUSED,
    int(zmq.Event.HANDSHAKE_FAILED_PROTOCOL): link.Event.REFUSED,
}


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of what waits in memory for the consumer."""

    frames: int = 10_000
    bytes: int = 64 * 1024 * 1024
    payload: int = 16 * 1024 * 1024  # the largest batch that is looked at
    hwm: int = 10_000  # frames inside ZeroMQ, before the thread reads them


class Frame(msgspec.Struct, frozen=True, gc=False):
    """One event frame; `payload` is None when it was larger than the limit, `size` what it was."""

    seq: int
    payload: bytes | None
    digest: int
    size: int


class Counters(msgspec.Struct):
    """Lifetime counts; written by the thread, read by anyone."""

    received: int = 0
    malformed: int = 0  # wrong frame count or sequence length
    oversized: int = 0
    dropped: int = 0  # the queue was full


class Change(msgspec.Struct, frozen=True):
    """What the monitor reported, and when: the consumer may look much later."""

    event: link.Event
    at: float


Item = Frame | Change


def frame(seq: int, payload: bytes, limit: int) -> Frame:
    """A received batch; one beyond `limit` bytes keeps only its number, hash and size."""
    digest = xxhash.xxh3_64_intdigest(payload)
    return Frame(seq, payload if len(payload) <= limit else None, digest, len(payload))


class Receiver:
    """One SUB socket. `start` and `stop` belong to the event loop that also calls `get`."""

    def __init__(
        self, endpoint: str, *, topic: str, limits: Limits, clock: Callable[[], float], pause: float = 0.0
    ) -> None:
        self.counters = Counters()
        self._pause_ms = min(round(pause * 1000), LONGEST_PAUSE_MS)
        self._endpoint = endpoint
        self._topic = topic.encode()
        self._limits = limits
        self._clock = clock
        self._items: deque[Item] = deque()
        self._bytes = 0
        self._bytes_lock = threading.Lock()
        self._overflowing = False
        self._ready = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._last_event: link.Event | None = None
        self._stop_name = f"inproc://stop-{id(self)}"
        self._stop: zmq.Socket[bytes] | None = None

    def start(self, context: "zmq.Context[zmq.Socket[bytes]]") -> None:
        """Connect (which never fails: ZeroMQ dials for ever) and begin to receive."""
        self._loop = asyncio.get_running_loop()
        self._stop = context.socket(zmq.PAIR)
        self._stop.bind(self._stop_name)
        self._thread = threading.Thread(
            target=self._run, args=(context,), name=f"kv events {self._endpoint}", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """End the thread and close the sockets; waits for the thread, which looks up at once."""
        if self._thread is not None and self._stop is not None:
            self._stop.send(b"")
            self._thread.join()
            self._stop.close(linger=0)
            self._thread = self._stop = None

    def waiting(self) -> int:
        return len(self._items)

    async def get(self, timeout: float | None) -> Item | None:
        """The next item, or None when nothing came within `timeout` seconds (None: no limit)."""
        while not self._items:
            self._ready.clear()
            if self._items:  # the thread may have been between the two lines above
                break
            try:
                async with asyncio.timeout(timeout):
                    await self._ready.wait()
            except TimeoutError:
                return None
        item = self._items.popleft()
        if isinstance(item, Frame) and item.payload is not None:
            with self._bytes_lock:
                self._bytes -= len(item.payload)
        return item

    # Everything below runs in the thread --------------------------------------------------------------------------

    def _run(self, context: "zmq.Context[zmq.Socket[bytes]]") -> None:
        stop = context.socket(zmq.PAIR)
        stop.connect(self._stop_name)
        sub = self._socket(context)
        events = sub.get_monitor_socket()
        try:
            sub.connect(self._endpoint)
            poller = zmq.Poller()
            for socket in (stop, sub, events):
                poller.register(socket, zmq.POLLIN)
            while stop not in dict(poller.poll()):
                frames = _read(sub)
                self._watch(events)
                for each in frames:
                    self._accept(each)
                self._wake()
                if self._pause_ms and 0 < len(frames) < _TURN:
                    stop.poll(self._pause_ms)
        finally:
            sub.disable_monitor()
            events.close(linger=0)
            sub.close(linger=0)
            stop.close(linger=0)

    def _socket(self, context: "zmq.Context[zmq.Socket[bytes]]") -> "zmq.Socket[bytes]":
        sub = context.socket(zmq.SUB)
        sub.setsockopt(zmq.RCVHWM, self._limits.hwm)
        sub.setsockopt(zmq.SUBSCRIBE, self._topic)
        # An engine that restarts is found again before it serves its first request.
        sub.setsockopt(zmq.RECONNECT_IVL, 100)
        # A peer that vanished without closing (its node is gone) is noticed.
        sub.setsockopt(zmq.HEARTBEAT_IVL, 2_000)
        sub.setsockopt(zmq.HEARTBEAT_TIMEOUT, 10_000)
        sub.setsockopt(zmq.HANDSHAKE_IVL, 10_000)
        return sub

    def _watch(self, events: "zmq.Socket[bytes]") -> None:
        while events.poll(0):
            seen = _MONITORED.get(int(monitor.recv_monitor_message(events)["event"]))
            # Refusals repeat ten times a second; one says it all.
            if seen is not None and not (seen is self._last_event is link.Event.REFUSED):
                self._items.append(Change(seen, self._clock()))
                self._last_event = seen

    def _accept(self, frames: list[bytes]) -> None:
        self.counters.received += 1
        if len(frames) != 3 or len(frames[1]) != 8:
            self.counters.malformed += 1
            if self.counters.malformed == 1:
                log.warning("kv_frame_malformed", endpoint=self._endpoint, frames=[len(frame) for frame in frames])
            return
        payload = frames[2]
        if self._full(len(payload)):
            self.counters.dropped += 1
            return
        item = frame(int.from_bytes(frames[1], "big"), payload, self._limits.payload)
        if item.payload is None:
            self.counters.oversized += 1
        else:
            with self._bytes_lock:
                self._bytes += item.size
        self._items.append(item)

    def _full(self, size: int) -> bool:
        """Whether a batch has to be dropped; said once until there is room again."""
        full = len(self._items) >= self._limits.frames or self._bytes + size > self._limits.bytes
        if full and not self._overflowing:
            log.warning("kv_queue_full", endpoint=self._endpoint, frames=len(self._items), bytes=self._bytes)
        self._overflowing = full
        return full

    def _wake(self) -> None:
        if self._items and not self._ready.is_set() and self._loop is not None:
            self._loop.call_soon_threadsafe(self._ready.set)


def _read(sub: "zmq.Socket[bytes]") -> list[list[bytes]]:
    """What has arrived, up to a turn's worth."""
    frames: list[list[bytes]] = []
    while len(frames) < _TURN:
        try:
            frames.append(sub.recv_multipart(zmq.NOBLOCK))
        except zmq.Again:
            break
    return frames
