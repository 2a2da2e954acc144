"""Random histories: a truthful engine's, whose content is known, and nonsense. Excluded: single rules (test_table)."""

import random
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from eventstore import kvwire
from handlers.prefixindex import keys
from subscribers.kvevents import batch, group, pages, table
from tests.support import fakecache, serverview


@pytest.mark.parametrize("any_order", [False, True], ids=["leaves first", "any order"])
@pytest.mark.parametrize("page", [1, 2, 3, 4, 5, 8, 16, 20])
@pytest.mark.parametrize("seed", range(3))
def test_a_truthful_engine_is_mirrored_exactly(page: int, any_order: bool, seed: int) -> None:
    """IDX-01, IDX-02, KV-11, KV-18: whatever was stored, copied and removed, in whatever order."""
    cache = fakecache.Cache(random.Random(f"{page} {seed}"), page=page, any_order=any_order)
    here = table.Table()
    server: serverview.View = {}
    for _ in range(80):
        for event in cache.step():
            here.apply(event)
            if cache.rng.random() < 0.3:
                serverview.apply(server, here.take(3))
        if any_order:
            # A page whose parent is gone waits for it; so what is told may lack blocks, and never has one too many.
            view = serverview.settled(here)
            truth = cache.truth()
            assert {at: tiers & ~truth.get(at, 0) for at, tiers in view.items() if tiers & ~truth.get(at, 0)} == {}
        else:
            while groups := here.take(7):
                serverview.apply(server, groups)
            assert server == cache.truth() == serverview.settled(here)
    assert_consistent(here)


def assert_consistent(here: table.Table) -> None:
    """What is held, recomputed from aliases and copies alone; counts of places and of nameless aliases likewise."""
    expected: serverview.View = {}

    def hold(domain: int, key: int, tiers: int) -> None:
        if tiers:
            at = (here.holds.domains[domain].adapter, here.holds.domains[domain].size, key)
            expected[at] = expected.get(at, 0) | tiers

    for one in here.groups.values():
        nameless = 0
        for shelf in one.shelves.values():
            assert all(copies > 0 for copies in shelf.refs.values())
            assert set(shelf.refs) <= set(one.nodes)
        for block, node in one.nodes.items():
            mask = one.mask(block)
            assert node.places == sum(block in shelf.refs for shelf in one.shelves.values())
            nameless += node.domain == group.NO_KEY
            if isinstance(node, pages.Page):
                assert node.mask == mask
                assert node.places or node.blocks
                for made in node.blocks:
                    assert made.tiers == made.now()
                    hold(made.domain, made.key, made.tiers)
            else:
                assert node.places
                if node.domain >= 0:
                    hold(node.domain, node.key, mask)
        assert one.nameless == nameless
    assert serverview.settled(here) == expected
    for (number, block), _ in here.expiry.items():
        assert block in here.groups[number].shelves[table.ASSUMED].refs
    held_entries = sum(len(bucket) for domain in here.holds.domains for bucket in domain.buckets)
    assert held_entries == len(expected)


def without_shortcut(settings: table.Settings) -> table.Table:
    """A table that takes the long way for every event."""
    here = table.Table(settings)
    here._shortcut = False
    return here


def counted(here: table.Table) -> list[Any]:
    """Aliases and copies, whatever way they came in."""
    return [
        (number, {at: shelf.refs for at, shelf in one.shelves.items() if shelf.refs}, one.nameless, one.nodes.keys())
        for number, one in here.groups.items()
        if one.nodes
    ]


@pytest.mark.parametrize("page", [4, 16, 20])
def test_the_shortcut_of_plain_blocks_leads_where_the_long_way_does(page: int) -> None:
    cache = fakecache.Cache(random.Random(page), page=page, any_order=True)
    short, long = table.Table(), without_shortcut(table.Settings())
    for _ in range(80):
        for event in cache.step():
            short.apply(event)
            long.apply(event)
        assert serverview.settled(short) == serverview.settled(long)
        assert counted(short) == counted(long)


small = st.integers(0, 5)
hashes = st.lists(small, min_size=0, max_size=4)
media = st.sampled_from([None, "GPU", "CPU", "EXTERNAL"])
groups = st.sampled_from([0, 0, 0, 1])


@st.composite
def stores(draw: st.DrawFn) -> batch.Stored:
    """Mostly shaped right, with contents that contradict each other."""
    named = draw(hashes)
    size = draw(st.sampled_from([0, 1, 3, 4, 8, 16, 16, 32]))
    tokens = [draw(st.integers(0, 1))] * (size * len(named))
    if draw(st.integers(0, 9)) == 0:
        tokens += [1]
    extra = draw(st.none() | st.just([b"x"] * len(named)) | st.just([b"y"]))
    return batch.Stored(
        named,
        draw(st.none() | small),
        keys.pack_tokens(tokens) if draw(st.integers(0, 3)) else None,
        size,
        lora_id=draw(st.sampled_from([None, None, 1, 2])),
        lora_name=draw(st.sampled_from([None, None, "a"])),
        medium=draw(media),
        extra=extra,
        salt=draw(st.sampled_from([None, None, "s"])),
        group=draw(groups),
        kind=draw(st.sampled_from([None, "full_attention", "full_attention", "mamba"])),
        lookahead=draw(st.sampled_from([None, None, b"\1\0\0\0"])),
        locality=draw(st.sampled_from([None, None, "REMOTE"])),
    )


removals = st.builds(batch.Removed, hashes, media, groups, st.sampled_from([None, None, "REMOTE"]))
clears = st.builds(batch.Cleared, st.sampled_from([None, "GPU", "CPU"]))
histories = st.lists(
    st.tuples(st.one_of(stores(), stores(), removals, clears), st.integers(0, 100)), min_size=1, max_size=40
)
settings = st.builds(
    table.Settings,
    lora_adapter_names=st.just({1: "one"}),
    clear=st.sampled_from(["auto", "gpu", "all"]),
    ignore_block_removed=st.booleans(),
    assumed_seconds=st.just(30.0),
)


@hypothesis.settings(max_examples=150, deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
@hypothesis.given(settings, histories, st.data())
def test_nonsense_never_breaks_the_books(chosen: table.Settings, history: list[Any], data: st.DataObject) -> None:
    here, long = table.Table(chosen), without_shortcut(chosen)
    server: serverview.View = {}
    for event, now in history:
        here.apply_batch([event], float(now))
        long.apply_batch([event], float(now))
        cleared = here.take_clear()
        if cleared is not None and cleared.everything:
            assert serverview.told(here) == {}
            server.clear()  # what the keyframe says
        if data.draw(st.booleans()):
            serverview.apply(server, here.take(data.draw(st.integers(0, 3))))
            assert server == serverview.told(here)
    while taken := here.take():
        serverview.apply(server, taken)
    assert server == serverview.settled(here)
    assert here.sum == sum(key for _, _, key in server) & kvwire.MASK64
    assert_consistent(here)
    assert serverview.settled(long) == server
    assert counted(long) == counted(here)
