"""Hashes of Kernel Cache: `sha256:` and 64 lower-case hex digits, nothing else.

Rules: spec/kernelcache.md section 2.3.
"""

import re
from collections.abc import Sequence
from typing import Final

from handlers import canonical

_HASH: Final = re.compile(r"sha256:[0-9a-f]{64}")
_IMMUTABLE: Final = re.compile(r"[^@\s]+@sha256:[0-9a-f]{64}")


def is_hash(text: str) -> bool:
    return _HASH.fullmatch(text) is not None


def is_immutable(reference: str) -> bool:
    """Whether an image reference names its content: `<name>@sha256:<64 lower hex>` with exactly one digest."""
    return _IMMUTABLE.fullmatch(reference) is not None


def of_strings(strings: Sequence[str]) -> str:
    """Of a compact JSON array of the strings in their order; "" for none."""
    return canonical.digest(list(strings)) if strings else ""
