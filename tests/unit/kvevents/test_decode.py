"""Bytes to events: every version, every failure, both ways of decoding. Excluded: what events mean (test_table*)."""

import re
import tracemalloc
from typing import Any

import hypothesis
import msgspec
import pytest
from hypothesis import strategies as st

from handlers.prefixindex import keys
from subscribers.kvevents import batch, decode
from tests.support import engineforms

TOKENS = keys.pack_tokens(list(range(100, 132)))
STORED_ROWS = [
    pytest.param(form, id=f"{engine} {version} {'salted' if form.salt_tail else ''}")
    for engine, versions in engineforms.STORED_FORMS.items()
    for version, forms in versions.items()
    for form in forms
]
REMOVED_ROWS = [
    pytest.param(form, id=f"{engine} {version}")
    for engine, versions in engineforms.REMOVED_FORMS.items()
    for version, form in versions.items()
]


def both(payload: bytes) -> batch.Batch:
    """The batch, after both ways of decoding agreed on it."""
    decoded = decode.decode(payload)
    patiently = decode.patient(payload)
    if not decoded.problems:
        assert decoded == patiently
    return decoded


def one(payload: bytes) -> batch.Event:
    decoded = both(payload)
    assert decoded.problems == ()
    (event,) = decoded.events
    return event


# Every version ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", STORED_ROWS)
def test_a_store_of_every_version_gives_the_fields_that_the_version_has(form: engineforms.Form) -> None:
    said = engineforms.STORED
    has = set(form.fields) | ({"cache_salt"} if form.salt_tail else set())
    named = "lora_name" in has
    extra: list[bytes | None] | None = None
    if "extra_keys" in has:  # the adapter's name is gone from it (KV-07)
        extra = [msgspec.msgpack.encode([["img-1", -2]]), None]
    assert one(engineforms.payload(form.write("BlockStored", said))) == batch.Stored(
        hashes=[1111, 2222],
        parent=999,
        tokens=TOKENS,
        block_size=16,
        lora_id=7,
        lora_name="sql" if named else None,
        medium="GPU" if "medium" in has else None,
        extra=extra,
        salt="tenant-a" if "cache_salt" in has else None,
        group=1 if "group_idx" in has else 0,
        kind="full_attention" if "kv_cache_spec_kind" in has else None,
        window=128 if "kv_cache_spec_sliding_window" in has else None,
        lookahead=keys.pack_tokens([132, 133]) if "lookahead_token_ids" in has else None,
        locality="LOCAL" if "locality" in has else None,
    )


@pytest.mark.parametrize("form", REMOVED_ROWS)
def test_a_removal_of_every_version_gives_the_fields_that_the_version_has(form: engineforms.Form) -> None:
    assert one(engineforms.payload(form.write("BlockRemoved", engineforms.REMOVED))) == batch.Removed(
        hashes=[1111],
        medium="GPU" if "medium" in form.fields else None,
        group=1 if "group_idx" in form.fields else 0,
        locality="LOCAL" if "locality" in form.fields else None,
    )


@pytest.mark.parametrize("shape", engineforms.CLEARED_FORMS.values(), ids=engineforms.CLEARED_FORMS)
def test_a_clear_of_every_version(shape: Any) -> None:
    assert one(engineforms.payload(shape)) == batch.Cleared()


@pytest.mark.parametrize(
    "form",
    STORED_ROWS,
    ids=lambda form: form,  # ids come from the rows
)
def test_optional_fields_that_are_null_equal_absent_ones(form: engineforms.Form) -> None:
    """KV-03: arrays carry trailing nulls, maps leave null keys out."""
    said: dict[str, Any] = dict.fromkeys(engineforms.STORED) | {
        "block_hashes": [1],
        "token_ids": [1, 2],
        "block_size": 2,
    }
    written = form.write("BlockStored", said)
    if form.is_map:
        assert one(engineforms.payload(written)) == one(
            engineforms.payload(
                {key: value for key, value in written.items() if value is not None or key == "parent_block_hash"}
            )
        )
    assert one(engineforms.payload(written)) == batch.Stored([1], None, keys.pack_tokens([1, 2]), 2)


