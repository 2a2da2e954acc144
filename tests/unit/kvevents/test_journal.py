"""The journal: what comes back equals what was, whatever the moment of death.

Excluded: whether to believe that the engine is still the same (cursor).
"""

import contextlib
import errno
import os
import pathlib
import random
import tracemalloc
from typing import Any

import msgspec
import pytest

from subscribers.kvevents import batch, decode, facts, journal, table, tablestate
from tests.support import engineforms, fakecache, serverview

IDENTITY = journal.Identity("tcp://127.0.0.1:5557", "engine-0", journal.digest(table.Settings(), "model"))
SETTINGS = table.Settings()


def payload_of(events: list[batch.Event]) -> bytes:
    """A batch that says these events, in the newest form."""
    said: list[Any] = []
    for event in events:
        if isinstance(event, batch.Stored):
            tokens = list(memoryview(event.tokens or b"").cast("I"))
            said.append(
                {
                    "type": "BlockStored",
                    "block_hashes": event.hashes,
                    "parent_block_hash": event.parent,
                    "token_ids": tokens,
                    "block_size": event.block_size,
                    "medium": event.medium,
                }
            )
        elif isinstance(event, batch.Removed):
            said.append({"type": "BlockRemoved", "block_hashes": event.hashes, "medium": event.medium})
        else:
            said.append({"type": "AllBlocksCleared"})
    return engineforms.payload(*said)


def opened(
    folder: pathlib.Path, identity: journal.Identity = IDENTITY, settings: table.Settings = SETTINGS
) -> tuple[journal.Journal, journal.Loaded]:
    return journal.open_journal(folder, identity, settings)


def speak(kept: journal.Journal, seq: int, payload: bytes, now: float = 0.0, **more: Any) -> None:
    """What a consumer does with one batch."""
    kept.table.apply_batch(decode.decode(payload).events, now)
    if more.get("forget"):
        kept.table.forget()
    more = {"coverage": "complete", "epoch": 1} | more
    kept.applied(facts.Position(seq, seq * 11), payload, now=now, **more)


STORE = engineforms.payload(["BlockStored", [1], None, list(range(16)), 16, None, "GPU"])
CHILD = engineforms.payload(["BlockStored", [2], 1, list(range(16, 32)), 16, None, "GPU"])


def test_a_first_start_says_that_there_is_no_journal_yet(tmp_path: pathlib.Path) -> None:
    kept, loaded = opened(tmp_path / "new")
    assert (loaded.position, loaded.coverage, loaded.epoch) == (None, "partial", 0)
    assert "there is no journal" in loaded.reason
    assert kept.broken == ""
    _, again = opened(tmp_path / "new")
    assert (again.reason, again.position, again.coverage) == ("", None, "partial")


def test_position_coverage_and_table_come_back(tmp_path: pathlib.Path) -> None:
    kept, _ = opened(tmp_path)
    speak(kept, 0, STORE)
    speak(kept, 1, CHILD)
    kept.close()
    back, loaded = opened(tmp_path)
    assert (loaded.position, loaded.coverage, loaded.epoch, loaded.reason, loaded.cut) == (
        facts.Position(1, 11),
        "complete",
        1,
        "",
        0,
    )
    assert serverview.told(loaded.table) == serverview.settled(kept.table) != {}
    assert back.table is loaded.table


def test_a_restored_table_counts_as_told(tmp_path: pathlib.Path) -> None:
    kept, _ = opened(tmp_path)
    speak(kept, 0, STORE)
    _, loaded = opened(tmp_path)
    assert (loaded.table.pending, loaded.table.count, loaded.table.take_clear()) == (0, 1, None)


def test_a_batch_of_another_replica_moves_the_position_only(tmp_path: pathlib.Path) -> None:
    kept, _ = opened(tmp_path)
    kept.applied(facts.Position(5, 1), b"", now=0.0, coverage="complete", epoch=1)
    assert opened(tmp_path)[1].position == facts.Position(5, 1)


