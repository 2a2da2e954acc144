"""What a controller keeps beside the control log: keyframes of the world, and reports of events that were skipped.

Here: who writes the two streams (subscribers.keyframing, subscribers.deadletters) and what /metrics tells. Not here:
making them (provisioning).
"""

import asyncio
from collections.abc import Callable

from eventstore import store, streams
from eventstore.jetstream import connect
from eventstore.jetstream import store as jetstream
from handlers.world.state import World
from subscribers import deadletters, keyframing, metrics


class Keeping:
    """`run` until cancelled, then `close`."""

    def __init__(
        self,
        connection: connect.Connection,
        control: jetstream.JetStreamStore,
        *,
        instance: str,
        leads: Callable[[], bool],
        world: Callable[[], World],
    ) -> None:
        self.control = control
        self.snaps = jetstream.JetStreamStore(connection, name=streams.SNAPSHOTS)
        self.dead = jetstream.JetStreamStore(connection, name=streams.DEAD_LETTERS)
        self.keyframer = keyframing.Keyframer(control, self.snaps, instance=instance, leads=leads, world=world)
        self.reporter = deadletters.Reporter(control, self.dead, instance=instance, leads=leads, world=world)

    def marked(self, world: World, stored: store.Stored) -> None:
        self.keyframer.marked(world, stored)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.keyframer.run())
            tasks.create_task(self.reporter.run())

    async def close(self) -> None:
        await self.snaps.close()
        await self.dead.close()

    def register(self, registry: metrics.Registry) -> None:
        """Families whose numbers are read at each scrape."""
        read, taken, gate = registry.read, self.keyframer, self.control.gate
        read("counter", "warmlog_keyframes_written_total", "Keyframes written.", source=lambda: taken.written)
        read("counter", "warmlog_keyframes_compared_total", "Compared with ours.", source=lambda: taken.compared)
        read("counter", "warmlog_keyframes_mismatched_total", "Folds disagree: alarm.", source=lambda: taken.mismatches)
        read("counter", "warmlog_keyframes_failed_total", "Could not be taken.", source=lambda: taken.failures)
        read("gauge", "warmlog_keyframe_position_messages", "Newest keyframe.", source=lambda: taken.counts.newest)
        read("counter", "warmlog_skipped_reported_total", "Reported dead.", source=lambda: self.reporter.reported)
        read("gauge", "warmlog_log_full_ratio", "How full WARMLOG is, 0 to 1.", source=lambda: gate.fullness)
        read("counter", "warmlog_log_shed_total", "Events refused to keep room.", source=lambda: gate.shed.total())