def _looking_ahead(lookahead: Any) -> bytes:
    said = engineforms.STORED | {"lookahead_token_ids": lookahead}
    return engineforms.payload(engineforms.STORED_FORMS["vllm"]["0.33.0"][0].write("BlockStored", said))


@pytest.mark.parametrize(
    ("per_block", "last"),
    [
        ([[116], [132]], [132]),
        ([[116, 117], [132, 133]], [132, 133]),
        ([[116, 117, 118], [132, 133, 134]], [132, 133, 134]),
        ([[116], []], None),
        ([], None),
    ],
    ids=["one token", "two, which are no pair", "three", "none behind the last block", "no blocks"],
)
def test_a_lookahead_is_told_per_block_and_the_last_one_counts(per_block: Any, last: list[int] | None) -> None:
    """IDX-11; vLLM 0.33 with a drafter whose blocks depend on the tokens after them."""
    event = one(_looking_ahead(per_block))
    assert isinstance(event, batch.Stored)
    assert event.lookahead == (keys.pack_tokens(last) if last else None)


def test_a_lookahead_that_is_no_list_per_block_costs_the_store() -> None:
    decoded = both(_looking_ahead([132, 133]))
    assert [(problem.loss, problem.kind) for problem in decoded.problems] == [(batch.Loss.STORE, "malformed")]
    assert "lookahead_token_ids" in decoded.problems[0].reason


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_no_version_of_the_schema_history_is_without_a_form(engine: str) -> None:
    schemas = engineforms.SCHEMAS[engine]
    assert set(schemas["BlockStored"]) == set(engineforms.STORED_FORMS[engine])
    assert set(schemas["BlockRemoved"]) == set(engineforms.REMOVED_FORMS[engine])
    if engine == "vllm":
        assert set(schemas["AllBlocksCleared"]) == set(engineforms.CLEARED_FORMS)
        assert set(schemas["batch"]) == set(engineforms.BATCH_FORMS)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_forms_have_as_many_slots_as_the_schema_history_says(engine: str) -> None:
    for kind, forms in (("BlockStored", engineforms.STORED_FORMS), ("BlockRemoved", engineforms.REMOVED_FORMS)):
        for version, described in engineforms.SCHEMAS[engine][kind].items():
            form = forms[engine][version]
            first = form[0] if isinstance(form, list) else form
            slots = re.match(r"array (\d+)", described)
            assert first.is_map == (slots is None)
            if slots is not None:
                assert len(first.write(kind, engineforms.STORED)) == int(slots[1])


FIXED = {
    "vllm-0.9.1..0.10.1.1": (1, [batch.Stored([1111], None, keys.pack_tokens([11, 12, 13, 14]), 4)]),
    "vllm-0.10.2..0.13 bytes": (
        0,
        [batch.Stored([bytes(range(32))], None, keys.pack_tokens([11, 12, 13, 14]), 4, medium="GPU")],
    ),
    "vllm-0.20..0.21": (
        0,
        [
            batch.Stored(
                [1111],
                None,
                keys.pack_tokens([11, 12, 13, 14]),
                4,
                medium="GPU",
                extra=[msgspec.msgpack.encode([["img-hash-1", -2]])],
            ),
            batch.Removed([1111], "GPU"),
        ],
    ),
    "vllm-0.26..0.28": (
        0,
        [
            batch.Stored([1111], None, None, 0, medium="CPU", locality="LOCAL"),
            batch.Removed([1111], "CPU", locality="LOCAL"),
        ],
    ),
    "sglang-0.5.9..0.5.16": (
        0,
        [
            batch.Stored([-77], None, keys.pack_tokens([11, 12, 13, 14]), 4, medium="CPU_PINNED"),
            batch.Removed([-77], "GPU"),
        ],
    ),
    "sglang-0.5.20..": (
        None,
        [
            batch.Stored([103], None, keys.pack_tokens([11, 12, 13, 14]), 4, medium="GPU", salt="tenant-a"),
            batch.Cleared(),
        ],
    ),
}


