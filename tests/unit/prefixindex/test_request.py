"""Bytes to a question and an answer to bytes. Excluded: what is answered (test_lookup)."""

import base64
import contextlib
import json
import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.prefixindex import answers, keys, request

KEYS = [0xEA06FC71A5EE6E88, 0xAD01835A37DD294C, 0, 2**64 - 1, 0xFBEFBEFBEFBEFBEF]
Spell = Callable[[bytes], str]

SPELLINGS: dict[str, Spell] = {
    "base64": lambda raw: base64.b64encode(raw).decode(),
    "base64 without padding": lambda raw: base64.b64encode(raw).decode().rstrip("="),
    "URL-safe base64": lambda raw: base64.urlsafe_b64encode(raw).decode(),
    "16 hex digits": lambda raw: raw.hex(),
    "16 capital hex digits": lambda raw: raw.hex().upper(),
}


def decode(**fields: Any) -> request.LookupRequest:
    return request.decode(json.dumps(fields).encode())


@pytest.mark.parametrize("spell", SPELLINGS.values(), ids=SPELLINGS)
def test_keys_are_read_in_every_spelling(spell: Spell) -> None:
    raw = [keys.to_wire(key) for key in KEYS]
    asked = decode(block_hashes=[spell(each) for each in raw], prefix_hash=spell(raw[0]))
    assert (asked.chain, asked.odd_hashes, asked.prefix_hash) == (KEYS, (), raw[0])


def test_spellings_may_be_mixed() -> None:
    spelled = [spell(keys.to_wire(KEYS[4])) for spell in SPELLINGS.values()]
    assert decode(block_hashes=spelled).chain == [KEYS[4]] * len(spelled)


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=40))
def test_any_chain_survives_base64(chain: list[int]) -> None:
    spelled = [base64.b64encode(keys.to_wire(key)).decode() for key in chain]
    assert decode(block_hashes=spelled).chain == chain


def test_a_key_that_is_not_8_bytes_is_kept_as_it_came() -> None:
    asked = decode(block_hashes=[SPELLINGS["base64"](b"short"), SPELLINGS["base64"](keys.to_wire(KEYS[0]))])
    assert asked.chain == [-1, KEYS[0]]
    assert asked.odd_hashes == (b"short", keys.to_wire(KEYS[0]))


def test_all_fields_are_read_and_unknown_ones_ignored() -> None:
    asked = decode(
        model_id="m",
        tenant_id="t",
        hash_scheme="vllm",
        adapter_id="sql",
        prefix_token_count=3,
        slo={"ttft_ms": 150, "tbt_ms": "20"},
        block_token_counts=[16, "16"],
        token_ids=[0, 2**32 - 1],
        prompt_text="hello",
        explain=True,
        of_a_newer_version={"x": [1]},
    )
    assert (asked.model_id, asked.tenant_id, asked.hash_scheme, asked.adapter_id) == ("m", "t", "vllm", "sql")
    assert (asked.prefix_token_count, asked.ttft_ms, asked.tbt_ms) == (3, 150, 20)
    assert asked.block_token_counts == [16, 16]
    assert asked.tokens == b"\x00\x00\x00\x00\xff\xff\xff\xff"
    assert (asked.prompt_text, asked.explain) == ("hello", True)


def test_lower_camel_case_is_the_same_question() -> None:
    snake = {
        "model_id": "m",
        "tenant_id": "t",
        "hash_scheme": "vllm",
        "adapter_id": "sql",
        "token_ids": [1, 2, 3],
        "prefix_hash": "00000000000000ff",
        "prefix_token_count": "16",
        "block_hashes": ["00000000000000ff"],
        "block_token_counts": [16],
        "prompt_text": "hello",
        "slo": {"ttft_ms": 150, "tbt_ms": "20"},
        "explain": True,
    }

    def camel(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {re.sub("_(.)", lambda found: found[1].upper(), name): camel(one) for name, one in value.items()}

    assert request.decode(msgspec.json.encode(camel(snake))) == request.decode(msgspec.json.encode(snake))


def test_null_is_the_default() -> None:
    names = request._Document.__struct_fields__
    assert decode(**dict.fromkeys(names)) == request.LookupRequest() == decode()


WHOLE: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "token ids as text": ({"token_ids": ["1", "2"]}, {"token_ids": [1, 2]}),
    "token ids with a point": ({"token_ids": [1.0, 4294967295.0]}, {"token_ids": [1, 4294967295]}),
    "token ids with an exponent": ({"token_ids": ["1e2", 2]}, {"token_ids": [100, 2]}),
    "an SLO with a point": ({"slo": {"ttft_ms": 100.0}}, {"slo": {"ttft_ms": 100}}),
    "a count with an exponent": ({"prefix_token_count": "1e2"}, {"prefix_token_count": 100}),
    "counts of every kind": (
        {"block_hashes": ["00" * 8] * 3, "block_token_counts": ["16", 16.0, 16]},
        {"block_hashes": ["00" * 8] * 3, "block_token_counts": [16, 16, 16]},
    ),
    "in lowerCamelCase": ({"modelId": "m", "tokenIds": [1.0]}, {"model_id": "m", "token_ids": [1]}),
}


@pytest.mark.parametrize(("written", "plain"), WHOLE.values(), ids=WHOLE)
def test_whole_numbers_are_read_in_every_form_of_proto3_json(written: dict[str, Any], plain: dict[str, Any]) -> None:
    assert decode(**written) == decode(**plain)


