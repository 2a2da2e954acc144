"""A connection's state as facts, with time as an argument. Excluded: socket monitors."""

import pytest

from subscribers.kvevents import facts, link

CONNECTED, DISCONNECTED, REFUSED = link.Event.CONNECTED, link.Event.DISCONNECTED, link.Event.REFUSED
START = link.Link(endpoint="tcp://h:5557", since=100.0, silent_after=130.0)


def after(*events: tuple[link.Event, float], start: link.Link = START) -> tuple[link.Link, list[facts.Fact]]:
    """The link after these events, and what was said."""
    said: list[facts.Fact] = []
    for event, at in events:
        start, fact = link.changed(start, event, at)
        said += [fact] if fact else []
    return start, said


def test_connecting_and_losing_the_connection_are_said_once() -> None:
    _, said = after((REFUSED, 100.1), (CONNECTED, 101), (CONNECTED, 101), (DISCONNECTED, 102), (DISCONNECTED, 102))
    assert said == [facts.Connected("tcp://h:5557"), facts.Disconnected("tcp://h:5557")]


def test_an_engine_is_gone_two_seconds_after_a_disconnect_when_it_is_refused() -> None:
    lost, _ = after((CONNECTED, 101), (DISCONNECTED, 110), (REFUSED, 110.1))
    lost = link.heard(lost)
    assert link.due(lost) == 112.0
    assert link.ticked(lost, 111.9)[1] is None
    gone, fact = link.ticked(lost, 112.0)
    assert fact == facts.Gone("tcp://h:5557", 2.0)
    assert link.ticked(gone, 200.0)[1] is None
    assert link.due(gone) is None


NOT_GONE = {
    "never connected": [(REFUSED, 100.1)],
    "not refused": [(CONNECTED, 101.0), (DISCONNECTED, 110.0)],
    "back again": [(CONNECTED, 101.0), (DISCONNECTED, 110.0), (REFUSED, 110.1), (CONNECTED, 111.0)],
}


@pytest.mark.parametrize("events", NOT_GONE.values(), ids=NOT_GONE)
def test_an_engine_is_not_gone_when(events: list[tuple[link.Event, float]]) -> None:
    standing, _ = after(*events)
    assert link.ticked(link.heard(standing), 1e6)[1] is None


def test_an_engine_that_came_back_can_be_gone_again() -> None:
    life = [(CONNECTED, 1.0), (DISCONNECTED, 2.0), (REFUSED, 2.1)]
    gone, _ = link.ticked(link.heard(after(*life)[0]), 4.0)
    again, said = after((CONNECTED, 5.0), (DISCONNECTED, 6.0), (REFUSED, 6.1), start=gone)
    assert len(said) == 2
    assert isinstance(link.ticked(again, 8.0)[1], facts.Gone)


ADVICE = {
    "nothing listens": ([(REFUSED, 100.1)], "", "nothing listens on tcp://h:5557"),
    "connected": ([(CONNECTED, 101.0)], "", "--kv-events-config"),
    "a topic that is not there": ([(CONNECTED, 101.0)], "kv-events", "--topic"),
}


@pytest.mark.parametrize(("events", "topic", "says"), ADVICE.values(), ids=ADVICE)
def test_silence_is_explained_once(events: list[tuple[link.Event, float]], topic: str, says: str) -> None:
    start = link.Link(endpoint="tcp://h:5557", topic=topic, since=100.0, silent_after=130.0)
    standing, _ = after(*events, start=start)
    assert link.due(standing) == 130.0
    standing, fact = link.ticked(standing, 130.0)
    assert isinstance(fact, facts.Silent)
    assert says in fact.advice
    assert "\n" not in fact.advice
    assert link.ticked(standing, 1e6)[1] is None


def test_an_engine_that_was_heard_is_not_silent() -> None:
    assert link.ticked(link.heard(START), 1e6) == (link.heard(START), None)
