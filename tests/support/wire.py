"""A connection to NATS that is a list: what is written can be looked at, answers come when a test says so."""

from collections.abc import Callable
from typing import Any

from eventstore import store
from eventstore.jetstream import connect


class Wire:
    """Stands for connect.Connection: keeps what is written and answers when told."""

    def __init__(self) -> None:
        self.up = True
        self.frames: list[bytes] = []
        self.on_connect: list[Callable[[], None]] = []
        self.on_violation: list[Callable[[str, str], None]] = []
        self.options = connect.Options(name="test")
        self.take: Callable[[list[Any]], None] = lambda taken: None
        self.ended = 0
        self.fault: store.Misconfigured | None = None
        self.max_payload = 1 << 20

    def check(self) -> None:
        if self.fault is not None:
            raise self.fault

    def inbox(self) -> str:
        return "_INBOX.x"

    async def tap(self, subject: str, take: Callable[[list[Any]], None]) -> "Wire":
        assert subject == "_INBOX.x.*"
        self.take = take
        return self

    async def end(self) -> None:
        self.ended += 1

    def write(self, data: bytes) -> bool:
        if self.up:
            self.frames += [part for part in data.split(b"PUB ") if part not in (b"", b"H")]
        return self.up

    def reply_to(self, number: int) -> bytes:
        return self.frames[number].split(b" ")[1]

    def answer(self, number: int, body: bytes = b'{"stream":"S","seq":9}') -> None:
        self.take([(self.reply_to(number), b"", b"", body)])

    def come_back(self) -> None:
        self.up = True
        for call in self.on_connect:
            call()
