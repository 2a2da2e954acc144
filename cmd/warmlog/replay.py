"""The world as it was: the control log folded up to a position or a time, and what it then said.

Examples:
  warmlog replay --at 03:12
  warmlog replay --at 1234 --about replica/team-a/pod-a -o yaml
  warmlog replay --at -1h --index      # also fold WARMLOG_KV: what each replica held

Replaying to the same position gives the same bytes, for ever.
"""

import argparse
import asyncio
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from eventstore import envelope, replay
from eventstore.jetstream import kvlog
from eventstore.jetstream import store as jetstream
from handlers.prefixindex import views
from warmlog import cli, flags, link, output, past, when

FLAGS: Final = (
    *link.FLAGS,
    link.DIR,
    flags.Flag("at", "up to here: a sequence of WARMLOG, a time (UTC unless it says) or an age; empty is the end"),
    flags.Flag("about", "only this object (KIND/NAMESPACE/NAME) or replica (replica/TENANT/REPLICA)"),
    flags.Flag("index", "also fold WARMLOG_KV up to the newest moment at or before", "false", flags.boolean),
    output.FLAG,
)


class Seen(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is printed."""

    position: str
    time: str
    first: int
    events: int
    replicas: dict[str, Any] = {}
    settings: dict[str, Any] = {}
    policies: dict[str, Any] = {}
    tenants: dict[str, Any] = {}
    unlisted: list[str] = []
    skipped: list[str] = []
    moment: str = ""
    index: Any = None


def chosen(about: str) -> tuple[str, str]:
    """Kind and the name that is left of --about. Raises UsageError."""
    kind, slash, name = about.partition("/")
    if about and (not slash or name.count("/") != 1):
        raise flags.UsageError(f"--about: {about!r} is not KIND/NAMESPACE/NAME or replica/TENANT/REPLICA")
    return kind.lower().partition(".")[0], name


def narrowed(entries: dict[str, Any], about: str, *kinds: str) -> dict[str, Any]:
    kind, name = chosen(about)
    if not about:
        return dict(sorted(entries.items()))
    return {key: value for key, value in entries.items() if kind in kinds and key == name}


async def look(values: flags.Values) -> Seen:
    about = values["about"]
    chosen(about)
    at = None
    if values["at"]:
        try:
            at = when.parse(values["at"], datetime.now(UTC))
        except ValueError as error:
            raise flags.UsageError(f"--at: {error}") from None
    async with await link.open_link(values, "tool") as connection:
        log = jetstream.JetStreamStore(connection)
        world, replayed = await past.world_at(log, at)
        extent = await log.extent()
        moment, seen = "", None
        if values["index"]:
            known, _, used = await past.index_at(log, kvlog.JetStreamKV(connection), at or when.Sequence(extent.last))
            moment, seen = str(used), views.snapshot(known)
    return Seen(
        position=f"{extent.incarnation}:{replayed.last}",
        time=envelope.rfc3339(replayed.time_ns),
        first=replayed.first,
        events=world.count,
        replicas=narrowed(world.replicas, about, "replica"),
        settings=narrowed(world.settings, about),
        policies=narrowed(
            {"/".join(name): value for name, value in world.governed.policies.items()},
            about,
            "cachepolicy",
            "cachepolicies",
        ),
        tenants=narrowed(
            {"/".join(name): value for name, value in world.governed.tenants.items()},
            about,
            "cachetenant",
            "cachetenants",
        ),
        unlisted=list(world.governed.unlisted),
        skipped=world.skipped,
        moment=moment,
        index=seen,
    )


def human(seen: Seen) -> str:
    lines = [f"position {seen.position} of {seen.time}, {seen.events} events from #{seen.first} on"]
    for name, edge in seen.replicas.items():
        reason = f" ({edge.reason})" if edge.reason else ""
        lines.append(f"  replica {name}: {edge.edge}{reason}, {edge.blocks} blocks, model {edge.model}")
    for name, told in seen.settings.items():
        lines.append(f"  settings of {name}: version {told.version}")
    for kind, entries in (("CachePolicy", seen.policies), ("CacheTenant", seen.tenants)):
        lines += [f"  {kind} {name}: {msgspec.json.encode(entry.spec).decode()}" for name, entry in entries.items()]
    if seen.unlisted:
        lines.append(f"  never listed, defaults apply: {', '.join(seen.unlisted)}")
    lines += [f"  left out: {line}" for line in seen.skipped]
    if seen.index is not None:
        lines.append(f"index at {seen.moment}: {seen.index.total_prefixes} distinct blocks")
        lines += [
            f"  {one.tenant}/{one.replica_id}: {one.state}, {one.prefix_count} blocks" for one in seen.index.replicas
        ]
    return "\n".join(lines)


def run(values: flags.Values, arguments: argparse.Namespace) -> int:
    try:
        seen = asyncio.run(look(values))
    except replay.ReplayError as error:
        raise cli.Failure(str(error)) from error
    output.show(seen, form=values["output"], human=human)
    return 0
