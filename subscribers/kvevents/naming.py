"""What the hashes of one event stand for, now that their tokens and the parent are known.

    the group knows the hash as   then
    nothing                       it gets its content
    an alias without a key        the same, and copies that were announced before count from now on
    this content                  nothing; if that was hidden for a lookahead, it counts from now on (IDX-11)
    another content               ambiguous: neither counts (IDX-10)

Events whose pages are blocks name blocks; pages of any other size, and whatever stands below such a page, are put
together into blocks of the domain's size (pages.py).

Not here: copies (group.py), parents that are not known yet (table.py), and the shortcut that nearly all events take
(shortcut.py). Nothing raises for an event whose tokens fit its hashes.

Rules: KV-12, KV-18, KV-20, IDX-01, IDX-10, IDX-11.
"""

from collections.abc import Sequence
from typing import Protocol

from subscribers.kvevents import batch, chaining, group, pages

Named = list[tuple[batch.Hash, group.Alias]]


class Trace(Protocol):
    """Who wants to know how keys chain (acceptance cases: cumulative token counts)."""

    def chained(self, parent: int | None, chain: Sequence[int], size: int) -> None: ...


def below(
    here: group.Group, event: batch.Stored, adapter: str, parent: group.Alias | None, *, new: bool, trace: Trace | None
) -> Named:
    """Aliases of the event's blocks in order. `new`: make those that are not there (an orphan's may be gone)."""
    size = event.block_size
    if parent is not None:
        size = here.holds.domains[parent.domain].size
    elif size < pages.CANONICAL:
        size = pages.CANONICAL
    domain = here.holds.domain(adapter, size)
    if isinstance(parent, group.Node) and parent.key != parent.chain and event.parent is not None:
        here.reveal(event.parent, parent)
    if size == event.block_size and not isinstance(parent, pages.Page):
        return _blocks(here, event, domain, None if parent is None else parent.chain, new=new, trace=trace)
    return _pages(here, event, domain, parent, new=new, trace=trace)


def _blocks(
    here: group.Group, event: batch.Stored, domain: int, base: int | None, *, new: bool, trace: Trace | None
) -> Named:
    chain, held = chaining.chain(event, base)
    if trace is not None:
        trace.chained(base, chain, event.block_size)
    named: Named = []
    nodes = here.nodes
    seen: set[batch.Hash] | None = set() if batch.repeats(event.hashes) else None
    for block, link, key in zip(event.hashes, chain, held, strict=True):
        if seen is not None:
            if block in seen:
                continue  # the first one counts (KV-20)
            seen.add(block)
        node = nodes.get(block)
        if node is None:
            node = group.Node(domain, link, key)
            if new:
                nodes[block] = node
        elif node.domain == group.NO_KEY and isinstance(node, group.Node):
            here.give_key(block, node, domain, link, key)
        elif not isinstance(node, group.Node) or node.chain != link or node.domain != domain:
            here.make_ambiguous(block, node)
            node = group.Node(domain, link, key)
        elif node.key != key and key == link:
            here.reveal(block, node)
        elif node.key != key and node.key != link:  # two lookaheads under one hash
            here.make_ambiguous(block, node)
            node = group.Node(domain, link, key)
        named.append((block, node))
    return named


def _pages(
    here: group.Group, event: batch.Stored, domain: int, parent: group.Alias | None, *, new: bool, trace: Trace | None
) -> Named:
    assert event.tokens is not None
    size = here.holds.domains[domain].size
    width = event.block_size * 4
    named: Named = []
    nodes = here.nodes
    seen: set[batch.Hash] = set()

    def current(page: pages.Page) -> pages.Page:
        now = nodes.get(page.hash)
        return now if isinstance(now, pages.Page) and now.same(page) else page

    for number, block in enumerate(event.hashes):
        tokens = event.tokens[number * width : (number + 1) * width]
        above = parent if isinstance(parent, pages.Page) else None
        page = pages.Page(
            domain=domain,
            chain=None if parent is None else parent.chain,
            tail=b"",
            hash=block,
            extra=chaining.extra_of(event, number),
            up=above if above is not None and above.tail else None,
        )
        base = page.chain
        completed = pages.append(page, tokens, above.tail if above is not None else b"", size, current)
        if trace is not None:
            trace.chained(base, [key for key, _ in completed], size)
        if block in seen:
            parent = page
            continue
        seen.add(block)
        node = nodes.get(block)
        if node is None:
            if new:
                nodes[block] = page
        elif isinstance(node, group.Node) and node.domain == group.NO_KEY:
            here.give_page(block, node, page)
        elif page.same(node):
            page = node  # type: ignore[assignment]  # `same` says that it is a page
            completed = []
        else:
            here.make_ambiguous(block, node)
        if nodes.get(block) is page:
            page.mask = here.mask(block)
            for key, members in completed:
                here.complete(pages.Block(domain, key, members))
        parent = page
        named.append((block, page))
    return named
