"""Several servers on one log: the same answers at one position, none missed when one is killed, nothing told twice.

"The same moment" is the position of WARMLOG_KV that an answer with `explain` names. Answers to one question at one
position must agree in every byte, less the latency that each server measured. Each server's clock takes no part while
the stream moves (subscribers/indexing). Excluded: the rules of who tells what, over a store in memory
(tests/unit/test_chronicle); a server that lags (tests/faults).
"""

import asyncio
import contextlib
import itertools
import random
import re
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import msgspec
import pytest

from enginesim import workload
from eventstore import events, store, subjects
from eventstore.jetstream import bus, connect
from eventstore.jetstream import store as jetstream
from tests.support import natsserver
from warmlog import lab

SHAPE = workload.Shape(
    sessions=10_000, systems=3, system_length=(96, 256), user_length=(24, 96), answer_length=(16, 48), turns=(2, 5)
)
STATES = {"complete", "partial", "silent", "gone", "restart"}
_LATENCY = re.compile(rb'"lookup_latency_us":"\d+"')


def question(**fields: object) -> bytes:
    asked = {"tenant_id": lab.TENANT, "model_id": lab.MODEL, "hash_scheme": "vllm", "explain": True, **fields}
    return msgspec.json.encode(asked)


@contextlib.asynccontextmanager
async def fleet(directory: Path, count: int) -> AsyncIterator[lab.Lab]:
    """Three engines with their subscribers, and so many servers: server-0, server-1 …"""
    natsserver.require()
    async with lab.Lab(directory) as running:
        await running.start_nats()
        await asyncio.gather(*(running.start_engine(spec) for spec in lab.ENGINES))
        await asyncio.gather(*(running.start_server(name=f"server-{number}") for number in range(count)))
        await asyncio.gather(*(running.start_subscriber(spec) for spec in lab.ENGINES))
        yield running


class Load:
    """Prompts to the engines, as fast as a few tasks send them; the newest ones are what is asked about."""

    def __init__(self, running: lab.Lab, pause: float) -> None:
        self.lab, self.pause = running, pause
        self.turns = workload.turns(seed=11, shape=SHAPE)
        self.prompts: list[list[int]] = []

    async def run(self) -> None:
        for turn in self.turns:
            engine = self.lab.engines[lab.ENGINES[turn.replica].name].http
            body = {"token_ids": turn.token_ids, "max_tokens": turn.max_tokens}
            await self.lab.post(f"{engine}/v1/generate", body)
            self.prompts.append(turn.token_ids)
            await asyncio.sleep(self.pause)

    def pick(self, chance: random.Random) -> bytes:
        if not self.prompts or chance.random() < 0.1:
            return question(prefix_hash="00000000000000aa")  # nobody's: what is told is who is warm
        return question(token_ids=chance.choice(self.prompts[-20:]))

    async def warm(self) -> None:
        while len(self.prompts) < 6:
            await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def under(load: Load) -> AsyncIterator[Load]:
    task = asyncio.ensure_future(load.run())
    try:
        await load.warm()
        yield load
        if task.done():
            await task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def ask(running: lab.Lab, server: str, body: bytes) -> bytes:
    headers = {"content-type": "application/json"}
    async with running.http.post(f"{running.servers[server].lookup}/v1/lookup", data=body, headers=headers) as answer:
        raw = await answer.read()
        assert answer.status == 200, raw
        return raw


class Compared:
    """Every answer by question and position, and how many agreed. One that does not agree is a failed test."""

    def __init__(self) -> None:
        self.answers: dict[tuple[bytes, str], tuple[str, bytes]] = {}
        self.equal = 0
        self.positions: set[str] = set()
        self.reasons: Counter[str] = Counter()

    def add(self, server: str, body: bytes, raw: bytes) -> None:
        said = msgspec.json.decode(raw)
        content = _LATENCY.sub(b"", raw)
        self.reasons[said["reason_code"]] += 1
        first, other = self.answers.setdefault((body, said["position"]), (server, content))
        assert other == content, f"at {said['position']} {first} said {other!r}, {server} said {content!r}"
        if first != server:
            self.equal += 1
            self.positions.add(said["position"])


async def told(running: lab.Lab) -> list[tuple[store.Stored, events.Event]]:
    found = []
    options = connect.Options(name="test", token=running.token)
    async with await connect.connect(running.nats_url, options, wait=5) as connection:
        log = jetstream.JetStreamStore(connection)
        async for batch in log.read():
            for stored in batch:
                decoded = events.decode(stored)
                assert isinstance(decoded, events.Decoded), decoded
                found.append((stored, decoded.data))
        await log.close()
    return found


async def metric(running: lab.Lab, server: str, name: str) -> float:
    async with running.http.get(f"{running.servers[server].lookup}/metrics") as answer:
        (line,) = [line for line in (await answer.text()).splitlines() if line.startswith(f"{name} ")]
        return float(line.split()[1])


async def check_that_nothing_is_told_twice(running: lab.Lab) -> None:
    appended = sum([await metric(running, name, "warmlog_chronicle_appended_total") for name in running.servers])
    found = await told(running)
    edges = [one for _, one in found if isinstance(one, events.ReplicaObserved)]
    assert len({(one.replica, one.kv_sequence, one.edge) for one in edges}) == len(edges)
    assert {one.replica for one in edges} == {spec.name for spec in lab.ENGINES}
    lives = defaultdict(list)
    for one in edges:
        if one.edge in STATES:
            lives[one.replica, one.session].append(one.edge)
    assert [life for life in lives.values() for a, b in itertools.pairwise(life) if a == b] == []
    moments = [(stored.time_ns / 1e9, one.kv_sequence) for stored, one in found if isinstance(one, events.Moment)]
    assert len(moments) >= 2
    apart = [later - at for (at, _), (later, _) in itertools.pairwise(moments)]
    assert min(apart) > 0.2, f"an interval is 1 s, and servers told a moment {min(apart):.2f} s after another"
    assert moments == sorted(moments), "positions go forward"
    assert appended <= len(found), f"servers appended {appended} events, {len(found)} are in the log: some are one"
    for process in running.processes.values():
        if process.name.startswith("server"):
            assert '"level": "error"' not in process.log.read_text(), process.last_words()
            assert "was refused" not in process.log.read_text()


