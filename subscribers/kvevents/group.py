"""One cache group of a replica: what its hashes stand for, and in which places copies of them lie.

A hash is an alias of content: of a whole block (`Node`, which has a key) or of less (`Page`, whose tokens complete a
block together with others). Copies are counted per shelf (one place: medium, near or remote). What follows for keys
goes to holds.py at once.

Not here: events, adapters, groups' kinds, unknown parents (table.py). Nothing raises on any sequence of calls that
table.py makes.

Rules: KV-04, KV-09, KV-12, KV-18, KV-20, IDX-01, IDX-06, IDX-10, IDX-11.
"""

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

import msgspec

from eventstore import kvwire
from handlers.prefixindex import keys
from subscribers.kvevents import batch, holds, media, notes, pages

MAX_NAMELESS: Final = 262_144  # parked, orphaned, not laid out as we can read
NO_KEY: Final = -1
AMBIGUOUS: Final = -2

_encode = msgspec.msgpack.Encoder().encode


class Trace(Protocol):
    """Who wants to know how keys chain (acceptance cases: cumulative token counts)."""

    def chained(self, parent: int | None, chain: Sequence[int], size: int) -> None: ...


class Node(msgspec.Struct, array_like=True, gc=False):
    """What a hash stands for: `key` in `domain`, children chain on `chain` (they differ only for a block that
    was hashed with tokens after it, which no other block has told yet)."""

    domain: int  # of holds; negative: no key
    chain: int = 0
    key: int = 0
    places: int = 0  # in how many places copies are announced


Alias = Node | pages.Page


class Shelf:
    """Copies in one place of one group: hash -> how many."""

    __slots__ = ("refs", "tier")

    def __init__(self, tier: int) -> None:
        self.tier = tier
        self.refs: dict[batch.Hash, int] = {}


