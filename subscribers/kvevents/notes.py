"""What people should know about a replica's table: counters, and lines that are said once.

Not here: who prints them. Lines are bounded in number; what does not fit is counted only. Nothing fails.
"""

from typing import Final

import msgspec

_MAX_LINES: Final = 32


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
    bigram: int = 0  # of EAGLE pairs: a match may be one token longer than what the engine reuses (KV-17)
    other_groups: int = 0  # of cache groups that do not tell what prefix is held
    untracked: int = 0  # beyond MAX_NAMELESS
    clears: int = 0  # events
    forgets: int = 0


class Notes:
    def __init__(self) -> None:
        self.counters = Counters()
        self._lines: list[str] = []
        self._said: set[str] = set()  # topics that came up before

    def say(self, topic: str, line: str) -> None:
        """Keep a line, the first time that its topic comes up."""
        if topic not in self._said and len(self._said) < 4 * _MAX_LINES:
            self._said.add(topic)
            if len(self._lines) < _MAX_LINES:
                self._lines.append(line)

    def take(self) -> list[str]:
        """The lines since last asked."""
        lines, self._lines = self._lines, []
        return lines
