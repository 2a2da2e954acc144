"""Questions over TLS: as many as a server answers, or at a given rate, whatever it makes of it. One thread, no loop.

What waits here for a CPU would be counted as the server's, so that as little as possible is done: sockets that are
written and read by one thread, one question made ahead, no collection of garbage. Where it may, this thread goes before
all others on its core (SCHED_FIFO), so that it sends when a question is due and looks at the clock when an answer is
there. The clock is `select`'s, to the microsecond: in an event loop's whole milliseconds several questions would come
at once.
"""

import collections
import contextlib
import gc
import os
import random
import select
import socket
import ssl
import time
from collections.abc import Iterator


class Asker:
    """One connection: a question, its answer, the next. Raises AssertionError for an answer that is not 200."""

    def __init__(self, port: int, trust: ssl.SSLContext) -> None:
        plain = socket.create_connection(("127.0.0.1", port), timeout=10)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = trust.wrap_socket(plain, server_hostname="127.0.0.1")
        self.buffer = b""
        self.due = 0.0

    def ask(self, question: bytes, due: float) -> None:
        self.due = due
        assert self.socket.send(question) == len(question), "it fits a socket's buffer"

    def answered(self) -> bool:
        """Read what has come; whether that was the whole answer."""
        while True:
            try:
                piece = self.socket.recv(1 << 16)
            except ssl.SSLWantReadError:
                break
            assert piece, "the server ended the connection"
            self.buffer += piece
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            return False
        head = self.buffer[:end].lower()
        assert head.startswith(b"http/1.1 200"), self.buffer[:300]
        if len(self.buffer) < end + 4 + int(head.split(b"content-length:")[1].split(b"\r\n")[0]):
            return False
        self.buffer = b""
        return True


@contextlib.contextmanager
def askers(port: int, authority: str, questions: Iterator[bytes], connections: int) -> Iterator[dict[int, Asker]]:
    """By file number; each has been answered once, and is past its handshake's last messages."""
    trust = ssl.create_default_context(cadata=authority)
    made = [Asker(port, trust) for _ in range(connections)]
    for asker in made:
        asker.ask(next(questions), 0.0)
        asker.socket.setblocking(False)
        while not asker.answered():
            select.select([asker.socket], (), ())
    gc.disable()
    try:
        with _first():
            yield {asker.socket.fileno(): asker for asker in made}
    finally:
        gc.enable()
        for asker in made:
            asker.socket.close()


@contextlib.contextmanager
def _first() -> Iterator[None]:
    """Before all others on this core, where the system lets us."""
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    try:
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def peak(asked: dict[int, Asker], questions: Iterator[bytes], seconds: float) -> float:
    """Answers per second, as many questions at a time as there are connections."""
    clock, answers = time.perf_counter, 0
    with _poll(asked) as poll:
        began = clock()
        for asker in asked.values():
            asker.ask(next(questions), began)
        while (now := clock()) < began + seconds:
            for number, _ in poll.poll(1):
                if asked[number].answered():
                    answers += 1
                    asked[number].ask(next(questions), now)
        for asker in asked.values():
            while not asker.answered():
                select.select([asker.socket], (), ())
    return answers / (now - began)


def latencies(asked: dict[int, Asker], questions: Iterator[bytes], rate: float, seconds: float) -> list[float]:
    """Sorted milliseconds from when each question was due, at `rate` per second with exponential gaps, so that a stall
    is not hidden by the questions that were not asked in it."""
    chance, clock = random.Random(1), time.perf_counter
    free, waiting, took = list(asked.values()), collections.deque[float](), list[float]()
    with _poll(asked) as poll:
        due = clock()
        until, question = due + seconds, next(questions)
        while True:
            while due <= min(clock(), until):
                waiting.append(due)
                due += chance.expovariate(rate)
            while waiting and free:
                free.pop().ask(question, waiting.popleft())
                question = next(questions)
            if due > until and len(free) == len(asked):
                return sorted(took)
            select.select([poll], (), (), max(0.0, due - clock()) if due <= until else None)
            for number, _ in poll.poll(0):
                if asked[number].answered():
                    took.append((clock() - asked[number].due) * 1000)
                    free.append(asked[number])


def _poll(asked: dict[int, Asker]) -> select.epoll:
    poll = select.epoll()
    for number in asked:
        poll.register(number, select.EPOLLIN)
    return poll
