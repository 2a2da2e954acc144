"""Where a block lies: engines' names of media as tiers, and which cache groups count as holding a prefix.

`medium` is a free string on the wire. A name we do not know keeps its own place, so that its removals work, and counts
as T2. Nothing here fails.

Rules: KV-19 (names differ, null is GPU), KV-09 (only full attention holds a prefix); design.md section 3.
"""

from typing import Final, NamedTuple

from eventstore import kvwire

GPU: Final = "GPU"
ASSUMED: Final = "assumed"  # ours, in small letters: no medium of an engine, whose names are upper-cased, equals it

#: vLLM's kinds of cache groups in which a held block means a held prefix. None: the engine does not say.
_FULL: Final = frozenset({None, "full_attention", "mla_attention", "sink_full_attention"})


class Place(NamedTuple):
    """Where copies are counted: one medium, near or remote."""

    medium: str
    remote: bool

    @property
    def tier(self) -> int:
        """The bit of kvwire that a copy here sets."""
        if self.remote or self.medium.startswith("EXTERNAL"):
            return kvwire.T3
        return kvwire.T1 if self.medium == GPU else kvwire.T2


def place(medium: str | None, locality: str | None) -> Place:
    return Place(GPU if not medium else medium.upper(), locality is not None and locality.upper() == "REMOTE")


def holds_prefix(kind: str | None) -> bool:
    """Whether blocks of a group of this kind tell that a prefix is held. Kinds of the future do not, to be safe."""
    return kind in _FULL
