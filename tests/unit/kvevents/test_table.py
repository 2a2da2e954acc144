"""What events mean for one replica: pitfalls by number. Excluded: bytes (test_decode), random histories
(test_table_histories), bytes on disk (test_journal)."""

from typing import Any

import msgspec
import pytest

from eventstore import kvwire
from handlers.prefixindex import keys
from subscribers.kvevents import batch, decode, group, media, orphans, table
from tests.support import engineforms, serverview

T1, T2, T3 = kvwire.T1, kvwire.T2, kvwire.T3
TOKENS = list(range(1000, 1064))
CHAIN = keys.chain(keys.pack_tokens(TOKENS), 16)


def store(
    hashes: list[Any], parent: Any = None, tokens: list[int] | None = None, size: int = 16, **more: Any
) -> batch.Stored:
    """A store of `tokens`; without them, of the first blocks of TOKENS."""
    said = TOKENS[: size * len(hashes)] if tokens is None else tokens
    return batch.Stored(hashes, parent, keys.pack_tokens(said) if said else None, size, **more)


def remove(*hashes: Any, **more: Any) -> batch.Removed:
    return batch.Removed(list(hashes), **more)


def held(*events: batch.Event, settings: table.Settings | None = None) -> dict[int, int]:
    """Key -> tiers after these events, whatever adapter and size."""
    return {key: tiers for (_, _, key), tiers in serverview.settled(after(*events, settings=settings)).items()}


def after(*events: batch.Event, settings: table.Settings | None = None) -> table.Table:
    here = table.Table(settings)
    for event in events:
        here.apply(event)
    return here


# Keys and aliases -------------------------------------------------------------------------------------------------


def test_blocks_of_one_event_and_of_several_get_the_same_chain() -> None:
    together = held(store([1, 2, 3, 4]))
    apart = held(store([1, 2]), store([3], 2, TOKENS[32:48]), store([4], 3, TOKENS[48:64]))
    assert together == apart == dict.fromkeys(CHAIN, T1)


def test_engine_hashes_are_aliases_only() -> None:
    """KV-05: another seed, the same keys."""
    assert held(store([1, 2])) == held(store([b"x" * 32, b"y" * 32])) == held(store([-7, 0]))


def test_equal_numbers_and_bytes_are_different_hashes() -> None:
    """KV-04."""
    here = held(store([5]), store([b"\x05"], tokens=TOKENS[16:32]), remove(5))
    assert list(here) == keys.chain(keys.pack_tokens(TOKENS[16:32]), 16)


def test_a_removal_needs_no_model_nor_adapter() -> None:
    """IDX-06."""
    assert held(store([5], lora_id=2, lora_name="sql"), remove(5, medium="GPU")) == {}


def test_copies_are_counted() -> None:
    """IDX-01: two copies, the first removal leaves one, the third is one too many."""
    twice = [store([1]), store([1])]
    assert held(*twice, remove(1)) == {CHAIN[0]: T1}
    assert held(*twice, remove(1), remove(1)) == {}
    assert held(*twice, remove(1), remove(1), remove(1), store([1])) == {CHAIN[0]: T1}


def test_two_hashes_of_one_content_hold_it_together() -> None:
    assert held(store([1]), store([2]), remove(1)) == {CHAIN[0]: T1}


def test_a_hash_that_names_two_contents_is_believed_for_neither() -> None:
    """IDX-10: engines whose hash leaves out salt or adapter."""
    here = after(store([1]), store([1], lora_name="sql"))
    assert serverview.settled(here) == {}
    assert here.counters.ambiguous == 1
    assert any("two contents" in line for line in here.take_notes())
    for event in (remove(1), remove(1), store([1])):
        here.apply(event)
    assert list(serverview.settled(here).values()) == [T1]


def test_an_event_that_is_its_own_parent_is_rejected_alone() -> None:
    """KV-20."""
    here = after(store([9]), store([7, 7], 7, [1, 2, 3, 4] * 2, 4))
    assert list(serverview.settled(here).values()) == [T1]
    assert here.counters.self_parent == 2


def test_a_hash_twice_in_one_event_counts_once() -> None:
    """KV-20."""
    assert held(store([1, 1])) == {CHAIN[0]: T1}
    assert held(store([1, 1]), remove(1)) == {}


