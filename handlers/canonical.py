"""One form of bytes for a value, and its hash: what makes two bodies the same."""

import hashlib
from typing import Any

import msgspec


def encode(value: Any) -> bytes:
    """JSON with sorted keys and without spaces."""
    return msgspec.json.encode(value, order="deterministic")


def digest(value: Any) -> str:
    return "sha256:" + hashlib.sha256(encode(value)).hexdigest()
