"""Quotas and the cap: what is hidden, in which order, and what brings it back."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handlers.prefixindex import index, keys, lookup, policies, request, views
from tests.support import kvspeaker


class Scene:
    """Replicas of one tenant under a quota or a cap."""

    def __init__(self, *, quota: int | None = None, cap: int = 10**9, eviction: Any = "LRU") -> None:
        self.stream = kvspeaker.Stream(index.Index(cap=cap))
        self.eviction = eviction
        self.speakers: dict[str, kvspeaker.Speaker] = {}
        self.quota(quota)

    def quota(self, most: int | None) -> None:
        quotas = {} if most is None else {"t": most}
        policy = policies.Policy(eviction=self.eviction, minimum_matched_tokens=0)
        self.stream.index.govern(policies.Policies(tenancy={"t": policy}, quotas=quotas))

    def speaker(self, name: str = "r") -> kvspeaker.Speaker:
        if name not in self.speakers:
            self.speakers[name] = kvspeaker.Speaker(name)
            self.stream.start(self.speakers[name])
        return self.speakers[name]

    def store(self, *keys: int, name: str = "r", tiers: int = 1, adapter: str = "") -> None:
        speaker = self.speaker(name)
        self.stream.put(speaker, speaker.ops({(adapter, key): tiers for key in keys}))

    def hit(self, key: int) -> None:
        asked = request.LookupRequest(
            tenant_id="t", model_id="m", hash_scheme="vllm", prefix_hash=keys.to_wire(key), prefix_token_count=64
        )
        decision = lookup.decide(self.stream.index, self.stream.index.policies, asked, self.stream.now)
        assert decision.response.reason_code == "PREFIX_MATCH"
        if decision.credit is not None:
            self.stream.index.credit(decision.credit)

    def holders(self, key: int, adapter: str = "") -> set[str]:
        place = self.stream.index.domain_of("t", "m", "vllm", adapter)
        return set() if place is None else {owner.name for owner, _ in place.members(place.holders_of(key))}

    def visible(self, upto: int = 30) -> list[int]:
        return [key for key in range(upto) if self.holders(key)]

    @property
    def evictions(self) -> int:
        return self.stream.index.limits.tenant_evictions["t"]


def test_a_quota_hides_the_key_that_changed_longest_ago() -> None:
    scene = Scene(quota=2)
    for key in (1, 2, 3):
        scene.store(key)
    assert (scene.visible(), scene.evictions) == ([2, 3], 1)


def test_a_change_makes_a_key_young() -> None:
    scene = Scene(quota=2)
    for key in (1, 2, 1, 3):
        scene.store(key)
    assert scene.visible() == [1, 3]


def test_of_one_message_the_smaller_key_is_older() -> None:
    scene = Scene(quota=2)
    scene.store(9, 3, 7, 5)
    assert scene.visible() == [7, 9]


def test_over_adapters_the_order_is_age_then_adapter_then_key() -> None:
    scene = Scene(quota=3)
    speaker = scene.speaker()
    scene.stream.put(speaker, speaker.ops({("b", 1): 1, ("a", 5): 1, ("a", 6): 1, ("", 9): 1}))
    assert [adapter for adapter in ("", "a", "b") for key in (9, 5, 6, 1) if scene.holders(key, adapter)] == [
        "a",
        "a",
        "b",
    ]


def test_a_key_is_hidden_with_all_its_replicas_and_a_change_on_one_shows_it_again() -> None:
    scene = Scene(quota=1)
    scene.store(1, name="a")
    scene.store(1, name="b")
    scene.store(2, name="a")
    assert (scene.holders(1), scene.holders(2)) == (set(), {"a"})
    scene.store(1, name="b")
    assert (scene.holders(1), scene.holders(2)) == ({"a", "b"}, set())


def test_what_is_hidden_stays_in_the_digest() -> None:
    scene = Scene(quota=1)
    scene.store(1, 2, 3)
    assert scene.stream.put(scene.speaker(), scene.speaker().beat()) == []
    assert scene.stream.index.fleet["t", "r"].state == "complete"
    assert scene.stream.index.fleet["t", "r"].blocks == 3
    assert list(scene.stream.index.dump())[1:] == [
        "block t/m/vllm/ 0000000000000001 r tier=1 hidden",
        "block t/m/vllm/ 0000000000000002 r tier=1 hidden",
        "block t/m/vllm/ 0000000000000003 r tier=1",
    ]


def test_a_keyframe_refreshes_nothing() -> None:
    scene = Scene(quota=2)
    scene.store(1, name="a")
    scene.store(2, 3, name="b")
    assert scene.visible() == [2, 3]
    scene.stream.put(scene.speaker("a"), *scene.speaker("a").keyframe("interval"))
    assert scene.visible() == [2, 3], "key 1 is still hidden"
    scene.stream.put(scene.speaker("b"), *scene.speaker("b").keyframe("interval"))
    scene.store(4, name="a")
    assert scene.visible() == [3, 4], "key 2 is still the oldest"


@pytest.mark.parametrize("swept", [False, True])
def test_a_restart_refreshes_nothing_whether_the_sweep_came_first_or_not(swept: bool) -> None:
    scene = Scene(quota=3)
    scene.store(1, 2, name="a")
    for key in (3, 4):
        scene.store(key, name="b")
    assert scene.visible() == [2, 3, 4]
    again = kvspeaker.Speaker("a", "s2").holds([1, 2])
    scene.stream.put(again, again.begin())
    if swept:
        scene.stream.upkeep()
        assert scene.visible() == [3, 4]
    scene.stream.put(again, again.chunk(), again.end())
    scene.stream.upkeep()
    assert scene.visible() == [2, 3, 4]
    scene.store(5, name="b")
    assert scene.visible() == [3, 4, 5]


def test_a_removed_key_makes_room() -> None:
    scene = Scene(quota=2)
    scene.store(1)
    scene.store(2)
    scene.store(1, tiers=0)
    scene.store(3)
    assert (scene.visible(), scene.evictions) == ([2, 3], 0)


def test_a_hidden_key_that_is_removed_is_forgotten() -> None:
    scene = Scene(quota=1)
    scene.store(1)
    scene.store(2)
    scene.store(1, tiers=0)
    place = scene.stream.index.domain_of("t", "m", "vllm", "")
    assert place is not None
    assert (place.hidden, place.visibility.parked) == ({}, {})


def test_a_quota_of_zero_keeps_nothing() -> None:
    scene = Scene(quota=0)
    scene.store(1, 2)
    assert (scene.visible(), scene.evictions) == ([], 2)


def test_a_quota_that_comes_later_counts_what_was_there_in_the_order_of_creation() -> None:
    scene = Scene()
    for key in (8, 3, 5):
        scene.store(key)
    scene.quota(2)
    assert scene.visible() == [3, 5]


def test_a_higher_quota_brings_the_newest_hidden_keys_back() -> None:
    scene = Scene(quota=1)
    for key in (1, 2, 3, 4):
        scene.store(key)
    scene.quota(3)
    assert scene.visible() == [2, 3, 4]
    scene.quota(2)
    assert scene.visible() == [3, 4]
    scene.quota(None)
    assert scene.visible() == [1, 2, 3, 4]
    place = scene.stream.index.domain_of("t", "m", "vllm", "")
    assert place is not None
    assert not place.special, "without a limit the fast path is taken again"


def test_another_tenant_is_not_concerned() -> None:
    scene = Scene(quota=1)
    other = kvspeaker.Speaker("r", tenant="u").holds([1, 2, 3])
    scene.stream.start(other)
    scene.store(1, 2)
    assert views.snapshot(scene.stream.index).total_prefixes == 3 + 1


def test_a_walk_ends_at_a_hidden_key() -> None:
    scene = Scene(quota=3)
    for key in (5, 1, 2, 3):
        scene.store(key)
    place = scene.stream.index.domain_of("t", "m", "vllm", "")
    assert place is not None
    assert [length for length, _ in place.runs([1, 2, 5, 3])] == [2]
    assert place.runs([5]) == []


@settings(max_examples=150, deadline=None)
@given(
    st.integers(0, 6),
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 10), st.sampled_from([1, 1, 1, 0])), max_size=40),
)
def test_a_quota_keeps_what_a_plain_list_by_age_would_keep(quota: int, flow: list[tuple[str, int, int]]) -> None:
    scene = Scene(quota=quota)
    held: dict[str, set[int]] = {name: set() for name in "abc"}
    ages: list[int] = []  # visible keys, oldest first
    for name, key, tiers in flow:
        scene.store(key, name=name, tiers=tiers)
        if tiers:
            held[name].add(key)
            ages = [*(each for each in ages if each != key), key]
        else:
            held[name].discard(key)
            if not any(key in keys for keys in held.values()):
                ages = [each for each in ages if each != key]
        ages = ages[max(0, len(ages) - quota) :]
        assert scene.visible(12) == sorted(ages)
        assert all(scene.holders(key) == {each for each in held if key in held[each]} for key in ages)


# Cap -----------------------------------------------------------------------------------------------------------------


def cap_scene(cap: int, eviction: str = "LRU") -> Scene:
    return Scene(cap=cap, eviction=eviction)


def test_the_cap_counts_holds_and_hides_the_oldest_ones() -> None:
    scene = cap_scene(4)
    for key in (1, 2, 3):
        scene.store(key, name="a")
        scene.store(key, name="b")
        scene.stream.upkeep()
    assert sum(len(scene.holders(key)) for key in (1, 2, 3)) == 4
    assert (scene.holders(2), scene.holders(3)) == ({"a", "b"}, {"a", "b"})
    assert scene.stream.index.limits.index_evictions == {("lru", "cap"): 2}


def test_within_one_key_the_replica_decides() -> None:
    scene = cap_scene(1)
    scene.store(1, name="b")
    scene.store(1, name="a")
    scene.stream.upkeep()
    assert scene.holders(1) == {"b"}


def test_where_the_policy_says_lfu_the_least_used_goes_first() -> None:
    scene = cap_scene(2, "LFU")
    scene.store(1)
    scene.store(2)
    scene.hit(1)
    scene.store(3)
    scene.stream.upkeep()
    assert scene.visible() == [1, 3]
    assert scene.stream.index.limits.index_evictions == {("lfu", "cap"): 1}


def test_credit_survives_a_keyframe() -> None:
    scene = cap_scene(2, "LFU")
    scene.store(1)
    scene.store(2)
    scene.hit(1)
    scene.stream.put(scene.speaker(), *scene.speaker().keyframe("interval"))
    scene.stream.upkeep()
    scene.store(3)
    scene.stream.upkeep()
    assert scene.visible() == [1, 3]


def test_what_the_cap_hid_stays_hidden_over_a_keyframe_and_comes_back_when_stored_anew() -> None:
    scene = cap_scene(2)
    for key in (1, 2, 3):
        scene.store(key)
    scene.stream.upkeep()
    assert scene.visible() == [2, 3]
    scene.stream.put(scene.speaker(), *scene.speaker().keyframe("interval"))
    scene.stream.upkeep()
    assert scene.visible() == [2, 3]
    scene.store(1)
    scene.stream.upkeep()
    assert scene.visible() == [1, 3]


def test_when_the_index_shrinks_well_below_the_cap_all_comes_back() -> None:
    scene = cap_scene(10)
    for key in range(1, 13):
        scene.store(key)
    scene.stream.upkeep()
    assert len(scene.visible()) == 10
    scene.store(*range(4, 13), tiers=0)
    scene.stream.upkeep()
    assert scene.visible() == [1, 2, 3]


def test_the_reserved_tenant_counts_nowhere() -> None:
    scene = cap_scene(2)
    probe = kvspeaker.Speaker("p", tenant=policies.RESERVED).holds([1, 2, 3])
    scene.stream.start(probe)
    scene.store(7, 8)
    scene.stream.upkeep()
    assert scene.visible() == [7, 8]
    assert scene.stream.index.limits.index_evictions == {}


def test_the_cap_is_looked_at_in_slices() -> None:
    scene = cap_scene(5000)
    scene.store(*range(1, 4001), name="a")
    scene.store(*range(1, 4001), name="b")
    slices = 0
    while scene.stream.index.upkeep(1024):
        slices += 1
    assert 5 <= slices <= 20
    assert sum(len(scene.holders(key)) for key in range(1, 4001)) == 5000
    assert scene.stream.index.upkeep() == 0, "nothing is left to do until something changes"
