"""The index against the subscribers' own tables, under everything that a stream can do to their messages.

Random replicas change, send keyframes, restart, lose messages, are heard twice and are haunted by older sessions. What
must hold after every message: a replica that counts holds exactly what its subscriber held when it said that message,
and walks find exactly the leading runs of those tables.
"""

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from eventstore import kvwire
from handlers.prefixindex import index, outcomes
from tests.support import kvspeaker

KEYS = st.integers(1, 12).map(lambda number: number * 0x9E3779B97F4A7C15 & kvwire.MASK64)
ADAPTERS = st.sampled_from(["", "", "", "sql"])
STATES = st.dictionaries(
    st.tuples(ADAPTERS, KEYS), st.sampled_from([0, 0, 1, 1, 1, 2, 3, 4, 6]), min_size=1, max_size=6
)

STEP = st.one_of(
    st.tuples(st.just("ops"), STATES),
    st.tuples(st.just("ops"), STATES),
    st.tuples(st.just("beat"), st.none()),
    st.tuples(st.just("begin"), st.sampled_from(["asked", "interval", "gap", "cleared", "outage"])),
    st.tuples(st.just("chunk"), st.none()),
    st.tuples(st.just("end"), st.none()),
    st.tuples(st.just("restart"), st.none()),
    st.tuples(st.just("bye"), st.none()),
    st.tuples(st.just("again"), st.integers(1, 4)),
    st.tuples(st.just("zombie"), STATES),
    st.tuples(st.just("lose"), STATES),
    st.tuples(st.just("upkeep"), st.integers(1, 3)),
)
FLOW = st.lists(st.tuples(st.integers(0, 2), STEP), max_size=60)


class World:
    """Three replicas, their subscribers' current and older sessions, and the stream between them and the index."""

    def __init__(self) -> None:
        self.stream = kvspeaker.Stream()
        self.speakers = [self._speaker(number, 0) for number in range(3)]
        self.open = [False] * 3  # a keyframe under way
        self.unsent: list[set[tuple[str, int]]] = [set() for _ in range(3)]
        self.dead = [False] * 3
        self.zombies: list[kvspeaker.Speaker | None] = [None] * 3
        self.lives = [0] * 3
        self.said: list[tuple[kvspeaker.Speaker, bytes]] = []
        for number, speaker in enumerate(self.speakers):
            self._put(number, speaker.begin())
            self._put(number, speaker.end())

    def _speaker(self, number: int, life: int) -> kvspeaker.Speaker:
        return kvspeaker.Speaker(f"r{number}", f"s{number}.{life}", uid=f"uid-{life // 2}")

    def _put(self, number: int, payload: bytes) -> list[outcomes.Outcome]:
        speaker = self.speakers[number]
        self.said.append((speaker, payload))
        found = self.stream.put(speaker, payload)
        speaker.rank = speaker.rank or self.stream.sequence
        return found

    def step(self, number: int, kind: str, what: Any) -> None:
        speaker = self.speakers[number]
        if self.dead[number] and kind in ("ops", "beat", "begin", "chunk", "end", "bye", "lose"):
            return
        if kind == "ops":
            before = set(speaker.table)
            self._put(number, speaker.ops(what))
            self.unsent[number] &= before & set(speaker.table)
        elif kind == "beat":
            self._put(number, speaker.beat())
        elif kind == "begin":
            if what == "cleared":
                speaker.table.clear()
            self._put(number, speaker.begin(what))
            self.open[number], self.unsent[number] = True, set(speaker.table)
        elif kind == "chunk" and self.open[number]:
            part = sorted(self.unsent[number])[:4]
            self.unsent[number] -= set(part)
            self._put(number, speaker.chunk(part))
        elif kind == "end" and self.open[number]:
            self._put(number, speaker.chunk(self.unsent[number]))
            self._put(number, speaker.end())
            self.open[number] = False
        elif kind == "restart":
            self.zombies[number] = speaker
            self.lives[number] += 1
            self.speakers[number] = fresh = self._speaker(number, self.lives[number])
            self.dead[number] = False
            self._put(number, fresh.begin())
            self.open[number], self.unsent[number] = True, set()
        elif kind == "bye":
            self._put(number, speaker.bye("gone"))
            self.dead[number] = True
        elif kind == "again" and self.said:
            for old, payload in self.said[-what:]:
                before = list(self.stream.index.dump())
                self.stream.put(old, payload)
                assert list(self.stream.index.dump()) == before, "a redelivered message changed something"
        elif kind == "zombie" and (zombie := self.zombies[number]) is not None:
            before = list(self.stream.index.dump())
            self.stream.put(zombie, zombie.ops(what))
            self.stream.put(zombie, zombie.begin("asked"))
            assert list(self.stream.index.dump()) == before, "an older session changed something"
        elif kind == "lose":
            speaker.ops(what)  # said, numbered, and never stored
            self.unsent[number] &= set(speaker.table)
        elif kind == "upkeep":
            self.stream.index.upkeep(what)

    def check(self) -> None:
        for number, speaker in enumerate(self.speakers):
            replica = self.stream.index.fleet["t", speaker.replica]
            assert replica.session == speaker.session
            held = self.stream.contents(speaker)
            if held is not None:
                assert held == kvspeaker.warmest(speaker.truth[replica.n]), f"replica {number} at n {replica.n}"
            if self.dead[number]:
                assert replica.state == "gone"
        for adapter in ("", "sql"):
            self.walks(adapter)

    def walks(self, adapter: str) -> None:
        place = self.stream.index.domain_of("t", "m", "vllm", adapter)
        tables = {
            speaker.replica: {key for where, key in held if where == adapter}
            for speaker in self.speakers
            if (held := self.stream.contents(speaker)) is not None
        }
        chain = [number * 0x9E3779B97F4A7C15 & kvwire.MASK64 for number in range(1, 13)]
        for start in range(0, 12, 3):
            keys = chain[start:] + chain[:start]
            found = {}
            for length, mask in place.runs(keys) if place is not None else []:
                for owner, _ in place.members(mask) if place is not None else ():
                    found[owner.name] = length
            assert found == {name: run for name, table in tables.items() if (run := leading(keys, table))}


