"""Cache, eviction and emission of the simulated engine. Excluded: bytes (test_enginesim_forms), sockets, HTTP."""

from typing import Any

import msgspec
import pytest

from enginesim import cache, engine, forms, workload


class Wire:
    """An engine whose batches are decoded here; `mirror` is what a perfect listener would hold."""

    def __init__(self, form: str, *, block_size: int = 4, capacity: int = 64, seed: bytes = b"s") -> None:
        self.batches: list[list[Any]] = []
        self.mirror: dict[int, tuple[int | None, tuple[int, ...]]] = {}
        self.engine = engine.Engine(
            forms.form(form),
            model="m",
            block_size=block_size,
            capacity=capacity,
            seed=seed,
            publish=self.publish,
            clock=lambda: 1.0,
        )

    def publish(self, payload: bytes) -> None:
        events = msgspec.msgpack.decode(payload)[1]
        self.batches.append(events)
        for event in events:
            self.fold(event)

    def fold(self, event: Any) -> None:
        if isinstance(event, list):
            names = ("type", "block_hashes", "parent_block_hash", "token_ids", "block_size")
            event = dict(zip(names, event, strict=False))
        if event["type"] == "AllBlocksCleared":
            self.mirror.clear()
        elif event["type"] == "BlockRemoved":
            for digest in event["block_hashes"]:
                del self.mirror[digest]
        else:
            parent, size = event["parent_block_hash"], event["block_size"]
            assert parent is None or parent in self.mirror
            for at, digest in enumerate(event["block_hashes"]):
                self.mirror[digest] = (parent, tuple(event["token_ids"][at * size : (at + 1) * size]))
                parent = digest

    def mirrored_tokens(self, tokens: list[int]) -> int:
        """How many leading tokens the listener believes to be held."""
        by_content = {content: digest for digest, content in self.mirror.items()}
        size, parent, held = self.engine.cache.block_size, None, 0
        while (parent := by_content.get((parent, tuple(tokens[held : held + size])))) is not None:
            held += size
        return held


