"""Pages that are not whole blocks: put together, along the parent chain, into the blocks that keys are made of.

SGLang announces pages of any length down to one token, over many events. A `Page` knows the last block boundary at or
before its end and the tokens after it; when these fill a block, a `Block` is made that is held where all its pages are.
A page that is gone takes its blocks with it, and brings them back when it is stored again, as long as one of the
block's other pages is there.

Not here: who holds which page (table.py). Nothing fails.

Rules: KV-18, KV-12; design.md section 3 (page sizes under 16 become blocks of 16).
"""

from collections.abc import Callable
from typing import Any

import msgspec

from eventstore import kvwire
from handlers.prefixindex import keys
from subscribers.kvevents import batch

CANONICAL = 16  # tokens

_encode = msgspec.msgpack.Encoder().encode


class Block(msgspec.Struct, eq=False):
    """A whole block and its pages in any order."""

    domain: int
    key: int
    pages: list["Page"]
    tiers: int = 0

    def now(self) -> int:
        """The tiers in which it can be had: where all pages are; else the coldest that one of them needs."""
        everywhere, coldest = kvwire.T1 | kvwire.T2 | kvwire.T3, 0
        for page in self.pages:
            mask = page.mask
            if not mask:
                return 0
            everywhere &= mask
            coldest = max(coldest, mask & -mask)
        return everywhere or coldest


class Page(msgspec.Struct, eq=False):
    """A run of tokens under one engine hash, not aligned to blocks."""

    domain: int
    chain: int | None  # key of the last whole block at or before its end
    tail: bytes  # packed tokens from that boundary to its end
    hash: batch.Hash
    extra: bytes | None
    up: "Page | None"  # the page before it, when no block has ended within it and that reaches into its block
    mask: int = 0  # tiers in which it is held
    places: int = 0  # places in which it is held
    blocks: list[Block] = []

    def same(self, other: Any) -> bool:
        """Whether both name the same content."""
        return isinstance(other, Page) and (self.domain, self.chain, self.tail, self.extra) == (
            other.domain,
            other.chain,
            other.tail,
            other.extra,
        )


Current = Callable[[Page], Page]


def _members(page: Page, current: Current) -> list[Page]:
    """The pages of the block that ends in `page`, that one first."""
    members = [page]
    before = page.up
    while before is not None:
        members.append(current(before))
        before = before.up
    return members


def append(page: Page, tokens: bytes, parent_tail: bytes, size: int, current: Current) -> list[tuple[int, list[Page]]]:
    """Put a new page's tokens behind its parent's: sets chain and tail, gives the blocks that this completes.

    `current` gives the object that the table now has for an earlier page: it may have been removed and stored again.
    """
    run = parent_tail + tokens
    width = size * 4
    completed: list[tuple[int, list[Page]]] = []
    at = 0
    while len(run) - at >= width:
        block = run[at : at + width]
        members = [page] if completed else _members(page, current)
        extra = [member.extra for member in reversed(members)]
        if any(extra):
            key = keys.salted(page.chain, block, _encode(extra))
        else:
            key = keys.chain(block, size, page.chain)[0]
        completed.append((key, members))
        page.chain = key
        at += width
    page.tail = run[at:]
    if completed:
        page.up = None  # whoever follows needs none before this one, and a long chain must not keep them all
    return completed
