"""A watch's stream, cut into lines: of any length, from chunks that end anywhere.

aiohttp's own readline refuses lines longer than its buffer; an object may have 1.5 MiB and more.
"""

from collections.abc import Iterator
from typing import Final

#: No object that an API server can store is as large; beyond it the stream is no watch.
LONGEST: Final = 64 << 20


class TooLong(ValueError):
    """A line without an end."""


class Lines:
    """Feed it bytes; it gives whole lines, without their ends. Empty lines are left out."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0:
            self._parts.append(chunk[start:end])
            line = b"".join(self._parts) if len(self._parts) > 1 else self._parts[0]
            self._parts.clear()
            self._size = 0
            start = end + 1
            if line.strip():
                yield line
        if start < len(chunk):
            self._parts.append(chunk[start:])
            self._size += len(chunk) - start
            if self._size > LONGEST:
                raise TooLong(f"a line of more than {LONGEST >> 20} MiB: this is no watch")
