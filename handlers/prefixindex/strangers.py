"""Sessions that speak and whose begin was not seen: it has left the stream, or was lost with its end.

What they say cannot be applied. They are asked for a keyframe, whose begin introduces them; not with every message, but
again: an order may be lost. Whoever is silent too long is not asked any more.

Not here: sessions that a later one replaced (replicas.py remembers those). Bounded, and total. Times are nanoseconds
since the epoch, of the stream.

Rules: design.md section 3 (return channel); TR-03, IDX-05.
"""

from typing import Final, NamedTuple

from handlers.prefixindex import outcomes, replicas

_MOST: Final = 10_000  # remembered, so that orders are not repeated too fast

Who = tuple[str, str, str]  # tenant, name, session


class _Heard(NamedTuple):
    """When a session was heard last, and when it was asked for a keyframe; 0 for never."""

    heard_ns: int
    asked_ns: int


class Strangers:
    def __init__(self) -> None:
        self._known: dict[Who, _Heard] = {}

    def heard(self, who: Who, now_ns: int) -> outcomes.Outcomes:
        """It spoke: ask it, unless that was done just now."""
        self.meet(who, now_ns, self._known[who].asked_ns if who in self._known else 0)
        return self._ask(who, now_ns)

    def meet(self, who: Who, heard_ns: int, asked_ns: int = 0) -> None:
        """Remember it as the latest; over the bound the oldest is forgotten."""
        self._known.pop(who, None)
        if len(self._known) >= _MOST:
            del self._known[next(iter(self._known))]
        self._known[who] = _Heard(heard_ns, asked_ns)

    def introduced(self, who: Who) -> None:
        """Its begin was seen."""
        self._known.pop(who, None)

    def speaking(self, now_ns: int) -> list[Who]:
        """Those that are not silent."""
        return [who for who, one in self._known.items() if now_ns - one.heard_ns <= replicas.SILENT_AFTER]

    def ask(self, now_ns: int) -> list[outcomes.Outcome]:
        """Orders for those that are not silent and were not asked just now."""
        return [order for who in self.speaking(now_ns) for order in self._ask(who, now_ns)]

    def ask_again(self, now_ns: int) -> list[outcomes.Outcome]:
        """The same, whenever they were asked."""
        for who in self.speaking(now_ns):
            self.meet(who, self._known[who].heard_ns)
        return self.ask(now_ns)

    def _ask(self, who: Who, now_ns: int) -> outcomes.Outcomes:
        known = self._known[who]
        if now_ns - known.asked_ns < replicas.ASK_EVERY:
            return ()
        self._known[who] = known._replace(asked_ns=now_ns)
        tenant, name, session = who
        return (outcomes.Order(tenant, name, "keyframe", session, "the begin of this session was not seen"),)