@pytest.mark.parametrize("name", engineforms.FIXTURES)
def test_recorded_bytes_of_engines(name: str) -> None:
    rank, events = FIXED[name]
    decoded = both(bytes.fromhex(engineforms.FIXTURES[name]["msgpack_hex"]))
    assert (decoded.ts, decoded.rank, list(decoded.events), decoded.problems) == (1700000000.25, rank, events, ())


# Batches ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "rank"), [("0.9.0", None), ("0.9.1+", 3)], ids=["two items", "three items"])
def test_batches_with_and_without_a_rank(version: str, rank: int | None) -> None:
    """KV-03."""
    decoded = both(engineforms.encode(engineforms.BATCH_FORMS[version]([["AllBlocksCleared"]])))
    assert (decoded.rank, decoded.events) == (rank, [batch.Cleared()])


def test_arrays_and_maps_may_stand_in_one_batch() -> None:
    """KV-01."""
    decoded = both(engineforms.payload(["BlockRemoved", [1]], {"type": "BlockRemoved", "block_hashes": [2]}))
    assert list(decoded.events) == [batch.Removed([1]), batch.Removed([2])]
    assert (decoded.form, decoded.problems) == ("mixed", ())


def test_an_outer_map_is_a_batch_too() -> None:
    """KV-15."""
    event = {"type": "AllBlocksCleared"}
    decoded = both(engineforms.encode({"ts": 1.5, "events": [event], "data_parallel_rank": 2}))
    assert (decoded.ts, decoded.rank, list(decoded.events)) == (1.5, 2, [batch.Cleared()])


def test_a_surplus_tail_and_unknown_keys_are_ignored() -> None:
    """KV-02."""
    tail = ["BlockRemoved", [1], "GPU", 0, "what", {"is": "this"}]
    assert one(engineforms.payload(tail)) == batch.Removed([1], "GPU")
    assert one(engineforms.payload({"type": "BlockRemoved", "block_hashes": [1], "new": [[]]})) == batch.Removed([1])
    assert both(engineforms.encode([1.0, [], None, "more"])).problems == ()


def test_hashes_keep_their_type_and_zero_is_a_hash() -> None:
    """KV-04."""
    hashes: list[Any] = [0, -1, 2**64 - 1, b"\x05", 5]
    event = one(engineforms.payload(["BlockRemoved", hashes]))
    assert isinstance(event, batch.Removed)
    assert list(event.hashes) == hashes
    assert len(set(event.hashes)) == 5


def test_text_hashes_take_the_patient_way() -> None:
    """SGLang's namespaced hashes."""
    assert one(engineforms.payload(["BlockRemoved", ["ns:1", 1]])) == batch.Removed(["ns:1", 1])
    stored = {"type": "BlockStored", "block_hashes": ["a"], "parent_block_hash": "b", "token_ids": [1], "block_size": 1}
    assert one(engineforms.payload(stored)) == batch.Stored(["a"], "b", keys.pack_tokens([1]), 1)


@pytest.mark.parametrize(
    ("value", "spelled"),
    [(258, "i:0000000000000102"), (-1, "i:ffffffffffffffff"), (b"\x01", "b:01"), ("a", "s:61")],
    ids=["number", "negative", "bytes", "text"],
)
def test_hashes_are_spelled_so_that_types_stay_apart(value: batch.Hash, spelled: str) -> None:
    assert batch.spell(value) == spelled


# What keys depend on ------------------------------------------------------------------------------------------------


def stored(**fields: Any) -> batch.Stored:
    base = {"type": "BlockStored", "block_hashes": [5], "parent_block_hash": None}
    base |= {"token_ids": [1, 2, 3, 4], "block_size": 4}
    event = one(engineforms.payload(base | fields))
    assert isinstance(event, batch.Stored)
    return event


