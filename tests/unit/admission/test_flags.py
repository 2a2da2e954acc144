"""How a word is read as a flag."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.admission import flags
from handlers.admission.flags import SGLANG, VLLM, Dialect

KEY = "--kv-transfer-config"
BACKEND, EXTRA = "--hicache-storage-backend", "--hicache-storage-backend-extra-config"
TABLE = {
    (KEY, VLLM): True,
    (f"{KEY}={{}}", VLLM): True,
    ("--kv_transfer_config", VLLM): True,
    ("--kv_transfer-conf=x", VLLM): True,
    ("--kv", VLLM): True,
    ("--k", VLLM): True,
    (f"{KEY}.kv_role", VLLM): True,
    ("--kv_transfer_config.a_b.c=1", VLLM): True,
    ("--kv.ü", VLLM): True,
    ("--", VLLM): False,
    ("--=x", VLLM): False,
    ("--.x", VLLM): False,
    ("-kv-transfer-config", VLLM): False,
    ("kv-transfer-config", VLLM): False,
    (f"{KEY}s", VLLM): False,
    ("--kv-cache-dtype", VLLM): False,
    ("--KV", VLLM): False,
    ("", VLLM): False,
    (KEY, SGLANG): True,
    ("--kv-tr=x", SGLANG): True,
    ("--kv_transfer_config", SGLANG): False,
    (f"{KEY}.x", SGLANG): False,
}


@pytest.mark.parametrize(("word", "dialect"), TABLE)
def test_read_as(word: str, dialect: Dialect) -> None:
    assert flags.read_as(word, KEY, dialect) == TABLE[word, dialect]


def test_what_is_exactly_another_known_flag_is_no_prefix() -> None:
    words = [BACKEND, "file", f"{BACKEND}=x", "--hicache-storage-ba", EXTRA]
    assert [hit.at for hit in flags.hits(words, [EXTRA], SGLANG, [BACKEND])] == [3, 4]
    assert [hit.at for hit in flags.hits(words, [BACKEND], SGLANG, [EXTRA])] == [0, 2, 3]


def test_a_hit_says_what_was_typed() -> None:
    (hit,) = flags.hits(["serve", "--kv_tr=x"], [KEY], VLLM)
    assert str(hit) == "--kv_tr (read as --kv-transfer-config)"
    assert str(flags.hits([KEY], [KEY], VLLM)[0]) == KEY


WORDS = st.one_of(
    st.sampled_from([word for word, _ in TABLE]),
    st.text(alphabet="-_.=kv transferü", max_size=12),
    st.text(max_size=8),
)
DIALECTS = st.sampled_from([VLLM, SGLANG])


@given(st.lists(WORDS, max_size=8), DIALECTS)
def test_any_words_are_read(words: list[str], dialect: Dialect) -> None:
    for hit in flags.hits(words, [KEY, "--kv-cache-dtype"], dialect):
        assert words[hit.at].startswith(hit.typed)


@given(st.lists(WORDS, max_size=8), st.randoms(use_true_random=False), DIALECTS)
def test_the_order_of_words_does_not_matter(words: list[str], random: object, dialect: Dialect) -> None:
    before = sorted((hit.key, hit.typed) for hit in flags.hits(words, [KEY, EXTRA], dialect))
    random.shuffle(words)  # type: ignore[attr-defined]
    assert sorted((hit.key, hit.typed) for hit in flags.hits(words, [KEY, EXTRA], dialect)) == before
