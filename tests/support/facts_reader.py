"""Reading a Source in a test: facts arrive in a list, and a test waits for the one it needs."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import TypeVar

from subscribers.kvevents import facts, source

F = TypeVar("F")


class Reader:
    """The facts seen so far, in order."""

    def __init__(self) -> None:
        self.facts: list[facts.Fact] = []
        self._news = asyncio.Condition()
        self._taken = 0

    async def add(self, fact: facts.Fact) -> None:
        async with self._news:
            self.facts.append(fact)
            self._news.notify_all()

    async def next(self, kind: type[F], *, within: float = 5.0) -> F:
        """The next fact of a kind after the last one that was waited for."""
        async with asyncio.timeout(within), self._news:
            while True:
                for at in range(self._taken, len(self.facts)):
                    fact = self.facts[at]
                    if isinstance(fact, kind):
                        self._taken = at + 1
                        return fact
                await self._news.wait()

    async def until(self, true: Callable[[], bool], *, within: float = 5.0) -> None:
        """Wait until this holds; it is looked at after every fact."""
        async with asyncio.timeout(within), self._news:
            await self._news.wait_for(true)

    def skip(self) -> None:
        """What was seen so far is no answer to the next wait."""
        self._taken = len(self.facts)

    async def batches(self, count: int, *, within: float = 5.0) -> list[bytes]:
        """The payloads of the next `count` batches."""
        return [(await self.next(facts.Batch, within=within)).payload for _ in range(count)]

    def of(self, kind: type[F]) -> list[F]:
        return [fact for fact in self.facts if isinstance(fact, kind)]


@contextlib.asynccontextmanager
async def reading(of: source.Source) -> AsyncIterator[Reader]:
    """Follow a source in the background until the block ends."""
    reader = Reader()

    async def follow() -> None:
        async with contextlib.aclosing(of.follow()) as stream:
            async for fact in stream:
                await reader.add(fact)

    task = asyncio.create_task(follow())
    try:
        yield reader
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