def test_extra_keys_of_both_shapes_are_kept_in_order() -> None:
    """KV-06."""
    shapes = [["img-A"], [["img-A", -2]], ["salt", ["img-A", 0]], None]
    event = stored(block_hashes=[1, 2, 3, 4], token_ids=list(range(16)), extra_keys=shapes)
    assert event.extra == [None if shape is None else msgspec.msgpack.encode(shape) for shape in shapes]
    assert len(set(event.extra)) == 4


def test_the_adapters_name_leaves_the_extra_keys_once() -> None:
    """KV-07."""
    assert stored(lora_id=117, lora_name="adapter-116", extra_keys=[["adapter-116"]]).extra is None
    twice = stored(lora_id=117, lora_name="a", extra_keys=[["a", "a"]])
    assert twice.extra == [msgspec.msgpack.encode(["a"])]
    salt_of_the_same_text = stored(extra_keys=[["adapter-116"]])
    assert salt_of_the_same_text.extra == [msgspec.msgpack.encode(["adapter-116"])]


def test_slot_seven_is_a_name_or_sglangs_metadata() -> None:
    """KV-16."""
    salted = ["BlockStored", [1], None, [1], 1, None, "GPU", {"cache_salt": "t"}]
    plain = ["BlockStored", [2], None, [1], 1, None, "GPU"]
    named = ["BlockStored", [3], None, [1], 1, 4, "GPU", "sql"]
    events = both(engineforms.payload(salted, plain, named)).events
    assert [(event.salt, event.lora_name) for event in events if isinstance(event, batch.Stored)] == [
        ("t", None),
        (None, None),
        (None, "sql"),
    ]


def test_a_name_in_an_array_without_an_id_is_a_surplus_slot() -> None:
    """The acceptance case "trailing tuple fields ignored"; vLLM fills both or neither."""
    event = one(engineforms.payload(["BlockStored", [1], None, [1], 1, None, "gpu", "x"]))
    assert isinstance(event, batch.Stored)
    assert event.lora_name is None


def test_eagle_pairs_give_their_first_tokens() -> None:
    """KV-17."""
    event = stored(token_ids=[[1, 2], [2, 3], [3, 4], [4, 5]])
    assert (event.tokens, event.bigram) == (keys.pack_tokens([1, 2, 3, 4]), True)


@pytest.mark.parametrize(
    "tokens",
    [
        [1, [2, 3], 3, 4],
        [[1, 2], 3, 4, 5],
        [[1, 2, 3]],
        [-1],
        [2**32],
        [1.5],
        ["a"],
        [True],
        [None],
        [[1, 2**32], [1, 2]],
    ],
    ids=str,
)
def test_tokens_that_are_neither_numbers_nor_pairs_lose_that_store_only(tokens: Any) -> None:
    bad = {"type": "BlockStored", "block_hashes": [1], "parent_block_hash": None, "token_ids": tokens, "block_size": 4}
    decoded = both(engineforms.payload(bad, {"type": "BlockRemoved", "block_hashes": [2]}))
    if tokens == [[1, 2**32], [1, 2]]:  # the second of a pair is not ours to judge
        assert decoded.problems == ()
        return
    assert list(decoded.events) == [batch.Removed([2])]
    assert [(problem.loss, problem.kind) for problem in decoded.problems] == [(batch.Loss.STORE, "malformed")]


# What goes wrong ----------------------------------------------------------------------------------------------------


def test_one_bad_event_loses_no_other() -> None:
    """KV-14: the first and fourth apply, the second is malformed, the third unknown."""
    decoded = both(
        engineforms.payload(
            ["BlockRemoved", [1]],
            ["BlockStored", "not a list", None, [1], 1],
            ["BlockMigrated", [3]],
            ["BlockRemoved", [4]],
        )
    )
    assert list(decoded.events) == [batch.Removed([1]), batch.Removed([4])]
    assert [problem.kind for problem in decoded.problems] == ["malformed", "unknown-tag"]
    assert decoded.loss is batch.Loss.STORE


