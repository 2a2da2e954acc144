"""The loop of one kind: lists, watches, pauses, as its machine says; what was learned goes to the recorder.

It ends only by being cancelled, or with a StoreError when the log takes nothing any more. The API server may be away as
long as it likes.

Rules: spec/kubernetes.md section 4: lists of 500, bookmarks, watches of 280 s, silence of 150 s, jittered pauses.
"""

import asyncio
import random
from collections.abc import Iterable
from typing import Final

import msgspec
import structlog

from handlers.effects.cluster import ClusterError
from handlers.world.state import Known
from subscribers.kubernetes.appending import Recorder
from subscribers.kubernetes.client import Client
from subscribers.kubernetes.lines import Lines, TooLong
from subscribers.kubernetes.machine import Fact, Machine, Next
from subscribers.kubernetes.narrow import Narrow, narrow
from subscribers.kubernetes.routes import ROUTES

log = structlog.get_logger()

PAGE: Final = 500
WATCH: Final = 280.0
SILENCE: Final = 150.0


class _ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _List(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


_list = msgspec.json.Decoder(_List).decode


class Watcher:
    """`heard` is the loop's time of the last contact with the API for this kind, 0 = never."""

    def __init__(self, client: Client, kind: str, recorder: Recorder) -> None:
        self.client, self.kind, self.recorder = client, kind, recorder
        self.machine = Machine(kind)
        self.heard = 0.0
        self.trouble = ""
        self._path = ROUTES[kind].path()

    async def run(self) -> None:
        following = Next("list")
        while True:
            if following.pause:
                await asyncio.sleep(following.pause * (0.5 + random.random()))
            try:
                following = await (self._list() if following.do == "list" else self._watch())
                self.trouble = ""
            except ClusterError as error:
                if str(error) != self.trouble:
                    self.trouble = str(error)
                    log.warning("watch-troubled", kind=self.kind, code=error.code, error=self.trouble)
                following = self.machine.failed(code=error.code, retry_after=error.retry_after)

    async def _list(self) -> Next:
        """Pages share one version; a token that expired on the way means to start again."""
        items: list[Narrow] = []
        query = {"limit": str(PAGE)}
        version = ""
        while True:
            answer = await self.client.request("GET", self._path, query=query, deadline=30.0)
            try:
                page = _list(answer.body)
                items += [narrow(self.kind, raw) for raw in page.items or ()]
            except msgspec.MsgspecError as error:
                raise ClusterError(0, "NoAnswer", f"a list that is none: {error}") from None
            version = version or page.metadata.resource_version
            if not page.metadata.continue_:
                break
            query["continue"] = page.metadata.continue_
            await asyncio.sleep(0)
        self._contact()
        await self.recorder.settled(self.kind)
        facts, following = self.machine.listed(items, version, self._known())
        await self.recorder.record(self.kind, facts)
        return following

    def _known(self) -> dict[tuple[str, str], Known]:
        spaces = self.recorder.world.objects.get(self.kind, {})
        return {(space, name): known for space, names in spaces.items() for name, known in names.items()}

    async def _watch(self) -> Next:
        seconds = WATCH * (0.9 + random.random() * 0.2)
        query = {
            "watch": "true",
            "resourceVersion": self.machine.version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(int(seconds)),
        }
        began = asyncio.get_running_loop().time()
        lines = Lines()
        async with self.client.stream(self._path, query=query, silence=SILENCE, total=seconds + 30) as response:
            async for chunk in response.content.iter_any():
                self._contact()
                try:
                    following = await self._chunk(lines.feed(chunk))
                except TooLong as error:
                    raise ClusterError(0, "NoAnswer", str(error)) from None
                if following is not None:
                    return following
        return self.machine.ended(lasted=asyncio.get_running_loop().time() - began)

    async def _chunk(self, lines: Iterable[bytes]) -> Next | None:
        """Everything that came at once, appended together."""
        facts: list[Fact] = []
        following: Next | None = None
        for line in lines:
            fact, following = self.machine.line(line)
            if fact is not None:
                facts.append(fact)
            if following is not None:
                break
        await self.recorder.record(self.kind, facts)
        return following

    def _contact(self) -> None:
        self.heard = asyncio.get_running_loop().time()