def test_events_without_blocks_change_nothing() -> None:
    assert held(batch.Stored([], None, keys.pack_tokens([1]), 1), remove()) == {}


# Adapters ---------------------------------------------------------------------------------------------------------

ADAPTERS = {
    "none": ({}, "", True),
    "a name": ({"lora_id": 117, "lora_name": "adapter-116"}, "adapter-116", True),
    "a name alone": ({"lora_name": "adapter-116"}, "adapter-116", True),
    "a mapped number": ({"lora_id": 4}, "sql", True),
    "a number with another name": ({"lora_id": 4, "lora_name": "b"}, "b", True),
    "an unmapped number": ({"lora_id": 5}, "", False),
}


@pytest.mark.parametrize(("said", "adapter", "counts"), ADAPTERS.values(), ids=ADAPTERS)
def test_the_adapter_chooses_the_domain(said: dict[str, Any], adapter: str, counts: bool) -> None:
    """KV-07, KV-08."""
    here = after(store([1], **said), settings=table.Settings(lora_adapter_names={4: "sql"}))
    assert serverview.settled(here) == ({(adapter, 16, CHAIN[0]): T1} if counts else {})


def test_an_unmapped_adapter_is_named_once() -> None:
    here = after(store([1], lora_id=5), store([2], lora_id=5), store([3], lora_id=6))
    assert [line.split()[2] for line in here.take_notes()] == ["5", "6"]
    assert here.counters.unnamed_adapter == 3


# Places -----------------------------------------------------------------------------------------------------------

TIERS = {
    "null": (None, None, T1),
    "GPU": ("GPU", "LOCAL", T1),
    "gpu": ("gpu", None, T1),
    "CPU": ("CPU", None, T2),
    "CPU_PINNED": ("CPU_PINNED", None, T2),
    "CPU_TIER1": ("CPU_TIER1", None, T2),
    "DISK": ("DISK", "LOCAL", T2),
    "a stranger": ("mooncake-hot", None, T2),
    "EXTERNAL": ("EXTERNAL", None, T3),
    "remote": ("CPU", "REMOTE", T3),
}


@pytest.mark.parametrize(("medium", "locality", "tier"), TIERS.values(), ids=TIERS)
def test_media_become_tiers_and_every_one_can_be_removed(medium: str | None, locality: str | None, tier: int) -> None:
    """KV-19."""
    stored = store([1], medium=medium, locality=locality)
    assert held(stored) == {CHAIN[0]: tier}
    assert held(stored, remove(1, medium=medium, locality=locality)) == {}
    assert held(stored, remove(1, medium="elsewhere")) == {CHAIN[0]: tier}


def test_a_location_without_tokens_moves_a_known_block() -> None:
    """KV-11, with the recorded bytes."""
    here = after(store([1111]))
    moved, gone = decode.decode(bytes.fromhex(engineforms.FIXTURES["vllm-0.26..0.28"]["msgpack_hex"])).events
    here.apply(moved)
    assert list(serverview.settled(here).values()) == [T1 | T2]
    here.apply(remove(1111, medium="GPU"))
    assert list(serverview.settled(here).values()) == [T2]
    here.apply(gone)
    assert serverview.settled(here) == {}


def test_an_unknown_location_is_parked_until_its_tokens_come() -> None:
    """KV-11."""
    parked = batch.Stored([1], None, None, 0, medium="CPU")
    assert held(parked) == {}
    assert held(parked, remove(1, medium="CPU"), store([1])) == {CHAIN[0]: T1}
    assert held(parked, store([1])) == {CHAIN[0]: T1 | T2}


def test_parked_blocks_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group, "MAX_NAMELESS", 3)
    here = after(batch.Stored(list(range(10)), None, None, 0, medium="CPU"))
    assert here.counters.untracked == 7
    here.apply(remove(*range(10), medium="CPU"))
    here.apply(batch.Stored([11], None, None, 0, medium="CPU"))
    assert here.counters.untracked == 7


# Groups -----------------------------------------------------------------------------------------------------------


