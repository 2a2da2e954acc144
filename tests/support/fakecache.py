"""A paged prefix cache that tells what it does, truthfully: the events, and what they must come to.

Content is known, so what a table must hold can be said without the table's own reasoning. Hashes are numbers given in
order of first appearance. Not an engine: no requests, no eviction policy.
"""

import random
from collections.abc import Sequence

from eventstore import kvwire
from handlers.prefixindex import keys
from subscribers.kvevents import batch

CANONICAL = 16
_TIER = {"GPU": kvwire.T1, "CPU": kvwire.T2, "EXTERNAL": kvwire.T3}


class Cache:
    """Blocks of `page` tokens, each named by all tokens up to its end."""

    def __init__(self, rng: random.Random, *, page: int, any_order: bool) -> None:
        self.rng = rng
        self.page = page
        self.any_order = any_order  # removals may hit the middle of a chain
        self.copies: dict[tuple[str, tuple[int, ...]], int] = {}
        self._names: dict[tuple[int, ...], int] = {}
        self._prompts: list[list[int]] = []

    def _name(self, prefix: Sequence[int]) -> int:
        return self._names.setdefault(tuple(prefix), len(self._names) + 1)

    def _prompt(self) -> list[int]:
        """Often the beginning of an earlier one, over a small alphabet."""
        beginning: list[int] = []
        if self._prompts and self.rng.random() < 0.8:
            old = self.rng.choice(self._prompts)
            beginning = old[: self.rng.randrange(len(old) + 1)]
        prompt = beginning + [self.rng.randrange(3) for _ in range(self.rng.randrange(1, 60))]
        self._prompts = [*self._prompts[-9:], prompt]
        return prompt

    def step(self) -> list[batch.Event]:
        """One thing that an engine may do, as one batch."""
        choice = self.rng.random()
        if choice < 0.45 or not self.copies:
            return self._compute(self._prompt())
        if choice < 0.6:
            return self._copy("CPU" if self.rng.random() < 0.7 else "EXTERNAL")
        return self._evict()

    def _pages(self, prompt: list[int]) -> list[tuple[int, ...]]:
        return [tuple(prompt[:end]) for end in range(self.page, len(prompt) + 1, self.page)]

    def _compute(self, prompt: list[int]) -> list[batch.Event]:
        """Every page that is not on the GPU is stored there, runs of them in events of random length."""
        events: list[batch.Event] = []
        run: list[tuple[int, ...]] = []
        for page in self._pages(prompt):
            have = self.copies.get(("GPU", page), 0)
            if have and self.rng.random() < 0.97:  # else a second physical copy
                events += self._tell(run)
                run = []
                continue
            self.copies["GPU", page] = have + 1
            run.append(page)
            if self.rng.random() < 0.5:
                events += self._tell(run)
                run = []
        return events + self._tell(run)

    def _tell(self, run: list[tuple[int, ...]]) -> list[batch.Event]:
        if not run:
            return []
        before = run[0][: -self.page]
        parent = self._name(before) if before else None
        tokens = keys.pack_tokens(run[-1][len(before) :])
        return [batch.Stored([self._name(page) for page in run], parent, tokens, self.page, medium="GPU")]

    def _copy(self, medium: str) -> list[batch.Event]:
        """Some pages of the GPU are announced elsewhere, without their tokens."""
        chosen = [page for (where, page) in self.copies if where == "GPU" and self.rng.random() < 0.3]
        for page in chosen:
            self.copies[medium, page] = self.copies.get((medium, page), 0) + 1
        return [batch.Stored([self._name(page) for page in chosen], None, None, 0, medium=medium)] if chosen else []

    def _evict(self) -> list[batch.Event]:
        candidates = list(self.copies)
        if not self.any_order:
            inner = {(where, page[: -self.page]) for where, page in self.copies}
            candidates = [at for at in candidates if at not in inner]
        events: list[batch.Event] = []
        for where, page in self.rng.sample(candidates, min(len(candidates), self.rng.randrange(1, 6))):
            self.copies[where, page] -= 1
            if not self.copies[where, page]:
                del self.copies[where, page]
            events.append(batch.Removed([self._name(page)], where))
        return events

    def truth(self) -> dict[tuple[str, int, int], int]:
        """(adapter, block size, key) -> tiers, from content alone."""
        size = max(self.page, CANONICAL) if CANONICAL % self.page else max(CANONICAL, self.page)
        masks: dict[tuple[int, ...], int] = {}
        for where, page in self.copies:
            masks[page] = masks.get(page, 0) | _TIER[where]
        found: dict[tuple[str, int, int], int] = {}
        for end in masks:
            for stop in range(size, len(end) + 1, size):
                # The block ends within this page: the pages that reach into it must all be there.
                if not stop <= len(end) < stop + self.page:
                    continue
                reach = [masks.get(end[:at], 0) for at in range(len(end), stop - size, -self.page)]
                if all(reach):
                    everywhere = kvwire.T1 | kvwire.T2 | kvwire.T3
                    for mask in reach:
                        everywhere &= mask
                    tiers = everywhere or max(mask & -mask for mask in reach)
                    key = keys.chain(keys.pack_tokens(end[:stop]), size)[-1]
                    at_key = ("", size, key)
                    found[at_key] = found.get(at_key, 0) | tiers
        return found
