"""What an engine is made to say, in enginesim's words, and what a subscriber's table must hold after each batch.

Every field that a release has is filled in at least once and left out at least once. The keys that are expected come
from handlers/prefixindex/keys.py over the tokens alone: no decoder and no table had a part in them. Blocks whose keys
depend on more than tokens are expected as a number of keys that are none of the plain ones.
"""

import hashlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from enginesim import forms
from eventstore import kvwire
from handlers.prefixindex import keys
from tests.support import serverview

SIZE = 16
ADAPTER = (7, "sql")
Said = tuple[str, dict[str, Any]]


class Batch(NamedTuple):
    """One batch and the state after it: plain keys with their tiers, and how many others."""

    ts: float
    events: list[forms.Event]
    held: serverview.View
    hidden: int


class Story:
    """The batches for one form; `number` makes the tokens of one rank differ from those of another."""

    def __init__(self, form: forms.Form, number: int = 0) -> None:
        self.form = form
        self.tokens = [1000 * number + token for token in range(1, 8 * SIZE + 1)]
        self.others = [token + 500 for token in self.tokens]
        self.chain = keys.chain(keys.pack_tokens(self.tokens), SIZE)
        self.other_chain = keys.chain(keys.pack_tokens(self.others), SIZE)
        self.held: serverview.View = {}
        self.hidden = 0
        self.slow = "CPU" if form.kind == "vllm" else "CPU_PINNED"

    def hash(self, name: object) -> int | bytes:
        """As this release would write the hash of a block; the same for all that is called the same."""
        return self.form.hash(hashlib.sha256(str(name).encode()).digest())

    def has(self, field: str) -> bool:
        return field in self.form.stored

    def stored(self, first: int, last: int, **more: Any) -> forms.Stored:
        """Blocks `first` to before `last` of the prompt, below what stands before them."""
        return forms.Stored(
            block_hashes=[self.hash(number) for number in range(first, last)],
            parent_block_hash=self.hash(first - 1) if first else None,
            token_ids=self.tokens[first * SIZE : last * SIZE],
            block_size=SIZE,
            **more,
        )

    def alone(self, name: str, **more: Any) -> forms.Stored:
        """The first block of other tokens, or what `more` says."""
        said: dict[str, Any] = {"block_hashes": [self.hash(name)], "token_ids": self.others[:SIZE]}
        return forms.Stored(**{"parent_block_hash": None, "block_size": SIZE} | said | more)

    def holds(self, *numbers: int, tiers: int = kvwire.T1, adapter: str = "") -> None:
        self.held |= {(adapter, SIZE, self.chain[number]): tiers for number in numbers}

    def lost(self, number: int) -> None:
        del self.held["", SIZE, self.chain[number]]

    def batches(self) -> list[Batch]:
        told = self._plain, self._adapters, self._tiers, self._hashes, self._beyond_tokens, self._groups, self._end
        made: list[Batch] = []
        for part in told:
            for events in part():
                made.append(Batch(1_700_000_000.25 + len(made), events, dict(self.held), self.hidden))
        return made

    def _plain(self) -> Iterator[list[forms.Event]]:
        self.holds(0, 1, 2)
        yield [self.stored(0, 3)]
        self.holds(3, 4)
        yield [self.stored(3, 4), self.stored(4, 5)]
        self.holds(5)
        nothing = dict.fromkeys(["medium", "group_idx", "kv_cache_spec_kind", "locality"])
        yield [self.stored(5, 6, **nothing)]
        self.lost(5)
        yield [forms.Removed(block_hashes=[self.hash(5)], medium=None, group_idx=None, locality=None)]
        self.lost(3)
        yield [forms.Removed(block_hashes=[self.hash(3)])]
        self.holds(3, 5)
        yield [self.stored(3, 4), self.stored(5, 6, session_id="s1", ownership="tier-1")]
        yield []

    def _adapters(self) -> Iterator[list[forms.Event]]:
        """By name, or by number before a release has names: the table is told the number's name."""
        number, name = ADAPTER
        self.holds(0, adapter=name)
        said: dict[str, Any] = {"lora_id": number, "lora_name": name, "extra_keys": [[name]]}
        yield [forms.Stored(**self._first_block("adapter"), **said)]

    def _tiers(self) -> Iterator[list[forms.Event]]:
        if not self.has("medium"):
            return
        self.holds(0, tiers=kvwire.T1 | kvwire.T2)
        yield [self.stored(0, 1, medium=self.slow)]
        self.holds(0, tiers=kvwire.T2)
        yield [forms.Removed(block_hashes=[self.hash(0)])]
        if self.form.kind == "vllm":  # an offloaded block is named by its hash alone
            self.holds(1, tiers=kvwire.T1 | kvwire.T2)
            named = forms.Stored(
                block_hashes=[self.hash(1)], parent_block_hash=None, token_ids=[], block_size=0, medium=self.slow
            )
            yield [named]
        if self.has("locality"):
            self.holds(2, tiers=kvwire.T1 | kvwire.T3)
            yield [self.stored(2, 3, medium="STORAGE", locality="REMOTE")]
            self.holds(2)
            yield [forms.Removed(block_hashes=[self.hash(2)], medium="STORAGE", locality="REMOTE")]

    def _hashes(self) -> Iterator[list[forms.Event]]:
        if self.form.kind == "sglang":  # EAGLE: a token of the radix key is a pair
            pairs: Any = list(zip(self.tokens[6 * SIZE : 7 * SIZE], self.tokens[6 * SIZE + 1 :], strict=False))
            self.holds(6)
            yield [msgspec.structs.replace(self.stored(6, 7), token_ids=pairs)]
        elif self.form.version >= (0, 10, 2):  # VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES=0
            raw = [hashlib.sha256(bytes([number])).digest() for number in range(7)]
            self.holds(0, tiers=kvwire.T1 | kvwire.T2)  # back on the GPU, under a second name
            yield [msgspec.structs.replace(self.stored(0, 6), block_hashes=raw[:6])]
            self.holds(6)
            yield [msgspec.structs.replace(self.stored(6, 7), block_hashes=raw[6:], parent_block_hash=raw[5])]

    def _beyond_tokens(self) -> Iterator[list[forms.Event]]:
        salted = self.form.kind == "sglang" and self.form.version >= (0, 5, 18)
        if salted:
            self.hidden += 1
            yield [self.alone("salted", cache_salt="tenant-a", session_id="s1")]
        if self.has("extra_keys"):
            self.hidden += 1
            yield [self.alone("image", extra_keys=[[("img-1", -2), "tenant-a"]])]
        if self.has("lookahead_token_ids"):
            two = {"block_hashes": [self.hash("l0"), self.hash("l1")], "token_ids": self.others[: 2 * SIZE]}
            self.held["", SIZE, self.other_chain[0]] = kvwire.T1
            self.hidden += 1
            yield [self.alone("", **two, lookahead_token_ids=[[self.others[SIZE]], [self.others[2 * SIZE]]])]
            self.held["", SIZE, self.other_chain[1]] = kvwire.T1  # the block below tells what that one looked at
            below = {"block_hashes": [self.hash("l2")], "token_ids": self.others[2 * SIZE : 3 * SIZE]}
            yield [self.alone("", **below, parent_block_hash=self.hash("l1"), lookahead_token_ids=[[99]])]

    def _groups(self) -> Iterator[list[forms.Event]]:
        if self.has("kv_cache_spec_kind"):
            window = {"kv_cache_spec_kind": "sliding_window", "kv_cache_spec_sliding_window": 128}
            yield [self.alone("window", group_idx=1, token_ids=self.others[-SIZE:], **window)]
            yield [forms.Removed(block_hashes=[self.hash("window")], group_idx=1)]

    def _end(self) -> Iterator[list[forms.Event]]:
        """Slower tiers are spared, when the engine has any."""
        self.hidden = 0
        self.held = {at: tiers & ~kvwire.T1 for at, tiers in self.held.items() if tiers & ~kvwire.T1}
        yield [forms.Cleared()]

    def _first_block(self, name: str) -> dict[str, Any]:
        first = self.stored(0, 1)
        return {field: getattr(first, field) for field in ("parent_block_hash", "token_ids", "block_size")} | {
            "block_hashes": [self.hash(name)]
        }


def said(event: forms.Event, form: forms.Form) -> Said:
    """The event as the name and the arguments of the engine's own class."""
    if isinstance(event, forms.Cleared):
        return "AllBlocksCleared", {}
    if isinstance(event, forms.Removed):
        return "BlockRemoved", {field: getattr(event, field) for field in form.removed}
    values = {field: getattr(event, field) for field in form.stored}
    if event.cache_salt is not None and "cache_salt" not in form.stored:
        return "BlockStoredWithMetadata", values | {"metadata": {"cache_salt": event.cache_salt}}
    return "BlockStored", values
