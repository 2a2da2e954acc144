"""What nearly all events are, stored in one go: new whole blocks of tokens only, below a whole block or at the root.

`one` takes a single block, `run` several, by the native helper. Each gives False, with nothing held, for whatever is
not plainly that: then `naming.below` and `Group.put_all` come to the same. Without this module all would work, more
slowly; tests compare the two ways. That is why the same checks stand spelled out in both: to call them costs 5 %.

Rules: KV-04, KV-12, KV-20, IDX-01.
"""

from eventstore import kvwire
from handlers.prefixindex import keys
from subscribers.kvevents import batch, group, holds, pages


def one(here: group.Group, shelf: group.Shelf, event: batch.Stored, adapter: str) -> bool:
    tokens, size, block = event.tokens, event.block_size, event.hashes[0]
    if (
        tokens is None
        or len(event.hashes) != 1
        or size < pages.CANONICAL
        or len(tokens) != size * 4
        or event.extra is not None
        or event.salt is not None
        or event.lookahead is not None
        or block in here.nodes
    ):
        return False
    domain = here.holds.domain(adapter, size)
    if event.parent is None:
        key = keys.one(tokens)
    else:
        parent = here.nodes.get(event.parent)
        if type(parent) is not group.Node or parent.domain < 0 or here.holds.domains[parent.domain].size != size:
            return False
        if parent.key != parent.chain:
            return False
        key = keys.one(tokens, parent.chain)
    here.nodes[block] = group.Node(domain, key, key, 1)
    shelf.refs[block] = 1
    here.holds.add(domain, key, shelf.tier)
    return True


def run(here: group.Group, shelf: group.Shelf, event: batch.Stored, adapter: str) -> bool:
    tokens, size, hashes = event.tokens, event.block_size, event.hashes
    if (
        keys.native is None
        or tokens is None
        or size < pages.CANONICAL
        or len(tokens) != size * 4 * len(hashes)
        or event.extra is not None
        or event.salt is not None
        or event.lookahead is not None
        or shelf.tier != kvwire.T1
        or type(hashes) is not list
        or batch.repeats(hashes)
    ):
        return False
    base = None
    if event.parent is not None:
        parent = here.nodes.get(event.parent)
        if type(parent) is not group.Node or parent.domain < 0 or here.holds.domains[parent.domain].size != size:
            return False
        if parent.key != parent.chain:
            return False
        base = parent.chain
    domain = here.holds.domain(adapter, size)
    held = here.holds.domains[domain]
    chain = keys.chain(tokens, size, base)
    return keys.native.store(
        here.nodes, shelf.refs, held.buckets, held.untold, group.Node, hashes, chain, domain, 1, holds.NEW
    )
