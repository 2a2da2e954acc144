"""The native helper says what Python says, for every input. Excluded: what it all means (test_request, conformance)."""

import contextlib
import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventstore import kvwire
from handlers.prefixindex import domain, keys, request

if keys.native is None:
    if os.environ.get("WARMLOG_REQUIRE_REAL") == "1":
        raise RuntimeError("WARMLOG_REQUIRE_REAL=1 and the native helper was not built: see hatch_build.py")
    pytest.skip("the native helper was not built", allow_module_level=True)

U64 = st.integers(0, 2**64 - 1)
TOKEN = st.integers(0, 2**32 - 1)
SIZES = [16, 17, 31, 32, 33, 48, 59, 60, 61, 63, 64, 65, 128, 255, 256, 257, 272, 512, 528, 1024]


@pytest.mark.parametrize("size", SIZES)
@given(data=st.data())
def test_keys_of_a_chain_are_the_same(size: int, data: st.DataObject) -> None:
    seed = data.draw(st.binary(min_size=1, max_size=64))
    packed = (seed * (4 * size * 4 // len(seed) + 1))[: data.draw(st.integers(0, 4 * size * 4))]
    parent = data.draw(st.none() | U64)
    assert keys.native.chain(packed, size, parent) == keys.chain_in_python(packed, size, parent)


@given(block=st.binary(min_size=64, max_size=600), parent=st.none() | U64)
def test_the_key_of_one_block_is_the_same(block: bytes, parent: int | None) -> None:
    assert keys.native.one(block, parent) == keys.one_in_python(block, parent)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: keys.native.chain(b"", 15, None), ValueError),
        (lambda: keys.native.chain(b"", -16, None), ValueError),
        (lambda: keys.native.one(b"x" * 63, None), ValueError),
        (lambda: keys.native.one(b"x" * 64, -1), OverflowError),
        (lambda: keys.native.one(b"x" * 64, 2**64), OverflowError),
        (lambda: keys.native.one(b"x" * 64, "1"), TypeError),
        (lambda: keys.native.chain("text", 16), TypeError),
    ],
)
def test_what_it_cannot_do_is_refused(call: object, error: type[Exception]) -> None:
    with pytest.raises(error):
        call()  # type: ignore[operator]


@given(ids=st.lists(TOKEN, min_size=1, max_size=40), separator=st.sampled_from([",", ", ", " ,\n\t", ",\r\n  "]))
def test_arrays_of_token_ids_are_read_in_every_spacing(ids: list[int], separator: str) -> None:
    text = f"[ {separator.join(map(str, ids))} ]".encode()
    assert keys.native.tokens(b"x" + text + b"y", 1) == (keys.pack_tokens(ids), 1 + len(text))


@pytest.mark.parametrize(
    "text",
    [
        "", "[", "[]", "[1", "[1,", "[1,]", "[,1]", "[1 2]", "[1.0]", "[1e3]", "[-1]", "[-0]", "[+1]", "[01]", "[00]",
        "[4294967296]", "[99999999999]", "[123456789012345678901234567890]", "[null]", '["1"]', "[[1]]", "[1}", "{1]",
        "[1\x0b]", "[0x1]",
    ],
)  # fmt: skip
def test_what_is_no_plain_array_is_left_to_python(text: str) -> None:
    assert keys.native.tokens(text.encode(), 0) is None
    assert keys.native.tokens(text.encode(), len(text)) is None
    assert keys.native.tokens(text.encode(), -1) is None


def outcome(read: object, body: bytes) -> object:
    """A question, or the line that refuses it."""
    with contextlib.suppress(request.RequestError):
        return read(body)  # type: ignore[operator]
    try:
        read(body)  # type: ignore[operator]
    except request.RequestError as error:
        return str(error)


def same(body: bytes) -> None:
    assert outcome(request.decode, body) == outcome(request.decode_in_python, body)


