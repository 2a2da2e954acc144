"""What the memory implementations add to the contract: faults on request, the KV log, the bus, NATS wildcards."""

import asyncio
import contextlib

import pytest

from eventstore import memory, store

SUBJECTS = {
    "literal": ("wl.a.b", "wl.a.b", True),
    "one token": ("wl.a.b", "wl.*.b", True),
    "a star is one token": ("wl.a.b", "wl.*", False),
    "the rest": ("wl.a.b", "wl.>", True),
    "the rest is one or more": ("wl", "wl.>", False),
    "shorter": ("wl.a", "wl.a.b", False),
    "longer": ("wl.a.b.c", "wl.a.b", False),
    "everything": ("a", ">", True),
}


@pytest.mark.parametrize(("subject", "pattern", "answer"), SUBJECTS.values(), ids=SUBJECTS)
def test_wildcards_match_as_in_nats(subject: str, pattern: str, answer: bool) -> None:
    assert memory.matches(subject, pattern) is answer


async def test_the_kv_log_is_published_and_followed() -> None:
    kv = memory.MemoryKV()
    assert await kv.publish("wlkv.1.t.r", b"a") == 1
    async with contextlib.aclosing(kv.read(follow=True)) as chunks:
        assert [(one.sequence, one.subject, one.payload) for one in await anext(chunks)] == [(1, "wlkv.1.t.r", b"a")]
        assert await anext(chunks) == []
        waiting = asyncio.ensure_future(anext(chunks))
        await asyncio.sleep(0)
        await kv.publish("wlkv.1.t.r", b"b")
        assert [one.payload for one in await waiting] == [b"b"]


async def test_faults_are_what_a_network_does() -> None:
    kv = memory.MemoryKV()
    kv.faults.lose_acks = 1
    with pytest.raises(store.Unavailable, match="may be stored"):
        await kv.publish("s", b"stored, not acknowledged")
    kv.faults.drop = 1
    with pytest.raises(store.Unavailable, match="may be stored"):
        await kv.publish("s", b"neither")
    kv.faults.outage = True
    with pytest.raises(store.Unavailable, match="nothing was sent"):
        await kv.publish("s", b"nor this")
    kv.faults.outage = False
    assert await kv.publish("s", b"this") == 2
    found = [one async for chunk in kv.read() for one in chunk]
    assert [one.payload for one in found] == [b"stored, not acknowledged", b"this"]


async def test_retention_drops_the_beginning_and_numbers_go_on() -> None:
    kv = memory.MemoryKV()
    for number in range(5):
        await kv.publish("s", b"%d" % number)
    kv.retain(4)
    assert (await kv.extent())[:2] == (4, 5)
    assert [one.sequence async for chunk in kv.read(after=1) for one in chunk] == [4, 5]
    assert await kv.publish("s", b"x") == 6
    kv.retain(99)
    assert (await kv.extent())[:2] == (7, 6)


async def test_a_lost_end_is_told_to_a_reader_that_saw_it() -> None:
    kv = memory.MemoryKV()
    for number in range(3):
        await kv.publish("s", b"%d" % number)
    async with contextlib.aclosing(kv.read(follow=True)) as chunks:
        await anext(chunks)
        kv.lose_end(1)
        await kv.log.wake()
        with pytest.raises(store.Regressed):
            await exhaust(chunks)
    assert (await kv.extent()).incarnation.endswith(".1")


async def exhaust(chunks: contextlib.AbstractAsyncContextManager[object]) -> None:
    async for _ in chunks:  # type: ignore[attr-defined]
        pass


async def test_the_bus_hears_serves_and_says_when_nobody_listens() -> None:
    bus = memory.MemoryBus()
    heard: list[bytes] = []

    async def reverse(payload: bytes) -> bytes:
        return payload[::-1]

    async def never(payload: bytes) -> bytes:
        await asyncio.sleep(60)
        return payload

    await bus.hear("wlkv.ctl.*.r", heard.append)
    await bus.serve("wlq.lookup", reverse, queue="q")
    await bus.serve("wlq.slow", never)
    await bus.send("wlkv.ctl.t.r", b"x")
    await bus.send("wlkv.ctl.t.other", b"y")
    assert heard == [b"x"]
    assert await bus.request("wlq.lookup", b"abc", timeout=1) == b"cba"
    with pytest.raises(store.Unavailable, match=r"nobody listens on wlq\.none"):
        await bus.request("wlq.none", b"", timeout=1)
    with pytest.raises(store.Unavailable, match=r"within 0\.01 s"):
        await bus.request("wlq.slow", b"", timeout=0.01)
    bus.faults.outage = True
    await bus.send("wlkv.ctl.t.r", b"lost")
    assert heard == [b"x"]
