"""Keyframes and reports on a real nats-server: streams as declared, a leader, a standby, one that begins late."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import pytest

from eventstore import events, keyframes, streams, subjects
from eventstore.jetstream import connect, provision
from eventstore.jetstream.store import JetStreamStore
from handlers.world import keyframe, marks
from subscribers import keyframing
from subscribers.following import Follower
from tests.support import natsserver
from warmlog import keeping, rewound, when

MARK = 40


class Controller:
    def __init__(self, connection: connect.Connection, *, leads: bool) -> None:
        self.log = JetStreamStore(connection)
        self.keeping = keeping.Keeping(
            connection, self.log, instance="c", leads=lambda: leads, world=lambda: self.follower.world
        )
        self.follower = Follower(self.log, snaps=self.keeping.snaps, marked=self.keeping.marked)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Controller"]:
        tasks = [asyncio.create_task(self.follower.run()), asyncio.create_task(self.keeping.run())]
        try:
            yield self
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self.keeping.close()
            await self.log.close()


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not true():
            await asyncio.sleep(0.01)


async def appended(log: JetStreamStore, first: int, last: int) -> None:
    for number in range(first, last + 1):
        name = f"p{number}"
        document = {"metadata": {"name": name, "namespace": "n", "labels": {"a": "x" * 10_000}}}
        data = events.ObjectSeen(uid=name, resource_version="1", shape=1, object=document)
        subject = subjects.object_subject("pods", "n", name)
        await log.append(events.event(data, id=name, source="t", subject=subject, time_ns=1, actor="t"))


@pytest.fixture
async def link(nats: natsserver.Server) -> AsyncIterator[connect.Connection]:
    async with await connect.connect(nats.url, connect.Options(name="test"), wait=5) as connection:
        for wanted in (streams.control_log(), streams.snapshots(), streams.dead_letters()):
            await provision.provision(connection, wanted)
        yield connection


async def test_a_leader_writes_a_standby_compares_and_a_late_one_begins_from_it(
    link: connect.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(marks, "EVENTS", MARK)
    monkeypatch.setattr(keyframing, "LOOK", 0.05)
    leads, stands = Controller(link, leads=True), Controller(link, leads=False)
    async with leads.running() as leader, stands.running() as standby:
        await appended(leader.log, 1, MARK + 5)
        await until(lambda: leader.keeping.keyframer.written == 1 and standby.keeping.keyframer.compared == 1)
        assert standby.keeping.keyframer.mismatches == 0
        late = Controller(link, leads=False)
        folded: list[int] = []
        late.follower._folded = lambda event: folded.append(event.stored.sequence)
        async with late.running():
            await until(lambda: late.follower.world.sequence == MARK + 5)
        assert folded == list(range(MARK + 1, MARK + 6))
        assert keyframe.digest(late.follower.world) == keyframe.digest(leader.follower.world)
        (head,) = await keyframes.heads(leader.keeping.snaps)
        assert (head.sequence, head.pieces > 1) == (MARK, True)
        async with rewound.logs(link) as found:
            back = await rewound.world_at(found, when.Sequence(MARK + 2))
        assert (back.since, len(back.world.keys("pods"))) == (MARK + 1, MARK + 2)


async def test_a_skipped_event_is_reported_once_by_whoever_leads(link: connect.Connection) -> None:
    async with Controller(link, leads=True).running() as first:
        await link.client.jetstream().publish("wl.moment", b"no event of ours")
        await until(lambda: first.keeping.reporter.reported == 1)
    async with Controller(link, leads=True).running() as second:
        await until(lambda: second.keeping.reporter._done == 1)
        assert second.keeping.reporter.reported == 0
        found = [one async for batch in second.keeping.dead.read() for one in batch]
    assert len(found) == 1
    assert b"no event of ours" in found[0].body
