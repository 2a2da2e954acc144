"""Parsers of what comes from an engine or from our own disk: KV events, replay replies, metrics pages, journals."""

import pathlib
import tempfile
import weakref

import xxhash

from subscribers.kvevents import batch, decode, facts, journal, metrics, replay, table, tablestate
from tests.fuzz import mutate
from tests.fuzz.target import Target, Try
from tests.support import engineforms

# KV events -----------------------------------------------------------------------------------------------------------


def _batches() -> list[bytes]:
    tags = ("BlockStored", "BlockRemoved")
    made = []
    for forms in engineforms.STORED_FORMS.values():
        for version in forms.values():
            made += [engineforms.payload(form.write(tags[0], engineforms.STORED)) for form in version]
    for removed in engineforms.REMOVED_FORMS.values():
        made += [engineforms.payload(form.write(tags[1], engineforms.REMOVED)) for form in removed.values()]
    small = engineforms.STORED | {"parent_block_hash": None, "block_size": 4, "token_ids": list(range(8))}
    made += [
        engineforms.payload({"type": "AllBlocksCleared"}),
        engineforms.payload(["AllBlocksCleared"], rank=None),
        engineforms.payload(
            {"type": tags[0], **small}, {"type": tags[1], "block_hashes": [b"x" * 32], "medium": "CPU"}
        ),
        engineforms.payload(*[[tags[0], [n], None, list(range(16)), 16, None, "GPU"] for n in range(6)]),
    ]
    return sorted(set(made))


def _events() -> Try:
    held = table.Table(table.Settings())
    seen = 0

    def one(payload: bytes) -> bool:
        nonlocal held, seen
        seen += 1
        found = decode.decode(payload)
        if not found.problems:
            patiently = decode.patient(payload)
            # The fast way does not look at fields that we do not use; the patient one loses an event for no UTF-8.
            assert patiently.problems or repr(found) == repr(patiently), "the two ways of decoding disagree"
        held.apply_batch(found.events, float(seen))
        held.take_notes()
        held.take_clear()
        if seen % 16 == 0:
            held.take()
            held.tick(float(seen))
        if seen % 512 == 0:
            state = tablestate.dump(held)
            again = tablestate.restore(state, table.Settings())
            assert (again.count, again.sum) == (held.count, held.sum), "a table came back another"
            held = table.Table(table.Settings())
        return batch.Loss.REMOVAL not in [problem.loss for problem in found.problems]

    return one


# Journals ------------------------------------------------------------------------------------------------------------

IDENTITY = journal.Identity("tcp://127.0.0.1:5557", "engine-0", "config")
_FRAME = 12


def _journals() -> list[bytes]:
    made = []
    for payloads in ([], _batches()[:3], _batches()[::9]):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            kept, _ = journal.open_journal(folder, IDENTITY, table.Settings())
            for number, payload in enumerate(payloads):
                kept.table.apply_batch(decode.decode(payload).events, float(number))
                kept.applied(facts.Position(number, number), payload, now=float(number), coverage="complete", epoch=1)
                if number == 1:
                    kept.compact()
            kept.dropped("gpu", coverage="partial", epoch=1)
            kept.close()
            made.append(journal.path_of(folder, IDENTITY.replica).read_bytes())
    return made


def with_checksums(raw: bytes) -> bytes:
    """The same records with lengths and sums that are right, so that what is inside is looked at."""
    out, at = bytearray(), 0
    while at + _FRAME <= len(raw):
        length = min(int.from_bytes(raw[at : at + 4], "little"), len(raw) - at - _FRAME)
        body = raw[at + _FRAME : at + _FRAME + length]
        out += len(body).to_bytes(4, "little") + xxhash.xxh3_64_intdigest(body).to_bytes(8, "little") + body
        at += _FRAME + length
    return bytes(out)


def _journal() -> Try:
    folder = tempfile.TemporaryDirectory()
    where = pathlib.Path(folder.name)
    path = journal.path_of(where, IDENTITY.replica)
    seen = 0

    def one(raw: bytes) -> bool:
        nonlocal seen
        seen += 1
        path.write_bytes(with_checksums(raw) if seen % 4 else raw)
        loaded = journal.load(where, IDENTITY, table.Settings())
        loaded.table.apply_batch(_A_BATCH, 0.0)
        sum(1 for _ in loaded.table.held())
        return not loaded.reason

    weakref.finalize(one, folder.cleanup)
    return one


