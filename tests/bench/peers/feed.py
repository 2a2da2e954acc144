"""The engines: a process with one PUB socket per replica and contender, which publishes a part of a history at a rate.

    python -m tests.bench.peers.feed HISTORY CONTENDERS

Prints the ports, then obeys one line of JSON at a time: `join` waits until every socket of a contender has its reader,
`play` publishes a part and says how long that took. With `probes` it also stores that many single blocks that nobody
asked for before, evenly spread, each on the next replica, and says when the frame was given to the socket.
"""

import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import zmq

from tests.bench.peers import history, probes, wires


def say(**facts: Any) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(facts) + b"\n")
    sys.stdout.flush()


class Feed:
    def __init__(self, told: history.History, contenders: int) -> None:
        self.told = told
        self._context = zmq.Context()
        self._sockets = [[self._bind() for _ in range(told.replicas)] for _ in range(contenders)]
        self._numbers = [[0] * told.replicas for _ in range(contenders)]

    def _bind(self) -> "zmq.Socket[bytes]":
        socket = self._context.socket(zmq.XPUB)
        socket.sndhwm = 0  # nothing is dropped here: what a reader cannot take waits in memory, as its own lateness
        socket.bind("tcp://127.0.0.1:*")
        return socket

    def ports(self) -> list[list[int]]:
        return [[int(one.get_string(zmq.LAST_ENDPOINT).rpartition(":")[2]) for one in each] for each in self._sockets]

    def join(self, contender: int, seconds: float) -> int:
        """How many replicas have no reader after so long."""
        until = time.monotonic() + seconds
        missing = 0
        for socket in self._sockets[contender]:
            if socket.poll(max(0, int(1000 * (until - time.monotonic())))):
                socket.recv()
            else:
                missing += 1
        return missing

    def _send(self, contender: int, replica: int, payload: bytes) -> None:
        numbers = self._numbers[contender]
        frame = numbers[replica].to_bytes(8, "big")
        numbers[replica] += 1
        self._sockets[contender][replica].send_multipart((b"", frame, payload), copy=True)

    def play(self, contender: int, part: int, rate: float, count: int) -> float:
        """Seconds from the first to the last message. `rate` is block operations a second."""
        form = wires.FORMS[self.told.wire]
        messages = self.told.parts[part].messages
        step = self.told.parts[part].operations / rate / len(messages)
        every = max(1, len(messages) // count) if count else 0
        asked = 0
        began = time.perf_counter()
        for number, (replica, payload) in enumerate(messages):
            ahead = number * step - (time.perf_counter() - began)
            if ahead > 0.0005:
                time.sleep(ahead)
            self._send(contender, replica, payload)
            if every and number % every == 0 and asked < count:
                store = wires.Stored([probes.hash_of(part, asked)], None, probes.tokens(part, asked))
                self._send(contender, asked % self.told.replicas, form.encode(1.8e9, [store], 0))
                say(probe=asked, at=time.monotonic_ns())
                asked += 1
        return time.perf_counter() - began


def main(path: str, contenders: str) -> None:
    feed = Feed(history.load(Path(path)), int(contenders))
    say(ports=feed.ports())
    for line in sys.stdin.buffer:
        order = msgspec.json.decode(line)
        match order.pop("do"):
            case "join":
                say(missing=feed.join(**order))
            case "play":
                say(took=feed.play(**order))


if __name__ == "__main__":
    main(*sys.argv[1:])
