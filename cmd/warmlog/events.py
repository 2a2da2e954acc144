"""Read the control log: what happened, in order.

Examples:
  warmlog events --since -10m
  warmlog events --about replica/team-a/pod-a --follow
  warmlog events --type moment --last 1 -o json

A plain NATS subscriber sees the same bytes: subscribe to wl.> on the stream WARMLOG.
"""

import argparse
import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator
from typing import Any, Final

import msgspec

from eventstore import envelope, events, store, subjects
from eventstore.jetstream import store as jetstream
from warmlog import flags, link, output, when

FLAGS: Final = (
    *link.FLAGS,
    link.DIR,
    flags.Flag("type", "only this type: settings.seen, replica.observed, index.summarised, moment, object.seen …"),
    flags.Flag("about", "only events about KIND/NAMESPACE/NAME, or replica/TENANT/REPLICA"),
    flags.Flag("since", "from this moment: a sequence, a time (UTC unless it says) or an age (-10m)"),
    flags.Flag("until", "up to this moment"),
    flags.Flag("last", "only the last so many that match (0 = all)", "0", flags.at_least(0)),
    flags.Flag("follow", "go on as they come", "false", flags.boolean),
    output.FLAG,
)


class Shown(msgspec.Struct, frozen=True, omit_defaults=True):
    """One event as it is printed; `problem` says why a body could not be read."""

    sequence: int
    stored: str
    event: Any = None
    problem: str = ""


class Filter(msgspec.Struct, frozen=True):
    type: str = ""
    subject: str | None = None
    since: when.When | None = None
    until: when.When | None = None


def subject_of(about: str) -> str | None:
    """The subject filter for --about. Raises UsageError."""
    if not about:
        return None
    parts = about.split("/")
    if len(parts) != 3:
        raise flags.UsageError(f"--about: {about!r} is not KIND/NAMESPACE/NAME or replica/TENANT/REPLICA")
    if parts[0] == "replica":
        return subjects.replica_subject(parts[1], parts[2])
    kind = subjects.escape(parts[0]) if "." in parts[0] else "*"
    return ".".join(("wl", "object", kind, subjects.escape(parts[1]), subjects.escape(parts[2])))


def shown(stored: store.Stored) -> Shown:
    at = envelope.rfc3339(stored.time_ns)
    try:
        return Shown(stored.sequence, at, msgspec.json.decode(stored.body))
    except msgspec.MsgspecError as error:
        return Shown(stored.sequence, at, problem=f"undecodable, {len(stored.body)} bytes on {stored.subject}: {error}")


def early(stored: store.Stored, limit: when.When | None) -> bool:
    match limit:
        case when.Sequence(number=number):
            return stored.sequence < number
        case when.Time(ns=ns):
            return stored.time_ns < ns
    return False


def late(stored: store.Stored, limit: when.When | None) -> bool:
    match limit:
        case when.Sequence(number=number):
            return stored.sequence > number
        case when.Time(ns=ns):
            return stored.time_ns > ns
    return False


async def select(log: store.EventStore, wanted: Filter, *, follow: bool) -> AsyncGenerator[Shown, None]:
    after = wanted.since.number - 1 if isinstance(wanted.since, when.Sequence) else 0
    async for batch in log.read(after=max(after, 0), subject=wanted.subject, follow=follow):
        for stored in batch:
            if early(stored, wanted.since):
                continue
            if late(stored, wanted.until):
                return
            one = shown(stored)
            kind = one.event.get("type", "") if isinstance(one.event, dict) else ""
            if not wanted.type or kind == wanted.type or kind.startswith(f"{envelope.PREFIX}{wanted.type}.v"):
                yield one


def human(one: Shown) -> str:
    if one.problem or not isinstance(one.event, dict):
        return f"#{one.sequence:<7} {one.stored}  {one.problem or one.event}"
    kind = str(one.event.get("type", "?")).removeprefix(envelope.PREFIX)
    data = one.event.get("data")
    facts = "  ".join(f"{key}={brief(value)}" for key, value in data.items()) if isinstance(data, dict) else str(data)
    return f"#{one.sequence:<7} {one.stored}  {kind:<22} {facts}"


def brief(value: Any) -> str:
    if isinstance(value, list):
        return f"[{len(value)}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {brief(item)}" for key, item in list(value.items())[:6]) + "}"
    return str(value)


async def show_all(values: flags.Values) -> int:
    wanted = Filter(
        values["type"], subject_of(values["about"]), when.of_flag(values, "since"), when.of_flag(values, "until")
    )
    count = 0
    async with await link.open_link(values, "tool") as connection:
        log = jetstream.JetStreamStore(connection)
        chosen = select(log, wanted, follow=values["follow"] and not values["last"])
        if values["last"]:
            kept: deque[Shown] = deque(maxlen=values["last"])
            async with contextlib.aclosing(chosen):
                async for one in chosen:
                    kept.append(one)
            for one in kept:
                output.show(one, form=values["output"], human=human)
            count = len(kept)
        else:
            async with contextlib.aclosing(chosen):
                async for one in chosen:
                    output.show(one, form=values["output"], human=human)
                    count += 1
    if not count:
        output.progress("no event matches" + unknown(wanted.type))
    return 0


def unknown(kind: str) -> str:
    """A hint where no event of the type can be: a newer version may write types that this one does not know."""
    known = {name.rpartition(".v")[0].removeprefix(envelope.PREFIX): name for name in events.TYPES}
    if not kind or kind in known or kind in events.TYPES:
        return ""
    return f"; {kind!r} is no type that this version writes: {', '.join(sorted(known))}"


def run(values: flags.Values, arguments: argparse.Namespace) -> int:
    return asyncio.run(show_all(values))