class Group:
    """One namespace of hashes (KV-09)."""

    def __init__(self, number: int, held: holds.Holds, said: notes.Notes, trace: Trace | None) -> None:
        self.number = number
        self.nodes: dict[batch.Hash, Alias] = {}
        self.shelves: dict[media.Place, Shelf] = {}
        self.nameless = 0  # how many of the nodes have no key
        self._holds = held
        self._notes = said
        self._trace = trace

    def shelf(self, place: media.Place) -> Shelf:
        found = self.shelves.get(place)
        if found is None:
            found = self.shelves[place] = Shelf(place.tier)
        return found

    def mask(self, block: batch.Hash) -> int:
        """The tiers in which copies of a hash lie."""
        mask = 0
        for shelf in self.shelves.values():
            if block in shelf.refs:
                mask |= shelf.tier
        return mask

    # What hashes stand for ---------------------------------------------------------------------------------------

    def store_plain(self, shelf: Shelf, event: batch.Stored, adapter: str) -> bool:
        """What nearly all events are, in one go: one new whole block of tokens only, below a whole block or none.

        False for everything else, with nothing done: then `name_below` and `put` come to the same (a test compares).
        """
        tokens, size, block = event.tokens, event.block_size, event.hashes[0]
        if (
            tokens is None
            or len(event.hashes) != 1
            or size < pages.CANONICAL
            or len(tokens) != size * 4
            or event.extra is not None
            or event.salt is not None
            or event.lookahead is not None
            or block in self.nodes
        ):
            return False
        domain = self._holds.domain(adapter, size)
        if event.parent is None:
            key = keys.one(tokens)
        else:
            parent = self.nodes.get(event.parent)
            if type(parent) is not Node or parent.domain < 0 or self._holds.domains[parent.domain].size != size:
                return False
            if parent.key != parent.chain:
                return False
            key = keys.one(tokens, parent.chain)
        self.nodes[block] = Node(domain, key, key, 1)
        shelf.refs[block] = 1
        self._holds.add(domain, key, shelf.tier)
        return True

    def store_run(self, shelf: Shelf, event: batch.Stored, adapter: str) -> bool:
        """As `store_plain`, for several blocks, by the native helper. False without it too."""
        tokens, size, hashes = event.tokens, event.block_size, event.hashes
        if (
            keys.native is None
            or tokens is None
            or size < pages.CANONICAL
            or len(tokens) != size * 4 * len(hashes)
            or event.extra is not None
            or event.salt is not None
            or event.lookahead is not None
            or shelf.tier != kvwire.T1
            or type(hashes) is not list
            or _repeats(hashes)
        ):
            return False
        base = None
        if event.parent is not None:
            parent = self.nodes.get(event.parent)
            if type(parent) is not Node or parent.domain < 0 or self._holds.domains[parent.domain].size != size:
                return False
            if parent.key != parent.chain:
                return False
            base = parent.chain
        domain = self._holds.domain(adapter, size)
        here = self._holds.domains[domain]
        chain = keys.chain(tokens, size, base)
        return keys.native.store(
            self.nodes, shelf.refs, here.buckets, here.untold, Node, hashes, chain, domain, 1, holds.NEW
        )

    def name_below(
        self, event: batch.Stored, adapter: str, parent: Alias | None, *, new: bool
    ) -> list[tuple[batch.Hash, Alias]]:
        """Aliases of the event's blocks in order. `new`: make those that are not there (an orphan's may be gone)."""
        size = event.block_size
        if parent is not None:
            size = self._holds.domains[parent.domain].size
        elif size < pages.CANONICAL:
            size = pages.CANONICAL
        domain = self._holds.domain(adapter, size)
        if isinstance(parent, Node) and parent.key != parent.chain and event.parent is not None:
            self._reveal(event.parent, parent)
        if size == event.block_size and not isinstance(parent, pages.Page):
            return self._name_blocks(event, domain, None if parent is None else parent.chain, new=new)
        return self._name_pages(event, domain, parent, new=new)

    def _name_blocks(
        self, event: batch.Stored, domain: int, base: int | None, *, new: bool
    ) -> list[tuple[batch.Hash, Alias]]:
        assert event.tokens is not None
        if event.extra is None and event.salt is None and event.lookahead is None:
            chain = held = keys.chain(event.tokens, event.block_size, base)
        else:
            chain, held = salted(event, base)
        if self._trace is not None:
            self._trace.chained(base, chain, event.block_size)
        named: list[tuple[batch.Hash, Alias]] = []
        nodes = self.nodes
        seen: set[batch.Hash] | None = set() if _repeats(event.hashes) else None
        for block, link, key in zip(event.hashes, chain, held, strict=True):
            if seen is not None:
                if block in seen:
                    continue  # the first one counts (KV-20)
                seen.add(block)
            node = nodes.get(block)
            if node is None:
                node = Node(domain, link, key)
                if new:
                    nodes[block] = node
            elif node.domain == NO_KEY and isinstance(node, Node):
                node.domain, node.chain, node.key = domain, link, key
                self.nameless -= 1
                self._hold_everywhere(block, node)
            elif not isinstance(node, Node) or node.chain != link or node.domain != domain:
                self._make_ambiguous(block, node)
                node = Node(domain, link, key)
            elif node.key != key and key == link:
                self._reveal(block, node)
            elif node.key != key and node.key != link:  # two lookaheads under one hash
                self._make_ambiguous(block, node)
                node = Node(domain, link, key)
            named.append((block, node))
        return named

    def _name_pages(
        self, event: batch.Stored, domain: int, parent: Alias | None, *, new: bool
    ) -> list[tuple[batch.Hash, Alias]]:
        assert event.tokens is not None
        size = self._holds.domains[domain].size
        width = event.block_size * 4
        named: list[tuple[batch.Hash, Alias]] = []
        nodes = self.nodes
        seen: set[batch.Hash] = set()

        def current(page: pages.Page) -> pages.Page:
            now = nodes.get(page.hash)
            return now if isinstance(now, pages.Page) and now.same(page) else page

        for number, block in enumerate(event.hashes):
            tokens = event.tokens[number * width : (number + 1) * width]
            above = parent if isinstance(parent, pages.Page) else None
            page = pages.Page(
                domain=domain,
                chain=None if parent is None else parent.chain,
                tail=b"",
                hash=block,
                extra=extra_of(event, number),
                up=above if above is not None and above.tail else None,
            )
            base = page.chain
            completed = pages.append(page, tokens, above.tail if above is not None else b"", size, current)
            if self._trace is not None:
                self._trace.chained(base, [key for key, _ in completed], size)
            if block in seen:
                parent = page
                continue
            seen.add(block)
            node = nodes.get(block)
            if node is None:
                if new:
                    nodes[block] = page
            elif isinstance(node, Node) and node.domain == NO_KEY:
                page.places = node.places
                nodes[block] = page
                self.nameless -= 1
            elif page.same(node):
                page = node  # type: ignore[assignment]  # `same` says that it is a page
                completed = []
            else:
                self._make_ambiguous(block, node)
            if nodes.get(block) is page:
                page.mask = self.mask(block)
                for key, members in completed:
                    self._complete(pages.Block(domain, key, members))
            parent = page
            named.append((block, page))
        return named

    def _complete(self, made: pages.Block) -> None:
        """A block whose last page was just stored. Those of its pages that are gone stay known: they may come back."""
        for page in made.pages:
            page.blocks.append(made)
            self.nodes.setdefault(page.hash, page)
        self._refresh(made)

    def _refresh(self, made: pages.Block) -> None:
        now = made.now()
        for tier in (kvwire.T1, kvwire.T2, kvwire.T3):
            if now & ~made.tiers & tier:
                self._holds.add(made.domain, made.key, tier)
            elif made.tiers & ~now & tier:
                self._holds.drop(made.domain, made.key, tier)
        made.tiers = now

    def _make_ambiguous(self, block: batch.Hash, node: Alias) -> None:
        """A hash that names two contents is believed for neither (IDX-10: not every engine hashes salt, adapter)."""
        if node.domain == AMBIGUOUS:
            return
        self._notes.counters.ambiguous += 1
        self._notes.say(
            "ambiguous", f"engine hash {batch.spell(block)} names two contents; such blocks are not counted"
        )
        if isinstance(node, pages.Page):
            node.mask = 0
            if node.places:
                self.nodes[block] = Node(AMBIGUOUS, places=node.places)
            else:
                del self.nodes[block]
            node.places = 0
            self._refresh_page(node)
            return
        for shelf in self.shelves.values():
            if block in shelf.refs:
                self._holds.drop(node.domain, node.key, shelf.tier)
        node.domain = AMBIGUOUS

    def _reveal(self, block: batch.Hash, node: Node) -> None:
        """A block that was hidden for its lookahead counts by its tokens: what stands below it is what it looked at."""
        if self.nodes.get(block) is node:
            for shelf in self.shelves.values():
                if block in shelf.refs:
                    self._holds.drop(node.domain, node.key, shelf.tier)
                    self._holds.add(node.domain, node.chain, shelf.tier)
        node.key = node.chain

    def _hold_everywhere(self, block: batch.Hash, node: Node) -> None:
        for shelf in self.shelves.values():
            if block in shelf.refs:
                self._holds.add(node.domain, node.key, shelf.tier)

    def recount(self, blocks: list[pages.Block]) -> None:
        """Count everything held anew, for a group whose nodes and shelves have just been restored."""
        for block, node in self.nodes.items():
            if isinstance(node, Node):
                if node.domain >= 0:
                    self._hold_everywhere(block, node)
                elif node.domain == NO_KEY:
                    self.nameless += 1
        for made in blocks:
            for page in made.pages:
                page.blocks.append(made)
            self._refresh(made)

    # Where copies lie --------------------------------------------------------------------------------------------

    def put(self, shelf: Shelf, block: batch.Hash) -> None:
        """One more copy of a hash on a shelf."""
        node = self.nodes.get(block)
        if node is None:
            if self.nameless >= MAX_NAMELESS:
                self._notes.counters.untracked += 1
                return
            self.nameless += 1
            self._notes.counters.nameless += 1
            node = self.nodes[block] = Node(NO_KEY)
        copies = shelf.refs.get(block, 0)
        shelf.refs[block] = copies + 1
        if copies:
            return
        node.places += 1
        if isinstance(node, Node):
            if node.domain >= 0:
                self._holds.add(node.domain, node.key, shelf.tier)
        else:
            node.mask |= shelf.tier
            self._refresh_page(node)

    def put_all(self, shelf: Shelf, blocks: Iterable[batch.Hash]) -> None:
        """`put` of each in order, with what nearly all of them need spelled out: the first copy of a named block."""
        nodes, refs, tier, add = self.nodes, shelf.refs, shelf.tier, self._holds.add
        for block in blocks:
            node = nodes.get(block)
            if type(node) is Node and node.domain >= 0 and block not in refs:
                refs[block] = 1
                node.places += 1
                add(node.domain, node.key, tier)
            else:
                self.put(shelf, block)

    def take_away(self, shelf: Shelf, block: batch.Hash) -> None:
        """The last copy of a hash on a shelf is gone."""
        del shelf.refs[block]
        node = self.nodes[block]
        node.places -= 1
        if isinstance(node, Node):
            if node.domain >= 0:
                self._holds.drop(node.domain, node.key, shelf.tier)
            if not node.places:
                del self.nodes[block]
                if node.domain == NO_KEY:
                    self.nameless -= 1
        else:
            node.mask = self.mask(block)
            self._refresh_page(node)

    def _refresh_page(self, page: pages.Page) -> None:
        """A page's tiers changed: so may its blocks', and blocks none of whose pages are left end."""
        for made in list(page.blocks):
            self._refresh(made)
            if not any(member.places for member in made.pages):
                for member in made.pages:
                    member.blocks.remove(made)
                    self._let_go(member)
        self._let_go(page)

    def _let_go(self, page: pages.Page) -> None:
        if not page.places and not page.blocks and self.nodes.get(page.hash) is page:
            del self.nodes[page.hash]


