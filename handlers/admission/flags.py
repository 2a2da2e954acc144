"""Which flag a word is read as by an engine's own parser: unique prefixes, `=`, and vLLM's underscores and dots.

    --kv-transfer-config   --kv-transfer-config={}   --kv-tr          vLLM and SGLang (argparse takes prefixes)
    --kv_transfer_config   --kv-transfer-config.kv_role kv_both       vLLM alone

A prefix is not checked for being unique: an ambiguous one does not start the engine anyway, and erring to "it is that
flag" is what the callers want. A longer flag is never a shorter one. Words with one dash are never these flags.

Rules: spec/worker-gpustack.md section 4.3; argparse's allow_abbrev; vLLM's FlexibleArgumentParser.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple


class Dialect(NamedTuple):
    """How an engine's parser rewrites a flag before it looks it up."""

    underscores: bool = False  # `_` is `-`, before the first dot
    dots: bool = False  # what follows the first dot is a path into the flag's JSON


VLLM: Final = Dialect(underscores=True, dots=True)
SGLANG: Final = Dialect()


class Hit(NamedTuple):
    """A word that is read as one of the keys. `typed` is its flag as written."""

    key: str
    typed: str
    at: int

    def __str__(self) -> str:
        return self.typed if self.typed == self.key else f"{self.typed} (read as {self.key})"


def name(word: str, dialect: Dialect) -> str:
    """The flag that is looked up for a word, "" for a word that is no long flag."""
    flag = word.partition("=")[0]
    head, dot, rest = flag.partition(".")
    if dialect.underscores:
        head = head.replace("_", "-")
    found = head if dialect.dots else head + dot + rest
    return found if found.startswith("--") and len(found) > 2 else ""


def read_as(word: str, key: str, dialect: Dialect, others: Iterable[str] = ()) -> bool:
    """Whether a word is read as `key`. One that is exactly another known flag is not."""
    flag = name(word, dialect)
    if flag == key:
        return True
    return bool(flag) and flag not in others and key.startswith(flag)


def hits(words: Sequence[str], keys: Iterable[str], dialect: Dialect, others: Iterable[str] = ()) -> list[Hit]:
    """Every word that is read as one of the keys, by key, then by place. `others` are flags that are known too."""
    wanted = tuple(keys)
    known = frozenset((*wanted, *others))
    return [
        Hit(key, word.partition("=")[0], at)
        for key in wanted
        for at, word in enumerate(words)
        if read_as(word, key, dialect, known - {key})
    ]
