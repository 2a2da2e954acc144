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
from typing import Final, Literal

import msgspec

from eventstore import kvwire
from subscribers.kvevents import batch, group, holds, media, naming, notes, orphans, shortcut

ClearPolicy = Literal["auto", "gpu", "all"]

ASSUMED: Final = media.Place(media.ASSUMED, False)


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


class Table:
    """The alias table of one replica. Single-threaded; every method returns promptly but `clear` and `dump`."""

    def __init__(self, settings: Settings | None = None, *, trace: naming.Trace | None = None) -> None:
        self.settings = settings or Settings()
        self._notes = notes.Notes()
        self.counters = self._notes.counters
        self._trace = trace
        self._shortcut = trace is None
        self.holds = holds.Holds()
        self.groups: dict[int, group.Group] = {}
        self.kinds: dict[int, str | None] = {}
        self.orphans = orphans.Orphans()
        self.slower = False  # blocks were announced on a slower tier, at any time in this engine's life
        self.expiry: dict[tuple[int, batch.Hash], float] = {}  # of assumed copies, soonest first
        self.now = 0.0
        self._clear: Clear | None = None
        self._places: dict[tuple[str | None, str | None], media.Place] = {}

    # What was told, and what is to be told: see holds.py -----------------------------------------------------------

    @property
    def pending(self) -> int:
        """How many keys a `take` without limit would give."""
        return self.holds.pending

    @property
    def count(self) -> int:
        """Keys held, of the told state: what a server holds that applied everything taken so far."""
        return self.holds.count

    @property
    def sum(self) -> int:
        """Sum of these keys modulo 2**64."""
        return self.holds.sum

    def take(self, limit: int = kvwire.MAX_KEYS) -> list[kvwire.Group]:
        """The next changes as final states, at most `limit` keys."""
        return self.holds.take(limit)

    def drop_pending(self) -> None:
        """Call all changes told: only right before a keyframe."""
        self.holds.drop_pending()

    def held(self, limit: int = kvwire.MAX_KEYS) -> Iterator[list[kvwire.Group]]:
        """The told state in chunks of at most `limit` keys, for a keyframe; the table may change between chunks."""
        return self.holds.chunks(limit)

    def each(self) -> Iterator[holds.Hold]:
        """The told state key by key."""
        return self.holds.each()

    def take_clear(self) -> Clear | None:
        """What the engine said it cleared since last asked."""
        clear, self._clear = self._clear, None
        return clear

    def take_notes(self) -> list[str]:
        """Lines for people since last asked, each said once."""
        return self._notes.take()

    # What engines say --------------------------------------------------------------------------------------------

    def tick(self, now: float) -> None:
        """Time passes (seconds of any clock that does not go back): assumed copies end."""
        self.now = max(self.now, now)
        while self.expiry:
            at = next(iter(self.expiry))
            if self.expiry[at] > self.now:
                break
            self._end_assumption(*at)

    def apply_batch(self, events: Sequence[batch.Event], now: float) -> None:
        """The events of one batch at its time: what a journal repeats after a restart."""
        self.tick(now)
        for event in events:
            self.apply(event)

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
        here = self._counted_group(event.group, event.kind)
        if here is None:
            self.counters.other_groups += len(hashes)
            return
        self.counters.stored += len(hashes)
        if event.bigram:
            self.counters.bigram += len(hashes)
        shelf = here.shelf(self._place(event.medium, event.locality))
        if shelf.tier != kvwire.T1:
            self.slower = True
        if self._shortcut and not self.orphans:
            short = shortcut.one if len(hashes) == 1 else shortcut.run
            if short(here, shelf, event, adapter):
                return
        if event.tokens:
            if _fits(event):
                self._name(here, event, adapter)
            else:
                self.counters.layout_unsupported += len(hashes)
                self._notes.say(
                    "layout",
                    f"layout not supported: {len(event.tokens) // 4} tokens for {len(hashes)} blocks of "
                    f"{event.block_size}; such blocks are tracked and never routed to",
                )
        here.put_all(shelf, hashes if len(hashes) == 1 else dict.fromkeys(hashes))

    def _adapter(self, event: batch.Stored) -> str | None:
        """The adapter that blocks belong to, "" for the base model; None when it has a number only (KV-08)."""
        if event.lora_name:
            return event.lora_name
        if event.lora_id is None:
            return ""
        name = self.settings.lora_adapter_names.get(event.lora_id)
        if name is None:
            self._notes.say(
                f"lora {event.lora_id}",
                f"LoRA id {event.lora_id} has no name, its blocks are not counted; "
                f"start with --lora-adapter-names={event.lora_id}=<name>",
            )
        return name

    def _place(self, medium: str | None, locality: str | None) -> media.Place:
        place = self._places.get((medium, locality))
        if place is None:
            if len(self._places) >= 256:
                self._places.clear()
            place = self._places[medium, locality] = media.place(medium, locality)
        return place

    def _counted_group(self, number: int, kind: str | None) -> group.Group | None:
        """The group, or None when its blocks do not tell what prefix is held. Only stores name kinds (KV-09)."""
        if kind is not None and self.kinds.get(number) != kind:
            self.kinds[number] = kind
            if not media.holds_prefix(kind) and number in self.groups:
                self._drop_group(self.groups[number])
        if not media.holds_prefix(self.kinds.get(number)):
            return None
        return self.cache_group(number)

    def cache_group(self, number: int) -> group.Group:
        """A cache group by its number, made when it is new."""
        here = self.groups.get(number)
        if here is None:
            here = self.groups[number] = group.Group(number, self.holds, self._notes)
        return here

    # What hashes stand for ---------------------------------------------------------------------------------------

    def _name(self, here: group.Group, event: batch.Stored, adapter: str) -> None:
        """Give the event's blocks their keys, now or when the parent appears."""
        parent: group.Alias | None = None
        if event.parent is not None:
            parent = here.nodes.get(event.parent)
            if parent is None or parent.domain < 0:
                self.counters.orphaned += len(event.hashes)
                given_up = self.orphans.add(orphans.Orphan(here.number, adapter, event))
                self.counters.orphans_given_up += given_up
                return
        named = naming.below(here, event, adapter, parent, new=True, trace=self._trace)
        if self.orphans:
            self._attach(here, named)

    def _attach(self, here: group.Group, named: naming.Named) -> None:
        """Name what waited for these, and what waited for that, without recursion."""
        while named:
            block, parent = named.pop()
            for orphan in self.orphans.pop(here.number, block):
                self.counters.attached += len(orphan.event.hashes)
                named += naming.below(here, orphan.event, orphan.adapter, parent, new=False, trace=self._trace)

    # Where copies lie --------------------------------------------------------------------------------------------

    def _remove(self, event: batch.Removed) -> None:
        here = self.groups.get(event.group)
        place = self._place(event.medium, event.locality)
        shelf = here.shelves.get(place) if here is not None else None
        if here is None or shelf is None:
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
                self._assume(here, block)
            here.take_away(shelf, block)
            if shelf.tier == kvwire.T2 and (here.number, block) in self.expiry:
                self._end_assumption(here.number, block)  # the engine does say, so there is nothing to assume

    def _assume(self, here: group.Group, block: batch.Hash) -> None:
        """A block that left the GPU is taken to lie on a slower tier, for a time (--ignore-block-removed)."""
        if here.nodes[block].domain < 0:
            return
        shelf = here.shelf(ASSUMED)
        if block not in shelf.refs:
            here.put(shelf, block)
        at = (here.number, block)
        self.expiry.pop(at, None)  # so that the order stays: soonest first
        self.expiry[at] = self.now + self.settings.assumed_seconds

    def _end_assumption(self, number: int, block: batch.Hash) -> None:
        del self.expiry[number, block]
        here = self.groups[number]
        here.take_away(here.shelves[ASSUMED], block)

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
            return self.slower or self.settings.ignore_block_removed
        return self.settings.clear == "gpu"

    def _clear_medium(self, medium: str) -> None:
        for here in list(self.groups.values()):
            for place in [place for place in here.shelves if place.medium == medium]:
                shelf = here.shelves[place]
                for block in list(shelf.refs):
                    if place == ASSUMED:
                        del self.expiry[here.number, block]
                    here.take_away(shelf, block)

    def clear(self, scope: Literal["gpu", "all"]) -> None:
        """Drop what is known of the GPU, as changes; or of everything, at once: that is told by a keyframe only."""
        if scope == "gpu":
            self._clear_medium(media.GPU)
            return
        self.groups.clear()
        self.kinds.clear()  # every store names them again
        self.orphans.clear()
        self.expiry.clear()
        self.holds.clear()

    def forget(self) -> None:
        """After a gap: a removal may have been in it, so nothing is claimed any more. A keyframe must follow."""
        self.counters.forgets += 1
        self.clear("all")

    def _drop_group(self, here: group.Group) -> None:
        """A group turned out not to tell what prefix is held."""
        for place, shelf in here.shelves.items():
            for block in list(shelf.refs):
                if place == ASSUMED:
                    del self.expiry[here.number, block]
                here.take_away(shelf, block)
        del self.groups[here.number]


def _fits(event: batch.Stored) -> bool:
    """Whether tokens and extra keys can be dealt out to the hashes by position (KV-10)."""
    blocks = len(event.hashes)
    return (
        event.block_size > 0
        and len(event.tokens or b"") == blocks * event.block_size * 4
        and (event.extra is None or len(event.extra) == blocks)
    )
