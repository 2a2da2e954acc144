"""What one engine replica holds: engine hashes as aliases of keys, with copies counted per place.

An engine names blocks by hashes of its own, per cache group, and announces every physical copy. The table keeps, per
group, what content a hash stands for (a `Node`, or a `Page` of less than a block) and, per place (medium, near or
remote), how many copies are announced. A key is held in a tier while at least one counted copy of an alias lies there.

    a store says                           then
    tokens below a known parent, or none   its blocks get their keys
    tokens below an unknown parent         an alias without a key; it gets one when the parent appears (orphans.py)
    no tokens                              a copy in one more place of a known hash; of an unknown one: parked
    tokens that do not fit the hashes      an alias without a key: nothing is ever concluded from it (KV-10)
    the same hash for another content      the alias is ambiguous: neither content counts

Not here: bytes (decode.py), what was told to whom (holds.py), sequence numbers, clocks: time comes in through `tick`.
Nothing raises on any sequence of events. What people should know is in `take_notes` and `counters`.

Rules: KV-04..KV-12, KV-16..KV-20, TR-16, TR-17, IDX-01, IDX-02, IDX-06, IDX-10, IDX-11; design.md section 3.
"""

from collections.abc import Iterator, Sequence
from typing import Final, Literal, Protocol

import msgspec

from eventstore import kvwire
from handlers.prefixindex import keys
from subscribers.kvevents import batch, holds, media, orphans, pages

ClearPolicy = Literal["auto", "gpu", "all"]

MAX_NAMELESS: Final = 262_144  # aliases without a key: parked, orphaned, not laid out as we can read
_NO_KEY: Final = -1
_AMBIGUOUS: Final = -2
_MAX_NOTES: Final = 32

_encode = msgspec.msgpack.Encoder().encode


class Settings(msgspec.Struct, frozen=True):
    """What an operator may choose. Part of the journal's identity: a table belongs to the settings it grew under."""

    lora_adapter_names: dict[int, str] = {}
    clear: ClearPolicy = "auto"
    ignore_block_removed: bool = False
    assumed_seconds: float = 1800.0  # how long a block that left the GPU is assumed to be on a slower tier


class Clear(msgspec.Struct, frozen=True):
    """The engine said that it dropped blocks. `everything`: nothing is left anywhere, and that is known for certain.

    Then the told state is void too: the caller sends a keyframe, and its coverage may become complete.
    """

    everything: bool


class Counters(msgspec.Struct):
    """Since the table was made. Blocks unless the name says otherwise."""

    stored: int = 0
    removed: int = 0
    removed_unknown: int = 0
    orphaned: int = 0
    attached: int = 0
    orphans_given_up: int = 0  # events
    nameless: int = 0  # aliases that began without a key: parked, orphaned, not laid out as we can read
    layout_unsupported: int = 0
    ambiguous: int = 0
    self_parent: int = 0
    unnamed_adapter: int = 0
    other_groups: int = 0  # of cache groups that do not tell what prefix is held
    untracked: int = 0  # beyond MAX_NAMELESS
    clears: int = 0  # events
    forgets: int = 0


class Trace(Protocol):
    """Who wants to know how keys chain (acceptance cases: cumulative token counts)."""

    def chained(self, parent: int | None, chain: Sequence[int], size: int) -> None: ...


class Node(msgspec.Struct, gc=False):
    """What a hash stands for: `key` in `domain`, children chain on `chain` (they differ only under lookahead)."""

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
    """One cache group: its own namespace of hashes (KV-09)."""

    __slots__ = ("nodes", "number", "shelves")

    def __init__(self, number: int) -> None:
        self.number = number
        self.nodes: dict[batch.Hash, Alias] = {}
        self.shelves: dict[media.Place, Shelf] = {}

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


_ASSUMED: Final = media.Place(media.ASSUMED, False)