@pytest.mark.parametrize(
    "body",
    [
        b'{"model_id":"m","tenant_id":"t","token_ids":[1,2,3]}',
        b'{"token_ids": [1, 2, 3], "model_id": "m", "explain": true}',
        b'{"model_id":"m","token_ids":[1],"token_ids":[2]}',
        b'{"model_id":"m","token_ids":[1],"token\\u005fids":[2]}',
        b'{"model_id":"m","token\\u005fids":[4294967296],"slo":{"token_ids":[7]}}',
        b'{"model_id":"m","slo":{"token_ids":[1,2]}}',
        b'{"model_id":"m","other":{"token_ids":[1,2]}}',
        b'{"model_id":"m","prompt_text":"\\"token_ids\\":[1]"}',
        b'{"model_id":"m","x\\"token_ids":[1,2]}',
        b'{"modelId":"m","token_ids":[1,2]}',
        b'{"modelId":"m","tokenIds":[1,2]}',
        b'{"model_id":"m","token_ids":[4294967296]}',
        b'{"model_id":"m","token_ids":[]}',
        b'{"model_id":"m","token_ids":null}',
        b'{"model_id":"m","token_ids":[1,2]',
        b'{"model_id":7,"token_ids":[1,2]}',
        b'{"model_id":"m","token_ids" [1,2]}',
        b'{"model_id":"m","token_ids":\x0b[1,2]}',
        b'{"model_id":"\xff","token_ids":[1,2]}',
        b'"token_ids":[1,2]',
        b'["token_ids",[1,2]]',
    ],
)
def test_a_question_means_the_same_with_and_without_the_helper(body: bytes) -> None:
    same(body)


@given(
    ids=st.lists(TOKEN, max_size=8),
    compact=st.booleans(),
    cuts=st.lists(st.tuples(st.integers(0, 200), st.binary(max_size=3)), max_size=3),
)
def test_damaged_questions_mean_the_same_with_and_without_the_helper(
    ids: list[int], compact: bool, cuts: list[tuple[int, bytes]]
) -> None:
    fields = {"model_id": "m", "tenant_id": "t", "token_ids": ids, "slo": {"ttft_ms": 1}}
    body = json.dumps(fields, separators=(",", ":") if compact else None).encode()
    for at, piece in cuts:
        body = body[: at % (len(body) + 1)] + piece + body[at % (len(body) + 1) + 1 :]
    same(body)


@given(
    held=st.dictionaries(st.integers(0, 30), st.integers(0, 2**70 - 1), max_size=30),
    keys_asked=st.lists(st.integers(0, 31), max_size=200),
    alive=st.integers(0, 2**70 - 1),
    among=st.just(-1) | st.integers(0, 2**70 - 1),
)
def test_leading_runs_are_the_same(held: dict[int, int], keys_asked: list[int], alive: int, among: int) -> None:
    place = domain.Domain(domain.DomainKey("t", "m", "s", ""))
    place.held.update(held)
    place.alive = alive
    assert place.runs(keys_asked, among) == place.runs_in_python(keys_asked, among)


@given(lengths=st.lists(st.integers(1, 300), min_size=1, max_size=6))
def test_leading_runs_of_long_chains_are_the_same(lengths: list[int]) -> None:
    """Replica i holds the first lengths[i] blocks: the usual shape, masks interned."""
    place = domain.Domain(domain.DomainKey("t", "m", "s", ""))
    place.alive = 2 ** len(lengths) - 1
    masks = {mask: mask for mask in range(2 ** len(lengths))}
    for key in range(max(lengths)):
        place.held[key] = masks[sum(1 << bit for bit, length in enumerate(lengths) if key < length)]
    chain = list(range(max(lengths) + 1))
    assert place.runs(chain) == place.runs_in_python(chain)


KEY = st.integers(0, 12) | st.sampled_from([2**63, 2**64 - 1])
FLUSH = st.lists(st.tuples(KEY, st.sampled_from([0, 0, 1, 1, 2, 5])), max_size=30)


@given(flushes=st.lists(st.tuples(st.integers(0, 2), FLUSH), max_size=12))
def test_states_change_the_same_holders_digest_and_log(flushes: list[tuple[int, list[tuple[int, int]]]]) -> None:
    """Keys named twice included: malformed, and yet the same."""

    def play(helped: bool) -> object:
        place = domain.Domain(domain.DomainKey("t", "m", "s", ""))
        each = [place.open(None) for _ in range(3)]  # type: ignore[arg-type]
        for which, flush in flushes:
            column, tiers = kvwire.pack_keys(key for key, _ in flush), bytes(tier for _, tier in flush)
            if helped:
                each[which].apply(kvwire.Group("", 16, column, tiers), 1, change=True)
            else:
                each[which].change_in_python(column, tiers)
        return list(place.held.items()), [(one.count, one.total, list(one.log)) for one in each]

    assert play(True) == play(False)


def test_a_column_of_a_wrong_length_changes_nothing() -> None:
    held: dict[int, int] = {}
    with pytest.raises(ValueError, match="8 bytes"):
        keys.native.change(held, b"x" * 9, b"\x01", {}, {})
    assert held == {}
