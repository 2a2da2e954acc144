"""Decisions on their way into the log: offered, else appended; whoever waits is let go once, in time, whatever happens.

Excluded: what a decision tells (test_desk), JetStream's side of an offer (tests/integration/eventstore/test_offer)."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from eventstore import envelope, events, store
from subscribers.http import recording

EVENT = events.event(
    events.ObjectGone(uid="u"),
    id="object.gone:u", source="/test", subject="wl.object.pods.ml.p", time_ns=1, actor="test",
)  # fmt: skip


class Log:
    """Takes offers when it is told to; appends at once."""

    def __init__(self, *, takes: bool = True) -> None:
        self.takes = takes
        self.waiting: list[Callable[[bool], None]] = []
        self.appended: list[envelope.Envelope] = []

    def offer(self, event: envelope.Envelope, told: Callable[[bool], None]) -> bool:
        if self.takes:
            self.waiting.append(told)
        return self.takes

    async def append(self, event: envelope.Envelope) -> None:
        self.appended.append(event)


def recorder(log: Log, **options: Any) -> recording.Recorder:
    return recording.Recorder(log.append, log.offer, **options)


async def test_an_offer_that_is_stored_lets_go_within_the_call() -> None:
    log, let_go = Log(), list[str]()
    made = recorder(log)
    made.put(EVENT, lambda: let_go.append("one"))
    assert (let_go, made.queued) == ([], 1)
    log.waiting[0](True)
    assert let_go == ["one"]
    assert (made.stored, made.queued, made.queued_bytes, log.appended) == (1, 0, 0, [])


@pytest.mark.parametrize("takes", [True, False])
async def test_what_the_log_does_not_take_or_does_not_know_is_appended(takes: bool) -> None:
    log, let_go = Log(takes=takes), asyncio.Event()
    made = recorder(log)
    made.put(EVENT, let_go.set)
    for told in log.waiting:
        told(False)
    assert not let_go.is_set()
    await let_go.wait()
    assert (log.appended, made.stored, made.queued) == ([EVENT], 1, 0)


async def test_nobody_waits_longer_than_20_ms_and_nobody_is_let_go_twice() -> None:
    log, let_go = Log(), list[float]()
    clock = asyncio.get_running_loop().time
    made, began = recorder(log), clock()
    made.put(EVENT, lambda: let_go.append(clock() - began))
    while not let_go:
        await asyncio.sleep(0.001)
    assert let_go[0] >= recording.WAIT
    assert made.queued == 1, "it is still on its way"
    log.waiting[0](True)
    assert (len(let_go), made.stored, made.queued) == (1, 1, 0)


async def test_an_answer_that_fails_does_not_reach_whoever_reads_acknowledgements() -> None:
    log, let_go = Log(), list[str]()
    made = recorder(log)

    def fails() -> None:
        raise RuntimeError("the client's transport")

    made.put(EVENT, fails)
    made.put(EVENT, lambda: let_go.append("two"))
    for told in log.waiting:
        told(True)
    assert (let_go, made.stored) == (["two"], 2)


async def test_a_drain_waits_for_offers_lets_all_go_and_begins_nothing_after() -> None:
    log, let_go = Log(), list[str]()
    made = recorder(log, wait=60.0)
    made.put(EVENT, lambda: let_go.append("one"))
    made.put(EVENT, lambda: let_go.append("two"))
    draining = asyncio.create_task(made.drain(0.05))
    await asyncio.sleep(0)
    log.waiting[0](True)
    assert let_go == ["one"]
    assert await draining == 1
    assert let_go == ["one", "two"]
    log.waiting[1](False)  # the log was closed
    await asyncio.sleep(0)
    assert log.appended == []


async def test_a_drain_ends_with_the_last_event() -> None:
    log = Log()
    made = recorder(log)
    made.put(EVENT, lambda: None)
    draining = asyncio.create_task(made.drain(60.0))
    await asyncio.sleep(0)
    log.waiting[0](True)
    assert await asyncio.wait_for(draining, 1.0) == 0


async def test_without_offers_events_are_appended() -> None:
    log, let_go = Log(), asyncio.Event()
    made = recording.Recorder(log.append)
    made.put(EVENT, let_go.set)
    await let_go.wait()
    assert log.appended == [EVENT]


async def test_what_is_full_lets_go_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "MOST", 1)
    log, let_go = Log(), list[str]()
    made = recorder(log)
    made.put(EVENT, lambda: let_go.append("one"))
    made.put(EVENT, lambda: let_go.append("two"))
    assert (let_go, made.dropped, len(log.waiting)) == (["two"], 1, 1)


async def test_a_refusal_for_good_is_counted_and_lets_go() -> None:
    log, let_go = Log(takes=False), asyncio.Event()

    async def refuses(event: envelope.Envelope) -> None:
        raise store.TooLarge("257 KiB")

    made = recording.Recorder(refuses, log.offer)
    made.put(EVENT, let_go.set)
    await let_go.wait()
    assert (made.refused, made.queued) == (1, 0)


async def test_a_defect_of_the_log_is_tried_again_and_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "AGAIN", 0.01)
    log, let_go, told = Log(), list[str](), list[Callable[[bool], None]]()
    tries = 0

    def offer(event: envelope.Envelope, acknowledged: Callable[[bool], None]) -> bool:
        told.append(acknowledged)
        raise RuntimeError("unable to perform operation; the handler is closed")

    async def append(event: envelope.Envelope) -> None:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise RuntimeError("unable to perform operation; the handler is closed")
        await log.append(event)

    made = recording.Recorder(append, offer)
    made.put(EVENT, lambda: let_go.append("one"))
    told[0](True)  # it was on its way all the same
    assert await made.drain(5.0) == 0
    assert (let_go, log.appended, made.stored, made.queued, made.queued_bytes) == (["one"], [EVENT], 1, 0, 0)


async def test_an_answer_that_fails_where_the_queue_is_full_is_not_told_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "MOST", 0)

    def fails() -> None:
        raise RuntimeError("the client's transport")

    made = recorder(Log())
    made.put(EVENT, fails)
    assert made.dropped == 1