class Table:
    """The alias table of one replica. Single-threaded; every method returns promptly but `clear` and `dump`."""

    def __init__(self, settings: Settings | None = None, *, trace: Trace | None = None) -> None:
        self.settings = settings or Settings()
        self.counters = Counters()
        self._trace = trace
        self._holds = holds.Holds()
        self._groups: dict[int, Group] = {}
        self._kinds: dict[int, str | None] = {}
        self._orphans = orphans.Orphans()
        self._nameless = 0
        self._slower = False  # blocks were announced on a slower tier, at any time in this engine's life
        self._expiry: dict[tuple[int, batch.Hash], float] = {}  # of assumed copies, soonest first
        self._now = 0.0
        self._clear: Clear | None = None
        self._notes: list[str] = []
        self._unnamed: set[int] = set()
        self._places: dict[tuple[str | None, str | None], media.Place] = {}

    # What was told, and what is to be told: see holds.py -----------------------------------------------------------

    @property
    def pending(self) -> int:
        """How many keys a `take` without limit would give."""
        return self._holds.pending

    @property
    def count(self) -> int:
        """Keys held, of the told state: what a server holds that applied everything taken so far."""
        return self._holds.count

    @property
    def sum(self) -> int:
        """Sum of these keys modulo 2**64."""
        return self._holds.sum

    def take(self, limit: int = kvwire.MAX_KEYS) -> list[kvwire.Group]:
        """The next changes as final states, at most `limit` keys."""
        return self._holds.take(limit)

    def drop_pending(self) -> None:
        """Call all changes told: only right before a keyframe."""
        self._holds.drop_pending()

    def held(self, limit: int = kvwire.MAX_KEYS) -> Iterator[list[kvwire.Group]]:
        """The told state in chunks of at most `limit` keys, for a keyframe; the table may change between chunks."""
        return self._holds.chunks(limit)

    def each(self) -> Iterator[holds.Hold]:
        """The told state key by key."""
        return self._holds.each()

    def take_clear(self) -> Clear | None:
        """What the engine said it cleared since last asked."""
        clear, self._clear = self._clear, None
        return clear

    def take_notes(self) -> list[str]:
        """Lines for people since last asked, each said once."""
        notes, self._notes = self._notes, []
        return notes

    # What engines say --------------------------------------------------------------------------------------------

    def tick(self, now: float) -> None:
        """Time passes (seconds of any clock that does not go back): assumed copies end."""
        self._now = max(self._now, now)
        while self._expiry:
            at = next(iter(self._expiry))
            if self._expiry[at] > self._now:
                break
            self._end_assumption(*at)

    def apply(self, event: batch.Event) -> None:
        """One event, in the engine's order."""
        if isinstance(event, batch.Stored):
            self._store(event)
        elif isinstance(event, batch.Removed):
            self._remove(event)
        else:
            self._cleared(event)

    def _store(self, event: batch.Stored) -> None:
        hashes = event.hashes
        if not hashes:
            return
        if event.parent is not None and event.parent in hashes:
            self.counters.self_parent += len(hashes)
            return
        adapter = self._adapter(event)
        if adapter is None:
            self.counters.unnamed_adapter += len(hashes)
            return
        group = self._counted_group(event.group, event.kind)
        if group is None:
            self.counters.other_groups += len(hashes)
            return
        self.counters.stored += len(hashes)
        if event.tokens:
            if _fits(event):
                self._name(group, event, adapter)
            else:
                self.counters.layout_unsupported += len(hashes)
                self._note(
                    f"layout not supported: {len(event.tokens) // 4} tokens for {len(hashes)} blocks of "
                    f"{event.block_size}; such blocks are tracked and never routed to"
                )
        shelf = group.shelf(self._place(event.medium, event.locality))
        if shelf.tier != kvwire.T1:
            self._slower = True
        for block in hashes if len(hashes) == 1 else dict.fromkeys(hashes):
            self._put(group, shelf, block)

    def _adapter(self, event: batch.Stored) -> str | None:
        """The adapter that blocks belong to, "" for the base model; None when it has a number only (KV-08)."""
        if event.lora_name:
            return event.lora_name
        if event.lora_id is None:
            return ""
        name = self.settings.lora_adapter_names.get(event.lora_id)
        if name is None and event.lora_id not in self._unnamed and len(self._unnamed) < 1024:
            self._unnamed.add(event.lora_id)
            self._note(
                f"LoRA id {event.lora_id} has no name, its blocks are not counted; "
                f"start with --lora-adapter-names={event.lora_id}=<name>"
            )
        return name

    def _place(self, medium: str | None, locality: str | None) -> media.Place:
        place = self._places.get((medium, locality))
        if place is None:
            if len(self._places) >= 256:
                self._places.clear()
            place = self._places[medium, locality] = media.place(medium, locality)
        return place

    def _counted_group(self, number: int, kind: str | None) -> Group | None:
        """The group, or None when its blocks do not tell what prefix is held. Only stores name kinds (KV-09)."""
        if kind is not None and self._kinds.get(number) != kind:
            self._kinds[number] = kind
            if not media.holds_prefix(kind) and number in self._groups:
                self._drop_group(self._groups[number])
        if not media.holds_prefix(self._kinds.get(number)):
            return None
        group = self._groups.get(number)
        if group is None:
            group = self._groups[number] = Group(number)
        return group

    # What hashes stand for ---------------------------------------------------------------------------------------

    def _name(self, group: Group, event: batch.Stored, adapter: str) -> None:
        """Give the event's blocks their keys, now or when the parent appears."""
        parent: Alias | None = None
        if event.parent is not None:
            parent = group.nodes.get(event.parent)
            if parent is None or parent.domain < 0:
                self.counters.orphaned += len(event.hashes)
                given_up = self._orphans.add(orphans.Orphan(group.number, adapter, event))
                self.counters.orphans_given_up += given_up
                return
        named = self._name_below(group, event, adapter, parent, new=True)
        if self._orphans:
            self._attach(group, named)

    def _attach(self, group: Group, named: list[tuple[batch.Hash, Alias]]) -> None:
        """Name what waited for these, and what waited for that, without recursion."""
        while named:
            block, parent = named.pop()
            for orphan in self._orphans.pop(group.number, block):
                self.counters.attached += len(orphan.event.hashes)
                named += self._name_below(group, orphan.event, orphan.adapter, parent, new=False)

    def _name_below(
        self, group: Group, event: batch.Stored, adapter: str, parent: Alias | None, *, new: bool
    ) -> list[tuple[batch.Hash, Alias]]:
        """Aliases of the event's blocks in order. `new`: make those that are not there (an orphan's may be gone)."""
        size = event.block_size
        if parent is not None:
            size = self._holds.domains[parent.domain].size
        elif size < pages.CANONICAL:
            size = pages.CANONICAL
        domain = self._holds.domain(adapter, size)
        if size == event.block_size and not isinstance(parent, pages.Page):
            return self._name_blocks(group, event, domain, None if parent is None else parent.chain, new=new)
        return self._name_pages(group, event, domain, parent, new=new)

    def _name_blocks(
        self, group: Group, event: batch.Stored, domain: int, base: int | None, *, new: bool
    ) -> list[tuple[batch.Hash, Alias]]:
        assert event.tokens is not None
        if event.extra is None and event.salt is None and event.lookahead is None:
            chain = held = keys.chain(event.tokens, event.block_size, base)
        else:
            chain, held = _salted(event, base)
        if self._trace is not None:
            self._trace.chained(base, chain, event.block_size)
        named: list[tuple[batch.Hash, Alias]] = []
        nodes = group.nodes
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
            elif node.domain == _NO_KEY and isinstance(node, Node):
                node.domain, node.chain, node.key = domain, link, key
                self._nameless -= 1
                self._hold_everywhere(group, block, node)
            elif not isinstance(node, Node) or node.chain != link or node.key != key or node.domain != domain:
                self._make_ambiguous(group, block, node)
                node = Node(domain, link, key)
            named.append((block, node))
        return named

    def _name_pages(
        self, group: Group, event: batch.Stored, domain: int, parent: Alias | None, *, new: bool
    ) -> list[tuple[batch.Hash, Alias]]:
        assert event.tokens is not None
        size = self._holds.domains[domain].size
        width = event.block_size * 4
        named: list[tuple[batch.Hash, Alias]] = []
        nodes = group.nodes
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
                extra=_extra_of(event, number),
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
            elif isinstance(node, Node) and node.domain == _NO_KEY:
                page.places = node.places
                nodes[block] = page
                self._nameless -= 1
            elif page.same(node):
                page = node  # type: ignore[assignment]  # `same` says that it is a page
                completed = []
            else:
                self._make_ambiguous(group, block, node)
            if nodes.get(block) is page:
                page.mask = group.mask(block)
                for key, members in completed:
                    self._complete(group, pages.Block(domain, key, members))
            parent = page
            named.append((block, page))
        return named

    def _complete(self, group: Group, made: pages.Block) -> None:
        """A block whose last page was just stored. Those of its pages that are gone stay known: they may come back."""
        for page in made.pages:
            page.blocks.append(made)
            group.nodes.setdefault(page.hash, page)
        self._refresh(made)

    def _refresh(self, made: pages.Block) -> None:
        now = made.now()
        for tier in (kvwire.T1, kvwire.T2, kvwire.T3):
            if now & ~made.tiers & tier:
                self._holds.add(made.domain, made.key, tier)
            elif made.tiers & ~now & tier:
                self._holds.drop(made.domain, made.key, tier)
        made.tiers = now

    def _make_ambiguous(self, group: Group, block: batch.Hash, node: Alias) -> None:
        """A hash that names two contents is believed for neither (IDX-10: not every engine hashes salt, adapter)."""
        if node.domain == _AMBIGUOUS:
            return
        self.counters.ambiguous += 1
        self._note(f"engine hash {batch.spell(block)} names two contents; such blocks are not counted")
        if isinstance(node, pages.Page):
            node.mask = 0
            if node.places:
                group.nodes[block] = Node(_AMBIGUOUS, places=node.places)
            else:
                del group.nodes[block]
            node.places = 0
            self._refresh_page(group, node)
            return
        for shelf in group.shelves.values():
            if block in shelf.refs:
                self._holds.drop(node.domain, node.key, shelf.tier)
        node.domain = _AMBIGUOUS

    def _hold_everywhere(self, group: Group, block: batch.Hash, node: Node) -> None:
        for shelf in group.shelves.values():
            if block in shelf.refs:
                self._holds.add(node.domain, node.key, shelf.tier)

    # Where copies lie --------------------------------------------------------------------------------------------

    def _put(self, group: Group, shelf: Shelf, block: batch.Hash) -> None:
        """One more copy of a hash on a shelf."""
        node = group.nodes.get(block)
        if node is None:
            if self._nameless >= MAX_NAMELESS:
                self.counters.untracked += 1
                return
            self._nameless += 1
            self.counters.nameless += 1
            node = group.nodes[block] = Node(_NO_KEY)
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
            self._refresh_page(group, node)

    def _remove(self, event: batch.Removed) -> None:
        group = self._groups.get(event.group)
        place = self._place(event.medium, event.locality)
        shelf = group.shelves.get(place) if group is not None else None
        if group is None or shelf is None:
            self.counters.removed_unknown += len(event.hashes)
            return
        for block in event.hashes:
            copies = shelf.refs.get(block, 0)
            if not copies:
                self.counters.removed_unknown += 1
                continue
            self.counters.removed += 1
            if copies > 1:
                shelf.refs[block] = copies - 1
                continue
            if self.settings.ignore_block_removed and shelf.tier == kvwire.T1:
                self._assume(group, block)
            self._take_away(group, shelf, block)
            if shelf.tier == kvwire.T2 and (group.number, block) in self._expiry:
                self._end_assumption(group.number, block)  # the engine does say, so there is nothing to assume

    def _take_away(self, group: Group, shelf: Shelf, block: batch.Hash) -> None:
        """The last copy of a hash on a shelf is gone."""
        del shelf.refs[block]
        node = group.nodes[block]
        node.places -= 1
        if isinstance(node, Node):
            if node.domain >= 0:
                self._holds.drop(node.domain, node.key, shelf.tier)
            if not node.places:
                del group.nodes[block]
                if node.domain == _NO_KEY:
                    self._nameless -= 1
        else:
            node.mask = group.mask(block)
            self._refresh_page(group, node)

    def _refresh_page(self, group: Group, page: pages.Page) -> None:
        """A page's tiers changed: so may its blocks', and blocks none of whose pages are left end."""
        for made in list(page.blocks):
            self._refresh(made)
            if not any(member.places for member in made.pages):
                for member in made.pages:
                    member.blocks.remove(made)
                    self._let_go(group, member)
        self._let_go(group, page)

    def _let_go(self, group: Group, page: pages.Page) -> None:
        if not page.places and not page.blocks and group.nodes.get(page.hash) is page:
            del group.nodes[page.hash]

    def _assume(self, group: Group, block: batch.Hash) -> None:
        """A block that left the GPU is taken to lie on a slower tier, for a time (--ignore-block-removed)."""
        if group.nodes[block].domain < 0:
            return
        shelf = group.shelf(_ASSUMED)
        if block not in shelf.refs:
            self._put(group, shelf, block)
        at = (group.number, block)
        self._expiry.pop(at, None)  # so that the order stays: soonest first
        self._expiry[at] = self._now + self.settings.assumed_seconds

    def _end_assumption(self, number: int, block: batch.Hash) -> None:
        del self._expiry[number, block]
        group = self._groups[number]
        self._take_away(group, group.shelves[_ASSUMED], block)

    # What is cleared ---------------------------------------------------------------------------------------------

    def _cleared(self, event: batch.Cleared) -> None:
        self.counters.clears += 1
        medium = None if event.medium is None else media.place(event.medium, None).medium
        if medium is None and not self._keeps_slower_tiers():
            self.clear("all")
            self._clear = Clear(everything=True)
            return
        self._clear_medium(medium or media.GPU)
        if medium not in (None, media.GPU):
            self._clear_medium(media.ASSUMED)
        self._clear = Clear(everything=self._clear is not None and self._clear.everything)

    def _keeps_slower_tiers(self) -> bool:
        """Whether a plain AllBlocksCleared, which names no tier, spares the slower ones (TR-17)."""
        if self.settings.clear == "auto":
            return self._slower or self.settings.ignore_block_removed
        return self.settings.clear == "gpu"

    def _clear_medium(self, medium: str) -> None:
        for group in list(self._groups.values()):
            for place in [place for place in group.shelves if place.medium == medium]:
                shelf = group.shelves[place]
                for block in list(shelf.refs):
                    if place == _ASSUMED:
                        del self._expiry[group.number, block]
                    self._take_away(group, shelf, block)

    def clear(self, scope: Literal["gpu", "all"]) -> None:
        """Drop what is known of the GPU, as changes; or of everything, at once: that is told by a keyframe only."""
        if scope == "gpu":
            self._clear_medium(media.GPU)
            return
        self._groups.clear()
        self._orphans.clear()
        self._expiry.clear()
        self._holds.clear()
        self._nameless = 0

    def forget(self) -> None:
        """After a gap: a removal may have been in it, so nothing is claimed any more. A keyframe must follow."""
        self.counters.forgets += 1
        self.clear("all")

    def _drop_group(self, group: Group) -> None:
        """A group turned out not to tell what prefix is held."""
        for place, shelf in group.shelves.items():
            for block in list(shelf.refs):
                if place == _ASSUMED:
                    del self._expiry[group.number, block]
                self._take_away(group, shelf, block)
        del self._groups[group.number]

    def _note(self, line: str) -> None:
        if len(self._notes) < _MAX_NOTES and line not in self._notes:
            self._notes.append(line)