MALFORMED: dict[str, tuple[bytes, str]] = {
    "no JSON": (b"{", "not a LookupRouteRequest in JSON"),
    "nothing": (b"", "not a LookupRouteRequest in JSON"),
    "no object": (b"[]", "Expected `object`"),
    "no UTF-8": (b'{"model_id": "\xff"}', "not a LookupRouteRequest in JSON"),
    "a field of another type": (b'{"model_id": 3}', "$.model_id"),
    "a fraction of a token": (b'{"token_ids": [1.5]}', "$.token_ids[0]"),
    "a negative token": (b'{"token_ids": [-1]}', "no u32"),
    "a token of 33 bits": (b'{"token_ids": [4294967296]}', "no u32"),
    "no base64": (b'{"block_hashes": ["*"]}', "block_hashes holds '*'; expected base64, or 16 hex digits"),
    "a bit too many": (b'{"prefix_hash": "A"}', "prefix_hash holds 'A'"),
    "base64 in pieces": (b'{"block_hashes": ["AAAAAAAAAAA=", "AAAA=AAAAAAA"]}', "block_hashes holds 'AAAA=AAAAAAA'"),
    "no number": (b'{"prefix_token_count": "many"}', "prefix_token_count is 'many'; expected a whole number"),
    "a count of 33 bits": (b'{"block_token_counts": [2147483648]}', "expected a 32-bit number"),
    "a word among counts": (b'{"block_token_counts": [16, "x"]}', "expected a whole number"),
    "an SLO that is none": (b'{"slo": {"ttft_ms": "soon"}}', "slo.ttft_ms is 'soon'"),
    "nested too deep": (b'{"x":' + b"[" * 100_000, "not a LookupRouteRequest in JSON"),
}


@pytest.mark.parametrize(("body", "says"), MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_question_gets_one_line(body: bytes, says: str) -> None:
    with pytest.raises(request.RequestError) as caught:
        request.decode(body)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@given(st.binary(max_size=60))
def test_any_bytes_are_a_question_or_a_request_error(body: bytes) -> None:
    with contextlib.suppress(request.RequestError):
        assert request.decode(body).tenant_id is not None


def test_packed_token_ids_are_the_same_question() -> None:
    query = {
        "model_id": "m",
        "tenant_id": "t",
        "hash_scheme": "vllm",
        "adapter_id": "a",
        "slo.ttft_ms": "150",
        "x": "y",
    }
    packed = request.decode_packed(keys.pack_tokens([1, 2, 3]), {**query, "explain": "true"})
    assert packed == decode(
        model_id="m",
        tenant_id="t",
        hash_scheme="vllm",
        adapter_id="a",
        slo={"ttft_ms": 150},
        token_ids=[1, 2, 3],
        explain=True,
    )


@pytest.mark.parametrize(
    ("body", "query", "says"),
    [
        (b"12345", {}, "5 bytes of packed token ids; expected a multiple of 4"),
        (b"", {"explain": "perhaps"}, "explain is 'perhaps'"),
        (b"", {"ttft_ms": "x"}, "slo.ttft_ms is 'x'"),
    ],
    ids=["a partial token", "explain", "slo"],
)
def test_a_malformed_packed_question_gets_one_line(body: bytes, query: dict[str, str], says: str) -> None:
    with pytest.raises(request.RequestError, match=says):
        request.decode_packed(body, query)


def test_an_answer_is_proto3_json_with_original_names() -> None:
    score = answers.ReplicaScore("r0", 1.5, 64, 1.0, answers.T1)
    answer = answers.LookupResponse(replica_scores=[score], reason_code="PREFIX_MATCH", lookup_latency_us="12")
    assert json.loads(answers.encode(answer)) == {
        "replica_scores": [
            {
                "replica_id": "r0",
                "score": 1.5,
                "matched_tokens": 64,
                "estimated_cache_hit_prob": 1.0,
                "tier": "CACHE_TIER_T1",
            }
        ],
        "reason_code": "PREFIX_MATCH",
        "lookup_latency_us": "12",
        "adapter_id": "",
    }


def test_questions_that_differ_in_their_tokens_alone_keep_them_apart() -> None:
    """What stands around the token ids is remembered."""
    for ids in ([1, 2], [3], [1, 2]):
        asked = request.decode(msgspec.json.encode({"model_id": "m", "tenant_id": "t", "token_ids": ids}))
        assert (asked.model_id, asked.tenant_id, asked.tokens) == ("m", "t", keys.pack_tokens(ids))


@pytest.mark.parametrize("text", ["short", "long " * 200])
def test_what_is_wrong_around_the_token_ids_is_said_every_time(text: str) -> None:
    body = msgspec.json.encode({"model_id": text, "token_ids": [1], "prefix_token_count": 1 << 40})
    for _ in range(3):
        with pytest.raises(request.RequestError, match="32-bit"):
            request.decode(body)


def test_a_long_text_around_the_token_ids_is_read_and_not_remembered() -> None:
    before = request._around.cache_info().currsize
    for number in range(3):
        text = f"{number} " * 300
        assert request.decode(msgspec.json.encode({"model_id": text, "token_ids": [7]})).model_id == text
    assert request._around.cache_info().currsize == before
