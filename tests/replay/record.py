"""Record a history for ever: both logs of a store directory, and what today's code makes of them.

    warmlog demo --keep                    # prints the directory that it keeps
    python -m tests.replay.record DIRECTORY/nats NAME
    python -m tests.replay.record --folds  # after keyframe.FOLD was counted up

A recorded history is never edited. When the fold changes on purpose, the difference is named in
tests/replay/accepted.toml; test_histories says how.
"""

import asyncio
import gzip
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from eventstore import kvwire, store
from eventstore.jetstream import connect, kvlog
from eventstore.jetstream import store as jetstream
from handlers.prefixindex import index, keys, lookup, request
from handlers.world import fold, keyframe, state
from warmlog import natsserver, past

HISTORIES = Path(__file__).parent / "histories"
FOLDS = Path(__file__).parent / "folds.json"
ASKED = 8  # prefixes of which the decision is recorded at each moment


def fold_kv(messages: list[list[Any]], until: int) -> index.Index:
    known = index.Index()
    for sequence, time_ns, subject, payload in messages:
        if sequence > until:
            break
        known.apply(sequence, time_ns, subject, bytes.fromhex(payload))
    return known


def digest(known: index.Index) -> str:
    return hashlib.sha256("\n".join(known.dump()).encode()).hexdigest()


def decisions(known: index.Index, world: past.World, now_ns: int) -> list[Any]:
    """What a router would be told about some of the keys that are held, in a stable choice."""
    known.govern(world.governed)
    told = []
    for key, place in sorted(known.domains.items()):
        for block in sorted(place.held)[:: max(1, len(place.held) // ASKED)]:
            asked = request.LookupRequest(
                tenant_id=key.tenant,
                model_id=key.model,
                hash_scheme=key.scheme,
                adapter_id=key.adapter,
                prefix_hash=keys.to_wire(block),
                prefix_token_count=640,
            )
            answer = lookup.decide(known, world.governed, asked, now_ns).response
            told.append(
                [block, answer.reason_code, [[s.replica_id, s.score, s.matched_tokens] for s in answer.replica_scores]]
            )
    return told


def conclude(history: dict[str, Any]) -> list[dict[str, Any]]:
    """At each recorded moment: the world, the index and decisions, as today's code folds them."""
    concluded = []
    for moment in history["moments"]:
        world = past.World()
        for sequence, time_ns, subject, body in history["log"]:
            if sequence <= moment["sequence"]:
                world = past.fold(world, store.Stored(sequence, time_ns, subject, body.encode()))
        known = fold_kv(history["kv"], moment["kv_sequence"])
        concluded.append(
            {
                "events": world.count,
                "skipped": world.skipped,
                "replicas": {name: edge.edge for name, edge in sorted(world.replicas.items())},
                "index": digest(known),
                "blocks": known.blocks(),
                "states": {f"{one.tenant}/{one.name}": one.state for one in known.replicas()},
                "decisions": decisions(known, world, moment["time_ns"]),
            }
        )
    return concluded


async def read(directory: Path) -> dict[str, Any]:
    server = await natsserver.start(directory)
    try:
        async with await connect.connect(server.url, connect.Options(name="record"), wait=5) as connection:
            log, kv = jetstream.JetStreamStore(connection), kvlog.JetStreamKV(connection)
            events = [
                [one.sequence, one.time_ns, one.subject, one.body.decode()]
                async for batch in log.read()
                for one in batch
            ]
            messages = [
                [one.sequence, one.time_ns, one.subject, one.payload.hex()]
                async for batch in kv.read()
                for one in batch
            ]
    finally:
        await server.stop()
    moments = [
        {"sequence": sequence, "time_ns": time_ns, "kv_sequence": json.loads(str(body))["data"]["kv_sequence"]}
        for sequence, time_ns, subject, body in events
        if subject == "wl.moment"
    ]
    step = max(1, len(moments) // 6)
    return {"wire": kvwire.VERSION, "log": events, "kv": messages, "moments": moments[::step]}


def folds() -> dict[str, dict[str, Any]]:
    """Per history: the world that its control log was folded to, by which fold."""
    found: dict[str, dict[str, Any]] = json.loads(FOLDS.read_text())
    return found


def fold_of(history: dict[str, Any]) -> dict[str, Any]:
    world = state.World()
    for sequence, time_ns, subject, body in history["log"]:
        fold.fold(world, store.Stored(sequence, time_ns, subject, body.encode()), incarnation="i")
    return {"fold": keyframe.FOLD, "form": keyframe.form(), "digest": keyframe.digest(world)}


def write_folds() -> None:
    paths = sorted(HISTORIES.glob("*.json.gz"))
    made = {
        path.name.removesuffix(".json.gz"): fold_of(json.loads(gzip.decompress(path.read_bytes()))) for path in paths
    }
    FOLDS.write_text(json.dumps(made, indent=2) + "\n")


def main() -> None:
    if sys.argv[1:] == ["--folds"]:
        write_folds()
        return
    directory, name = Path(sys.argv[1]), sys.argv[2]
    history = asyncio.run(read(directory))
    history["concluded"] = conclude(history)
    path = HISTORIES / f"{name}.json.gz"
    if path.exists():
        sys.exit(f"{path} exists: a recorded history is never edited, take another name")
    path.write_bytes(gzip.compress(json.dumps(history).encode(), mtime=0))
    write_folds()
    print(f"{path}: {len(history['log'])} events, {len(history['kv'])} messages, {len(history['moments'])} moments")


if __name__ == "__main__":
    main()
