"""Wire forms of the simulated engine, byte for byte. Excluded: when an event is emitted (test_enginesim_engine)."""

import json
import pathlib
from typing import Any

import msgspec
import pytest

from enginesim import forms

FIXTURES: dict[str, dict[str, Any]] = json.loads(
    (pathlib.Path(__file__).parents[1] / "support/data/kv-event-fixtures.json").read_text()
)
TOKENS = [11, 12, 13, 14]
AT = 1_700_000_000.25


def stored(digest: int | bytes, **fields: Any) -> forms.Stored:
    return forms.Stored(
        **({"block_hashes": [digest], "parent_block_hash": None, "token_ids": TOKENS, "block_size": 4} | fields)
    )


CASES: dict[str, tuple[str, list[forms.Event], int | None]] = {
    "vllm-0.9.1..0.10.1.1": ("vllm-0.9.1", [stored(1111)], 1),
    "vllm-0.10.2..0.13 bytes": ("vllm-0.13", [stored(bytes(range(32)))], 0),
    "vllm-0.20..0.21": (
        "vllm-0.21",
        [stored(1111, extra_keys=[[["img-hash-1", -2]]]), forms.Removed(block_hashes=[1111])],
        0,
    ),
    "vllm-0.26..0.28": (
        "vllm-0.27.1",
        [
            stored(1111, token_ids=[], block_size=0, medium="CPU", group_idx=None, kv_cache_spec_kind=None),
            forms.Removed(block_hashes=[1111], medium="CPU", group_idx=None),
        ],
        0,
    ),
    "sglang-0.5.9..0.5.16": (
        "sglang-0.5.9",
        [stored(-77, medium="CPU_PINNED"), forms.Removed(block_hashes=[-77])],
        0,
    ),
    "sglang-0.5.20..": (
        "sglang-0.5.20",
        [stored(103, cache_salt="tenant-a", session_id="s1"), forms.Cleared()],
        None,
    ),
}


@pytest.mark.parametrize("name", FIXTURES)
def test_a_batch_has_the_bytes_of_the_release(name: str) -> None:
    form, events, rank = CASES[name]
    assert forms.form(form).batch(AT, events, rank).hex() == FIXTURES[name]["msgpack_hex"]


def packed(form: forms.Form, event: forms.Event) -> Any:
    """An event as it comes out at the other end."""
    return msgspec.msgpack.decode(form.batch(AT, [event]))[1][0]


SLOTS = {
    "vllm-0.9.0": (6, 2),
    "vllm-0.10.1.1": (6, 2),
    "vllm-0.10.2": (7, 3),
    "vllm-0.14": (8, 3),
    "vllm-0.17": (9, 3),
    "vllm-0.20": (10, 4),
    "vllm-0.22": (12, 4),
    "vllm-0.23.9": (12, 4),
    "sglang-0.4.7": (6, 2),
    "sglang-0.5.8": (6, 2),
    "sglang-0.5.9": (7, 3),
    "sglang-0.5.19": (7, 3),
}


@pytest.mark.parametrize(("name", "slots"), SLOTS.items(), ids=SLOTS)
def test_arrays_grew_slot_by_slot(name: str, slots: tuple[int, int]) -> None:
    form = forms.form(name)
    assert (len(packed(form, stored(1))), len(packed(form, forms.Removed(block_hashes=[1])))) == slots


def test_maps_leave_null_options_out_but_never_required_fields() -> None:
    event = packed(forms.form("vllm-0.33"), stored(1, group_idx=None, kv_cache_spec_kind=None, locality=None))
    assert set(event) == {
        "type",
        "block_hashes",
        "parent_block_hash",
        "token_ids",
        "block_size",
        "lora_id",
        "medium",
        "lora_name",
    }


@pytest.mark.parametrize(
    ("release", "header"), [("vllm-0.32", "8b"), ("vllm-0.33", "de000b")], ids=["at most 15 entries", "up to 16"]
)
def test_a_map_that_could_have_more_than_15_entries_has_the_long_header(release: str, header: str) -> None:
    """As msgspec writes it for the engine's class, whatever the event leaves out."""
    payload = forms.form(release).batch(0.0, [stored(1, session_id=None, ownership=None)])
    assert payload.hex().startswith("93cb" + "00" * 8 + "91" + header)


def test_salted_sglang_arrays_carry_a_trailing_map() -> None:
    event = packed(forms.form("sglang-0.5.18"), stored(1, cache_salt="s"))
    assert event[-1] == {"cache_salt": "s"}
    assert len(packed(forms.form("sglang-0.5.17"), stored(1, cache_salt="s"))) == 7


def test_the_first_release_has_no_rank_in_its_batches() -> None:
    assert msgspec.msgpack.decode(forms.form("vllm-0.9").batch(AT, [forms.Cleared()], 0)) == [
        AT,
        [["AllBlocksCleared"]],
    ]


DIGEST = b"\xff" * 8 + bytes(16) + b"\xfe" * 8
HASHES = {
    "vllm-0.10.1": -1,
    "vllm-0.10.2": 0xFEFE_FEFE_FEFE_FEFE,
    "sglang-0.5.22": -1,
}


@pytest.mark.parametrize(("name", "expected"), HASHES.items(), ids=HASHES)
def test_hashes_are_written_as_the_release_writes_them(name: str, expected: int) -> None:
    assert forms.form(name).hash(DIGEST) == expected


def test_raw_digests_on_request() -> None:
    assert forms.form("vllm-0.13").hash(DIGEST, as_bytes=True) == DIGEST


@pytest.mark.parametrize(("name", "topic"), [("vllm-0.25", False), ("vllm-0.26", True), ("sglang-0.5.22", True)])
def test_replay_replies_gained_a_topic(name: str, topic: bool) -> None:
    assert forms.form(name).replay_topic is topic


@pytest.mark.parametrize("name", ["", "vllm", "vllm-", "trt-1.0", "vllm-x", "vllm-0.8.5", "sglang-0.4.6"])
def test_an_unknown_release_is_refused_in_one_line(name: str) -> None:
    with pytest.raises(ValueError, match=r"is no release|published no KV events"):
        forms.form(name)
