"""One round: every contender reads the same history from its own sockets and answers the same questions, in turns.

    part 0      streamed at full rate, nobody asks: CPU seconds per block of each process, bytes per block held
    part 1      streamed at the same rate while lookups of 512 blocks are asked: their p50 and p99. In production
                engines and subscribers run elsewhere; here they get one half of the CPUs, and what answers lookups
                (for us with nats-server) and who asks get the other half
    part 2      streamed at the rate of the latency bar, with single blocks in it that are asked for until seen
    afterwards  every question once, compared with the truth; then timed, contenders in turns of `_TURN` questions

A contender's turn of one part ends when it has answered for every replica's mark, or when it has been idle for long
(a peer that cannot read a form never will).
"""

import asyncio
import os
import time
from pathlib import Path
from typing import Any, Final

import msgspec

from tests.bench.peers import client, clocks, contenders, history, probes

_TURN: Final = 20
_IDLE: Final = 2.0  # seconds without CPU time after which a contender is taken to be done
_LONGEST: Final = 180.0


class Rates(msgspec.Struct, frozen=True):
    """Block operations a second, and how the rest of a round is cut."""

    stream: float = 100_000
    latency: float = 20_000
    probes: int = 500
    passes: int = 4
    timed: bool = True  # else only answers are compared


class Seen(msgspec.Struct):
    """What one contender showed in one round. Times are microseconds unless the name says otherwise."""

    name: str
    blocks: int = 0
    cpu: dict[str, float] = {}  # seconds in part 0: server, transport, readers
    took: float = 0.0  # seconds in which part 0 was published
    behind: float = 0.0  # seconds from the end of part 0 to the last mark seen
    bytes_per_block: float = 0.0
    loaded: list[float] = []
    visible: list[float] = []  # milliseconds
    loaded_rate: float = 0.0  # block operations a second that part 1 came to, from its first to all of it seen
    wrong: dict[int, int] = {}
    asked: dict[int, int] = {}
    json: dict[int, list[float]] = {}  # pass after pass, questions in order
    packed: dict[int, list[float]] = {}
    json_cpu: dict[int, float] = {}  # of the server, per lookup
    packed_cpu: dict[int, float] = {}
    slow_cpu: dict[str, float] = {}  # as `cpu`, in part 2
    slow_blocks: int = 0