_A_BATCH = decode.decode(engineforms.payload({"type": "BlockRemoved", "block_hashes": [1111], "medium": "GPU"})).events

# A table's state -----------------------------------------------------------------------------------------------------


def _states() -> list[bytes]:
    made = []
    for payloads in ([], _batches()[:4], _batches()):
        held = table.Table(table.Settings())
        for number, payload in enumerate(payloads):
            held.apply_batch(decode.decode(payload).events, float(number))
        made.append(tablestate.dump(held))
    return made


def _state() -> Try:
    batches = [decode.decode(payload).events for payload in _batches()]
    seen = 0

    def one(state: bytes) -> bool:
        nonlocal seen
        seen += 1
        try:
            held = tablestate.restore(state, table.Settings())
        except tablestate.StateError:
            return False
        for events in batches[seen % 5 :: 5]:
            held.apply_batch(events, 1e9)
        held.tick(2e9)
        held.take()
        for _ in held.held():
            pass
        held.clear("gpu" if seen % 2 else "all")
        tablestate.restore(tablestate.dump(held), table.Settings())
        return True

    return one


# Replay --------------------------------------------------------------------------------------------------------------

#: Frames of one reply, joined: a byte of length before each.
REPLIES = [
    b"\x00\x08\x00\x00\x00\x00\x00\x00\x00\x07\x03abc",
    b"\x00\x02kv\x08\x00\x00\x00\x00\x00\x00\x00\x07\x03abc",
    b"\x00\x08\xff\xff\xff\xff\xff\xff\xff\xff\x00",
]


def _replies() -> Try:
    def one(raw: bytes) -> bool:
        frames, at = [], 0
        while at < len(raw) and len(frames) < 8:
            frames.append(raw[at + 1 : at + 1 + raw[at]])
            at += 1 + raw[at]
        try:
            replay.parse(frames)
        except replay.ReplayFailed:
            return False
        return True

    return one


# Metrics -------------------------------------------------------------------------------------------------------------

PAGES = [
    b"# HELP vllm:num_requests_running x\n# TYPE vllm:num_requests_running gauge\n"
    b'vllm:num_requests_running{engine="0",model_name="m"} 3.0\n'
    b'vllm:num_requests_waiting{engine="0",model_name="m"} 1\n'
    b'vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25\n'
    b'vllm:prefix_cache_hits_total{engine="0",model_name="m"} 1.5e+06\n'
    b'vllm:prefix_cache_queries_total{engine="0",model_name="m"} 3e6 1700000000\n'
    b'vllm:external_prefix_cache_hits_total{engine="0",model_name="m"} 5\n'
    b'vllm:external_prefix_cache_queries_total{engine="0",model_name="m"} 9\n'
    b'vllm:engine_sleep_state{engine="0",model_name="m",sleep_state="awake"} 1\n',
    b'sglang:num_running_reqs{model_name="a \\"b\\"\\n",dp_rank="1"} 2\nsglang:num_queue_reqs{model_name="m"} NaN\n'
    b'sglang:token_usage{model_name="m"} 0.5\nsglang:cache_hit_rate{model_name="m"} +Inf\n',
]
_WORDS = (
    *mutate.TEXT,
    b'{model_name="',
    b'="\\',
    b'",',
    b"}",
    b"{",
    b" 1e308",
    b" -1",
    b"vllm:",
    b'\\n"',
    b"=" * 40,
    b'a="b",' * 40,
)


def _pages() -> Try:
    options = [metrics.Options(cache_bytes=1 << 40), metrics.Options(model="m", rank=0, tier="gpu")]
    before: list[metrics.Reading | None] = [None, None]

    def one(raw: bytes) -> bool:
        which = len(raw) % 2
        try:
            now = metrics.read(raw.decode(errors="replace"), options[which])
        except metrics.MetricsError:
            return False
        said = metrics.load(before[which], now, at=1.0, options=options[which])
        before[which] = now
        assert said is not None
        return True

    return one


TARGETS = [
    Target("KV events of vLLM and SGLang", _batches(), mutate.MSGPACK, _events),
    Target("a subscriber's journal", _journals(), mutate.MSGPACK, _journal),
    Target("a table's state", _states(), mutate.MSGPACK, _state),
    Target("replay replies", REPLIES, mutate.NUMBERS, _replies),
    Target("metrics pages of engines", PAGES, _WORDS, _pages),
]
