"""What lies in WARMLOG against what was acknowledged: nothing lost, nothing twice. Pure.

lost      an acknowledged probe is not at the sequence that its acknowledgement named
twice     an id lies at two sequences, or an edge of a replica is told twice (same message of WARMLOG_KV, same edge)
hole      sequences are not 1, 2, 3 …: nothing is ever deleted from this log
refused   an append ended with an error that a sole writer can never meet (Conflict, IdentityAlarm, Regressed …)
"""

from collections import Counter
from collections.abc import Iterable

import msgspec

from eventstore import events, store
from tests.faults import load, oracle

_Id = msgspec.json.Decoder(type("_Id", (msgspec.Struct,), {"__annotations__": {"id": str, "type": str}}))


def audit(stored: Iterable[store.Stored], probes: load.Probes) -> list[oracle.Violation]:
    found: list[oracle.Violation] = [oracle.Violation("refused", "", text) for text in probes.wrong]
    at: dict[str, list[int]] = {}
    edges: Counter[tuple[str, str, int, str]] = Counter()
    expected = 1
    for one in stored:
        if one.sequence != expected:
            found.append(oracle.Violation("hole", "", f"after {expected - 1} comes {one.sequence}"))
        expected = one.sequence + 1
        at.setdefault(_Id.decode(one.body).id, []).append(one.sequence)
        decoded = events.decode(one)
        if isinstance(decoded, events.Undecodable):
            found.append(oracle.Violation("refused", "", f"{one.sequence} cannot be decoded: {decoded.reason}"))
        elif isinstance(decoded.data, events.ReplicaObserved):
            data = decoded.data
            edges[data.replica, data.kv_incarnation, data.kv_sequence, data.edge] += 1
    for name, places in at.items():
        if len(places) > 1:
            found.append(oracle.Violation("twice", "", f"{name} at {places}"))
    for edge, count in edges.items():
        if count > 1:
            found.append(oracle.Violation("twice", edge[0], f"edge {edge[3]} of message {edge[2]} told {count} times"))
    for name, sequence in probes.acked.items():
        if at.get(name) is None or sequence not in at[name]:
            found.append(
                oracle.Violation("lost", "", f"{name} was acknowledged at {sequence}, found at {at.get(name)}")
            )
    return found