PROBLEMS: dict[str, tuple[Any, batch.Loss, str]] = {
    "unknown tag": (["Mystery", 1], batch.Loss.NOTHING, "'Mystery'"),
    "unknown type": ({"type": "Mystery"}, batch.Loss.NOTHING, "'Mystery'"),
    "store without size": (["BlockStored", [1], None, [1]], batch.Loss.STORE, "needs 5 slots, has 4"),
    "store with negative size": (["BlockStored", [1], None, [1], -1], batch.Loss.STORE, "block_size"),
    "store with text as medium": (["BlockStored", [1], None, [1], 1, None, 7], batch.Loss.STORE, "medium"),
    "store with a float hash": (["BlockStored", [1.5], None, [1], 1], batch.Loss.STORE, "block_hashes"),
    "store with a flat list of extra keys": (
        {"type": "BlockStored", "block_hashes": [1], "parent_block_hash": None, "block_size": 1, "extra_keys": ["a"]},
        batch.Loss.STORE,
        "extra_keys",
    ),
    "store without a word about the parent": (
        {"type": "BlockStored", "block_hashes": [1], "token_ids": [1], "block_size": 1},
        batch.Loss.STORE,
        "parent_block_hash is missing",
    ),
    "removal without hashes": (["BlockRemoved"], batch.Loss.REMOVAL, "needs 2 slots, has 1"),
    "removal of null": (["BlockRemoved", [None]], batch.Loss.REMOVAL, "block_hashes"),
    "removal of true": (["BlockRemoved", [True]], batch.Loss.REMOVAL, "bool"),
    "clear of a medium without it": (["TierBlocksCleared", None], batch.Loss.REMOVAL, "medium"),
    "no tag": ([1, 2], batch.Loss.REMOVAL, "neither a tagged array"),
    "no event at all": (5, batch.Loss.REMOVAL, "neither a tagged array"),
    "empty map": ({}, batch.Loss.REMOVAL, "neither a tagged array"),
}


@pytest.mark.parametrize(("event", "loss", "says"), PROBLEMS.values(), ids=PROBLEMS)
def test_each_problem_says_what_it_may_have_cost(event: Any, loss: batch.Loss, says: str) -> None:
    decoded = both(engineforms.payload(event, ["AllBlocksCleared"]))
    (problem,) = decoded.problems
    assert problem.loss is loss
    assert says in problem.reason
    assert "\n" not in problem.reason
    assert list(decoded.events) == [batch.Cleared()]


def test_a_future_clear_of_one_medium_is_understood() -> None:
    """TR-17."""
    assert one(engineforms.payload({"type": "TierBlocksCleared", "medium": "CPU"})) == batch.Cleared("CPU")


def test_a_rank_that_is_no_number_loses_nothing() -> None:
    decoded = both(engineforms.encode([1.0, [["AllBlocksCleared"]], "three"]))
    assert (decoded.rank, decoded.loss, len(decoded.events)) == (None, batch.Loss.NOTHING, 1)


UNDECODABLE: dict[str, bytes] = {
    "nothing": b"",
    "no MessagePack": b"\xc1",
    "one element": engineforms.encode([1]),
    "a number": engineforms.encode(1),
    "null events": engineforms.encode([1.0, None]),
    "cut in half": engineforms.payload(["BlockRemoved", [1, 2, 3]])[:-5],
    "a tail of bytes": engineforms.payload(["BlockRemoved", [1]]) + b"\x00",
    "4 billion events": b"\x92\x01\xdd\xff\xff\xff\xff",
    "4 billion keys": b"\xdf\xff\xff\xff\xff",
    "a text of 4 GiB": b"\x92\x01\x91\xdb\xff\xff\xff\xff",
    "a million arrays deep": b"\x92\x01" + b"\x91" * 1_000_000,
    "a million arrays deep in an event": b"\x92\x01\x91" + b"\x91" * 1_000_000 + b"\x01",
    "a million maps deep": b"\x92\x01\x91" + b"\x81\xa1a" * 300_000 + b"\x01",
}


