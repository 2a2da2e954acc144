"""What growth costs: the index by holds and by replicas, the log by events, a server's start by holds.

    python -m tests.bench.growth [index|replicas|log|start …]     # lines of JSON into build/growth.jsonl
    python -m tests.bench.growth plot                             # docs/growth.svg from them (needs matplotlib)

Every point runs in a process of its own, three times; the median is kept. Costs are CPU per operation of the measured
process, since the clock on the wall moves with the neighbours. The steady state is measured at its size: each block
that comes is matched by one that goes.
"""

import asyncio
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from eventstore import events, kvwire, streams, subjects
from eventstore.jetstream import connect, kvlog, provision
from eventstore.jetstream import store as jetstream
from handlers.prefixindex import index, lookup, policies, request
from tests.bench import workload
from tests.bench.index import resident
from warmlog import lab, natsserver

ROOT: Final = Path(__file__).parents[2]
OUT: Final = ROOT / "build" / "growth.jsonl"
NOW: Final = 1_700_000_000 * 10**9
SHARED: Final = 8  # of 32 blocks are of a system prompt that every replica holds
STEADY: Final = 300_000  # operations measured at a size
ROUNDS: Final = 3

HOLDS: Final = (100_000, 300_000, 1_000_000, 3_000_000, 10_000_000)
REPLICAS: Final = (1, 8, 64, 256, 1000)
EVENTS: Final = (1_000, 10_000, 100_000, 1_000_000, 5_000_000)
STARTS: Final = (100_000, 300_000, 1_200_000)


# The index -----------------------------------------------------------------------------------------------------------


def columns(replica: int, start: int, count: int, rng: random.Random) -> list[int]:
    """Keys that one replica stores: chains of 32 blocks, of which 8 are one of 24 prompts that all share."""
    keys: list[int] = []
    while len(keys) < count:
        system = random.Random(start % 24)
        keys += [system.getrandbits(64) for _ in range(SHARED)] + [rng.getrandbits(64) for _ in range(32 - SHARED)]
        start += 1
    return keys[:count]


def message(replica: int, n: int, keys: list[int], tiers: int) -> bytes:
    group = kvwire.Group("", 16, kvwire.pack_keys(keys), bytes([tiers]) * len(keys))
    return kvwire.encode(kvwire.Ops(kvwire.VERSION, f"uid-{replica}", f"s-{replica}", n, [group]))


class Fleet:
    """Replicas that speak to an index in this process."""

    def __init__(self, replicas: int) -> None:
        self.known = index.Index(cap=10**9)
        self.at = 0
        self.n = [2] * replicas
        self.subjects = [workload.subject(replica) for replica in range(replicas)]
        for replica, subject in enumerate(self.subjects):
            head = (kvwire.VERSION, f"uid-{replica}", f"s-{replica}")
            self.apply(subject, kvwire.Begin(*head, 0, 0, 0, workload.MODEL, workload.SCHEME, "complete", "start"))
            self.apply(subject, kvwire.End(*head, 1, 0, "complete", 0, 0))

    def apply(self, subject: str, said: kvwire.AnyMessage) -> None:
        self.say(subject, kvwire.encode(said))

    def say(self, subject: str, payload: bytes) -> None:
        self.at += 1
        self.known.apply(self.at, NOW, subject, payload)
        if not self.at % 1000:
            self.known.upkeep()

    def change(self, replica: int, keys: list[int], tiers: int) -> None:
        self.say(self.subjects[replica], message(replica, self.n[replica], keys, tiers))
        self.n[replica] += 1


def index_point(holds: int, replicas: int) -> dict[str, float]:
    rng = random.Random(7)
    before = resident()
    fleet = Fleet(replicas)
    kept: list[list[Sequence[int]]] = [[] for _ in range(replicas)]
    stored = 0
    turn = 0
    while stored < holds:
        replica = turn % replicas
        keys = columns(replica, turn, 64, rng)
        fleet.change(replica, keys, kvwire.T1)
        kept[replica].append(array("Q", keys))  # packed: what the bench remembers must not count as the index's
        del kept[replica][:-40]
        stored += 64
        turn += 1
    grown = resident() - before
    cpu = steady(fleet, kept, replicas, rng)
    return {
        "ingest_us": cpu,
        "lookup_us": walks(fleet, kept, rng),
        "bytes_per_hold": grown / fleet.known.blocks(),
        "blocks": fleet.known.blocks(),
    }


