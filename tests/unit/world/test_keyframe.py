"""The world as bytes: equal worlds are equal bytes, and what is read back folds on as if it had never been written."""

import copy
import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventstore import store
from handlers.world import keyframe, marks
from handlers.world.fold import fold
from handlers.world.state import World
from tests.support.histories import histories, stored
from tests.support.worlds import Teller


def folded(world: World, told: list[store.Stored], incarnation: str = "i") -> World:
    for one in told:
        fold(world, one, incarnation=incarnation)
    return world


def text(world: World) -> bytes:
    return b"".join(keyframe.rows(world))


def again(world: World) -> World:
    pieces = list(keyframe.cut(keyframe.rows(world)))
    found, digest = keyframe.load(pieces, incarnation=world.incarnation)
    assert digest == keyframe.digest(world) == checked(pieces)
    return found


def checked(pieces: list[str]) -> str:
    """The digest of a keyframe whose rows all give the same bytes again."""
    checker = keyframe.Checker()
    for piece in pieces:
        checker.take(piece)
    return checker.done(incarnation="i")[1]


@given(histories(), st.data())
def test_from_the_beginning_and_from_any_keyframe_the_fold_gives_equal_bytes(
    told: list[store.Stored], data: st.DataObject
) -> None:
    whole = text(folded(World(), told))
    cut = sorted(data.draw(st.lists(st.integers(0, len(told)), max_size=3)))
    world = World()
    for start, end in zip([0, *cut], [*cut, len(told)], strict=True):
        world = again(folded(world, told[start:end]))
    assert text(world) == whole


@given(histories())
def test_what_is_loaded_is_what_handlers_would_have_read(told: list[store.Stored]) -> None:
    world = folded(World(), told)
    loaded = again(world)
    for kind, spaces in world.objects.items():
        for key in world.keys(kind):
            assert loaded.find(key) == spaces[key.namespace][key.name]
    assert (loaded.applied, loaded.told, loaded.replicas) == (world.applied, world.told, world.replicas)
    assert (loaded.marked, loaded.marked_ns, loaded.skipped) == (world.marked, world.marked_ns, world.skipped)


@given(histories(), histories(max_size=10))
def test_a_frozen_world_does_not_change_any_more(told: list[store.Stored], more: list[store.Stored]) -> None:
    world = folded(World(), told)
    frozen = keyframe.freeze(world)
    before = text(world)
    assert text(frozen) == before
    last = world.now_ns
    folded(world, [store.Stored(world.sequence + 1 + n, last, one.subject, one.body) for n, one in enumerate(more)])
    assert text(frozen) == before


def test_the_incarnation_is_not_part_of_the_bytes() -> None:
    told = [stored(1, 5, b"junk")]
    assert text(folded(World(), told, "one")) == text(folded(World(), told, "two"))


def test_pieces_are_small_whole_characters_and_the_same_text() -> None:
    lines = [b'"' + "é€𝄞".encode() * 40_000 + b'"\n', b"2\n", b"3\n"]
    pieces = list(keyframe.cut(lines))
    assert len(pieces) > 2
    assert all(len(piece.encode()) <= keyframe.CHUNK for piece in pieces)
    assert "".join(pieces).encode() == b"".join(lines)
    assert list(keyframe.cut([b"1\n", b"2\n"])) == ["1\n2\n"]
    assert list(keyframe.cut([])) == []


def test_every_part_of_the_world_is_in_a_keyframe() -> None:
    """A new part needs a table of its own, and FOLD a new number."""
    tables = {"applied", "listed", "objects", "replicas", "settings", "skipped", "summaries", "told"}
    parts = {field.name for field in dataclasses.fields(World)}
    assert parts - tables - set(keyframe._PLAIN) == {"incarnation"}


WRONG = {
    "nothing": [],
    "no world row": ['["settings","server",{}]\n'],
    "half a row": ['["world",{"seq'],
    "no JSON": ["}\n"],
    "no table": ['["moon",1]\n'],
    "no list": ["5\n"],
    "too few parts": ['["object","pods","a"]\n'],
}


@pytest.mark.parametrize("pieces", WRONG.values(), ids=WRONG)
def test_what_is_no_keyframe_is_refused_in_one_line(pieces: list[str]) -> None:
    with pytest.raises(keyframe.KeyframeError) as refused:
        keyframe.load(pieces, incarnation="i")
    assert "\n" not in str(refused.value)


def test_a_row_that_gives_other_bytes_again_is_found() -> None:
    told = Teller()
    told.passed(5)
    pieces = list(keyframe.cut(keyframe.rows(told.world)))
    assert checked(pieces)
    other = [piece.replace('"now_ns":', '"now_ns": ') for piece in pieces]
    assert other != pieces
    with pytest.raises(keyframe.KeyframeError, match="reads as something else"):
        checked(other)


def test_marks_come_by_count_and_by_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marks, "EVENTS", 10)
    told, found = Teller(), []
    for pause in (*[1] * 25, marks.SPAN_NS // 1_000_000_000, *[1] * 3):
        told.passed(pause)
        if told.world.marked == told.world.sequence:
            found.append(told.world.sequence)
    assert found == [10, 20, 26]


def test_two_folds_mark_the_same_positions_from_wherever_they_began() -> None:
    told = Teller()
    for _ in range(3):
        told.passed(4 * 3600)
    began = again(copy.copy(told.world))
    for sequence in (told.sequence + 1, told.sequence + 2):
        one = stored(sequence, (told.clock + sequence * 4 * 3600) * 10**9, b"junk")
        fold(told.world, one, incarnation="i")
        fold(began, one, incarnation="i")
    assert (began.marked, began.marked_ns) == (told.world.marked, told.world.marked_ns)
    assert began.marked > 3