def test_a_removal_in_one_group_leaves_the_other() -> None:
    """KV-09: full attention in group 0, a window in group 1."""
    full, window = store([1], kind="full_attention"), store([1], group=1, kind="sliding_window", window=128)
    assert held(full, window, remove(1, group=1)) == {CHAIN[0]: T1}
    assert held(full, window, remove(1)) == {}
    assert held(window) == {}


@pytest.mark.parametrize("kind", [None, "full_attention", "mla_attention", "sink_full_attention"])
def test_groups_that_tell_what_prefix_is_held(kind: str | None) -> None:
    assert held(store([1], kind=kind)) == {CHAIN[0]: T1}


@pytest.mark.parametrize("kind", ["sliding_window", "mamba", "chunked_local_attention", "what comes next"])
def test_groups_that_do_not(kind: str) -> None:
    here = after(store([1], kind=kind))
    assert serverview.settled(here) == {}
    assert here.counters.other_groups == 1


def test_a_group_that_names_its_kind_late_is_dropped() -> None:
    here = after(store([1]), store([1], group=1), store([2], 1, TOKENS[16:32], group=1, kind="mamba"), remove(1))
    assert serverview.settled(here) == {}


def test_two_full_groups_hold_a_key_until_both_let_go() -> None:
    both = [store([1]), store([1], group=2)]
    assert held(*both, remove(1)) == {CHAIN[0]: T1}
    assert held(*both, remove(1), remove(1, group=2)) == {}


# Layout and parents -----------------------------------------------------------------------------------------------

MISLAID = {
    "more tokens than hashes": store([1], tokens=TOKENS[:32]),
    "fewer tokens than hashes": store([1, 2], tokens=TOKENS[:16]),
    "no block size": store([1], tokens=TOKENS[:16], size=0),
    "extra keys for another number of blocks": store([1], extra=[b"a", b"b"]),
}


@pytest.mark.parametrize("event", MISLAID.values(), ids=MISLAID)
def test_tokens_that_do_not_fit_are_never_dealt_out(event: batch.Stored) -> None:
    """KV-10: aliases for removal only; others apply."""
    here = after(event, store([9]))
    assert list(serverview.settled(here).values()) == [T1]
    assert here.counters.layout_unsupported == len(event.hashes)
    here.apply(remove(1))
    assert here.counters.removed == 1
    assert here.counters.removed_unknown == 0


def test_an_unknown_parent_never_makes_a_root() -> None:
    """KV-12, IDX-02."""
    here = after(store([31]), store([32], 77, [16, 17, 18, 19], 4))
    assert list(serverview.settled(here)) == [("", 16, CHAIN[0])]
    assert here.counters.orphaned == 1


def test_orphans_attach_when_the_parent_appears() -> None:
    """IDX-02, over two generations and in any order."""
    here = after(store([3], 2, TOKENS[32:48]), store([4], 3, TOKENS[48:64]), store([2], 1, TOKENS[16:32]))
    assert serverview.settled(here) == {}
    here.apply(store([1]))
    assert list(serverview.settled(here).values()) == [T1] * 4
    assert {key for _, _, key in serverview.told(here)} == set(CHAIN)
    assert len(here.orphans) == 0


def test_an_orphan_that_was_removed_does_not_come_back() -> None:
    here = after(store([3], 2, TOKENS[32:48]), store([2], 1, TOKENS[16:32]), remove(2), store([1]))
    assert {key for _, _, key in serverview.settled(here)} == {CHAIN[0], CHAIN[2]}


def test_a_long_chain_of_orphans_attaches_without_recursion() -> None:
    tokens = [number % 50_000 for number in range(16 * 5000)]
    chain = keys.chain(keys.pack_tokens(tokens), 16)
    late = [store([at], at - 1, tokens[at * 16 : (at + 1) * 16]) for at in range(1, 5000)]
    assert held(*late, store([0], tokens=tokens[:16])) == dict.fromkeys(chain, T1)


def test_orphans_are_bounded_and_those_given_up_stay_removable() -> None:
    here = table.Table()
    here.orphans = orphans.Orphans(max_bytes=1000)  # about seven of them
    for at in range(100):
        here.apply(store([at], 10_000 + at, TOKENS[:16]))
    assert here.orphans.bytes <= 1000
    assert here.counters.orphans_given_up == 100 - len(here.orphans)
    here.apply(remove(*range(100)))
    assert here.counters.removed == 100
    here.apply(store([10_000], tokens=TOKENS[16:32]))
    assert len(serverview.settled(here)) == 1


