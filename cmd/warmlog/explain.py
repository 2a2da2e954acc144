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
from typing import Final

from crds import core
from eventstore import replay
from handlers.outcome import Key
from warmlog import about, cli, facts, flags, link, output, rewound, systems, when, whypod, whystatus

FLAGS: Final = (
    *link.FLAGS,
    link.DIR,
    flags.Flag("at", "as of this moment: a sequence, a time (UTC unless it says) or an age; empty is now"),
    output.FLAG,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    # Not required of the parser: a misspelled flag is what a person wants to hear of first.
    parser.add_argument(
        "object", metavar="KIND/NAMESPACE/NAME", nargs="?", default="", help="a Pod, or an object of a system of ours"
    )


async def look(values: flags.Values, key: Key, at: when.When | None) -> whypod.WhyPod | whystatus.WhyStatus:
    async with (
        await link.open_link(values, "tool") as connection,
        rewound.logs(connection) as logs,
    ):
        if key.kind == core.PODS:
            return await whypod.explain(logs, at, key)
        return await whystatus.explain(logs, at, key, systems.systems())


def human(why: whypod.WhyPod | whystatus.WhyStatus) -> str:
    lines = [f"{why.key} at {why.position} of {why.time}"]
    if isinstance(why, whypod.WhyPod):
        lines += [text for one in why.decisions for text in of_decision(one)]
    else:
        lines += of_status(why)
    if why.note:
        lines.append(f"  {why.note}")
    return "\n".join(lines)


def line(one: facts.Fact) -> str:
    return f"#{one.sequence} {one.time} {one.type} {one.about}: {one.said}"


def of_reads(reads: dict[str, facts.Fact | None]) -> list[str]:
    told = [f"    {name}: {line(one) if one else 'absent, or read live'}" for name, one in reads.items()]
    return ["  it stood on:", *told] if told else []


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
    return lines + of_reads(why.reads)


def of_decision(one: whypod.WhyDecision) -> list[str]:
    lines = [
        f"  {one.webhook} {one.verdict} it: {one.check}" + (f", {one.reason}" if one.reason else ""),
        f"  decision #{one.decision.sequence} {one.decision.time}, of the world at {one.decided_at}, "
        f"tied to it by {', '.join(one.tied_by)}",
    ]
    if one.alike:
        lines.append(f"  as well could be {', '.join(f'#{number}' for number in one.alike)}: they say the same")
    lines += [f"  warned: {text}" for text in one.warnings]
    lines += [f"  patch: {op['op']} {op['path']}" for op in one.patch]
    if one.candidates:
        lines.append("  looked at:")
    for each in one.candidates:
        seen = f" (#{each.seen.sequence} {each.seen.said})" if each.seen is not None else " (read live)"
        lines.append(f"    {'->' if each.chosen else '  '} CacheBackend {each.name}: {each.why}{seen}")
    lines.append(f"  decided again there: {one.again}")
    return lines + of_reads(one.reads)


def run(values: flags.Values, arguments: argparse.Namespace) -> int:
    key = about.key(arguments.object)
    at = when.of_flag(values, "at")
    try:
        why = asyncio.run(look(values, key, at))
    except replay.ReplayError as error:
        raise cli.Failure(str(error)) from error
    output.show(why, form=values["output"], human=human)
    known = why.exists or (isinstance(why, whypod.WhyPod) and bool(why.decisions))
    return 0 if known else cli.FAILED  # as `kubectl get` of what is not there
