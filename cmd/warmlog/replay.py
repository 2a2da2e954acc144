"""The world as it was: the control log folded up to a position or a time, and what it then said.

Examples:
  warmlog replay --at 03:12
  warmlog replay --at 1234 --about replica/team-a/pod-a -o yaml
  warmlog replay --at 03:12 --about cb/team-a/kv-main    # an object, the status it showed, our last write to it
  warmlog replay --at 03:12 --diff 03:15                 # what changed in between; with --about, of one object
  warmlog replay --at -1h --index      # also fold WARMLOG_KV: what each replica held

Replaying to the same position gives the same bytes, for ever.
"""

import argparse
import asyncio
from typing import Any, Final

import msgspec

from eventstore import envelope, replay, streams
from eventstore.jetstream import connect, kvlog
from eventstore.jetstream import store as jetstream
from handlers.outcome import Key
from handlers.prefixindex import policies, views
from handlers.world import difference
from warmlog import about, cli, flags, link, output, past, rewound, when, worldview

FLAGS: Final = (
    *link.FLAGS,
    link.DIR,
    flags.Flag("at", "up to here: a sequence of WARMLOG, a time (UTC unless it says) or an age; empty is the end"),
    flags.Flag("about", "only this object (KIND/NAMESPACE/NAME) or replica (replica/TENANT/REPLICA)"),
    flags.Flag("diff", "what differs between --at and this moment"),
    flags.Flag("index", "also fold WARMLOG_KV up to the newest moment at or before", "false", flags.boolean),
    output.FLAG,
)


class Seen(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is printed."""

    position: str
    time: str
    first: int = 0
    events: int = 0
    object: Any = None
    incomplete: str = ""
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


def asked(text: str) -> Key | None:
    """The object that --about names; None for a replica and for nothing. Raises UsageError."""
    return about.key(text, flag="--about: ") if text and chosen(text)[0] != "replica" else None


def narrowed(entries: dict[str, Any], about: str, *kinds: str) -> dict[str, Any]:
    kind, name = chosen(about)
    if not about:
        return dict(sorted(entries.items()))
    return {key: value for key, value in entries.items() if kind in kinds and key == name}


async def look(values: flags.Values) -> Seen | worldview.Differs:
    key, at, other = asked(values["about"]), when.of_flag(values, "at"), when.of_flag(values, "diff")
    if other is not None and chosen(values["about"])[0] == "replica":
        raise flags.UsageError("--diff with --about takes an object, KIND/NAMESPACE/NAME; leave --about out for all")
    async with await link.open_link(values, "tool") as connection:
        if other is not None:
            return await differ(connection, at, other, key)
        if key is not None and key.kind not in policies.KINDS:
            return await one_object(connection, at, key)
        return await everything(values, connection, at)


async def one_object(connection: connect.Connection, at: when.When | None, key: Key) -> Seen:
    async with rewound.logs(connection) as found:
        back = await rewound.world_at(found, at)
    return Seen(
        position=f"{back.world.incarnation}:{back.world.sequence}",
        time=envelope.rfc3339(back.world.now_ns),
        object=worldview.shown(back.world, key),
        incomplete=worldview.incomplete(back),
    )


async def differ(
    connection: connect.Connection, at: when.When | None, other: when.When, key: Key | None
) -> worldview.Differs:
    async with rewound.logs(connection) as found:
        back, fore = [await rewound.world_at(found, one) for one in (at, other)]
    if back.world.sequence > fore.world.sequence:
        back, fore = fore, back
    return worldview.Differs(
        older=worldview.place(back.world),
        newer=worldview.place(fore.world),
        changes=difference.differences(back.world, fore.world, key),
        incomplete=worldview.incomplete(back),
    )


async def everything(values: flags.Values, connection: connect.Connection, at: when.When | None) -> Seen:
    about = values["about"]
    log = jetstream.JetStreamStore(connection)
    world, replayed = await past.world_at(log, at)
    extent = await log.extent()
    moment, seen = "", None
    if values["index"]:
        snaps = jetstream.JetStreamStore(connection, name=streams.SNAPSHOTS)
        moment_at = at or when.Sequence(extent.last)
        known, _, used = await past.index_at(log, kvlog.JetStreamKV(connection), moment_at, snaps=snaps)
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


def human(seen: Seen | worldview.Differs) -> str:
    if isinstance(seen, worldview.Differs):
        return "\n".join(worldview.lines_of_difference(seen))
    if seen.object is not None:
        return "\n".join(
            [f"position {seen.position} of {seen.time}", *worldview.lines_of_object(seen.object, seen.incomplete)]
        )
    return human_world(seen)


def human_world(seen: Seen) -> str:
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
    if isinstance(seen, worldview.Differs) or not values["about"] or found(seen):
        return 0
    if seen.object is None:
        output.progress(f"{values['about']} is not in the log up to there")
    return cli.FAILED  # as `explain` of what is not there


def found(seen: Seen) -> bool:
    """Whether what --about names is there."""
    if seen.object is not None:
        return bool(seen.object.exists)
    return bool(seen.replicas or seen.settings or seen.policies or seen.tenants)
