from collections.abc import Callable
from typing import Any

import msgspec

_Bytes = bytes | bytearray | memoryview

def chain(packed: _Bytes, block_size: int, parent: int | None = None) -> list[int]: ...
def one(block: _Bytes, parent: int | None = None) -> int: ...
def tokens(body: _Bytes, start: int) -> tuple[bytes, int] | None: ...
def runs(held: dict[int, int], keys: list[int], standing: int) -> list[tuple[int, int]]: ...
def change(
    held: dict[int, int], keys: _Bytes, tiers: _Bytes, on: dict[int, int], off: dict[int, int]
) -> tuple[int, int, bytes, int, int]: ...
def packed(wire: _Bytes | msgspec.Raw, /) -> bytes | None: ...
def store(
    nodes: dict[Any, Any],
    refs: dict[Any, int],
    buckets: list[dict[int, int]],
    untold: dict[int, None],
    make: Callable[[int, int, int, int], object],
    hashes: list[Any],
    keys: list[int],
    domain: int,
    once: int,
    entry: int,
    /,
) -> bool: ...
