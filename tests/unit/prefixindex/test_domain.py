"""Masks, walks, tiers and upkeep of one domain. Excluded: sessions and digests (test_replicas, test_model)."""

import random

import pytest

from eventstore import kvwire
from handlers.prefixindex import domain, holdings, replicas

RNG = random.Random(5)
CHAIN = [RNG.getrandbits(64) for _ in range(300)]


def make(*names: str) -> tuple[domain.Domain, dict[str, holdings.Holding]]:
    place = domain.Domain(domain.DomainKey("t", "m", "vllm", ""))
    held = {name: place.open(replicas.Replica("t", name, lambda key: place)) for name in names}
    for holding in held.values():
        place.admit(holding)
    return place, held


def tell(holding: holdings.Holding, keys: list[int], tiers: int = 1, size: int = 16) -> None:
    column = kvwire.Group("", size, kvwire.pack_keys(keys), bytes([tiers]) * len(keys))
    assert holdings.flaw([column]) is None
    holding.apply(column, 1, change=True)


def lengths(place: domain.Domain, keys: list[int]) -> dict[str, int]:
    runs = place.runs(keys)
    return {owner.name: length for length, mask in runs for owner, _ in place.members(mask)}


@pytest.mark.parametrize("length", [1, 2, 63, 64, 65, 128, 129, 300])
def test_a_run_ends_where_the_first_key_is_missing(length: int) -> None:
    place, held = make("a")
    tell(held["a"], CHAIN[:length])
    assert lengths(place, CHAIN) == {"a": length}


def test_a_replica_need_not_hold_every_ancestor() -> None:
    place, held = make("whole", "hole", "tail")
    tell(held["whole"], CHAIN[:200])
    tell(held["hole"], CHAIN[:70] + CHAIN[71:200])
    tell(held["tail"], CHAIN[1:200])
    assert lengths(place, CHAIN) == {"whole": 200, "hole": 70}


def test_what_two_replicas_hold_in_turns_is_a_run_of_neither() -> None:
    place, held = make("even", "odd")
    tell(held["even"], CHAIN[::2])
    tell(held["odd"], CHAIN[1::2])
    assert lengths(place, CHAIN) == {"even": 1}


def test_an_empty_question_and_an_empty_domain_have_no_runs() -> None:
    place, held = make("a")
    assert place.runs(CHAIN) == []
    tell(held["a"], CHAIN[:3])
    assert place.runs([]) == []


def test_dropping_a_replica_forgets_it_at_once_and_sweeps_it_in_slices() -> None:
    place, held = make("a", "b")
    tell(held["a"], CHAIN[:100])
    tell(held["b"], CHAIN[50:150])
    place.drop(held["a"])
    assert lengths(place, CHAIN) == {}
    assert len(place.held) == 150
    assert place.visible() == 100
    assert place.sweep(30) == 30
    assert len(place.held) == 120
    while place.sweep(30):
        pass
    assert place.held.keys() == set(CHAIN[50:150])
    assert not place.busy


def test_a_bit_is_used_again_only_after_its_sweep() -> None:
    place, held = make("a")
    tell(held["a"], CHAIN[:10])
    place.drop(held["a"])
    meanwhile = place.open(held["a"].owner)
    assert meanwhile.bit != held["a"].bit
    while place.sweep():
        pass
    assert place.open(held["a"].owner).bit == held["a"].bit
    assert place.held == {}


def test_churn_does_not_let_a_log_grow_for_ever() -> None:
    place, held = make("a")
    holding = held["a"]
    for turn in range(400):
        tell(holding, CHAIN[:100], turn % 2)
        tell(holding, [turn + 1])
        place.compact(64)
    while holding.wasteful:
        assert place.compact(64)
    assert len(holding.log) <= 2 * holding.count + 8192
    place.drop(holding)
    while place.sweep(64):
        pass
    assert place.held == {}, "a compacted log still names every key that is held"


def test_compaction_under_way_survives_changes_and_a_drop() -> None:
    place, held = make("a", "b")
    for turn in range(200):
        tell(held["a"], CHAIN[:100], turn % 2)
    assert held["a"].wasteful
    place.compact(10)
    tell(held["a"], CHAIN[:50], 1)
    tell(held["b"], CHAIN[:5])
    place.drop(held["a"])
    while place.compact(10):
        pass
    while place.sweep(10):
        pass
    assert place.held.keys() == set(CHAIN[:5])


