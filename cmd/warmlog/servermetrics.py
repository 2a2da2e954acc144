"""What a server's /metrics tell beside the HTTP and lookup families: the index, and what is appended.

Rules: conventions of the ecosystem: requests, errors by reason, duration and lag per role.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from handlers.prefixindex import index
from warmlog import VERSION

if TYPE_CHECKING:
    from warmlog.server import Server


def register(server: Server) -> None:
    """Families whose numbers are read at each scrape."""
    read, told = server.registry.read, server.chronicle

    def known() -> index.Index:
        return server.indexer.index

    read("gauge", "warmlog_build_info", "Always 1.", ("version",), source=lambda: {(VERSION,): 1.0})
    read("gauge", "warmlog_index_blocks", "Holds that count: keys times replicas.", source=lambda: known().blocks())
    read("gauge", "warmlog_index_replicas", "Replicas by state.", ("state",), source=lambda: states(known()))
    read("counter", "warmlog_index_messages_total", "Messages folded.", source=lambda: known().messages)
    read("counter", "warmlog_index_redelivered_total", "Messages seen again.", source=lambda: known().redelivered)
    read("counter", "warmlog_index_skipped_total", "Messages that were wrong.", source=lambda: server.skipped)
    read("gauge", "warmlog_index_position_messages", "Last message folded.", source=lambda: known().position)
    read("gauge", "warmlog_index_behind_messages", "To read until caught up.", source=lambda: server.indexer.behind)
    read("counter", "warmlog_chronicle_appended_total", "Events appended.", source=lambda: told.appended)
    read("counter", "warmlog_chronicle_dropped_total", "Events given up.", source=lambda: told.dropped)
    read(
        "counter",
        "warmlog_chronicle_told_total",
        "Events that were in the log when their turn came: another server was first.",
        source=lambda: told.told_by_others,
    )
    read("gauge", "warmlog_chronicle_waiting_events", "Events that wait for the log.", source=lambda: told.waiting)


def states(known: index.Index) -> dict[tuple[str, ...], float]:
    counts: dict[tuple[str, ...], float] = {}
    for one in known.replicas():
        counts[(one.state,)] = counts.get((one.state,), 0) + 1
    return counts