def steady(fleet: Fleet, kept: list[list[Sequence[int]]], replicas: int, rng: random.Random) -> float:
    """CPU microseconds per operation, at this size; messages are made beforehand."""
    feed: list[tuple[str, bytes]] = []
    for turn in range(STEADY // 128):
        replica = turn % replicas
        fresh = columns(replica, turn, 64, rng)
        gone = kept[replica].pop(0)
        kept[replica].append(array("Q", fresh))
        for keys, tiers in ((list(gone), 0), (fresh, kvwire.T1)):
            feed.append((fleet.subjects[replica], message(replica, fleet.n[replica], keys, tiers)))
            fleet.n[replica] += 1
    started = time.process_time()
    for subject, payload in feed:
        fleet.say(subject, payload)
    return (time.process_time() - started) / (len(feed) * 64) * 1e6


def walks(fleet: Fleet, kept: list[list[Sequence[int]]], rng: random.Random) -> float:
    """CPU microseconds of a decision over 512 keys, half of them held by the replica that is asked about."""
    governed = policies.UNKNOWN
    asked = []
    for _ in range(300):
        chain = [key for part in rng.choice(kept)[-4:] for key in part]
        chain = (chain + [rng.getrandbits(64) for _ in range(512)])[:512]
        asked.append(
            request.LookupRequest(
                tenant_id=workload.TENANT,
                model_id=workload.MODEL,
                hash_scheme=workload.SCHEME,
                chain=chain,
                block_token_counts=[16] * 512,
            )
        )
    best = [float("inf")] * len(asked)
    for _ in range(3):
        for number, one in enumerate(asked):
            started = time.process_time_ns()
            lookup.decide(fleet.known, governed, one, NOW)
            best[number] = min(best[number], (time.process_time_ns() - started) / 1000)
    return statistics.median(best)


# The log -------------------------------------------------------------------------------------------------------------


async def log_point(size: int) -> dict[str, float]:
    """CPU per append at a log of this size, and per event read from its beginning."""
    with tempfile.TemporaryDirectory() as directory:
        server = await natsserver.start(Path(directory))
        try:
            async with await connect.connect(server.url, connect.Options(name="growth"), wait=10) as connection:
                await provision.provision(connection, streams.control_log(max_bytes=20 << 30, max_age=86400.0))
                log = jetstream.JetStreamStore(connection)
                await fill(log, 0, size)
                spent = await cpu_of(server.pid, fill(log, size, size + 5_000), 5_000)
                read = await cpu_of(server.pid, count(log), size + 5_000)
                await log.close()
        finally:
            await server.stop()
    return {
        "append_us": spent[0],
        "append_server_us": spent[1],
        "read_us": read[0],
        "read_server_us": read[1],
    }


async def fill(log: jetstream.JetStreamStore, first: int, last: int) -> None:
    for at in range(first, last, 2_000):
        await asyncio.gather(*(log.append(event(number)) for number in range(at, min(at + 2_000, last))))


def event(number: int) -> Any:
    data = events.ReplicaObserved(
        tenant="team-a",
        replica=f"engine-{number % 500}",
        model="llama",
        scheme="vllm",
        uid=f"{number:032x}",
        session="s",
        edge="statistics",
        kv_sequence=number,
        kv_incarnation="1",
        statistics={"hit_rate": 0.5, "pressure": 0.1},
    )
    subject = subjects.replica_subject("team-a", data.replica)
    return events.event(data, id=f"growth:{number}", source="growth", subject=subject, time_ns=NOW, actor="growth")


async def count(log: jetstream.JetStreamStore) -> None:
    seen = 0
    async for batch in log.read():
        for stored in batch:
            events.decode(stored)
            seen += 1
    assert seen > 0


async def cpu_of(pid: int, work: Any, operations: int) -> tuple[float, float]:
    """CPU microseconds per operation of this process and of another one."""
    mine, other = time.process_time(), process_cpu(pid)
    await work
    return (
        (time.process_time() - mine) / operations * 1e6,
        (process_cpu(pid) - other) / operations * 1e6,
    )


def process_cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100


# A server's start ----------------------------------------------------------------------------------------------------


async def start_point(holds: int) -> dict[str, float]:
    """Seconds from the start of a server's process until it is ready and every replica complete."""
    replicas = 64
    with tempfile.TemporaryDirectory() as directory:
        async with lab.Lab(Path(directory)) as house:
            await house.start_nats()
            options = connect.Options(name="growth", token=house.token)
            async with await connect.connect(house.nats_url, options, wait=10) as connection:
                await provision.provision(connection, streams.control_log(max_bytes=256 << 20))
                await provision.provision(connection, streams.kv_log(max_bytes=512 << 20))
                kv = kvlog.JetStreamKV(connection)
                for subject, payload in history(holds, replicas):
                    await kv.publish(subject, payload)
                await kv.close()
            started = time.monotonic()
            await house.start_server()
            seconds = time.monotonic() - started
            snapshot = await house.get(f"{house.admin}/snapshot")
            states = [one["state"] for one in snapshot["replicas"]]
            assert len(states) == replicas
            assert set(states) <= {"complete", "silent"}, states  # nobody speaks for them: some may be silent already
            assert sum(one["prefixCount"] for one in snapshot["replicas"]) == holds // replicas * replicas
    return {"seconds": seconds}


def history(holds: int, replicas: int) -> Iterator[tuple[str, bytes]]:
    """A keyframe of every replica, then a tail of changes twice as long as what is held."""
    rng = random.Random(7)
    each = holds // replicas
    for replica in range(replicas):
        subject, head = workload.subject(replica), (kvwire.VERSION, f"uid-{replica}", f"s-{replica}")
        keys = list(dict.fromkeys(columns(replica, replica, each * 2, rng)))[:each]
        keys += [rng.getrandbits(64) for _ in range(each - len(keys))]
        n = 0
        yield subject, kvwire.encode(kvwire.Begin(*head, n, 0, 0, workload.MODEL, workload.SCHEME, "complete", "start"))
        for at in range(0, each, kvwire.MAX_KEYS):
            part, n = keys[at : at + kvwire.MAX_KEYS], n + 1
            group = kvwire.Group("", 16, kvwire.pack_keys(part), b"\1" * len(part))
            yield subject, kvwire.encode(kvwire.Chunk(*head, n, 0, [group]))
        yield subject, kvwire.encode(kvwire.End(*head, n + 1, 0, "complete", each, sum(keys) & kvwire.MASK64))
        n += 2
        for at in range(0, each, 64):
            part = keys[at : at + 64]
            for tiers in (0, kvwire.T1):
                yield subject, message(replica, n, part, tiers)
                n += 1


# Running -------------------------------------------------------------------------------------------------------------

POINTS: Final[dict[str, tuple[tuple[int, ...], Callable[[int], Any]]]] = {
    "index": (HOLDS, lambda size: index_point(size, 64)),
    "replicas": (REPLICAS, lambda size: index_point(1_000_000, size)),
    "log": (EVENTS, log_point),
    "start": (STARTS, start_point),
}


def one(part: str, size: int) -> dict[str, float]:
    found = POINTS[part][1](size)
    result: dict[str, float] = asyncio.run(found) if asyncio.iscoroutine(found) else found
    return result


def measure(part: str, size: int) -> dict[str, float]:
    """The median of some runs, each in a process of its own."""
    runs = []
    for _ in range(1 if size >= 3_000_000 else ROUNDS):
        out = subprocess.run(
            [sys.executable, "-m", "tests.bench.growth", "--one", part, str(size)],
            cwd=ROOT,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout
        runs.append(json.loads(out.splitlines()[-1]))
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


def plot() -> None:
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    found = [json.loads(line) for line in OUT.read_text().splitlines()]
    shown = (
        ("index", "holds", ("ingest_us", "lookup_us", "bytes_per_hold")),
        ("replicas", "replicas, 1 M holds", ("ingest_us", "lookup_us", "bytes_per_hold")),
        ("log", "events in the log", ("append_us", "append_server_us", "read_us", "read_server_us")),
        ("start", "holds when a server starts", ("seconds",)),
    )
    figure, places = pyplot.subplots(2, 2, figsize=(11, 8))
    for place, (part, title, names) in zip(places.flat, shown, strict=True):
        points = sorted((one["size"], one) for one in found if one["part"] == part)
        for name in names:
            place.plot([size for size, _ in points], [point[name] for _, point in points], marker="o", label=name)
        place.set_xscale("log")
        place.set_ylim(bottom=0)
        place.set_title(title)
        place.legend()
        place.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(ROOT / "docs" / "growth.svg", metadata={"Date": None})


def main(words: list[str]) -> None:
    if words[:1] == ["--one"]:
        print(json.dumps(one(words[1], int(words[2]))))
        return
    if words == ["plot"]:
        plot()
        return
    OUT.parent.mkdir(exist_ok=True)
    for part in words or POINTS:
        for size in POINTS[part][0]:
            line = {"part": part, "size": size, **measure(part, size)}
            print(json.dumps(line), flush=True)
            with OUT.open("a") as out:
                out.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
