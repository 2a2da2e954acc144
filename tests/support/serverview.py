"""What a server would hold that applied everything a table gave: operations as states, keyframes as chunks."""

from eventstore import kvwire
from subscribers.kvevents import table

View = dict[tuple[str, int, int], int]  # (adapter, block size, key) -> tiers


def apply(view: View, groups: list[kvwire.Group]) -> None:
    for group in groups:
        keys = kvwire.unpack_keys(group.keys)
        for key, tiers in zip(keys, group.tiers, strict=True):
            if tiers:
                view[group.adapter, group.size, key] = tiers
            else:
                view.pop((group.adapter, group.size, key), None)


def told(of: table.Table) -> View:
    """The told state, key by key."""
    return {(hold.adapter, hold.size, hold.key): hold.tiers for hold in of.each()}


def settled(of: table.Table) -> View:
    """The told state after everything was told; checks that the digest agrees with it."""
    view = told(of)
    while groups := of.take():
        apply(view, groups)
    assert view == told(of)
    assert of.pending == 0
    assert of.count == len(view)
    assert of.sum == sum(key for _, _, key in view) & kvwire.MASK64
    return view