# What keys depend on beside tokens --------------------------------------------------------------------------------

SALTED = {
    "salt": store([1], salt="tenant-a"),
    "an image": store([1], extra=[b"img-A"]),
    "another image": store([1], extra=[b"img-B"]),
    "salt and image": store([1], salt="tenant-a", extra=[b"img-A"]),
    "a lookahead": store([1], lookahead=keys.pack_tokens([7])),
}


@pytest.mark.parametrize("event", SALTED.values(), ids=SALTED)
def test_blocks_with_more_than_tokens_are_held_and_never_equal_plain_ones(event: batch.Stored) -> None:
    """KV-06, KV-16, IDX-10, IDX-11."""
    child = msgspec.structs.replace(
        event, hashes=[2], parent=1, tokens=keys.pack_tokens(TOKENS[16:32]), extra=None, salt=None
    )
    got = held(event, child)
    assert len(got) == 2
    assert set(got) & set(CHAIN) == ({CHAIN[0]} if event.lookahead else set())
    assert held(event, child, remove(1), remove(2)) == {}


def test_no_two_kinds_of_extra_share_a_key() -> None:
    """KV-06: two images, a salt of the same text."""
    found = [next(iter(held(event))) for event in SALTED.values()]
    assert len(set(found)) == len(SALTED)


def test_salted_and_plain_blocks_of_one_batch_both_apply() -> None:
    """KV-16."""
    assert len(held(store([1], salt="t"), store([2]))) == 2


AHEAD = keys.pack_tokens([7])


def test_a_lookahead_hides_the_last_block_until_one_below_it_is_known() -> None:
    """IDX-11: the tokens of the block below are the ones that were looked ahead to."""
    events = [store([1, 2], lookahead=AHEAD), store([3], 2, TOKENS[32:48], lookahead=AHEAD)]
    assert len(held(events[0])) == 2
    assert set(held(events[0])) & set(CHAIN) == {CHAIN[0]}
    assert len(held(*events)) == 3
    assert set(held(*events)) & set(CHAIN) == {CHAIN[0], CHAIN[1]}
    assert held(*events, store([4], 3, TOKENS[48:64])) == dict.fromkeys(CHAIN[:4], T1)
    assert held(*events, remove(1), remove(2), remove(3)) == {}


CUTS = {
    "last in the second": [store([1, 2, 3]), store([1, 2], lookahead=AHEAD)],
    "last in the first": [store([1, 2], lookahead=AHEAD), store([1, 2, 3])],
}


@pytest.mark.parametrize("events", CUTS.values(), ids=CUTS)
def test_a_block_is_one_content_wherever_the_events_about_it_end(events: list[batch.Stored]) -> None:
    """IDX-11: two requests with one beginning, each in an event of its own length."""
    here = after(*events)
    assert set(serverview.settled(here)) == {("", 16, key) for key in CHAIN[:3]}
    assert here.counters.ambiguous == 0
    assert held(*events, remove(1), remove(2), remove(1), remove(2), remove(3)) == {}


def test_two_lookaheads_under_one_hash_are_believed_for_neither() -> None:
    here = after(store([1], lookahead=AHEAD), store([1], lookahead=keys.pack_tokens([8])))
    assert (serverview.settled(here), here.counters.ambiguous) == ({}, 1)


def test_an_adapter_named_like_a_salt_shares_nothing_with_it() -> None:
    """KV-07's negative."""
    with_adapter = serverview.settled(after(store([5], lora_id=117, lora_name="adapter-116")))
    with_salt = serverview.settled(after(store([5], extra=[b"adapter-116"])))
    assert list(with_adapter) == [("adapter-116", 16, CHAIN[0])]
    assert not set(with_adapter) & set(with_salt)
    assert CHAIN[0] not in [key for _, _, key in with_salt]


# Pages ------------------------------------------------------------------------------------------------------------


def paged(page: int, until: int = 16, first: int = 0) -> list[batch.Event]:
    """TOKENS from `first` as pages, one event each, hashed by the position after their last token."""
    return [store([at + page], at or None, TOKENS[at : at + page], page) for at in range(first, until - page + 1, page)]


