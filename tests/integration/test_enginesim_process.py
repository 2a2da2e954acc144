"""The simulated engine as a process: flags, the ready line, HTTP, SIGTERM, kill -9. Excluded: wire forms."""

import asyncio
import contextlib
import pathlib
import signal
import socket
import sys
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import msgspec
import pytest

from subscribers.kvevents import endpoints, facts, metrics, replay, source
from tests.support import facts_reader

ROOT = pathlib.Path(__file__).parents[2]
PROMPT = list(range(40))


class Sim:
    """A running process and its API."""

    def __init__(
        self, process: asyncio.subprocess.Process, ready: dict[str, Any], session: aiohttp.ClientSession
    ) -> None:
        self.process = process
        self.ready = ready
        self._session = session

    async def post(self, path: str, body: object = None) -> Any:
        async with self._session.post(self.ready["http"] + path, json=body) as response:
            text = await response.text()
            return msgspec.json.decode(text) if response.status == 200 else (response.status, text)

    async def get(self, path: str) -> str:
        async with self._session.get(self.ready["http"] + path) as response:
            return await response.text()

    def source(self, rank: int = 0) -> source.Source:
        plan = endpoints.plan(self.ready["events"], self.ready["replay"], self.ready["data_parallel_size"])
        return source.Source(plan.ranks[rank], deadlines=replay.Deadlines(quiet=1.0, total=5.0))


async def spawn(*flags: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "enginesim.cli",
        *("--http", "127.0.0.1:0"),
        *flags,
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT / "cmd")},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


@contextlib.asynccontextmanager
async def running(
    *flags: str, events: str = "tcp://127.0.0.1:0", replays: str = "tcp://127.0.0.1:0"
) -> AsyncIterator[Sim]:
    process = await spawn("--events", events, "--replay", replays, *flags)
    assert process.stdout is not None
    try:
        async with asyncio.timeout(20):
            ready = msgspec.json.decode(await process.stdout.readline())
        async with aiohttp.ClientSession() as session:
            yield Sim(process, ready, session)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def test_it_serves_says_what_it_holds_and_ends_cleanly() -> None:
    async with running("--form", "vllm-0.13", "--block-size", "8") as sim:
        first = await sim.post("/v1/generate", {"token_ids": PROMPT, "max_tokens": 9})
        again = await sim.post("/v1/generate", {"token_ids": PROMPT, "max_tokens": 9})
        assert (first["cached_tokens"], again["cached_tokens"]) == (0, 32)
        assert first["token_ids"] == again["token_ids"]
        assert await sim.post("/truth", {"token_ids": [*PROMPT, 1]}) == {"held_tokens": 40, "by_rank": [40]}
        held = msgspec.json.decode(await sim.get("/truth"))
        assert [len(path["blocks"]) for path in held["ranks"][0]] == [6]
        assert await sim.post("/reset_prefix_cache") == {"cleared_blocks": [6]}
        assert (await sim.post("/truth", {"token_ids": PROMPT}))["held_tokens"] == 0
        sim.process.send_signal(signal.SIGTERM)
        out, err = await sim.process.communicate()
        assert (sim.process.returncode, out, err) == (0, b"", b"")


async def test_its_metrics_are_what_a_scraper_reads() -> None:
    for form in ("vllm-0.33", "vllm-0.13", "sglang-0.5.22"):
        async with running("--form", form, "--model", 'org/"m"', "--capacity-blocks", "8") as sim:
            await sim.post("/v1/generate", {"token_ids": PROMPT, "max_tokens": 1})
            await sim.post("/v1/generate", {"token_ids": PROMPT, "max_tokens": 1})
            reading = metrics.read(await sim.get("/metrics"), metrics.Options(model='org/"m"', rank=0))
            assert reading.usage == 2 / 8
            assert not reading.sleeping
            if form.startswith("vllm"):
                assert (reading.hits, reading.queries) == (32, 80)
                await sim.post("/sleep?level=1")
                assert metrics.read(await sim.get("/metrics"), metrics.Options()).sleeping
            else:
                assert reading.hit_rate == 0.4


async def test_every_rank_publishes_at_its_own_port() -> None:
    async with running("--data-parallel-size", "3") as sim:
        for rank in (0, 2):
            await sim.post("/v1/generate", {"token_ids": PROMPT, "data_parallel_rank": rank})
        for rank, batches in ((0, 1), (1, 0), (2, 1)):
            async with facts_reader.reading(sim.source(rank)) as reader:
                await reader.next(facts.Attached)
                for payload in await reader.batches(batches):
                    assert msgspec.msgpack.decode(payload)[2] == rank
        assert (await sim.post("/truth", {"token_ids": PROMPT}))["by_rank"] == [32, 0, 32]


async def test_an_engine_killed_with_9_and_started_again_on_its_port_is_a_new_life() -> None:
    async with running() as sim:
        await sim.post("/v1/generate", {"token_ids": PROMPT})
        following = sim.source()
        async with facts_reader.reading(following) as reader:
            assert (await reader.next(facts.Attached)).complete
            await reader.batches(1)
            sim.process.kill()
            await reader.next(facts.Gone, within=4)
            async with running(events=sim.ready["events"], replays=sim.ready["replay"]) as again:
                assert (await reader.next(facts.NewLife, within=10)).complete
                await again.post("/v1/generate", {"token_ids": PROMPT})
                await reader.batches(1)


async def test_a_silent_engine_binds_nothing() -> None:
    async with running("--silent") as sim:
        assert (sim.ready["events"], sim.ready["replay"]) == (None, None)
        assert (await sim.post("/v1/generate", {"token_ids": PROMPT}))["cached_tokens"] == 0


async def test_bad_requests_get_one_line() -> None:
    async with running("--capacity-blocks", "2") as sim:
        for body, says in (
            ({"token_ids": []}, "token_ids"),
            ({"token_ids": "x"}, "token_ids"),
            ({"token_ids": PROMPT, "data_parallel_rank": 5}, "ranks 0..0"),
            ({"token_ids": PROMPT, "max_tokens": 0}, "max_tokens"),
            ({"token_ids": list(range(64))}, "the cache has 2"),
        ):
            status, text = await sim.post("/v1/generate", body)
            assert (status, text.count("\n")) == (400, 1)
            assert says in text


FLAGS = {
    "unknown form": (["--form", "trt-1"], 2, "is no release"),
    "no port": (["--events", "tcp://*"], 2, "tcp://*:PORT"),
    "no block": (["--block-size", "0"], 2, "--block-size"),
    "bad seed": (["--hash-seed", "x"], 2, "--hash-seed"),
}


@pytest.mark.parametrize(("flags", "code", "says"), FLAGS.values(), ids=FLAGS)
async def test_bad_flags_are_refused(flags: list[str], code: int, says: str) -> None:
    process = await spawn(*flags)
    out, err = await process.communicate()
    assert (process.returncode, out) == (code, b"")
    assert says in err.decode().splitlines()[-1]


async def test_a_port_in_use_is_named() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        port = held.getsockname()[1]
        process = await spawn("--events", f"tcp://127.0.0.1:{port}")
        _, err = await process.communicate()
        assert process.returncode == 1
        assert f"127.0.0.1:{port}" in err.decode()
        assert len(err.decode().splitlines()) == 1
