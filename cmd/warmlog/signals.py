"""How a role or a tool is told to end: SIGINT and SIGTERM set one event, however often they come.

A second Ctrl-C therefore cannot interrupt the orderly end that the first one began. Not here: what ending means.
"""

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def told() -> asyncio.Event:
    """Set from the first signal on. Once per event loop."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop


async def unless(stop: asyncio.Event, work: Coroutine[Any, Any, T]) -> T | None:
    """What `work` gives; None when a signal comes first: then it is cancelled and its end awaited. Raises its error."""
    working, waiting = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({working, waiting}, return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        for task in (working, waiting):
            task.cancel()
        await asyncio.gather(working, waiting, return_exceptions=True)
