"""What follows from a message of WARMLOG_KV, or from time passing: data for the edge to append, send or count.

Not here: who appends, sends or counts. While a server catches up, the edge keeps back Orders (they answer messages of
long ago; `Index.tick` asks again) and appends Edges under ids made of their sequence, so that saying them twice stores
them once.

Rules: design.md section 2 (`replica.observed`), section 3 (return channel); "fold is total".
"""

from typing import Literal

import msgspec

from eventstore import events


class Edge(msgspec.Struct, frozen=True, gc=False):
    """An edge in the life of a replica; the data of a `replica.observed` event, less the stream's incarnation."""

    tenant: str
    replica: str
    model: str
    scheme: str
    uid: str
    session: str
    edge: events.Edge
    reason: str
    sequence: int  # of the message that showed it; 0 when time passing did
    blocks: int
    statistics: dict[str, float] = {}


class Order(msgspec.Struct, frozen=True, gc=False):
    """What to tell a subscriber on `wlkv.ctl.<tenant>.<replica>` (kvwire.Control)."""

    tenant: str
    replica: str
    order: Literal["keyframe", "fenced"]
    session: str
    reason: str


class Skipped(msgspec.Struct, frozen=True, gc=False):
    """A message that changed nothing because it is wrong; `reason` is one line that says how."""

    sequence: int
    subject: str
    reason: str


Outcome = Edge | Order | Skipped
Outcomes = tuple[Outcome, ...]
