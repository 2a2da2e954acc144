"""Whatever the interleaving of changes, lists, watches, errors and leaders: in the end the world holds what the API
holds, and on the way nothing that is gone came back. Excluded: sockets (integration), the loop's pauses."""

import asyncio
from typing import Any

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from crds import core
from eventstore import events, memory
from subscribers.kubernetes.machine import Machine
from subscribers.kubernetes.narrow import narrow
from tests.support import fakeapi
from tests.support.fakeapi import Change, FakeApi
from tests.support.leaderlog import Leader

NAMES = st.sampled_from(["a", "b", "c", "d"])


class Watching:
    """One leader: a machine, its recorder, and the stream that it reads (None: it has to list)."""

    def __init__(self, log: memory.MemoryStore, epoch: int) -> None:
        self.epoch, self.leads = epoch, True
        self.leader = Leader(log, epoch=epoch, leads=lambda: self.leads)
        self.machine = Machine(core.PODS)
        self.stream: list[Change] | None = None
        self.position = 0  # in the stream
        self.do = "list"


class Converging(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.api, self.log = FakeApi(), memory.MemoryStore()
        self.now = Watching(self.log, 1)
        self.before: list[Watching] = []
        self.gone: set[str] = set()

    def run(self, work: Any) -> Any:
        return self.runner.run(work)

    # What others do ---------------------------------------------------------------------------------------------------

    @rule(name=NAMES, label=st.sampled_from("xyz"))
    def put(self, name: str, label: str) -> None:
        self.api.put(name, label=label)

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        self.api.delete(name)

    @rule(name=NAMES, label=st.sampled_from("xyz"))
    def replace(self, name: str, label: str) -> None:
        self.api.delete(name)
        self.api.put(name, label=label)

    @rule()
    def forget(self) -> None:
        """Compaction: who reconnects later gets 410."""
        self.api.forget()

    @rule()
    def restored_elsewhere(self) -> None:
        """A node of the log loses an ack: the append is there, nobody knows."""
        self.log.faults.lose_acks = 1

    # What the leader does ---------------------------------------------------------------------------------------------

    @rule(count=st.integers(1, 4))
    def step(self, count: int) -> None:
        for _ in range(count):
            self.run(self.advance(self.now))

    @rule(broken=st.sampled_from(["end", "error", "garbage", "bookmark", "gone"]))
    @precondition(lambda self: self.now.stream is not None)
    def disturb(self, broken: str) -> None:
        watch = self.now
        line = {
            "error": fakeapi.error(500),
            "garbage": b"{",
            "bookmark": fakeapi.bookmark(int(watch.machine.version)),
            "gone": fakeapi.error(410),
        }.get(broken)
        following = watch.machine.failed() if line is None else watch.machine.line(line)[1]
        if following is not None:
            watch.stream, watch.do = None, following.do

    @rule()
    def elect(self) -> None:
        """Another one leads; the old one does not know yet, or learns of it at once."""
        self.before.append(self.now)
        self.before = self.before[-2:]
        self.now = Watching(self.log, self.now.epoch + 1)

    @rule(knows=st.booleans())
    @precondition(lambda self: bool(self.before))
    def old_leader_reads_on(self, knows: bool) -> None:
        """It slept: what it had received already is still told, and must change nothing for the worse."""
        old = self.before[-1]
        old.leads = not knows
        if old.stream is not None:
            self.run(self.advance(old))

    # How --------------------------------------------------------------------------------------------------------------

    async def advance(self, watch: Watching) -> None:
        try:
            if watch.do == "list":
                await self.list(watch)
            elif watch.stream is None:
                watch.stream, watch.position = self.api.since(watch.machine.version), 0
                if watch.stream is None:
                    watch.do = watch.machine.failed(code=410).do
            else:
                await self.read(watch)
        except Exception as error:
            if type(error).__name__ not in ("Unavailable", "Deposed", "Untold"):
                raise
            watch.stream, watch.do = None, "list"  # the term ends, another begins with a list

    async def list(self, watch: Watching) -> None:
        await watch.leader.follow()
        items = [narrow(core.PODS, msgspec.json.encode(one)) for one in self.api.objects.values()]
        known = watch.leader.world.objects.get(core.PODS, {}).get("ml", {})
        version = str(self.api.version)
        facts, following = watch.machine.listed(items, version, {("ml", name): one for name, one in known.items()})
        await watch.leader.recorder.record(core.PODS, facts)
        watch.do = following.do

    async def read(self, watch: Watching) -> None:
        assert watch.stream is not None
        if watch is self.now:  # a live stream grows, a sleeper's is what the socket held
            watch.stream = [*watch.stream, *(one for one in self.api.changes if one not in watch.stream
                            and one.version > int(watch.machine.version))]  # fmt: skip
        if watch.position >= len(watch.stream):
            return
        fact, following = watch.machine.line(watch.stream[watch.position].line)
        watch.position += 1
        assert following is None
        if fact is not None:
            await watch.leader.recorder.record(core.PODS, [fact])

    @invariant()
    def nothing_comes_back(self) -> None:
        gone: set[str] = set()
        for message in self.log.log.messages:
            decoded = events.decode(message)  # type: ignore[arg-type]
            assert isinstance(decoded, events.Decoded)
            match decoded.data:
                case events.ObjectGone() as one:
                    gone.add(one.uid)
                case events.ObjectSeen() as one:
                    assert one.uid not in gone, f"{one.uid} came back"

    def teardown(self) -> None:
        self.log.faults.lose_acks = 0
        for _ in range(40):
            self.run(self.advance(self.now))
        world = self.now.leader.world
        found = {
            name: (known.uid, known.value.metadata.labels)
            for name, known in world.objects.get(core.PODS, {}).get("ml", {}).items()
        }
        held = {
            name: (one["metadata"]["uid"], one["metadata"]["labels"]) for (_, name), one in self.api.objects.items()
        }
        self.runner.close()
        assert found == held


TestConverging = Converging.TestCase
TestConverging.settings = settings(max_examples=300, stateful_step_count=40, deadline=None)
