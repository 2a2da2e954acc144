"""Objects nested deeper than a decoder follows: API servers take 10,000 levels where a CRD lets anything through.

One such object must not keep a whole kind from being read. What lies too deep is cut out of the bytes; an object that
was cut is known to exist, and nothing in it is believed (narrow). Slow, and only used after a decoder gave up.
"""

import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec

T = TypeVar("T")
#: Levels that are kept; decoders follow about a thousand.
DEEPEST: Final = 200
#: Stands where something was cut out.
CUT: Final = b'"\xe2\x9f\xa6cut: nested too deep\xe2\x9f\xa7"'

_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]]', re.DOTALL)


def cut(raw: bytes) -> bytes:
    """The same JSON without what is nested deeper than DEEPEST. Bytes that are no JSON stay none."""
    parts: list[bytes] = []
    depth, kept = 0, 0
    for token in _TOKEN.finditer(raw):
        match raw[token.start()]:
            case 0x7B | 0x5B:  # { [
                depth += 1
                if depth == DEEPEST + 1:
                    parts.append(raw[kept : token.start()])
            case 0x7D | 0x5D:
                depth -= 1
                if depth == DEEPEST:
                    parts.append(CUT)
                    kept = token.end()
    return b"".join((*parts, raw[kept:])) if parts else raw


def decoded(decode: Callable[[bytes], T], raw: bytes) -> tuple[T, bool]:
    """What a decoder makes of it, and whether what lay too deep was cut out first. Raises what the decoder raises."""
    try:
        return decode(raw), False
    except RecursionError:
        return decode(cut(raw)), True


def is_deep(document: Any) -> bool:
    """Whether it is nested deeper than is kept. What has fewer containers than that is not looked through."""
    encoded = msgspec.json.encode(document)
    return encoded.count(b"{") + encoded.count(b"[") > DEEPEST and of(document) > DEEPEST


def of(document: Any) -> int:
    """How deep a decoded document is nested; 0 for what is no container."""
    deepest, layer = 0, [document]
    while layer := [inner for one in layer if isinstance(one, dict | list) for inner in _inner(one)]:
        deepest += 1
    return deepest


def _inner(one: dict[str, Any] | list[Any]) -> Any:
    return one.values() if isinstance(one, dict) else one