def test_what_was_dropped_stays_dropped(tmp_path: pathlib.Path) -> None:
    kept, _ = opened(tmp_path)
    speak(kept, 0, STORE)
    kept.table.forget()
    kept.dropped("forget", coverage="partial", epoch=1)
    speak(kept, 4, CHILD, coverage="partial")
    _, loaded = opened(tmp_path)
    assert serverview.told(loaded.table) == {}
    assert (loaded.coverage, loaded.position) == ("partial", facts.Position(4, 44))


def test_a_drop_may_be_written_before_it_is_done(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A compaction in between would write down what is about to be forgotten."""
    kept, _ = opened(tmp_path)
    speak(kept, 0, STORE)
    monkeypatch.setattr(journal, "COMPACT_AT", 0)
    monkeypatch.setattr(kept, "_snapshot", 0)
    kept.dropped("forget", coverage="partial", epoch=1)
    kept.table.forget()
    assert serverview.told(opened(tmp_path)[1].table) == {}


def test_a_batch_that_made_us_forget_does_so_again(tmp_path: pathlib.Path) -> None:
    kept, _ = opened(tmp_path)
    speak(kept, 0, STORE)
    speak(kept, 1, b"\xc1", forget=True, coverage="partial")
    _, loaded = opened(tmp_path)
    assert (serverview.told(loaded.table), loaded.position) == ({}, facts.Position(1, 11))


def test_a_tier_that_the_subscriber_cleared_stays_cleared(tmp_path: pathlib.Path) -> None:
    kept, _ = opened(tmp_path)
    speak(kept, 0, STORE)
    kept.table.clear("gpu")
    kept.dropped("gpu", coverage="partial", epoch=1)
    assert serverview.told(opened(tmp_path)[1].table) == {}


def test_a_new_life_has_no_position(tmp_path: pathlib.Path) -> None:
    kept, _ = opened(tmp_path)
    speak(kept, 0, STORE)
    kept.table.forget()
    kept.dropped("forget", coverage="complete", epoch=2, restart=True)
    _, loaded = opened(tmp_path)
    assert (loaded.position, loaded.epoch) == (None, 2)


def test_a_file_is_for_its_owner_only(tmp_path: pathlib.Path) -> None:
    """Token ids are in it."""
    kept, _ = opened(tmp_path)
    assert kept.path.stat().st_mode & 0o777 == 0o600


def test_replicas_of_one_folder_do_not_meet(tmp_path: pathlib.Path) -> None:
    paths = {journal.path_of(tmp_path, name) for name in ("a", "a@1", "a.1", "a/1", "")}
    assert len(paths) == 5
    assert all(path.parent == tmp_path for path in paths)


# Death at any moment ------------------------------------------------------------------------------------------------


def history(seed: int, *, page: int, settings: table.Settings) -> list[tuple[bytes, float, bool]]:
    """(payload, time, whether everything is forgotten after it)"""
    rng = random.Random(seed)
    cache = fakecache.Cache(rng, page=page, any_order=True)
    told: list[tuple[bytes, float, bool]] = []
    for at in range(40):
        events = cache.step()
        if rng.random() < 0.1:
            rng.shuffle(events)
        if rng.random() < 0.03:
            events.append(batch.Cleared())
        broken = rng.random() < 0.03
        told.append((b"\xc1" if broken else payload_of(events), at * 7.0, broken))
    return told


CHOICES = {
    "blocks": (16, table.Settings()),
    "pages": (4, table.Settings()),
    "uneven pages, removals ignored": (3, table.Settings(ignore_block_removed=True, assumed_seconds=60.0)),
}


@pytest.mark.parametrize(("page", "settings"), CHOICES.values(), ids=CHOICES)
@pytest.mark.parametrize("seed", range(3))
def test_killed_at_any_byte_the_table_of_the_last_whole_record_comes_back(
    tmp_path: pathlib.Path, seed: int, page: int, settings: table.Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "COMPACT_AT", 6000)  # so that some histories are compacted on the way
    identity = msgspec.structs.replace(IDENTITY, config=journal.digest(settings))
    kept, _ = opened(tmp_path, identity, settings)
    ends: list[tuple[int, int, serverview.View, bytes]] = []  # (size of the file, seq, view, state)
    for seq, (payload, now, forget) in enumerate(history(seed, page=page, settings=settings)):
        before = kept.path.stat().st_size
        speak(kept, seq, payload, now, forget=forget)
        after = kept.path.stat().st_size
        if after < before:
            ends.clear()  # compacted: older moments are not in this file
        ends.append((after, seq, serverview.settled(kept.table), tablestate.dump(kept.table)))
    kept.close()
    whole = kept.path.read_bytes()
    start = ends[0][0]
    rng = random.Random(seed)
    cuts = {*rng.sample(range(start, len(whole)), min(40, len(whole) - start)), start, len(whole), len(whole) - 1}
    for cut in sorted(cut for cut in cuts if cut >= start):
        folder = tmp_path / str(cut)
        folder.mkdir()
        journal.path_of(folder, identity.replica).write_bytes(whole[:cut])
        loaded = journal.load(folder, identity, settings)
        size, seq, view, state = [end for end in ends if end[0] <= cut][-1]
        assert loaded.reason == ""
        assert loaded.cut == cut - size
        assert loaded.position == facts.Position(seq, seq * 11)
        assert serverview.told(loaded.table) == view
        assert canonical(tablestate.dump(loaded.table)) == canonical(state)


def canonical(state: bytes) -> Any:
    """A state without the orders that have no meaning."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return sorted((repr(key), plain(inner)) for key, inner in value.items())
        if isinstance(value, list):
            return [plain(inner) for inner in value]
        return repr(value)

    domains, kinds, slower, now, expiry, groups, orphans = msgspec.msgpack.decode(state, strict=False)
    spelled = []
    for number, nodes, pages, blocks, shelves in groups:
        names = [repr((page[3], page[1], page[2], page[8])) for page in pages]
        spelled.append(
            (
                number,
                plain(nodes),
                sorted(names),
                sorted((domain, key, sorted(names[at] for at in members)) for domain, key, members in blocks),
                sorted((repr(shelf[:2]), plain(shelf[2])) for shelf in shelves if shelf[2]),
            )
        )
    spelled = [one for one in spelled if any(one[1:])]
    return plain(domains), plain(kinds), slower, now, plain(expiry), spelled, plain(orphans)


@pytest.mark.parametrize("seed", range(4))
def test_a_restored_table_goes_on_like_the_one_that_lived(tmp_path: pathlib.Path, seed: int) -> None:
    """Whatever a table knows that no key shows yet (orphans, pages, counts) must be in its state too."""
    settings = table.Settings(ignore_block_removed=seed % 2 == 1, assumed_seconds=60.0)
    told = history(seed, page=[16, 4, 3, 1][seed], settings=settings)
    kept, _ = opened(tmp_path, settings=settings)
    for seq, (payload, now, forget) in enumerate(told[:20]):
        speak(kept, seq, payload, now, forget=forget)
    restored = tablestate.restore(tablestate.dump(kept.table), settings)
    replayed = opened(tmp_path, settings=settings)[1].table
    for payload, now, _ in told[20:]:
        for here in (kept.table, restored, replayed):
            here.apply_batch(decode.decode(payload).events, now)
        assert serverview.settled(restored) == serverview.settled(kept.table) == serverview.settled(replayed)


def test_appending_goes_on_after_a_torn_tail(tmp_path: pathlib.Path) -> None:
    kept, _ = opened(tmp_path)
    speak(kept, 0, STORE)
    with kept.path.open("ab") as file:
        file.write(b"\x40\x00\x00\x00half")
    back, loaded = opened(tmp_path)
    assert loaded.cut == 8
    speak(back, 1, CHILD)
    _, again = opened(tmp_path)
    assert (again.position, again.cut, again.table.count) == (facts.Position(1, 11), 0, 2)


def test_a_flipped_bit_cuts_off_what_follows(tmp_path: pathlib.Path) -> None:
    kept, _ = opened(tmp_path)
    speak(kept, 0, STORE)
    first = kept.path.stat().st_size
    speak(kept, 1, CHILD)
    damaged = bytearray(kept.path.read_bytes())
    damaged[first + 20] ^= 1
    kept.path.write_bytes(damaged)
    assert opened(tmp_path)[1].position == facts.Position(0, 0)


def test_a_journal_stays_small(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "COMPACT_AT", 2000)
    kept, _ = opened(tmp_path)
    remove = engineforms.payload(["BlockRemoved", [1], "GPU"])
    for seq in range(0, 400, 2):
        speak(kept, seq, STORE)
        speak(kept, seq + 1, remove)
        assert kept.path.stat().st_size < 2 * 2000
    assert opened(tmp_path)[1].position == facts.Position(399, 399 * 11)


# Files that cannot be used ------------------------------------------------------------------------------------------


def unusable(folder: pathlib.Path, identity: journal.Identity = IDENTITY) -> str:
    """The reason why a journal is not used, after checking that it was put aside and a new one works."""
    path = journal.path_of(folder, IDENTITY.replica)
    was = path.read_bytes()
    _, loaded = opened(folder, identity)
    assert loaded.position is None
    assert "\n" not in loaded.reason
    assert path.with_suffix(".bad").read_bytes() == was
    assert str(path.with_suffix(".bad")) in loaded.reason
    assert opened(folder, identity)[1].reason == ""
    return loaded.reason


@pytest.fixture
def used(tmp_path: pathlib.Path) -> pathlib.Path:
    """A journal with two batches in it."""
    kept, _ = opened(tmp_path)
    speak(kept, 0, STORE)
    speak(kept, 1, CHILD)
    kept.close()
    return kept.path


OTHERS = {
    "endpoint": msgspec.structs.replace(IDENTITY, endpoint="tcp://127.0.0.1:5558"),
    "config": msgspec.structs.replace(IDENTITY, config=journal.digest(table.Settings(clear="all"), "model")),
}


@pytest.mark.parametrize(("field", "identity"), OTHERS.items(), ids=OTHERS)
def test_a_journal_of_something_else_says_of_what(used: pathlib.Path, field: str, identity: journal.Identity) -> None:
    assert f"another {field}" in unusable(used.parent, identity)


def test_a_journal_of_another_version_says_which(used: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "VERSION", 2)
    assert "format version 1, this program reads 2" in unusable(used.parent)


def test_a_journal_cut_within_its_snapshot_says_so(used: pathlib.Path) -> None:
    whole = used.read_bytes()
    header = journal._FRAME + int.from_bytes(whole[:4], "little")
    snapshot = header + journal._FRAME + int.from_bytes(whole[header : header + 4], "little")
    for cut in range(snapshot):
        used.write_bytes(whole[:cut])
        assert "cut off or damaged" in unusable(used.parent)


STRANGE = {
    "text": b"hello, world, this is no journal at all",
    "zeros": bytes(4096),
    "another record first": journal._frame(["batch", 1]),
    "a number": journal._frame(7),
    "a header of other things": journal._frame(["header", 1, {"a": 1}]),
    "a header and no snapshot": journal._frame(journal._Header(1, IDENTITY)) * 2,
    "a state that is none": journal._frame(journal._Header(1, IDENTITY))
    + journal._frame(journal._Snapshot(journal._Mark(None, "partial", 0), b"\x97\x01")),
}


@pytest.mark.parametrize("content", STRANGE.values(), ids=STRANGE)
def test_a_file_that_is_no_journal_is_put_aside(used: pathlib.Path, content: bytes) -> None:
    used.write_bytes(content)
    assert unusable(used.parent)


@pytest.mark.parametrize("seed", range(50))
def test_damage_anywhere_is_a_reason_or_an_older_position(used: pathlib.Path, seed: int) -> None:
    rng = random.Random(seed)
    content = bytearray(used.read_bytes())
    for _ in range(rng.randrange(1, 4)):
        content[rng.randrange(len(content))] = rng.randrange(256)
    used.write_bytes(content)
    loaded = journal.load(used.parent, IDENTITY, SETTINGS)
    assert loaded.reason or loaded.position in (None, facts.Position(0, 0), facts.Position(1, 11))


def test_damage_within_a_state_is_never_a_crash() -> None:
    here = table.Table()
    for event in fakecache.Cache(random.Random(1), page=3, any_order=True).step() * 3:
        here.apply(event)
    state = tablestate.dump(here)
    rng = random.Random(2)
    for _ in range(300):
        damaged = bytearray(state)
        damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        with contextlib.suppress(tablestate.StateError):  # any other exception fails the test
            tablestate.restore(bytes(damaged), SETTINGS)


# Disks that fail ----------------------------------------------------------------------------------------------------


def test_a_full_disk_stops_the_journal_and_not_the_subscriber(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "COMPACT_AT", 1000)
    kept, _ = opened(tmp_path)
    speak(kept, 0, STORE)

    def full(file: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        speak(kept, 1, CHILD)
        assert "No space left on device" in kept.broken
        assert journal.load(tmp_path, IDENTITY, SETTINGS).position == facts.Position(0, 0)
        for seq in range(2, 20):
            speak(kept, seq, CHILD)
    assert kept.broken
    seq = 20
    while kept.broken and seq < 100:
        speak(kept, seq, CHILD)
        seq += 1
    assert kept.broken == ""
    assert opened(tmp_path)[1].position == facts.Position(seq - 1, (seq - 1) * 11)


def test_what_was_dropped_while_the_disk_was_full_does_not_come_back(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, _ = opened(tmp_path)
    speak(kept, 0, STORE)
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", lambda file, data: 0)
        speak(kept, 1, CHILD)
        kept.dropped("gpu", coverage="complete", epoch=0)
    assert kept.broken
    loaded = journal.load(tmp_path, IDENTITY, SETTINGS)
    assert (loaded.position, loaded.coverage, loaded.table.count) == (None, "partial", 0)


def test_a_record_that_only_half_fits_stops_the_journal(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, _ = opened(tmp_path)
    write = os.write
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", lambda file, data: write(file, data[:10]))
        speak(kept, 0, STORE)
    speak(kept, 1, CHILD)
    assert "disk is full" in kept.broken
    loaded = journal.load(tmp_path, IDENTITY, SETTINGS)
    assert (loaded.position, loaded.cut) == (None, 10)


def test_a_folder_that_cannot_be_written_is_said_once(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_text("in the way")
    kept, loaded = opened(tmp_path / "file" / "folder")
    assert kept.broken
    assert loaded.position is None
    speak(kept, 0, STORE)
    kept.close()


def test_a_leftover_of_a_compaction_that_died_is_overwritten(used: pathlib.Path) -> None:
    used.with_suffix(".new").write_bytes(b"half a snapshot")
    assert opened(used.parent)[1].position == facts.Position(1, 11)
    assert not used.with_suffix(".new").exists()


def test_a_record_that_claims_to_be_large_takes_no_memory(tmp_path: pathlib.Path) -> None:
    kept, _ = opened(tmp_path)
    kept.close()
    with kept.path.open("ab") as file:
        file.write((512 << 20).to_bytes(4, "little") + bytes(20))
    tracemalloc.start()
    loaded = journal.load(tmp_path, IDENTITY, SETTINGS)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (loaded.reason, loaded.cut) == ("", 32 - 8)
    assert peak < 4 << 20


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("a copy of nothing", "which nothing names"),
        ("places", "is in 1 places, not in 2"),
        ("a loop of pages", "lies above itself"),
    ],
)
def test_a_state_that_contradicts_itself_is_refused_at_once(what: str, says: str) -> None:
    made = table.Table(SETTINGS)
    small = {"type": "BlockStored", "parent_block_hash": None, "block_size": 4, "medium": "GPU"}
    stored = [small | {"block_hashes": [1, 2], "token_ids": list(range(8))}]
    made.apply_batch(decode.decode(engineforms.payload(*stored)).events, 0.0)
    state = msgspec.msgpack.decode(tablestate.dump(made), strict=False)
    _, _, all_pages, _, shelves = state[5][0]
    if what == "a copy of nothing":
        shelves[0][2][99] = 1
    elif what == "places":
        all_pages[0][7] += 1
    else:
        all_pages[0][5], all_pages[1][5] = 1, 0
    with pytest.raises(tablestate.StateError, match=says):
        tablestate.restore(msgspec.msgpack.encode(state), SETTINGS)