@pytest.mark.parametrize("page", [1, 2, 4, 8])
def test_pages_become_blocks_of_sixteen(page: int) -> None:
    """KV-18."""
    assert held(*paged(page, 64)) == dict.fromkeys(CHAIN, T1)
    assert held(*paged(page, 15)) == {}


def test_pages_that_do_not_divide_a_block() -> None:
    assert held(*paged(3, 34)) == dict.fromkeys(CHAIN[:2], T1)
    assert held(*paged(3, 34), remove(18)) == {}  # it reaches into both blocks


def test_pages_of_several_sizes_in_one_event_chain() -> None:
    assert held(store([1, 2], None, TOKENS[:8], 4), store([3], 2, TOKENS[8:16], 8)) == {CHAIN[0]: T1}


def test_a_whole_block_may_follow_pages_and_pages_a_whole_block() -> None:
    """KV-12: a partial block below a whole one."""
    assert held(*paged(4, 16), store([50], 16, TOKENS[16:32])) == dict.fromkeys(CHAIN[:2], T1)
    assert held(store([16]), *paged(4, 32, 16)) == dict.fromkeys(CHAIN[:2], T1)
    assert held(store([1]), store([2], 1, TOKENS[16:48], 32)) == dict.fromkeys(CHAIN[:3], T1)


def test_a_removed_page_takes_its_block_and_brings_it_back() -> None:
    """KV-18."""
    pages = paged(1)
    assert held(*pages, remove(5, 6, 7)) == {}
    back = [store([at], at - 1, TOKENS[at - 1 : at], 1) for at in (5, 6, 7)]
    assert held(*pages, remove(5, 6, 7), *back[:2]) == {}
    assert held(*pages, remove(5, 6, 7), *back) == {CHAIN[0]: T1}


def test_a_page_that_went_before_its_block_was_complete_still_counts() -> None:
    pages = paged(4)
    assert held(*pages[:3], remove(8), pages[3]) == {}
    assert held(*pages[:3], remove(8), pages[3], pages[1]) == {CHAIN[0]: T1}
    assert held(*pages[:3], remove(8), pages[1], pages[3]) == {CHAIN[0]: T1}


def test_a_block_of_pages_in_several_tiers_has_the_coldest() -> None:
    moved = [msgspec.structs.replace(page, medium="CPU") for page in paged(4) if isinstance(page, batch.Stored)]
    assert held(*paged(4), *moved) == {CHAIN[0]: T1 | T2}
    assert held(*paged(4), *moved, remove(8, medium="GPU")) == {CHAIN[0]: T2}
    assert held(*paged(4), moved[1], remove(8, medium="GPU")) == {CHAIN[0]: T2}


def test_nothing_is_left_of_pages_that_are_all_gone() -> None:
    here = after(*paged(1, 64), *paged(3, 33), remove(*range(1, 65)))
    assert serverview.settled(here) == {}
    here.apply(remove(*range(1, 65)))
    assert [len(one.nodes) for one in here.groups.values()] == [0]


def test_orphaned_pages_attach() -> None:
    pages = paged(4, 32)
    assert held(*pages[1:], pages[0]) == dict.fromkeys(CHAIN[:2], T1)
    assert held(*pages[1:], remove(12), pages[0]) == {CHAIN[1]: T1}


def test_eagle_pairs_are_keyed_by_their_first_tokens() -> None:
    """KV-17."""
    pairs = [[token, token + 1] for token in TOKENS[:16]]
    here = table.Table()
    for event in decode.decode(engineforms.payload(["BlockStored", [1], None, pairs, 16, None, "GPU"])).events:
        here.apply(event)
    assert [key for _, _, key in serverview.settled(here)] == [CHAIN[0]]
    assert here.counters.bigram == 1


# Clears -----------------------------------------------------------------------------------------------------------