class Feeder:
    """The other end of feed.py."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._in, self._out = process.stdin, process.stdout
        self.pid = process.pid

    async def hear(self) -> dict[str, Any]:
        line = await self._out.readline()
        if not line:
            raise RuntimeError("the feed ended; see its log")
        heard: dict[str, Any] = msgspec.json.decode(line)
        return heard

    async def tell(self, **order: Any) -> None:
        self._in.write(msgspec.json.encode(order) + b"\n")
        await self._in.drain()


def _halves() -> tuple[set[int], set[int]]:
    """Two halves of the CPUs that are ours; one CPU is both."""
    cpus = sorted(os.sched_getaffinity(0))
    half = max(1, len(cpus) // 2)
    return set(cpus[:half]), set(cpus[half:] or cpus)


class Round:
    def __init__(self, told: history.History, feeder: Feeder, each: list[contenders.Contender], rates: Rates) -> None:
        self.told, self.feeder, self.rates = told, feeder, rates
        self.each = each
        self.clients = [client.Client(one.port) for one in each]
        self.seen = [Seen(one.name) for one in each]
        self._empty = [0] * len(each)

    async def run(self) -> list[Seen]:
        for number in range(len(self.each)):
            await self._ingest(number)
        for number in range(len(self.each)):
            await self._loaded(number)
        for number in range(len(self.each)):
            await self._latency(number)
        self._compare()
        if self.rates.timed:
            self._time()
        return self.seen

    def _pids(self, number: int) -> dict[str, list[int]]:
        one = self.each[number]
        return {"server": one.server, "transport": one.transport, "readers": one.readers}

    async def _settled(self, number: int, part: int) -> float:
        """Seconds until all marks of a part are seen; or until the contender has done nothing for a while."""
        one, asking = self.each[number], self.clients[number]
        left = dict(self.told.parts[part].marks)
        began = moved = time.monotonic()
        pids = [pid for each in self._pids(number).values() for pid in each]
        spent = clocks.cpu(pids)
        while left and time.monotonic() - began < _LONGEST:
            replica, tokens = next(iter(left.items()))
            if replica in one.read(asking.ask(one.json(tokens))):
                del left[replica]
                moved = time.monotonic()
                continue
            await asyncio.sleep(0.02)
            now = clocks.cpu(pids)
            if now - spent > 0.05:
                spent, moved = now, time.monotonic()
            elif time.monotonic() - moved > _IDLE:
                break
        return time.monotonic() - began

    async def _ingest(self, number: int) -> None:
        seen, part, pids = self.seen[number], self.told.parts[0], self._pids(number)
        before = {name: clocks.cpu(each) for name, each in pids.items()}
        self._empty[number] = clocks.resident(pids["server"])
        await self.feeder.tell(do="play", contender=number, part=0, rate=self.rates.stream, count=0)
        seen.took = (await self.feeder.hear())["took"]
        seen.behind = await self._settled(number, 0)
        seen.cpu = {name: clocks.cpu(each) - before[name] for name, each in pids.items()}
        seen.blocks = part.operations

    async def _loaded(self, number: int) -> None:
        """Lookups beside the stream, one a millisecond."""
        one, asking, seen = self.each[number], self.clients[number], self.seen[number]
        requests = [one.json(question.tokens) for question in self.told.questions[512]]
        near, far = _halves()
        pids = self._pids(number)
        clocks.pin([*pids["server"], *pids["transport"], os.getpid()], near)
        clocks.pin([*pids["readers"], self.feeder.pid], far)
        began = time.perf_counter()
        await self.feeder.tell(do="play", contender=number, part=1, rate=self.rates.stream, count=0)
        done = asyncio.ensure_future(self.feeder.hear())
        at = 0
        while not done.done():
            seen.loaded.append(asking.timed(requests[at % len(requests)]) / 1e3)
            at += 1
            await asyncio.sleep(0.001)
        await self._settled(number, 1)
        seen.loaded_rate = self.told.parts[1].operations / (time.perf_counter() - began)
        clocks.pin([os.getpid(), self.feeder.pid, *(pid for each in pids.values() for pid in each)], near | far)

    async def _latency(self, number: int) -> None:
        one, asking, seen = self.each[number], self.clients[number], self.seen[number]
        count = self.rates.probes if self.rates.timed else 0
        rate = self.rates.latency if self.rates.timed else self.rates.stream
        requests = [one.json(probes.tokens(2, probe)) for probe in range(count)]
        before = {name: clocks.cpu(each) for name, each in self._pids(number).items()}
        await self.feeder.tell(do="play", contender=number, part=2, rate=rate, count=count)
        while "took" not in (heard := await self.feeder.hear()):
            at, until = heard["at"], time.monotonic() + 5
            while not one.read(asking.ask(requests[heard["probe"]])) and time.monotonic() < until:
                await asyncio.sleep(0.0005)
            seen.visible.append((time.monotonic_ns() - at) / 1e6)
        await self._settled(number, 2)
        seen.slow_cpu = {name: clocks.cpu(each) - before[name] for name, each in self._pids(number).items()}
        seen.slow_blocks = self.told.parts[2].operations
        grown = clocks.resident(one.server) - self._empty[number]
        seen.bytes_per_block = grown / self.told.held

    def _compare(self) -> None:
        for number, one in enumerate(self.each):
            seen = self.seen[number]
            for length, questions in self.told.questions.items():
                answers = [one.read(self.clients[number].ask(one.json(each.tokens))) for each in questions]
                seen.asked[length] = len(questions)
                seen.wrong[length] = sum(answer != each.depths for answer, each in zip(answers, questions, strict=True))

    def _time(self) -> None:
        """Turns of a few questions each, so that what disturbs one contender disturbs the next as well."""
        for length, questions in self.told.questions.items():
            ways = []
            for number, one in enumerate(self.each):
                seen = self.seen[number]
                requests = [one.json(each.tokens) for each in questions]
                ways.append((number, requests, seen.json, seen.json_cpu))
                packed = [request for each in questions if (request := one.packed(each.tokens)) is not None]
                if packed:
                    ways.append((number, packed, seen.packed, seen.packed_cpu))
            for _ in range(self.rates.passes):
                for start in range(0, len(questions), _TURN):
                    for number, requests, took, spent in ways:
                        self._turn(number, length, requests[start : start + _TURN], took, spent)
            for _, requests, _, spent in ways:
                spent[length] /= len(requests) * self.rates.passes

    def _turn(
        self, number: int, length: int, requests: list[bytes], took: dict[int, list[float]], spent: dict[int, float]
    ) -> None:
        asking, server = self.clients[number], self.each[number].server
        asking.ask(requests[0])  # the processor's caches are another contender's
        before = clocks.cpu(server)
        took.setdefault(length, []).extend(asking.timed(request) / 1e3 for request in requests)
        spent[length] = spent.get(length, 0.0) + (clocks.cpu(server) - before) * 1e6


async def measure(
    directory: Path, *, replicas: int, wire: str, tokens: int, rates: Rates, threads: tuple[int, ...]
) -> list[Seen]:
    """One round in processes of its own."""
    path, told = history.kept(replicas=replicas, wire=wire, tokens=tokens)
    async with contenders.Rig(directory) as rig:
        each: list[contenders.Contender] = [*(contenders.Dynamo(rig, count) for count in threads), contenders.Ours(rig)]
        feeder = Feeder(await rig.start_feed([str(path), str(len(each))]))
        ports = (await feeder.hear())["ports"]
        for number, one in enumerate(each):
            await one.start(ports[number])
            await rig.listening(one.port)
        for number, one in enumerate(each):
            await feeder.tell(do="join", contender=number, seconds=60.0)
            if missing := (await feeder.hear())["missing"]:
                raise RuntimeError(f"{one.name}: {missing} engines have no reader")
        await asyncio.sleep(2)
        return await Round(told, feeder, each, rates).run()
