"""The keys of one event's blocks: what each is held under, and what the block below it chains on.

The two are one for nearly all blocks: a key of tokens only. What else an engine hashed goes into the key as canonical
bytes. A lookahead counts for the last block's held key only, and until a block below it is known: then that one's
tokens say the same (IDX-11).

Not here: what hashes stand for (naming.py), blocks that are put together from pages (pages.py). Pure. The caller has
checked that tokens and extra keys can be dealt out to the hashes by position (KV-10).

Rules: KV-04, IDX-10, IDX-11; handlers/prefixindex/keys.py.
"""

import msgspec

from handlers.prefixindex import keys
from subscribers.kvevents import batch

_encode = msgspec.msgpack.Encoder().encode


def chain(event: batch.Stored, base: int | None) -> tuple[list[int], list[int]]:
    """Chain and held keys of the event's whole blocks below `base`, a chain key; None at the root."""
    assert event.tokens is not None
    if event.extra is None and event.salt is None and event.lookahead is None:
        plain = keys.chain(event.tokens, event.block_size, base)
        return plain, plain
    width = event.block_size * 4
    links: list[int] = []
    held: list[int] = []
    for number in range(len(event.hashes)):
        block = event.tokens[number * width : (number + 1) * width]
        extra = event.extra[number] if event.extra is not None else None
        if extra is None and event.salt is None:
            link = keys.chain(block, event.block_size, base)[0]
        else:
            link = keys.salted(base, block, _encode((event.salt, extra, None)))
        links.append(link)
        whole = extra_of(event, number)
        held.append(link if event.lookahead is None or whole is None else keys.salted(base, block, whole))
        base = link
    return links, held


def extra_of(event: batch.Stored, number: int) -> bytes | None:
    """Canonical bytes of what a block's key depends on beside its tokens; None when that is nothing."""
    extra = event.extra[number] if event.extra is not None else None
    lookahead = event.lookahead if number == len(event.hashes) - 1 else None
    if extra is None and event.salt is None and lookahead is None:
        return None
    return _encode((event.salt, extra, lookahead))
