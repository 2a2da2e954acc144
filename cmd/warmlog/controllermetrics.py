"""What a controller's /metrics tell: who leads, how the watches fare, what is decided and written, how far the fold is.

Numbers of the term that runs are added to those of the terms before, so counters only grow.

Rules: conventions of the ecosystem: requests, errors by reason, duration and lag per role.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

from warmlog import VERSION

if TYPE_CHECKING:
    from warmlog.controller import Controller


def register(controller: Controller) -> None:
    """Families whose numbers are read at each scrape."""
    read, tally, follower = controller.registry.read, controller.tally, controller.follower

    def term(name: str) -> int:
        running = controller.term
        if running is None:
            return 0
        return int(
            {
                "recorded": running.recorder.appended,
                "conflicts": running.recorder.conflicts,
                "looked": running.worker.looked,
                "waiting": running.loop.waiting,
                "untellable": len(running.recorder.untellable),
            }[name]
        )

    def watched(what: str) -> dict[tuple[str, ...], float]:
        found = tally.watches + (controller.term.watched() if controller.term else Counter())
        return {(kind,): float(count) for (kind, name), count in found.items() if name == what}

    read("gauge", "warmlog_build_info", "Always 1.", ("version",), source=lambda: {(VERSION,): 1.0})
    read("gauge", "warmlog_leader_leads", "1 while this controller leads.", source=lambda: float(controller.leads()))
    read("gauge", "warmlog_leader_epoch", "Highest epoch seen in the log.", source=lambda: follower.world.epoch)
    read("gauge", "warmlog_log_position", "Last event folded.", source=lambda: follower.world.sequence)
    read("gauge", "warmlog_log_behind", "1 while there is more to fold.", source=lambda: float(follower.behind))
    read(
        "gauge",
        "warmlog_world_objects",
        "Objects known, by kind.",
        ("kind",),
        source=lambda: {(k,): float(sum(map(len, v.values()))) for k, v in follower.world.objects.items()},
    )
    for what, text in (
        ("lists", "Lists asked for."),
        ("watches", "Watches begun."),
        ("facts", "Changes seen."),
        ("troubled", "Requests and streams that failed."),
    ):
        source = lambda what=what: watched(what)  # noqa: E731
        read("counter", f"warmlog_watch_{what}_total", text, ("kind",), source=source)
    read(
        "gauge",
        "warmlog_watch_silence_seconds",
        "Since the API was heard, by kind.",
        ("kind",),
        source=lambda: silences(controller),
    )
    read("counter", "warmlog_recorder_appended_total", "Facts told.", source=lambda: tally.recorded + term("recorded"))
    read(
        "counter",
        "warmlog_recorder_conflicts_total",
        "Facts that somebody else told first.",
        source=lambda: tally.conflicts + term("conflicts"),
    )
    read("gauge", "warmlog_recorder_untellable_objects", "Too long, too large.", source=lambda: term("untellable"))
    read("counter", "warmlog_reconcile_looked_total", "Keys looked at.", source=lambda: tally.looked + term("looked"))
    read("gauge", "warmlog_reconcile_waiting_keys", "Keys to be looked at.", source=lambda: term("waiting"))
    read("counter", "warmlog_reconcile_defects_total", "Handlers that raised.", source=lambda: tally.defects)
    read("counter", "warmlog_timer_fired_total", "Deadlines told.", source=lambda: tally.fired)
    read(
        "counter",
        "warmlog_effect_writes_total",
        "Writes by verb and outcome.",
        ("verb", "outcome"),
        source=lambda: {name: float(count) for name, count in tally.effects.items()},
    )


def silences(controller: Controller) -> dict[tuple[str, ...], float]:
    if controller.term is None:
        return {}
    now = asyncio.get_running_loop().time()
    return {(one.kind,): now - one.heard for one in controller.term.watchers if one.heard}
