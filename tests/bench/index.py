"""The prefix index in this process: ingest from (subject, payload), memory, exact walks, ranked answers.

Ingest is per CPU second, upkeep included, the median of three rounds. A lookup row is the median over questions of each
question's best of five passes: other work on the machine only ever adds. Memory is the growth of the resident set, so
that row is measured in a process of its own. Run alone: `python -m tests.bench.index`.
"""

import base64
import gc
import itertools
import json
import pathlib
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Final

from handlers.prefixindex import answers, index, lookup, policies, request
from tests.bench import row, workload

NOW: Final = 1_700_000_000 * 10**9
REPLICAS: Final = 64
HOLDS: Final = 1_200_000
KEYS: Final = 512
PASSES: Final = 5
ROUNDS: Final = 3
ROOT: Final = pathlib.Path(__file__).parents[2]


def rows() -> list[row.Row]:
    load = workload.generate(replicas=REPLICAS, holds=HOLDS)
    found = [memory_row()]
    known, speed = ingest(load, 64)
    found.append(at_least("index ingest, 64 blocks a message", speed / 1e6, "M/CPU s", 1.2))
    found.append(at_least("index ingest, 1 block a message", ingest(load, 1, 400_000)[1] / 1e6, "M/CPU s", 0.4))
    found += lookups(load, known)
    found += upkeep(known)
    return found


def at_least(name: str, value: float, unit: str, bar: float) -> row.Row:
    return row.Row(name, value, unit, bar, value >= bar)


def at_most(name: str, value: float, unit: str, bar: float) -> row.Row:
    return row.Row(name, value, unit, bar, value <= bar)


def resident() -> int:
    """Bytes in memory, of this process."""
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * 4096


def ingest(load: workload.Workload, per_message: int, most: int | None = None) -> tuple[index.Index, float]:
    """Fold the flow; returns the last round's index and block operations per CPU second."""
    feed = list(itertools.islice(workload.messages(load.flow, load.replicas, per_message), most))
    rounds = [fold(load, feed) for _ in range(ROUNDS)]
    return rounds[-1][0], statistics.median(speed for _, speed in rounds)


def fold(load: workload.Workload, feed: list[tuple[str, bytes, int]]) -> tuple[index.Index, float]:
    known = index.Index()
    at = 0
    for subject, payload in workload.opening(load.replicas):
        at += 1
        known.apply(at, NOW, subject, payload)
    gc.collect()
    gc.freeze()  # the collector must not walk the feed, which a server never holds
    started = time.process_time()
    for subject, payload, _ in feed:
        at += 1
        known.apply(at, NOW, subject, payload)
        if not at % 1000:
            known.upkeep()
    spent = time.process_time() - started
    gc.unfreeze()
    assert known.skipped == known.redelivered == 0
    return known, sum(count for _, _, count in feed) / spent


def memory_row() -> row.Row:
    out = subprocess.run(
        [sys.executable, "-m", "tests.bench.index", "memory"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return at_most("index memory, 64 replicas, no quota", float(out.stdout), "B/hold", 110)


def memory() -> float:
    """Bytes per hold after the flow was folded from messages made on the fly."""
    load = workload.generate(replicas=REPLICAS, holds=HOLDS)
    known = index.Index()
    at = 0
    gc.collect()
    before = resident()
    for subject, payload in workload.opening(load.replicas):
        at += 1
        known.apply(at, NOW, subject, payload)
    for subject, payload, _ in workload.messages(load.flow, load.replicas, 64):
        at += 1
        known.apply(at, NOW, subject, payload)
        if not at % 1000:
            known.upkeep()
    gc.collect()
    return (resident() - before) / known.blocks()


def lookups(load: workload.Workload, known: index.Index) -> list[row.Row]:
    place = known.domain_of(workload.TENANT, workload.MODEL, workload.SCHEME, "")
    assert place is not None
    asked = workload.questions(load, 500, KEYS)
    walks = {kind: p50([lambda keys=keys: place.runs(keys) for keys in chains]) for kind, chains in asked.items()}
    matching = [one for one in map(question, asked["mixed"]) if answer(known, one).reason_code == "PREFIX_MATCH"]
    walk, whole = both_p50(
        [lambda keys=one.chain: place.runs(keys) for one in matching],
        [lambda one=one: answers.encode(answer(known, one)) for one in matching],
    )
    scores = statistics.mean(len(answer(known, one).replica_scores) for one in matching)
    bodies = [as_json(one) for one in matching]
    return [
        at_most(f"walk of {KEYS} given keys, mixed depth", walks["mixed"], "us p50", 90),
        at_most(f"walk of {KEYS} given keys, all hit", walks["hit"], "us p50", 160),
        at_most(f"ranked JSON answer above its walk, {scores:.0f} scores", whole - walk, "us p50", 60),
        row.Row(
            f"reading the JSON question, {KEYS} keys", p50([lambda b=b: request.decode(b) for b in bodies]), "us p50"
        ),
    ]


def question(keys: list[int]) -> request.LookupRequest:
    return request.LookupRequest(
        tenant_id=workload.TENANT,
        model_id=workload.MODEL,
        hash_scheme=workload.SCHEME,
        chain=keys,
        block_token_counts=[16] * len(keys),
    )


def as_json(asked: request.LookupRequest) -> bytes:
    return json.dumps(
        {
            "tenant_id": asked.tenant_id,
            "model_id": asked.model_id,
            "hash_scheme": asked.hash_scheme,
            "block_hashes": [base64.b64encode(key.to_bytes(8, "big")).decode() for key in asked.chain],
            "block_token_counts": asked.block_token_counts,
        }
    ).encode()


def answer(known: index.Index, asked: request.LookupRequest) -> answers.LookupResponse:
    return lookup.decide(known, policies.UNKNOWN, asked, NOW, clock=time.perf_counter_ns).response


def p50(calls: list[Callable[[], object]]) -> float:
    """Median microseconds over calls, each call's best of several passes over all of them."""
    return both_p50(calls, [])[0]


def both_p50(calls: list[Callable[[], object]], others: list[Callable[[], object]]) -> tuple[float, float]:
    """The same of two lists whose passes take turns, so that what disturbs one disturbs the other."""
    best = [[float("inf")] * len(calls), [float("inf")] * len(others)]
    for _ in range(PASSES):
        for which, each in enumerate((calls, others)):
            for at, call in enumerate(each):
                started = time.perf_counter_ns()
                call()
                best[which][at] = min(best[which][at], time.perf_counter_ns() - started)
    first, second = (statistics.median(each) / 1000 if each else 0.0 for each in best)
    return first, second


def upkeep(known: index.Index) -> list[row.Row]:
    """A replica restarts: forgetting its blocks, and the slices of sweeping after it."""
    one = next(iter(known.fleet.values()))
    assert one.live is not None
    blocks = one.blocks
    started = time.perf_counter_ns()
    one.live.drop()
    dropped = time.perf_counter_ns() - started
    slices = []
    while True:
        started = time.perf_counter_ns()
        if not known.upkeep():
            break
        slices.append(time.perf_counter_ns() - started)
    return [
        row.Row(f"forgetting a replica of {blocks:,} blocks", dropped / 1000, "us"),
        row.Row("a slice of sweeping, 4,096 entries", statistics.median(slices) / 1e6, "ms"),
    ]


if __name__ == "__main__":
    if sys.argv[1:] == ["memory"]:
        sys.stdout.write(f"{memory()}\n")
    else:
        sys.stdout.writelines(f"{each}\n" for each in rows())
