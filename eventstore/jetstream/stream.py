"""A stream's extent and incarnation, read and raised over JetStream's API.

Raising is a plain read-modify-write of the stream's metadata: of two roles that find the same loss both write the
same number, so they need no lock. The role's credential must allow `$JS.API.STREAM.UPDATE.<stream>`.

Rules: eventstore/incarnation; design.md section 2, "Positions".
"""

from typing import Any

import structlog

from eventstore import incarnation, store
from eventstore.jetstream import api, connect

log = structlog.get_logger(__name__)


def extent_of(info: dict[str, Any]) -> store.Extent:
    """From the answer of STREAM.INFO."""
    state, config = info["state"], info["config"]
    return store.Extent(
        # An empty stream that never held a message says 0 and 0.
        first=state["first_seq"] if state["messages"] else state["last_seq"] + 1,
        last=state["last_seq"],
        incarnation=incarnation.name(info["created"], config.get("metadata") or {}),
    )


async def extent(connection: connect.Connection, stream: str) -> store.Extent:
    """Raises Misconfigured when there is no such stream."""
    info = await api.stream_info(connection, stream)
    if info is None:
        raise api.missing(stream)
    return extent_of(info)


async def room(connection: connect.Connection, stream: str) -> tuple[int, int]:
    """Bytes that are used, and that there are at most: 0 where it is unlimited or makes room by itself."""
    info = await api.stream_info(connection, stream)
    if info is None:
        raise api.missing(stream)
    config = info["config"]
    limited = config.get("discard") == "new" and config.get("max_bytes", -1) > 0
    return info["state"]["bytes"], config["max_bytes"] if limited else 0


async def verify(
    connection: connect.Connection, stream: str, known: store.Position, *, lost: bool = False
) -> store.Extent:
    """The extent, when it still covers `known`. Else raise the counter, unless that was done, and raise Regressed.
    `lost`: whoever asks knows that the end of that incarnation was lost, though it has grown as long again."""
    found = await extent(connection, stream)
    match incarnation.judge(known, found, lost=lost):
        case "holds":
            return found
        case "regressed":
            found = await _raise_counter(connection, stream, known)
        case "other":
            pass
    log.warning("stream lost its end or was replaced", stream=stream, known=str(known), now=found)
    raise store.Regressed(stream, known, found)


async def _raise_counter(connection: connect.Connection, stream: str, known: store.Position) -> store.Extent:
    info = await api.stream_info(connection, stream)
    if info is None:
        raise api.missing(stream)
    if extent_of(info).incarnation != known.incarnation:  # another role was first
        return extent_of(info)
    config: dict[str, Any] = info["config"]
    metadata = dict(config.get("metadata") or {})
    metadata[incarnation.COUNTER] = str(incarnation.counter(metadata) + 1)
    try:
        answer = await api.call(connection, f"STREAM.UPDATE.{stream}", {**config, "metadata": metadata})
    except api.ApiError as error:
        raise api.as_store_error(error, stream) from error
    return extent_of(answer)