TIERS = {
    "T1 alone": (1, 1),
    "T2 alone": (2, 2),
    "T1 and T2 count as T1": (3, 1),
    "T3 alone": (4, 4),
    "T2 and T3 count as T2": (6, 2),
    "all": (7, 1),
}


@pytest.mark.parametrize(("said", "kept"), TIERS.values(), ids=TIERS)
@pytest.mark.parametrize("count", [1, 3])
def test_the_warmest_tier_of_a_block_is_kept(said: int, kept: int, count: int) -> None:
    place, held = make("a", "b")
    tell(held["b"], CHAIN[:count])
    tell(held["a"], CHAIN[:count], said)
    assert place.coldest(CHAIN[:count], held["a"].bit) == kept
    assert place.coldest(CHAIN[:count], held["b"].bit) == 1
    tell(held["a"], CHAIN[:count], 1)
    assert place.coldest(CHAIN[:count], held["a"].bit) == 1
    assert not any(place.colder.values())


def test_the_coldest_block_names_the_tier_of_a_run() -> None:
    place, held = make("a")
    tell(held["a"], CHAIN[:10])
    tell(held["a"], CHAIN[4:5], 4)
    tell(held["a"], CHAIN[2:3], 2)
    assert [place.coldest(CHAIN[:length], held["a"].bit) for length in (2, 4, 10)] == [1, 2, 4]


def test_sweeping_forgets_colder_tiers_too() -> None:
    place, held = make("a", "b")
    tell(held["a"], CHAIN[:4], 2)
    tell(held["b"], CHAIN[:2], 2)
    place.drop(held["a"])
    while place.sweep():
        pass
    assert place.colder[2].keys() == set(CHAIN[:2])


def test_block_sizes_are_known_while_a_replica_uses_them() -> None:
    place, held = make("a", "b")
    tell(held["a"], CHAIN[:2], size=16)
    tell(held["b"], CHAIN[2:4], size=32)
    assert place.sizes == {16: held["a"].bit, 32: held["b"].bit}
    place.drop(held["b"])
    assert place.sizes == {16: held["a"].bit}


def test_forgotten_masks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holdings, "_REMEMBERED", 2)
    monkeypatch.setattr(holdings, "_MASKS", 3)
    rng = random.Random(3)
    place, held = make(*"abcdef")
    tables: dict[str, set[int]] = {name: set() for name in held}
    for _ in range(400):
        name = rng.choice(sorted(held))
        keys = rng.sample(CHAIN[:40], rng.randrange(1, 8))
        if rng.random() < 0.7:
            tell(held[name], keys)
            tables[name] |= set(keys)
        else:
            tell(held[name], keys, 0)
            tables[name] -= set(keys)
    assert {name: holding.count for name, holding in held.items()} == {n: len(t) for n, t in tables.items()}
    assert {name: holding.total for name, holding in held.items()} == {n: sum(t) for n, t in tables.items()}
    wanted = {}
    for name, table in tables.items():
        length = next((at for at, key in enumerate(CHAIN) if key not in table), len(CHAIN))
        if length:
            wanted[name] = length
    assert lengths(place, CHAIN) == wanted


def test_a_key_named_twice_leaves_the_masks_right_and_the_digest_wrong() -> None:
    place, held = make("a")
    tell(held["a"], [7, 7, 8])
    assert place.held.keys() == {7, 8}
    assert held["a"].count == 3
    tell(held["a"], [7, 7], 0)
    assert place.held.keys() == {8}


FLAWS = {
    "half a key": ([kvwire.Group("", 16, b"1234567", b"\x01")], "8 bytes a key"),
    "fewer tiers than keys": ([kvwire.Group("", 16, bytes(16), b"\x01")], "8 bytes a key"),
    "no block size": ([kvwire.Group("", 0, bytes(8), b"\x01")], "block size 0"),
    "a negative block size": ([kvwire.Group("", -16, bytes(16), b"\x01\x01")], "block size -16"),
    "a tier that does not exist": ([kvwire.Group("", 16, bytes(8), b"\x08")], "above 7"),
    "a bad group after a good one": (
        [kvwire.Group("", 16, bytes(8), b"\x01"), kvwire.Group("", 16, b"", b"\x01")],
        "8",
    ),
    "too many keys": ([kvwire.Group("", 16, bytes(8 * 16385), bytes(16385))], "at most 16384"),
}


@pytest.mark.parametrize(("groups", "says"), FLAWS.values(), ids=FLAWS)
def test_columns_that_cannot_be_applied_say_why(groups: list[kvwire.Group], says: str) -> None:
    assert says in (holdings.flaw(groups) or "")
