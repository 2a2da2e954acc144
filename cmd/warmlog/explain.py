"""Why: the decision or the status of an object, and the events behind it.

Examples:
  warmlog explain cb/team-a/kv-main            # each condition, and the event that brought it
  warmlog explain pod/team-a/engine-7d9f-x2x4p # how it was admitted, which CacheBackends were looked at, and why
  warmlog explain cb/team-a/kv-main --at 03:12

What is printed is read off the log and decided again at the same position: "the same bytes" means that nothing but the
events shown went into it.
"""

import argparse
import asyncio
from datetime import UTC, datetime
from typing import Final

from crds import core
from eventstore import replay
from handlers.outcome import Key
from handlers.system import System
from warmlog import about, cli, facts, flags, link, output, rewound, systems, when, whypod, whystatus

FLAGS: Final = (
    *link.FLAGS,
    link.DIR,
    flags.Flag("at", "as of this moment: a sequence, a time (UTC unless it says) or an age; empty is now"),
    output.FLAG,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("object", metavar="KIND/NAMESPACE/NAME", help="a Pod, or an object of a system of ours")


def system_of(key: Key) -> System | None:
    """Who writes the status of this kind."""
    return next((one for one in systems.systems() if key.kind in one.kinds and not key.kind.startswith("pods")), None)


async def look(values: flags.Values, key: Key, at: when.When | None) -> whypod.WhyPod | whystatus.WhyStatus:
    async with (
        await link.open_link(values, "tool") as connection,
        rewound.logs(connection) as logs,
    ):
        if key.kind == core.PODS:
            return await whypod.explain(logs, at, key)
        system = system_of(key)
        if system is None:
            raise flags.UsageError(f"{key.kind} has no status of ours; `warmlog replay --about {key}` shows it")
        return await whystatus.explain(logs, at, key, system)


def human(why: whypod.WhyPod | whystatus.WhyStatus) -> str:
    lines = [f"{why.key} at {why.position} of {why.time}"]
    lines += of_pod(why) if isinstance(why, whypod.WhyPod) else of_status(why)
    if why.note:
        lines.append(f"  {why.note}")
    if why.reads:
        lines.append("  it stood on:")
        lines += [f"    {name}: {line(one) if one else 'absent, or read live'}" for name, one in why.reads.items()]
    return "\n".join(lines)


def line(one: facts.Fact) -> str:
    return f"#{one.sequence} {one.time} {one.type} {one.about}: {one.said}"


def of_status(why: whystatus.WhyStatus) -> list[str]:
    lines = []
    for one in why.conditions:
        lines.append(f"  {one.type} is {one.status} ({one.reason}) since {one.since}: {one.message}".rstrip(": "))
        if one.cause is not None:
            lines.append(f"    because of {line(one.cause)}")
        if one.written:
            lines.append(f"    first written by #{one.written}")
    if why.write is not None:
        lines.append(f"  last written by #{why.write.sequence} {why.write.time}, wanted at {why.wanted_at}")
        lines.append(f"  decided again there: {why.again}")
    return lines


def of_pod(why: whypod.WhyPod) -> list[str]:
    if why.decision is None:
        return []
    lines = [
        f"  {why.webhook} {why.verdict} it: {why.check}" + (f", {why.reason}" if why.reason else ""),
        f"  decision #{why.decision.sequence} {why.decision.time}, of the world at {why.decided_at}, "
        f"tied to it by {', '.join(why.tied_by)}",
    ]
    if why.alike:
        lines.append(f"  as well could be {', '.join(f'#{one}' for one in why.alike)}: they say the same")
    lines += [f"  warned: {text}" for text in why.warnings]
    lines += [f"  patch: {op['op']} {op['path']}" for op in why.patch]
    if why.candidates:
        lines.append("  looked at:")
    for one in why.candidates:
        seen = f" (#{one.seen.sequence} {one.seen.said})" if one.seen is not None else " (read live)"
        lines.append(f"    {'->' if one.chosen else '  '} CacheBackend {one.name}: {one.why}{seen}")
    lines.append(f"  decided again there: {why.again}")
    return lines


def run(values: flags.Values, arguments: argparse.Namespace) -> int:
    key = about.key(arguments.object)
    try:
        at = when.parse(values["at"], datetime.now(UTC)) if values["at"] else None
    except ValueError as error:
        raise flags.UsageError(f"--at: {error}") from None
    try:
        why = asyncio.run(look(values, key, at))
    except replay.ReplayError as error:
        raise cli.Failure(str(error)) from error
    output.show(why, form=values["output"], human=human)
    return 0
