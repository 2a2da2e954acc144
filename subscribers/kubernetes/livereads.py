"""Objects read from the API for one decision, and the values behind the log's tokens: both by listing a kind.

A list of thousands is narrowed slice by slice, so that other reviews are answered meanwhile. A token is a hash of its
value, so what was learned once stays true; the newest are kept. Values stay in this process.

When it fails: ClusterError; how long it may take is for who calls.

Rules: design.md section 5 ("one live LIST per namespace and kind"), section 2 ("Privacy").
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

import msgspec

from handlers.effects.cluster import ClusterError
from handlers.outcome import Key
from handlers.world import kinds
from handlers.world.state import Known
from subscribers.kubernetes import pages
from subscribers.kubernetes.client import Client
from subscribers.kubernetes.narrow import Narrow, narrow
from subscribers.kubernetes.routes import ROUTES

PAGE: Final = 500
#: Values that are kept: those of one list more than these are forgotten with the next.
MOST: Final = 20_000


class LiveReads:
    """`deadline` in seconds, of each page."""

    def __init__(self, client: Client, *, deadline: float) -> None:
        self._client, self._deadline = client, deadline
        self._values: dict[str, str] = {}

    async def objects(self, kind: str, namespace: str) -> dict[Key, Known]:
        found: dict[Key, Known] = {}
        values: dict[str, str] = {}
        async for one in self._listed(kind, namespace, values):
            found[Key(kind, one.namespace, one.name)] = Known(
                one.uid, one.resource_version, kinds.KINDS[kind].shape, 0, 0, one.value, one.problem
            )
        self._keep(values)
        return found

    async def values(self, kind: str, namespace: str, wanted: frozenset[str]) -> dict[str, str]:
        """Of the tokens wanted, those that stand for a value now."""
        if not wanted <= self._values.keys():
            values: dict[str, str] = {}
            async for _ in self._listed(kind, namespace, values):
                if wanted <= values.keys():
                    break
            self._keep(values)
        return {token: self._values[token] for token in wanted if token in self._values}

    def _keep(self, values: dict[str, str]) -> None:
        """What was read last is never what is forgotten."""
        self._values = values if len(self._values) + len(values) > MOST else {**self._values, **values}

    async def _listed(self, kind: str, namespace: str, values: dict[str, str]) -> AsyncIterator[Narrow]:
        query = {"limit": str(PAGE), **ROUTES[kind].query}
        while True:
            path = ROUTES[kind].path(namespace)
            answer = await self._client.request("GET", path, query=query, deadline=self._deadline)
            try:
                page, cut = pages.read(answer.body)
                for at, raw in enumerate(page.items or (), 1):
                    yield narrow(kind, raw, cut=cut, values=values)
                    if at % pages.SLICE == 0:
                        await asyncio.sleep(0)
            except msgspec.MsgspecError as error:
                raise ClusterError(0, "NoAnswer", f"a list that is none: {error}") from None
            if not page.metadata.continue_:
                return
            query["continue"] = page.metadata.continue_
