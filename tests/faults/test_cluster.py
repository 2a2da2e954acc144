"""Three servers, three replicas, as in production: a stream's leader is killed or hangs under load. docs/cluster.md.

Nothing acknowledged is lost, nothing is stored twice, readers have no hole, nobody takes the new leader for a lost end,
and the main job goes on: lookups are answered throughout, and what engines store after the fault is routed to.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from eventstore import streams
from tests.faults import cluster
from tests.support import natsserver
from warmlog import lab

#: The longest pause that is accepted: an election takes up to 9 s; a client of the leader reconnects besides.
LONGEST = 30.0
ENGINE = lab.ENGINES[0]


@pytest.fixture
async def three(tmp_path: Path) -> AsyncIterator[cluster.Cluster]:
    natsserver.require()
    async with cluster.Cluster(tmp_path).running() as running:
        yield running


@pytest.mark.parametrize(("fault", "stream"), [("kill -9", streams.CONTROL_LOG), ("SIGSTOP", streams.KV_LOG)])
async def test_a_leader_that_is_gone_under_load_costs_seconds_and_no_message(
    three: cluster.Cluster, fault: cluster.Fault, stream: str
) -> None:
    load = cluster.Load(three)
    async with load.running():
        pauses = await cluster.strike(three, load, fault, stream)
        await load.more(50)
    assert await load.check() == []
    assert max(pauses.values()) < LONGEST, pauses


class ClusterLab(lab.Lab):
    """The lab's roles over three nats-servers instead of one."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.cluster = cluster.Cluster(directory, token=self.token)

    @property
    def nats_url(self) -> str:
        return ",".join(self.cluster.urls)

    async def _spawn(self, name: str, words: list[str], *, read_stdout: bool = False) -> lab.Process:
        more = ["--stream-replicas=3", "--kv-max-bytes=256Mi", "--log-max-bytes=1Gi"] if name == "server" else []
        return await super()._spawn(name, [*words, *more], read_stdout=read_stdout)


async def test_the_main_job_goes_on_while_the_leader_of_what_engines_hold_is_killed(tmp_path: Path) -> None:
    natsserver.require()
    running = ClusterLab(tmp_path)
    token = tmp_path / "token"
    token.touch(mode=0o600)
    token.write_text(running.token)
    async with running.cluster.running(), running:
        await running.start_engine(ENGINE)
        await running.start_server()
        await running.start_subscriber(ENGINE)
        first, second = list(range(1, 321)), list(range(1000, 1320))

        async def warm(tokens: list[int]) -> None:
            await running.post(
                f"{running.engines[ENGINE.name].http}/v1/generate", {"token_ids": tokens, "max_tokens": 1}
            )

        async def matched(tokens: list[int]) -> int:
            question = {"tenant_id": lab.TENANT, "model_id": lab.MODEL, "hash_scheme": "vllm", "token_ids": tokens}
            answer = await running.post(f"{running.lookup}/v1/lookup", question)
            return max((score["matched_tokens"] for score in answer["replica_scores"]), default=0)

        async def until(tokens: list[int]) -> None:
            async def check() -> bool:
                return await matched(tokens) == len(tokens)

            await running.until(check, what=f"{len(tokens)} tokens to be credited", within=LONGEST)

        await warm(first)
        await until(first)
        unanswered = 0
        asked = 0

        async def ask() -> None:
            nonlocal unanswered, asked
            while True:
                asked += 1
                unanswered += await matched(first) != len(first)
                await asyncio.sleep(0.02)

        asking = asyncio.ensure_future(ask())
        leader = await running.cluster.leader(streams.KV_LOG)
        await leader.kill()
        await warm(second)
        await until(second)
        assert not asking.done(), "a lookup failed"
        asking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asking
        assert asked > 10
        assert unanswered == 0, f"{unanswered} of {asked} answers did not know what was held all the time"
        await leader.start()