@pytest.mark.parametrize("payload", UNDECODABLE.values(), ids=UNDECODABLE)
def test_a_batch_that_does_not_decode_is_a_problem_and_no_exception(payload: bytes) -> None:
    """KV-13: it may have held removals."""
    decoded = both(payload)
    assert decoded.events == ()
    assert decoded.loss is batch.Loss.REMOVAL
    (problem,) = decoded.problems
    assert problem.kind == "undecodable"
    assert "\n" not in problem.reason
    assert len(problem.reason) < 250


def test_deep_nesting_inside_one_event_is_one_lines_worth() -> None:
    deep: Any = None
    for _ in range(300):
        deep = [deep]
    assert stored(extra_keys=[deep]).extra is not None


def test_an_oversized_payload_is_refused_unread() -> None:
    decoded = decode.decode(bytes(decode.MAX_PAYLOAD + 1))
    assert "exceeds" in decoded.problems[0].reason


@pytest.mark.parametrize(
    "payload",
    [
        b"\x92\x01\xdd" + (20_000).to_bytes(4, "big") + b"\x92\xabBlockStored\x90" * 20_000,
        engineforms.payload(["BlockRemoved", [0] * 200_000]),
        b"\x92\x01\xdd\x7f\xff\xff\xff" + b"\x01" * 200_000,
        b"\x92\x01\xdd" + (200_000).to_bytes(4, "big") + b"\x90" * 200_000,
        engineforms.payload(["BlockStored", [1], None, None, 1, None, None, None, [[]] * 200_000]),
    ],
    ids=["malformed events", "hashes", "a length that lies", "events of one byte", "empty lists"],
)
def test_memory_stays_within_a_multiple_of_the_payload(payload: bytes) -> None:
    tracemalloc.start()
    try:
        decode.decode(payload)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100 * len(payload)


def test_problems_of_one_batch_are_bounded_and_none_is_forgotten() -> None:
    decoded = both(engineforms.payload(*[["Mystery"]] * 1000, *[["BlockRemoved", None]] * 40))
    assert [problem.reason for problem in decoded.problems[-2:]] == [
        "968 more events like these",
        "8 more events like these",
    ]
    assert len(decoded.problems) == 66
    assert decoded.loss is batch.Loss.REMOVAL


# Anything at all ----------------------------------------------------------------------------------------------------

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=4)
    | st.binary(max_size=4)
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
)
tags = st.sampled_from(["BlockStored", "BlockRemoved", "AllBlocksCleared", "TierBlocksCleared", "Mystery"])
hashes = st.lists(st.integers(-(2**63), 2**64 - 1) | st.binary(max_size=3) | st.text(max_size=2), max_size=3)
likely = {
    "block_hashes": hashes | values,
    "parent_block_hash": st.none() | st.integers(0, 9) | values,
    "token_ids": st.lists(st.integers(0, 2**32), max_size=4)
    | st.lists(st.lists(st.integers(0, 9), min_size=2, max_size=2), max_size=3)
    | values,
    "block_size": st.integers(-1, 4) | values,
    "lora_id": st.none() | st.integers(0, 3) | values,
    "medium": st.none() | st.sampled_from(["GPU", "CPU"]) | values,
    "lora_name": st.none() | st.text(max_size=2) | st.fixed_dictionaries({"cache_salt": scalars}) | values,
    "extra_keys": st.none() | st.lists(st.none() | st.lists(scalars, max_size=2), max_size=2) | values,
    "group_idx": st.none() | st.integers(0, 2) | values,
    "kv_cache_spec_kind": st.none() | st.text(max_size=3) | values,
    "kv_cache_spec_sliding_window": st.none() | st.integers(0, 9) | values,
    "locality": st.none() | st.text(max_size=3) | values,
    "cache_salt": st.none() | st.text(max_size=2) | values,
    "lookahead_token_ids": st.none() | st.lists(st.lists(st.integers(0, 9), max_size=2), max_size=2) | values,
}
maps = st.builds(lambda tag, fields: {"type": tag} | fields, tags, st.fixed_dictionaries({}, optional=likely))
arrays = st.builds(
    lambda tag, fields, cut: [tag, *fields][: cut + 1],
    tags,
    st.tuples(*[likely[name] for name in list(likely)[:11]]),
    st.integers(0, 11),
)
removed_arrays = st.builds(
    lambda *fields: ["BlockRemoved", *fields], likely["block_hashes"], likely["medium"], likely["group_idx"]
)
events = maps | arrays | removed_arrays | values
batches = st.builds(
    lambda ts, said, rank: [ts, said, rank],
    st.floats(0, 2e9) | scalars,
    st.lists(events, max_size=3) | values,
    st.none() | st.integers(0, 3) | scalars,
)


