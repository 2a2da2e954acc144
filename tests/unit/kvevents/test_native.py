"""What the native helper does for a subscriber is what Python does. Excluded: what events mean (test_table)."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.prefixindex import keys
from subscribers.kvevents import batch, group, media, shortcut, strict, table

native = pytest.mark.skipif(keys.native is None, reason="the native helper was not built")
encode = msgspec.msgpack.encode

WIDE = st.one_of(st.integers(0, 127), st.integers(128, 255), st.integers(256, 65535), st.integers(65536, 2**32 - 1))
ODD = st.one_of(st.integers(-(2**63), 2**64 - 1), st.none(), st.floats(), st.text(max_size=3), st.tuples(WIDE, WIDE))


def packed(raw: bytes) -> tuple[bytes | None, bool] | None:
    """As decode reads the bytes; None where it refuses."""
    try:
        return strict.pack(msgspec.Raw(raw))
    except strict.REFUSALS:
        return None


def packed_in_python(raw: bytes) -> tuple[bytes | None, bool] | None:
    try:
        return strict.pack_in_python(msgspec.Raw(raw))
    except strict.REFUSALS:
        return None


@native
@given(st.lists(WIDE, max_size=300))
def test_token_ids_are_packed_the_same(ids: list[int]) -> None:
    assert keys.native.packed(encode(ids)) == keys.pack_tokens(ids)
    assert packed(encode(ids)) == packed_in_python(encode(ids))


@native
@given(st.lists(st.one_of(WIDE, WIDE, ODD), max_size=20))
def test_what_are_no_plain_token_ids_is_left_to_python(items: list[Any]) -> None:
    assert packed(encode(items)) == packed_in_python(encode(items))


@native
@given(
    st.one_of(
        st.binary(max_size=12),
        st.tuples(
            st.sampled_from([b"\x91", b"\x92", b"\xdc\x00\x02", b"\xdd\x00\x00\x00\x01"]), st.binary(max_size=9)
        ).map(b"".join),
    )
)
def test_any_bytes_are_read_the_same_or_left_to_python(raw: bytes) -> None:
    found = keys.native.packed(raw)
    if found is not None:
        assert packed_in_python(raw) == (found or None, False)


@native
@pytest.mark.parametrize(
    "raw",
    [b"", b"\xc0", b"\xdc", b"\xdd\xff\xff\xff\xff", b"\x91", b"\x91\xcf\x00\x00\x00\x01\x00\x00\x00\x00", b"\x90\x01"],
)
def test_what_is_not_plainly_an_array_of_token_ids(raw: bytes) -> None:
    assert keys.native.packed(raw) is None


# Runs of new blocks -------------------------------------------------------------------------------------------------

SIZE = 16
HASHES = st.integers(1, 24)


def tokens(seed: int, blocks: int) -> bytes:
    return keys.pack_tokens([seed * 1000 + number for number in range(blocks * SIZE)])


@st.composite
def events(draw: Any) -> batch.Event:
    hashes: list[Any] = draw(st.lists(HASHES, min_size=1, max_size=5))
    medium = draw(st.sampled_from(["GPU", "GPU", "GPU", None, "CPU"]))
    kind = draw(st.integers(0, 9))
    if kind >= 8:
        return batch.Cleared()
    if kind >= 5:
        return batch.Removed(hashes, medium)
    return batch.Stored(
        tuple(hashes) if draw(st.integers(0, 9)) == 0 else hashes,
        draw(st.one_of(st.none(), HASHES)),
        draw(st.sampled_from([None, tokens(draw(st.integers(0, 3)), len(hashes)), tokens(1, 1)])),
        draw(st.sampled_from([SIZE, SIZE, SIZE, 8])),
        medium=medium,
        lora_name=draw(st.sampled_from([None, None, "a"])),
        salt=draw(st.sampled_from([None, None, None, "s"])),
        extra=draw(st.sampled_from([None, None, None, [b"x"] * len(hashes)])),
        lookahead=draw(st.sampled_from([None, None, None, b"abcd"])),
    )


def shown(known: table.Table) -> Any:
    """All that a table knows, in the order in which it knows it."""
    return (
        known.counters,
        [(domain.adapter, domain.size, domain.buckets, list(domain.untold)) for domain in known.holds.domains],
        [
            (
                number,
                list(here.nodes),
                list(map(repr, here.nodes.values())),
                here.nameless,
                [(place, shelf.tier, list(shelf.refs.items())) for place, shelf in here.shelves.items()],
            )
            for number, here in known.groups.items()
        ],
        len(known.orphans),
        (known.count, known.sum, known.pending),
    )


@native
@given(st.lists(st.one_of(events(), st.just(None)), max_size=25))
def test_a_table_with_the_helper_is_the_table_without_it(said: list[batch.Event | None]) -> None:
    """None: what is pending is told."""
    fast, plain = table.Table(), table.Table()
    fell_back: Any = lambda *_: False  # noqa: E731
    for event in said:
        with pytest.MonkeyPatch.context() as patched:
            if event is None:
                assert fast.take() == plain.take()
                continue
            fast.apply(event)
            patched.setattr(shortcut, "run", fell_back)
            plain.apply(event)
        assert shown(fast) == shown(plain)


@native
def test_the_helper_is_used_for_a_run_and_not_for_one_that_is_known() -> None:
    known = table.Table()
    here = known.cache_group(0)
    shelf = here.shelf(media.place("GPU", None))
    run = batch.Stored([1, 2, 3], None, tokens(0, 3), SIZE, medium="GPU")
    assert shortcut.run(here, shelf, run, "")
    assert known.pending == 3
    assert not shortcut.run(here, shelf, run, "")
    assert not shortcut.run(here, shelf, batch.Stored([4, 4], None, tokens(5, 2), SIZE, medium="GPU"), "")
    assert not shortcut.run(here, shelf, batch.Stored([5, 6], 99, tokens(5, 2), SIZE, medium="GPU"), "")
    assert shortcut.run(here, shelf, batch.Stored([4, 5], 3, tokens(5, 2), SIZE, medium="GPU"), "")
    assert known.pending == 5


@native
@pytest.mark.parametrize(
    ("hashes", "chain", "error"),
    [([1], [], ValueError), ([1], [-1], OverflowError), ([1], [2**64], OverflowError), ([[]], [1], TypeError)],
)
def test_what_the_helper_cannot_store_is_refused_with_nothing_done(
    hashes: list[Any], chain: list[int], error: type[Exception]
) -> None:
    nodes: dict[Any, Any] = {}
    buckets: list[dict[int, int]] = [{} for _ in range(64)]
    with pytest.raises(error):
        keys.native.store(nodes, {}, buckets, {}, group.Node, hashes, chain, 0, 1, 8)
    assert not nodes
    assert not any(buckets)
