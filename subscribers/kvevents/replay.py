"""Asking an engine for past batches: one DEALER, one request, replies until the end marker.

The engine's ROUTER wants exactly [identity, empty, 8-byte start], so a DEALER sends [empty, start]; it drops anything
else without an answer. Replies are [empty, sequence, payload], from vLLM 0.26 and SGLang 0.5.22 on [empty, topic,
sequence, payload]; the last two frames are the same in both. Sequence -1 ends. Every request has a socket of its own:
what a broken one left behind is never read as the answer to the next.

A request that is not answered in time, or answered with something else, raises ReplayFailed with one line.
Not here: what the numbers mean (cursor.py). Rules: TR-01, TR-02.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Final

import msgspec
import zmq
import zmq.asyncio

END: Final = -1


class ReplayFailed(Exception):
    """No complete answer; the message says why."""


class Deadlines(msgspec.Struct, frozen=True):
    """Seconds: without a reply, and for everything including what the caller does with the batches."""

    quiet: float = 2.0
    total: float = 60.0


class Reply(msgspec.Struct, frozen=True, gc=False):
    """One past batch; `seq` is END for the end marker."""

    seq: int
    payload: bytes


def parse(frames: Sequence[bytes]) -> Reply:
    """A reply of either form. Raises ReplayFailed for anything else."""
    if len(frames) not in (3, 4) or frames[0] != b"":
        raise ReplayFailed(f"the replay socket answered {len(frames)} frames that are no replay")
    if len(frames[-2]) != 8:
        raise ReplayFailed(f"the replay socket answered a sequence of {len(frames[-2])} bytes, expected 8")
    return Reply(int.from_bytes(frames[-2], "big", signed=True), frames[-1])


class Replayer:
    """The replay side of one rank."""

    def __init__(self, context: "zmq.Context[zmq.Socket[bytes]]", endpoint: str, deadlines: Deadlines) -> None:
        self.endpoint = endpoint
        self._context = context
        self._deadlines = deadlines

    async def batches(self, start: int, *, hwm: int = 10_000) -> AsyncGenerator[Reply, None]:
        """Every batch that the engine still holds from number `start` on. Close it (aclosing) when leaving early.

        `hwm` bounds what waits in memory; a longer answer may have holes, because a ROUTER drops what does not fit."""
        socket = zmq.asyncio.Socket(self._context, zmq.DEALER)
        try:
            socket.setsockopt(zmq.LINGER, 0)
            socket.setsockopt(zmq.RCVHWM, hwm)
            socket.connect(self.endpoint)
            loop = asyncio.get_running_loop()
            end = loop.time() + self._deadlines.total
            await socket.send_multipart([b"", start.to_bytes(8, "big")])
            while True:
                wait = min(self._deadlines.quiet, end - loop.time())
                reply = parse(await self._receive(socket, wait))
                if reply.seq == END:
                    return
                yield reply
        finally:
            socket.close()

    async def _receive(self, socket: zmq.asyncio.Socket, wait: float) -> list[bytes]:
        try:
            async with asyncio.timeout(max(0.0, wait)):
                return await socket.recv_multipart()
        except TimeoutError as error:
            raise ReplayFailed(f"no answer from {self.endpoint} within {max(0.0, wait):.1f} s") from error