CPU = store([2], tokens=TOKENS[16:32], medium="CPU")
CPU_KEY = keys.chain(keys.pack_tokens(TOKENS[16:32]), 16)[0]
GPU_ONLY, WITH_CPU = [store([1])], [store([1]), CPU]
CLEARS: dict[str, tuple[table.Settings, list[batch.Stored], dict[int, int], bool]] = {
    "auto, GPU only": (table.Settings(), GPU_ONLY, {}, True),
    "auto, with a slower tier": (table.Settings(), WITH_CPU, {CPU_KEY: T2}, False),
    "auto, removals ignored": (table.Settings(ignore_block_removed=True), GPU_ONLY, {}, False),
    "gpu": (table.Settings(clear="gpu"), GPU_ONLY, {}, False),
    "gpu, with a slower tier": (table.Settings(clear="gpu"), WITH_CPU, {CPU_KEY: T2}, False),
    "all": (table.Settings(clear="all"), WITH_CPU, {}, True),
}


@pytest.mark.parametrize(("settings", "stores", "left", "everything"), CLEARS.values(), ids=CLEARS)
def test_a_clear_without_a_tier(
    settings: table.Settings, stores: list[batch.Stored], left: dict[int, int], everything: bool
) -> None:
    """TR-17."""
    here = after(*stores, settings=settings)
    serverview.settled(here)
    here.apply(batch.Cleared())
    assert here.take_clear() == table.Clear(everything)
    assert here.take_clear() is None
    assert {key: tiers for (_, _, key), tiers in serverview.settled(here).items()} == left


def test_a_clear_of_one_medium() -> None:
    """TR-17: TierBlocksCleared."""
    assert held(store([1]), CPU, batch.Cleared("CPU")) == {CHAIN[0]: T1}
    assert held(store([1]), CPU, batch.Cleared("gpu")) == {CPU_KEY: T2}


def test_after_a_clear_of_everything_nothing_is_pending_and_copies_count_anew() -> None:
    """TR-16: it takes no time per block, so the told state is void with it."""
    here = after(store([1]), store([1]))
    here.take()
    here.apply(batch.Cleared())
    assert (here.pending, here.count, here.sum) == (0, 0, 0)
    here.apply(store([1]))
    here.apply(remove(1))
    assert serverview.settled(here) == {}


def test_two_clears_in_one_batch_are_told_as_the_wider_one() -> None:
    here = after(store([1]), batch.Cleared(), batch.Cleared("GPU"))
    assert here.take_clear() == table.Clear(everything=True)


def test_a_slower_tier_is_remembered_over_a_gap() -> None:
    here = after(CPU)
    here.forget()
    here.apply(store([1]))
    here.apply(batch.Cleared())
    assert here.take_clear() == table.Clear(everything=False)


def test_after_forgetting_nothing_is_held_and_children_are_orphans() -> None:
    here = after(store([1]), remove(5))
    here.take()
    here.forget()
    here.apply(store([2], 1, TOKENS[16:32]))
    assert serverview.settled(here) == {}
    assert here.counters.orphaned == 1


# Removals that are ignored ----------------------------------------------------------------------------------------

ASSUMING = table.Settings(ignore_block_removed=True, assumed_seconds=100.0)


def test_a_block_that_left_the_gpu_is_assumed_on_a_slower_tier_for_a_time() -> None:
    here = table.Table(ASSUMING)
    here.apply_batch([store([1])], 1000.0)
    here.apply_batch([remove(1)], 1010.0)
    assert list(serverview.settled(here).values()) == [T2]
    here.tick(1109.9)
    assert list(serverview.settled(here).values()) == [T2]
    here.tick(1110.0)
    assert serverview.settled(here) == {}


def test_a_second_removal_renews_the_assumption() -> None:
    here = table.Table(ASSUMING)
    here.apply_batch([store([1]), remove(1), store([2]), remove(2)], 0.0)
    here.apply_batch([store([1]), remove(1)], 50.0)
    here.tick(149.0)
    assert list(serverview.settled(here).values()) == [T2]
    here.tick(150.0)
    assert serverview.settled(here) == {}


def test_children_of_an_assumed_block_have_keys() -> None:
    assert held(store([1]), remove(1), store([2], 1, TOKENS[16:32]), settings=ASSUMING) == {CHAIN[0]: T2, CHAIN[1]: T1}


def test_a_removal_from_the_slower_tier_ends_the_assumption() -> None:
    assert held(store([1]), store([1], medium="CPU"), remove(1), remove(1, medium="CPU"), settings=ASSUMING) == {}