def leading(keys: list[int], table: set[int]) -> int:
    length = 0
    while length < len(keys) and keys[length] in table:
        length += 1
    return length


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(FLOW)
def test_what_counts_is_what_the_subscriber_held(flow: list[tuple[int, tuple[str, Any]]]) -> None:
    world = World()
    for number, (kind, what) in flow:
        world.step(number, kind, what)
        world.check()
    again = index.Index()
    for stored in world.stream.stored:
        again.apply(*stored)
    world.stream.upkeep()
    assert list(again.dump()) == list(world.stream.index.dump()), "upkeep, or a second fold, changed what counts"


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(FLOW)
def test_after_a_keyframe_everything_counts_again(flow: list[tuple[int, tuple[str, Any]]]) -> None:
    world = World()
    for number, (kind, what) in flow:
        world.step(number, kind, what)
    for number, speaker in enumerate(world.speakers):
        if not world.dead[number]:
            world.stream.put(speaker, *speaker.keyframe("asked"), speaker.beat())
            assert world.stream.index.fleet["t", speaker.replica].state == "complete"
            assert world.stream.contents(speaker) == kvspeaker.warmest(speaker.table)
    world.stream.upkeep()
    for place in world.stream.index.domains.values():
        assert not place.busy
        assert all(mask & place.alive for mask in place.held.values()), "a swept domain keeps nothing that is dead"


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=80), st.sampled_from(["wlkv.1.t.r", "wlkv.99.t.r", "wlkv.1.%ZZ.r", "other", ""]))
def test_any_bytes_are_skipped_with_a_reason(payload: bytes, subject: str) -> None:
    known = index.Index()
    (skipped,) = known.apply(1, kvspeaker.START, subject, payload)
    assert isinstance(skipped, outcomes.Skipped)
    assert skipped.reason
    assert "\n" not in skipped.reason
    assert list(known.dump()) == []
