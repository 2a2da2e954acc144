"""Area fingerprint: keys of token blocks, from handlers/prefixindex/keys.py."""

from typing import Any

from handlers.prefixindex import keys
from tests.conformance import forms


def run(given: dict[str, Any]) -> dict[str, Any]:
    forms.only(given, "tokens", "block_size", "parent")
    size = given["block_size"]
    packed = keys.pack_tokens(given["tokens"])
    chain = keys.chain(packed, size, given["parent"])
    blocks = [packed[at : at + size * 4] for at in range(0, len(chain) * size * 4, size * 4)]
    return {
        "prefix_hashes_hex": [keys.to_wire(key).hex() for key in chain],
        "content_hashes_dec": [str(keys.content(block)) for block in blocks],
        "block_token_counts": [size] * len(chain),
    }