def _repeats(hashes: Sequence[batch.Hash]) -> bool:
    return len(hashes) > 1 and len(set(hashes)) != len(hashes)


def _fits(event: batch.Stored) -> bool:
    """Whether tokens and extra keys can be dealt out to the hashes by position (KV-10)."""
    blocks = len(event.hashes)
    return (
        event.block_size > 0
        and len(event.tokens or b"") == blocks * event.block_size * 4
        and (event.extra is None or len(event.extra) == blocks)
    )


def _extra_of(event: batch.Stored, number: int) -> bytes | None:
    """Canonical bytes of what a block's key depends on beside its tokens; None when that is nothing."""
    extra = event.extra[number] if event.extra is not None else None
    lookahead = event.lookahead if number == len(event.hashes) - 1 else None
    if extra is None and event.salt is None and lookahead is None:
        return None
    return _encode((event.salt, extra, lookahead))


def _salted(event: batch.Stored, base: int | None) -> tuple[list[int], list[int]]:
    """Chain and held keys of blocks that depend on more than tokens.

    A lookahead counts for the last block's held key only: children are told apart by their own tokens (IDX-11).
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
        whole = _extra_of(event, number)
        held.append(link if event.lookahead is None or whole is None else keys.salted(base, block, whole))
        base = link
    return chain, held
