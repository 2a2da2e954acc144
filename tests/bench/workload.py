"""Traffic of a fleet that serves long chats, as the index sees it: which replica stores and evicts which block.

Shared system prompts (Zipf), multi-turn sessions that stay on their replica four times out of five, and on every
replica a least-recently-used cache that evicts leaves first. Keys are random numbers: the index never looks inside one.
Deterministic for a seed.
"""

import random
from collections import OrderedDict
from collections.abc import Iterator

import msgspec

from eventstore import kvwire, subjects

TENANT, MODEL, SCHEME = "team-a", "llama", "vllm"


class Workload(msgspec.Struct):
    """`flow` is every block operation in order: (replica, key, tiers). `held` is what is left on each replica."""

    replicas: int
    flow: list[tuple[int, int, int]]
    held: list[set[int]]
    chains: list[list[int]]  # of the sessions, at their longest


def generate(*, replicas: int = 64, holds: int = 1_200_000, evictions: int = 400_000, seed: int = 7) -> Workload:
    """Run sessions until the caches hold `holds` blocks together and about as many evictions happened."""
    rng = random.Random(seed)
    capacity = holds // replicas
    caches: list[OrderedDict[int, None]] = [OrderedDict() for _ in range(replicas)]
    systems = [_fresh(rng, rng.choice((32, 64, 96, 128, 256, 512))) for _ in range(24)]
    sessions: list[tuple[list[int], int]] = []
    flow: list[tuple[int, int, int]] = []
    evicted = 0
    while evicted < evictions:
        if sessions and rng.random() < 0.7:
            at = rng.randrange(max(0, len(sessions) - 2000), len(sessions))
            chain, home = sessions[at]
            if rng.random() < 0.2:
                home = rng.randrange(replicas)
                sessions[at] = chain, home
        else:
            chain = list(systems[min(int(rng.paretovariate(0.9)) - 1, len(systems) - 1)])
            home = rng.randrange(replicas)
            sessions.append((chain, home))
        if len(chain) < 2000:
            chain += _fresh(rng, rng.randrange(4, 200))
        evicted += _serve(caches[home], home, chain, capacity, flow)
    return Workload(replicas, flow, [set(cache) for cache in caches], [chain for chain, _ in sessions])


def _fresh(rng: random.Random, count: int) -> list[int]:
    return [rng.getrandbits(64) for _ in range(count)]


def _serve(cache: OrderedDict[int, None], home: int, chain: list[int], capacity: int, flow: list) -> int:
    """One request: evict what is in the way, store what is missing, touch all, the head last."""
    missing = [key for key in chain if key not in cache]
    for key in reversed(chain):
        if key in cache:
            cache.move_to_end(key)
    over = len(cache) + len(missing) - capacity
    for _ in range(max(0, over)):
        key, _ = cache.popitem(last=False)
        flow.append((home, key, 0))
    flow += [(home, key, kvwire.T1) for key in missing]
    for key in reversed(missing):
        cache[key] = None
    return max(0, over)


def name(replica: int) -> str:
    return f"engine-{replica:02d}"


def subject(replica: int) -> str:
    return subjects.kv_subject(TENANT, MODEL, name(replica))


def opening(replicas: int) -> Iterator[tuple[str, bytes]]:
    """An empty keyframe of every replica, and the first block that makes its session a plain one."""
    for replica in range(replicas):
        head = (kvwire.VERSION, "uid", f"s{replica}")
        for message in (
            kvwire.Begin(*head, 0, 0, 0, MODEL, SCHEME, "complete", "start"),
            kvwire.End(*head, 1, 0, "complete", 0, 0),
        ):
            yield subject(replica), kvwire.encode(message)


def messages(flow: list[tuple[int, int, int]], replicas: int, per_message: int) -> Iterator[tuple[str, bytes, int]]:
    """(subject, payload, block operations): every replica's changes in flushes of so many, last state of a key wins."""
    n = [2] * replicas
    waiting: list[dict[int, int]] = [{} for _ in range(replicas)]

    def flush(replica: int) -> tuple[str, bytes, int]:
        states = waiting[replica]
        group = kvwire.Group("", 16, kvwire.pack_keys(states), bytes(states.values()))
        payload = kvwire.encode(kvwire.Ops(kvwire.VERSION, "uid", f"s{replica}", n[replica], [group]))
        n[replica] += 1
        waiting[replica] = {}
        return subject(replica), payload, len(states)

    for replica, key, tiers in flow:
        waiting[replica][key] = tiers
        if len(waiting[replica]) >= per_message:
            yield flush(replica)
    for replica in range(replicas):
        if waiting[replica]:
            yield flush(replica)


def questions(load: Workload, count: int, length: int, seed: int = 11) -> dict[str, list[list[int]]]:
    """Chains of `length` keys: `mixed` as routers ask (a tenth cold, half whole, the rest diverging), `hit` whole."""
    rng = random.Random(seed)
    held = load.held
    long = [chain[:length] for chain in load.chains if len(chain) >= length]
    whole = [chain for chain in long if any(cache.issuperset(chain) for cache in held)]
    rng.shuffle(whole)
    rng.shuffle(long)
    mixed = []
    for at in range(count):
        dice = rng.random()
        chain = long[at % len(long)]
        if dice < 0.1:
            chain = _fresh(rng, length)
        elif dice >= 0.6:
            cut = rng.randrange(length)
            chain = chain[:cut] + _fresh(rng, length - cut)
        mixed.append(chain)
    return {"mixed": mixed, "hit": [whole[at % len(whole)] for at in range(count)]}