def test_nothing_is_assumed_of_blocks_without_a_key() -> None:
    assert held(store([2], 1, TOKENS[16:32]), remove(2), settings=ASSUMING) == {}


def test_assumed_pages_hold_their_block() -> None:
    assert held(*paged(4), remove(4, 8, 12, 16), settings=ASSUMING) == {CHAIN[0]: T2}
    assert held(*paged(4), remove(8), settings=ASSUMING) == {CHAIN[0]: T2}


def test_time_that_goes_back_ends_nothing_early() -> None:
    here = table.Table(ASSUMING)
    here.apply_batch([store([1]), remove(1)], 1000.0)
    here.apply_batch([store([2], 1, TOKENS[16:32]), remove(2)], 10.0)
    here.tick(1099.0)
    assert list(serverview.settled(here).values()) == [T2, T2]


# What is told -----------------------------------------------------------------------------------------------------


def test_what_changed_back_and_forth_is_not_told() -> None:
    here = after(store([1]))
    here.take()
    for event in (remove(1), store([1], medium="CPU"), store([1]), remove(1, medium="CPU")):
        here.apply(event)
    assert here.pending == 0
    here.apply(remove(1))
    here.apply(store([1]))
    assert here.pending == 0
    assert here.take() == []


def test_a_take_gives_final_states_up_to_its_limit_in_order() -> None:
    here = after(store([1, 2, 3, 4]), remove(4), store([1], medium="CPU"))
    (first,) = here.take(2)
    assert (first.adapter, first.size, list(kvwire.unpack_keys(first.keys)), first.tiers) == (
        "",
        16,
        CHAIN[:2],
        bytes([T1 | T2, T1]),
    )
    assert (here.pending, here.count) == (1, 2)
    assert [list(kvwire.unpack_keys(group.keys)) for group in here.take(2)] == [[CHAIN[2]]]


def test_domains_share_a_takes_limit() -> None:
    here = after(store([1, 2]), store([3, 4], lora_name="sql"))
    assert [(group.adapter, len(group.tiers)) for group in here.take(3)] == [("", 2), ("sql", 1)]
    assert [(group.adapter, len(group.tiers)) for group in here.take(3)] == [("sql", 1)]


def test_dropping_what_is_pending_makes_the_next_keyframe_whole() -> None:
    here = after(store([1, 2]))
    here.take()
    here.apply(remove(1))
    here.apply(store([5], tokens=TOKENS[16:32]))
    here.drop_pending()
    assert here.take() == []
    assert {key for _, _, key in serverview.settled(here)} == {CHAIN[1], CPU_KEY}


def test_a_keyframe_in_chunks_agrees_with_the_digest_while_changes_go_on() -> None:
    """Every change goes to both the live state and the one being built: at the end they agree at the same n."""
    tokens = list(range(16 * 500))
    here = after(store(list(range(500)), tokens=tokens))
    live: serverview.View = {}
    while groups := here.take():
        serverview.apply(live, groups)
    staged: serverview.View = {}
    for number, chunk in enumerate(here.held(50)):
        assert sum(len(group.tiers) for group in chunk) <= 50
        serverview.apply(staged, chunk)
        here.apply(remove(number * 7))
        here.apply(store([1000 + number], number, [number] * 16))
        here.apply(store([number * 3], medium="CPU", tokens=tokens[number * 48 : number * 48 + 16]))
        for groups in (here.take(3), here.take(3)):
            serverview.apply(live, groups)
            serverview.apply(staged, groups)
    assert staged == live == serverview.told(here)
    assert (here.count, here.sum) == (len(staged), sum(key for _, _, key in staged) & kvwire.MASK64)


def test_a_keyframe_under_way_ends_when_everything_is_cleared() -> None:
    here = after(store(list(range(500)), tokens=list(range(16 * 500))))
    here.drop_pending()
    frame = here.held(10)
    next(frame)
    here.apply(batch.Cleared())
    assert list(frame) == []


def test_places_are_told_apart_by_name_and_distance() -> None:
    assert media.place("cpu", None) == media.place("CPU", "LOCAL") != media.place("CPU", "remote")
