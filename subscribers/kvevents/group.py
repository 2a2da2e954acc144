"""One cache group of a replica: what its hashes stand for, and in which places copies of them lie.

A hash is an alias of content: of a whole block (`Node`, which has a key) or of less (`Page`, whose tokens complete a
block together with others). Copies are counted per shelf (one place: medium, near or remote).

Every method leaves `holds` with what aliases and copies say. Not here: what an event's hashes stand for (naming.py),
adapters, groups' kinds, unknown parents (table.py). Nothing raises on any sequence of calls that these make.

Rules: KV-04, KV-09, KV-12, KV-18, KV-20, IDX-01, IDX-06, IDX-10, IDX-11.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from eventstore import kvwire
from subscribers.kvevents import batch, holds, media, notes, pages

MAX_NAMELESS: Final = 262_144  # parked, orphaned, not laid out as we can read
NO_KEY: Final = -1
AMBIGUOUS: Final = -2


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

    def __init__(self, number: int, held: holds.Holds, said: notes.Notes) -> None:
        self.number = number
        self.holds = held
        self.nodes: dict[batch.Hash, Alias] = {}
        self.shelves: dict[media.Place, Shelf] = {}
        self.nameless = 0  # how many of the nodes have no key
        self._notes = said

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

    def give_key(self, block: batch.Hash, node: Node, domain: int, chain: int, key: int) -> None:
        """Name an alias that had no key: its copies count from now on."""
        node.domain, node.chain, node.key = domain, chain, key
        self.nameless -= 1
        self._hold_everywhere(block, node)

    def give_page(self, block: batch.Hash, node: Node, page: pages.Page) -> None:
        """An alias that had no key is a page: its copies are the page's, which counts once its block is whole."""
        page.places = node.places
        self.nodes[block] = page
        self.nameless -= 1

    def make_ambiguous(self, block: batch.Hash, node: Alias) -> None:
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
                self.holds.drop(node.domain, node.key, shelf.tier)
        node.domain = AMBIGUOUS

    def reveal(self, block: batch.Hash, node: Node) -> None:
        """A block that was hidden for its lookahead counts by its tokens: what stands below it is what it looked at."""
        if self.nodes.get(block) is node:
            for shelf in self.shelves.values():
                if block in shelf.refs:
                    self.holds.drop(node.domain, node.key, shelf.tier)
                    self.holds.add(node.domain, node.chain, shelf.tier)
        node.key = node.chain

    def _hold_everywhere(self, block: batch.Hash, node: Node) -> None:
        for shelf in self.shelves.values():
            if block in shelf.refs:
                self.holds.add(node.domain, node.key, shelf.tier)

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
                self.holds.add(node.domain, node.key, shelf.tier)
        else:
            node.mask |= shelf.tier
            self._refresh_page(node)

    def put_all(self, shelf: Shelf, blocks: Iterable[batch.Hash]) -> None:
        """`put` of each in order, with what nearly all of them need spelled out: the first copy of a named block."""
        nodes, refs, tier, add = self.nodes, shelf.refs, shelf.tier, self.holds.add
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
                self.holds.drop(node.domain, node.key, shelf.tier)
            if not node.places:
                del self.nodes[block]
                if node.domain == NO_KEY:
                    self.nameless -= 1
        else:
            node.mask = self.mask(block)
            self._refresh_page(node)

    # Blocks that are put together from pages ---------------------------------------------------------------------

    def complete(self, made: pages.Block) -> None:
        """A block whose last page was just stored. Those of its pages that are gone stay known: they may come back."""
        for page in made.pages:
            page.blocks.append(made)
            self.nodes.setdefault(page.hash, page)
        self._refresh(made)

    def _refresh(self, made: pages.Block) -> None:
        now = made.now()
        for tier in (kvwire.T1, kvwire.T2, kvwire.T3):
            if now & ~made.tiers & tier:
                self.holds.add(made.domain, made.key, tier)
            elif made.tiers & ~now & tier:
                self.holds.drop(made.domain, made.key, tier)
        made.tiers = now

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