def _repeats(hashes: Sequence[batch.Hash]) -> bool:
    return len(hashes) > 1 and len(set(hashes)) != len(hashes)


def extra_of(event: batch.Stored, number: int) -> bytes | None:
    """Canonical bytes of what a block's key depends on beside its tokens; None when that is nothing."""
    extra = event.extra[number] if event.extra is not None else None
    lookahead = event.lookahead if number == len(event.hashes) - 1 else None
    if extra is None and event.salt is None and lookahead is None:
        return None
    return _encode((event.salt, extra, lookahead))


def salted(event: batch.Stored, base: int | None) -> tuple[list[int], list[int]]:
    """Chain and held keys of blocks that depend on more than tokens.

    A lookahead counts for the last block's held key only, and until a block below it is known: then that one's tokens
    say the same (IDX-11).
    """
    assert event.tokens is not None
    width = event.block_size * 4
    chain: list[int] = []
    held: list[int] = []
    for number in range(len(event.hashes)):
        block = event.tokens[number * width : (number + 1) * width]
        extra = event.extra[number] if event.extra is not None else None
        if extra is None and event.salt is None:
            link = keys.chain(block, event.block_size, base)[0]
        else:
            link = keys.salted(base, block, _encode((event.salt, extra, None)))
        chain.append(link)
        whole = extra_of(event, number)
        held.append(link if event.lookahead is None or whole is None else keys.salted(base, block, whole))
        base = link
    return chain, held