def alike(one: batch.Batch, other: batch.Batch) -> bool:
    """Equal, where not-a-number equals itself."""
    return repr(one) == repr(other)


@hypothesis.settings(max_examples=150, deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
@hypothesis.given(batches)
def test_both_ways_agree_on_anything_like_a_batch(sent: Any) -> None:
    payload = msgspec.msgpack.encode(sent)
    decoded = decode.decode(payload)
    patiently = decode.patient(payload)
    assert alike(decoded, patiently)
    for problem in decoded.problems:
        assert "\n" not in problem.reason


@hypothesis.settings(max_examples=150, deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
@hypothesis.given(st.binary(max_size=200))
def test_any_bytes_give_a_batch(payload: bytes) -> None:
    assert alike(decode.decode(payload), decode.patient(payload))


@hypothesis.settings(max_examples=150, deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
@hypothesis.given(st.sampled_from(sorted(engineforms.FIXTURES)), st.data())
def test_real_payloads_with_damage_give_a_batch(name: str, data: st.DataObject) -> None:
    payload = bytearray.fromhex(engineforms.FIXTURES[name]["msgpack_hex"])
    for at in data.draw(st.lists(st.integers(0, len(payload) - 1), max_size=4)):
        payload[at] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(payload)))
    for damaged in (bytes(payload), bytes(payload[:cut])):
        patiently = decode.patient(damaged)
        # The fast way does not look into fields that we do not use, the patient one refuses broken text there too.
        assert alike(decode.decode(damaged), patiently) or "UTF-8" in repr(patiently.problems)


CANARY = 3735928559
SLIPPED = {
    "a list of tokens": [CANARY] * 16,
    "a number": CANARY,
    "a negative one": -CANARY,
    "text": str(CANARY),
    "pairs": [[CANARY, CANARY, CANARY]],
    "a map": {str(CANARY): CANARY},
    "too large a token": [CANARY << 32],
}


@pytest.mark.parametrize("value", SLIPPED.values(), ids=SLIPPED)
def test_reasons_never_say_what_a_field_held(value: Any) -> None:
    """In a form that we do not know any field may hold the tokens, and reasons travel in keyframes and logs."""
    stored = ["BlockStored", [1], None, [1] * 16, 16, None, "GPU", None, None, 0, None, None]
    names = ["type", "block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium", "lora_name"]
    names += ["extra_keys", "group_idx", "kv_cache_spec_kind", "kv_cache_spec_sliding_window"]
    events: list[Any] = []
    for slot in range(1, len(stored)):
        slipped = [*stored[:slot], value, *stored[slot + 1 :]]
        events += [slipped, dict(zip(names, slipped, strict=True)), ["BlockRemoved", *slipped[slot:]]]
    for name in ("cache_salt", "locality", "lookahead_token_ids"):
        events.append({**dict(zip(names, stored, strict=True)), name: value})
    for rank in (None, value):
        read = decode.decode(msgspec.msgpack.encode([1.0, [*events, value], rank]))
        assert read.problems
        said = " ".join(problem.reason for problem in read.problems)
        assert str(CANARY) not in said
        assert hex(CANARY)[2:] not in said
