"""The life of a role that runs until it is told to stop; why it cannot is told in one line."""

import contextlib
import gc
from asyncio import Event
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

import structlog

from eventstore import store
from warmlog import cli, signals

log = structlog.get_logger()


class Role(Protocol):
    async def serve(self, stop: Event) -> None: ...


async def until_told(
    prepared: Callable[[contextlib.AsyncExitStack], Coroutine[Any, Any, Role]], *, unserved: str = ""
) -> int:
    """Prepare the role, serve until a signal comes, close what it opened. Raises cli.Failure.

    `unserved` is logged when the signal comes before the role was prepared.
    """
    stop = signals.told()
    async with contextlib.AsyncExitStack() as closing:
        made = await signals.unless(stop, prepared(closing))
        if made is None:
            if unserved:
                log.info(unserved)
            return 0
        try:
            await made.serve(stop)
        except* store.Refused as refused:
            raise cli.Failure(str(refused.exceptions[0]), cli.REFUSED) from refused
        except* cli.Failure as failed:
            raise failed.exceptions[0] from failed
        except* store.Unavailable as away:
            raise cli.Failure(str(away.exceptions[0])) from away
    return 0


async def settle(caught_up: Event) -> None:
    await caught_up.wait()
    freeze()


def freeze() -> None:
    """Take what the program and its world are made of out of the garbage collector's sight: to look through a large
    world takes 100 ms, in which nobody is answered. What is replaced is freed all the same."""
    gc.collect()
    gc.freeze()
