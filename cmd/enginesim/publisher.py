"""One rank's KV event publisher: a PUB socket, a ring of past batches, and the ROUTER that replays it.

Frames are [topic, sequence as 8 big-endian bytes from 0, payload]. A replay request is [identity, empty, 8-byte start];
one of another number of frames is ignored without an answer, and nothing else is checked, as in the engines. Replies
are [empty, sequence, payload], with a topic frame after the empty one in newer releases, and end with sequence -1. The
ring drops its oldest batch in silence, and a request for a dropped batch is answered from the oldest that is left,
without an error.

`publish` may be called from one thread at a time; the replay socket is served by a thread of its own. Beyond the
engines' behaviour it can lose a batch on the wire, skip numbers, send raw frames and begin a new life: for tests.
Always binds; real vLLM connects when its endpoint has no wildcard. Rules: ZmqEventPublisher of vLLM and SGLang,
compared with it in tests/integration/realpublishers.
"""

import threading
from collections import deque
from typing import Final

import zmq

END: Final = (-1).to_bytes(8, "big", signed=True)
_POLL_MS: Final = 50
_LINGER_MS: Final = 500  # a batch published just before the end still leaves the process


class Publisher:
    """Bound when constructed. Raises zmq.ZMQError when a port is in use (and then holds nothing)."""

    def __init__(
        self,
        events: str = "tcp://127.0.0.1:0",
        replay: str | None = None,
        *,
        topic: str = "",
        buffer_steps: int = 10_000,
        hwm: int = 100_000,
        replay_topic: bool = True,
    ) -> None:
        self._topic = topic.encode()
        self._replay_topic = replay_topic
        self._ring: deque[tuple[int, bytes]] = deque(maxlen=buffer_steps)
        self._lock = threading.Lock()  # the ring and the sequence, between publish and replay
        self._next = 0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._context = zmq.Context()
        try:
            self._pub = self._context.socket(zmq.PUB)
            self._pub.setsockopt(zmq.SNDHWM, hwm)
            self.events = _bind(self._pub, events)
            self.replay: str | None = None
            if replay is not None:
                router = self._context.socket(zmq.ROUTER)
                self.replay = _bind(router, replay)
                self._thread = threading.Thread(target=self._serve, args=(router,), name="replay", daemon=True)
                self._thread.start()
        except zmq.ZMQError:
            self._context.destroy(linger=0)
            raise

    @property
    def next_seq(self) -> int:
        return self._next

    def publish(self, payload: bytes, *, lose: bool = False) -> int:
        """Send one batch and keep it in the ring; returns its sequence number. `lose` keeps it off the wire."""
        with self._lock:
            seq = self._next
            self._next += 1
            if not lose:
                self._pub.send_multipart([self._topic, seq.to_bytes(8, "big"), payload])
            self._ring.append((seq, payload))
        return seq

    def skip(self, count: int) -> None:
        """Numbers that nobody ever sees, neither live nor replayed."""
        with self._lock:
            self._next += count

    def send_raw(self, frames: list[bytes]) -> None:
        """Any frames at all; no number is used and nothing is kept."""
        self._pub.send_multipart(frames)

    def new_life(self) -> None:
        """As after a restart in place, on the connections that exist: number 0 and an empty ring."""
        with self._lock:
            self._next = 0
            self._ring.clear()

    def close(self) -> None:
        """Stop replaying and release the ports. Idempotent."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self._context.destroy(linger=_LINGER_MS)

    def _serve(self, router: "zmq.Socket[bytes]") -> None:
        while not self._stop.is_set():
            if not router.poll(_POLL_MS):
                continue
            frames = router.recv_multipart()
            if len(frames) != 3:
                continue
            identity, start = frames[0], int.from_bytes(frames[2], "big")
            head = [identity, b"", self._topic] if self._replay_topic else [identity, b""]
            with self._lock:
                held = [(seq, payload) for seq, payload in self._ring if seq >= start]
            for seq, payload in held:
                router.send_multipart([*head, seq.to_bytes(8, "big"), payload])
            router.send_multipart([identity, b"", *([b""] if self._replay_topic else []), END, b""])
        router.close(linger=_LINGER_MS)


def port_of(endpoint: str) -> int:
    """The port of a tcp:// endpoint."""
    return int(endpoint.rpartition(":")[2])


def at_port(endpoint: str, port: int) -> str:
    """The same address with another port."""
    return f"{endpoint.rpartition(':')[0]}:{port}"


def publishers(
    count: int,
    events: str,
    replay: str | None,
    *,
    topic: str = "",
    buffer_steps: int = 10_000,
    replay_topic: bool = True,
) -> list[Publisher]:
    """One publisher per data-parallel rank, at port + rank for events and replay. Port 0 finds a free run of ports.

    Raises zmq.ZMQError when a fixed port is in use, or when no free run was found in 50 attempts."""
    attempts = 50 if port_of(events) == 0 or (replay is not None and port_of(replay) == 0) else 1
    for attempt in range(attempts):
        made: list[Publisher] = []
        try:
            for rank in range(count):
                made.append(
                    Publisher(
                        _offset(events, rank, made[0].events if made else None),
                        None if replay is None else _offset(replay, rank, made[0].replay if made else None),
                        topic=topic,
                        buffer_steps=buffer_steps,
                        replay_topic=replay_topic,
                    )
                )
        except zmq.ZMQError:
            for publisher in made:
                publisher.close()
            if attempt == attempts - 1:
                raise
        else:
            return made
    raise AssertionError("unreachable")


def _offset(endpoint: str, rank: int, first: str | None) -> str:
    """The endpoint of a rank; `first` is where rank 0 was bound, which matters when the port was left to chance."""
    base = port_of(endpoint) or (port_of(first) if first is not None else 0)
    return at_port(endpoint, base + rank if base else 0)


def _bind(socket: "zmq.Socket[bytes]", endpoint: str) -> str:
    """Bind, and return an address that a client on this machine can dial."""
    socket.bind(endpoint)
    bound = socket.getsockopt_string(zmq.LAST_ENDPOINT)
    return bound.replace("//0.0.0.0:", "//127.0.0.1:")