@pytest.mark.parametrize("count", [2, 3], ids=["two servers", "three servers"])
async def test_servers_on_one_log_give_the_same_bytes_at_the_same_position(tmp_path: Path, count: int) -> None:
    async with fleet(tmp_path, count) as running:
        compared = Compared()
        async with under(Load(running, pause=0.01)) as load:

            async def compare(seed: int) -> None:
                chance = random.Random(seed)
                # Who is warm is known once engines' statistics came twice; by then there are some moments too.
                while compared.equal < 400 or len(compared.positions) < 40 or compared.reasons["TENANT_HOT"] < 50:
                    body = load.pick(chance)
                    raws = await asyncio.gather(*(ask(running, name, body) for name in running.servers))
                    for name, raw in zip(running.servers, raws, strict=True):
                        compared.add(name, body, raw)

            async with asyncio.timeout(60):
                await asyncio.gather(*(compare(seed) for seed in range(3)))
        assert compared.reasons["PREFIX_MATCH"] > 100
        assert compared.reasons["NO_HINT"] + compared.reasons["AFFINITY_HINT"] > 10
        await check_that_nothing_is_told_twice(running)


async def test_a_server_killed_under_load_is_missed_by_no_client_that_asks_the_other(tmp_path: Path) -> None:
    async with fleet(tmp_path, 2) as running:
        answered = retried = 0
        slowest = 0.0
        stop = asyncio.Event()
        names = list(running.servers)

        async def client(number: int, load: Load) -> None:
            nonlocal answered, retried, slowest
            chance = random.Random(number)
            while not stop.is_set():
                body = load.pick(chance)
                asked = time.monotonic()
                for turn in itertools.count(number):
                    try:
                        said = msgspec.json.decode(await ask(running, names[turn % 2], body))
                    except (aiohttp.ClientError, ConnectionError):
                        retried += 1
                        assert turn < number + 4, "both servers are away"
                        continue
                    assert said.get("detail", {}).get("code") != "starting"
                    break
                answered += 1
                slowest = max(slowest, time.monotonic() - asked)
                await asyncio.sleep(0.002)

        async with under(Load(running, pause=0.02)) as load:
            async with asyncio.TaskGroup() as clients:
                for number in range(6):
                    clients.create_task(client(number, load))
                await asyncio.sleep(1.0)
                before = answered
                await running.processes["server-0"].kill()
                while answered < before + 300:
                    await asyncio.sleep(0.02)
                stop.set()
            address = running.servers["server-0"]
            ports = [int(url.rpartition(":")[2]) for url in (address.lookup, address.admin)]
            await running.start_server(name="server-0", lookup_port=ports[0], admin_port=ports[1])
            compared = Compared()
            chance = random.Random(3)
            async with asyncio.timeout(30):
                while compared.equal < 60:  # the one that came back knows what the other knows
                    body = load.pick(chance)
                    for name, raw in zip(
                        names, await asyncio.gather(*(ask(running, name, body) for name in names)), strict=True
                    ):
                        compared.add(name, body, raw)
        assert retried > 0
        assert slowest < 2.0, f"a question waited {slowest:.1f} s"


async def test_questions_over_nats_are_shared_and_fail_over(tmp_path: Path) -> None:
    async with fleet(tmp_path, 2) as running:

        async def answers(server: str) -> float:
            async with running.http.get(f"{running.servers[server].lookup}/metrics") as answer:
                lines = (await answer.text()).splitlines()
            found = [line for line in lines if line.startswith("warmlog_lookup_") and 'transport="nats"' in line]
            return sum(float(line.rsplit(" ", 1)[1]) for line in found if "_total{" in line)

        options = connect.Options(name="test", token=running.token)
        async with (
            await connect.connect(running.nats_url, options, wait=5) as connection,
            under(Load(running, pause=0.02)) as load,
        ):
            asker = bus.JetStreamBus(connection)
            tries = Counter[int]()
            stop = asyncio.Event()

            async def client(seed: int) -> None:
                chance = random.Random(seed)
                while not stop.is_set():
                    body = load.pick(chance)
                    for number in itertools.count(1):
                        assert number <= 3, "nobody answers"
                        with contextlib.suppress(store.Unavailable):
                            said = msgspec.json.decode(await asker.request(subjects.LOOKUP, body, timeout=1.0))
                            assert said.get("detail", {}).get("code") != "starting"
                            break
                    tries[number] += 1

            async with asyncio.TaskGroup() as clients:
                for seed in range(8):
                    clients.create_task(client(seed))
                while tries.total() < 400:
                    await asyncio.sleep(0.02)
                shares = [await answers(name) for name in running.servers]
                assert min(shares) > 0.2 * sum(shares), f"not shared: {shares}"
                await running.processes["server-1"].kill()
                before = tries.total()
                while tries.total() < before + 400:
                    await asyncio.sleep(0.02)
                await running.start_server(name="server-1")  # it joins when it is ready: see "starting" above
                while await answers("server-1") < 50:
                    await asyncio.sleep(0.02)
                stop.set()
            assert max(tries) <= 2, f"asked again more than once: {tries}"
