"""What two servers know at one position, whatever their clocks say: the same answers, of silent replicas too.

Excluded: real servers under load (tests/integration/test_many_servers).
"""

import asyncio

import pytest

from eventstore import kvwire, memory, subjects
from handlers.prefixindex import answers, index, keys, lookup, request
from subscribers import indexing

SECOND = 1_000_000_000
TOKENS = list(range(64))
HELD = keys.chain(keys.pack_tokens(TOKENS), 16)


class Clock:
    """The stream's clock; each server's own is some seconds off."""

    def __init__(self) -> None:
        self.ns = 100 * SECOND

    def __call__(self) -> int:
        return self.ns


async def speak(kv: memory.MemoryKV, name: str, *messages: kvwire.AnyMessage) -> None:
    for message in messages:
        await kv.publish(subjects.kv_subject("t", "m", name), kvwire.encode(message))


def keyframe(name: str, held: list[int]) -> list[kvwire.AnyMessage]:
    group = kvwire.Group("", 16, kvwire.pack_keys(held), b"\1" * len(held))
    return [
        kvwire.Begin(1, "u", name, 0, 0, 0, "m", "vllm", "complete", "start"),
        kvwire.Chunk(1, "u", name, 1, 0, [group]),
        kvwire.End(1, "u", name, 2, 0, "complete", len(held), sum(held) & kvwire.MASK64),
        beat(name, 3, held),
    ]


def beat(name: str, n: int, held: list[int]) -> kvwire.Beat:
    stats = kvwire.Stats(1.0, 0, 0.5, 0.25)
    return kvwire.Beat(1, "u", name, n, "complete", len(held), sum(held) & kvwire.MASK64, stats)


def asked(which: str) -> request.LookupRequest:
    fields = {"tokens": keys.pack_tokens(TOKENS)} if which == "prompt" else {"prefix_hash": b"\0" * 8}
    return request.LookupRequest(model_id="m", tenant_id="t", hash_scheme="vllm", explain=True, **fields)  # type: ignore[arg-type]


def answer(server: indexing.Indexer, which: str) -> bytes:
    known = server.index
    return answers.encode(lookup.decide(known, known.policies, asked(which), server.now()).response)


@pytest.mark.parametrize("which", ["prompt", "nobody's key"], ids=["who holds it", "who is warm"])
@pytest.mark.parametrize("silent_for", [5, 10, 40, 600], ids=lambda seconds: f"silent for {seconds} s")
async def test_two_servers_answer_alike_at_one_position_whatever_their_clocks_say(which: str, silent_for: int) -> None:
    clock = Clock()
    kv = memory.MemoryKV(clock=clock)
    await speak(kv, "one", *keyframe("one", HELD))
    await speak(kv, "other", *keyframe("other", HELD[:2]))
    servers = [
        indexing.Indexer(kv, index.Index, lambda outcome: None, clock=lambda ahead=ahead: clock.ns + ahead)  # type: ignore[misc]
        for ahead in (-2 * SECOND, 3 * SECOND)
    ]
    tasks = [asyncio.ensure_future(server.run()) for server in servers]
    await asyncio.sleep(0.05)
    for n in range(4, 4 + silent_for // 5):  # "one" is silent, the other speaks
        clock.ns += 5 * SECOND
        await speak(kv, "other", beat("other", n, HELD[:2]))
    await asyncio.sleep(0.05)
    clock.ns += SECOND // 3  # asked a moment later
    first = answer(servers[0], which)
    clock.ns += SECOND // 3  # and a moment later still
    second = answer(servers[1], which)
    for task in tasks:
        task.cancel()
    assert servers[0].index.position == servers[1].index.position == 8 + silent_for // 5
    assert first == second
    assert (b"PREFIX_MATCH" if which == "prompt" else b"TENANT_HOT") in first