FORMS = ["vllm-0.9", "vllm-0.13", "vllm-0.22", "vllm-0.33", "sglang-0.5.9", "sglang-0.5.22"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("block_size", [1, 4, 16])
def test_whoever_folds_the_events_knows_the_cache_exactly(form: str, block_size: int) -> None:
    wire = Wire(form, block_size=block_size, capacity=800 // block_size)
    shape = workload.Shape(sessions=12, systems=2, system_length=(30, 60), user_length=(5, 20), answer_length=(4, 12))
    prompts = []
    for turn in workload.turns(3, shape):
        wire.engine.generate(turn.token_ids, turn.max_tokens)
        prompts.append(turn.token_ids)
        for prompt in prompts[-5:]:
            assert wire.mirrored_tokens(prompt) == wire.engine.held_tokens(prompt)
    assert len(wire.mirror) == len(wire.engine.cache)


def test_vllm_stores_a_prefill_at_once_and_decoded_blocks_one_by_one() -> None:
    wire = Wire("vllm-0.33")
    wire.engine.generate(list(range(10)), 8)  # 17 tokens are computed: 2 blocks of the prompt, 2 decoded
    assert [[len(event["block_hashes"]) for event in events] for events in wire.batches] == [[2], [1], [1]]


def test_sglang_stores_page_by_page() -> None:
    wire = Wire("sglang-0.5.9", block_size=1)
    wire.engine.generate([5, 6, 7], 3)
    assert [event[3] for event in wire.batches[0]] == [[5], [6], [7]]
    assert len(wire.batches[1]) == 2


def test_a_cached_prefix_is_not_announced_again_and_its_last_token_is_computed() -> None:
    wire = Wire("vllm-0.33")
    prompt = list(range(8))
    assert wire.engine.generate(prompt, 1).cached_tokens == 0
    count = len(wire.batches)
    assert wire.engine.generate(prompt, 1).cached_tokens == 4
    assert len(wire.batches) == count


def test_the_oldest_leaf_is_evicted_first_and_vllm_announces_it_alone() -> None:
    wire = Wire("vllm-0.13", capacity=4)
    old, new = list(range(100, 112)), list(range(200, 208))
    wire.engine.generate(old, 1)
    leaf = wire.batches[0][0][1][-1]
    wire.engine.generate(new, 1)
    assert wire.batches[1][0][:2] == ["BlockRemoved", [leaf]]
    assert wire.engine.held_tokens(old) == 8
    assert wire.engine.held_tokens(new) == 8


def test_recent_sglang_groups_the_removals_of_one_path() -> None:
    wire = Wire("sglang-0.5.20", block_size=1, capacity=4)
    wire.engine.generate([1, 2, 3, 4], 1)
    wire.engine.generate([7, 8, 9], 1)
    assert [len(event["block_hashes"]) for event in wire.batches[1] if event["type"] == "BlockRemoved"] == [3]


def test_what_a_request_uses_is_never_evicted_for_it() -> None:
    wire = Wire("vllm-0.33", capacity=4)
    wire.engine.generate(list(range(8)), 1)
    wire.engine.generate(list(range(50, 58)), 1)
    wire.engine.generate(list(range(16)), 1)
    assert wire.engine.held_tokens(list(range(16))) == 16


def test_a_request_beyond_the_cache_is_refused_and_changes_nothing() -> None:
    wire = Wire("vllm-0.33", capacity=2)
    with pytest.raises(cache.TooLong, match="needs 3 blocks of 4, the cache has 2"):
        wire.engine.generate(list(range(12)), 1)
    assert wire.batches == []


BAD = {"no tokens": [], "negative": [-1], "too large": [1 << 32]}


@pytest.mark.parametrize("tokens", BAD.values(), ids=BAD)
def test_tokens_that_are_none_are_refused(tokens: list[int]) -> None:
    with pytest.raises(ValueError, match="token_ids"):
        Wire("vllm-0.33").engine.generate(tokens, 1)


def test_two_processes_never_agree_on_a_hash() -> None:
    hashes = []
    for seed in (b"a", b"b"):
        wire = Wire("vllm-0.33", seed=seed)
        wire.engine.generate(list(range(8)), 1)
        hashes.append(set(wire.mirror))
    assert not hashes[0] & hashes[1]


def test_adapters_and_salts_share_nothing_with_plain_prompts() -> None:
    wire = Wire("vllm-0.22")
    prompt = list(range(8))
    wire.engine.generate(prompt, 1, lora="adapter-a", salt="tenant")
    event = wire.batches[0][0]
    assert (event[5], event[7], event[8]) == (1, "adapter-a", [["adapter-a", "tenant"], ["adapter-a"]])
    assert wire.engine.held_tokens(prompt) == 0
    assert wire.engine.held_tokens(prompt, lora="adapter-a", salt="tenant") == 8


def test_a_reset_is_announced_and_sleep_is_not() -> None:
    wire = Wire("vllm-0.33")
    wire.engine.generate(list(range(8)), 1)
    assert wire.engine.reset() == 2
    assert wire.batches[-1] == [{"type": "AllBlocksCleared"}]
    wire.engine.generate(list(range(8)), 1)
    count = len(wire.batches)
    wire.engine.sleep(1)
    assert (len(wire.batches), len(wire.engine.cache)) == (count, 0)
    with pytest.raises(ValueError, match="wake it up"):
        wire.engine.generate([1], 1)


def test_prefixes_are_the_exact_content() -> None:
    wire = Wire("vllm-0.33")
    wire.engine.generate([*range(8), 1, 1, 1, 1], 1)
    wire.engine.generate([*range(8), 2, 2, 2, 2], 1)
    paths = sorted([token for block in path for token in block.tokens] for path in wire.engine.cache.prefixes())
    assert paths == [[*range(8), 1, 1, 1, 1], [*range(8), 2, 2, 2, 2]]


def test_a_workload_is_the_same_every_time_and_continues_its_own_answers() -> None:
    shape = workload.Shape(sessions=6)
    once, again = list(workload.turns(7, shape)), list(workload.turns(7, shape))
    assert once == again
    assert list(workload.turns(8, shape)) != once
    assert {turn.session for turn in once} == set(range(6))
    last: dict[int, workload.Turn] = {}
    for turn in once:
        if (before := last.get(turn.session)) is not None:
            history = before.token_ids + workload.continuation(before.token_ids, before.max_tokens)
            assert turn.token_ids[: len(history)] == history
            assert turn.turn == before.turn + 1
        last[turn.session] = turn
