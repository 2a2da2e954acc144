"""The loop of one kind: lists, watches, pauses, as its machine says; what was learned goes to the recorder.

It ends only by being cancelled, with a StoreError when the log takes nothing any more, or as Deposed. The API server
may be away as long as it likes.

Rules: spec/kubernetes.md section 4: lists of 500, bookmarks, watches of 280 s, silence of 150 s, jittered pauses.
"""

import asyncio
import collections
import random
from collections.abc import Callable
from typing import Final, Literal

import msgspec
import structlog

from handlers.effects.cluster import ClusterError
from handlers.world.state import Known
from subscribers.kubernetes import pages
from subscribers.kubernetes.appending import Recorder, Untold
from subscribers.kubernetes.client import Client
from subscribers.kubernetes.lines import Lines, TooLong
from subscribers.kubernetes.machine import Fact, Machine, Next
from subscribers.kubernetes.narrow import Narrow, narrow
from subscribers.kubernetes.routes import ROUTES

log = structlog.get_logger()

PAGE: Final = 500
LIST: Final = 30.0  # seconds that a page may take
WATCH: Final = 280.0
SILENCE: Final = 150.0


class Watcher:
    """`heard` is the loop's time of the last contact with the API for this kind, 0 = never. `listed` is called after
    each list, when all of it is in the world."""

    def __init__(
        self, client: Client, kind: str, recorder: Recorder, *, listed: Callable[[str], None] = lambda kind: None
    ) -> None:
        self.client, self.kind, self.recorder, self.listed = client, kind, recorder, listed
        self.machine = Machine(kind)
        self.heard = 0.0
        self.state: Literal["starting", "listing", "open", "absent", "troubled"] = "starting"
        self.trouble = ""
        self.counts: collections.Counter[str] = collections.Counter()
        self._path = ROUTES[kind].path()

    async def run(self) -> None:
        following = Next("list")
        while True:
            if following.pause:
                await asyncio.sleep(following.pause * (0.5 + random.random()))
            try:
                following = await (self._list() if following.do == "list" else self._watch())
            except ClusterError as error:
                following = self.machine.failed(code=error.code, retry_after=error.retry_after)
                self._troubled(error)
            except Untold as error:
                following = self.machine.untold()
                self._troubled(ClusterError(0, "Untold", str(error)))

    @property
    def current(self) -> bool:
        """What the world has of this kind is what the API has: the watch is open, or there is no such kind."""
        return self.state in ("open", "absent")

    def _troubled(self, error: ClusterError) -> None:
        """Told when it begins, and when it is another one; a watch that ended early is no news."""
        self.state = "absent" if error.code == 404 else "troubled"
        self.counts["troubled"] += 1
        if error.code == 410:
            return
        if self.trouble != str(error):
            self.trouble = str(error)
            if error.code == 404:
                log.info("kind-not-served", kind=self.kind)
            else:
                log.warning("watch-troubled", kind=self.kind, code=error.code, error=self.trouble)

    # Lists --------------------------------------------------------------------------------------------------------

    async def _list(self) -> Next:
        self.state = "listing"
        self.counts["lists"] += 1
        items, version = await self._pages()
        await self.recorder.settled(self.kind)
        facts, following = self.machine.listed(items, version, self._known())
        await self.recorder.record(self.kind, facts)
        if following.do == "watch":
            self.listed(self.kind)
        return following

    async def _pages(self) -> tuple[list[Narrow], str]:
        """Pages share one version; a token that expired on the way means to start again."""
        items: list[Narrow] = []
        query = {"limit": str(PAGE), **ROUTES[self.kind].query}
        version = ""
        while True:
            answer = await self.client.request("GET", self._path, query=query, deadline=LIST)
            self._contact()
            try:
                page, cut = pages.read(answer.body)
                for at, raw in enumerate(page.items or ()):
                    items.append(narrow(self.kind, raw, cut=cut))
                    if at % pages.SLICE == pages.SLICE - 1:
                        await asyncio.sleep(0)
            except msgspec.MsgspecError as error:
                raise ClusterError(0, "NoAnswer", f"a list that is none: {error}") from None
            version = version or page.metadata.resource_version
            if not page.metadata.continue_:
                return items, version
            query["continue"] = page.metadata.continue_

    def _known(self) -> dict[tuple[str, str], Known]:
        spaces = self.recorder.world.objects.get(self.kind, {})
        return {(space, name): known for space, names in spaces.items() for name, known in names.items()}

    # Watches ------------------------------------------------------------------------------------------------------

    async def _watch(self) -> Next:
        seconds = WATCH * (0.9 + random.random() * 0.2)
        query = {
            **ROUTES[self.kind].query,
            "watch": "true",
            "resourceVersion": self.machine.version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(int(seconds)),
        }
        began = asyncio.get_running_loop().time()
        lines = Lines()
        async with self.client.stream(self._path, query=query, silence=SILENCE, total=seconds + 30) as response:
            self.state, self.trouble = "open", ""
            self.counts["watches"] += 1
            async for chunk in response.content.iter_any():
                self._contact()
                following = await self._chunk(lines, chunk)
                if following is not None:
                    return following
        return self.machine.ended(lasted=asyncio.get_running_loop().time() - began)

    async def _chunk(self, lines: Lines, chunk: bytes) -> Next | None:
        """Everything that came at once, appended together."""
        facts: list[Fact] = []
        following: Next | None = None
        try:
            for line in lines.feed(chunk):
                fact, following = self.machine.line(line)
                if fact is not None:
                    facts.append(fact)
                if following is not None:
                    break
        except TooLong as error:
            raise ClusterError(0, "NoAnswer", str(error)) from None
        self.counts["facts"] += len(facts)
        await self.recorder.record(self.kind, facts)
        return following

    def _contact(self) -> None:
        self.heard = asyncio.get_running_loop().time()
