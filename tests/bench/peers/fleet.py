"""Several subscribers in one process, for fleets that one process each would be too many for this machine.

    python -m tests.bench.peers.fleet NAME=PORT … -- FLAG …

Each is `warmlog subscriber` whole, with flags, table, session and NATS connection of its own; they share an event loop.
What a subscriber costs stands in a column of its own, so nothing else depends on how they are packed.
"""

import argparse
import asyncio
import sys

import uvloop

from warmlog import flags, logs, subscriber


def values(name: str, port: str, given: list[str]) -> flags.Values:
    parser = argparse.ArgumentParser()
    flags.add(parser, subscriber.FLAGS)
    words = [*given, f"--replica-id={name}", f"--engine-endpoint=tcp://127.0.0.1:{port}"]
    return flags.resolve(parser.parse_args(words), subscriber.FLAGS, {})


async def run(each: list[flags.Values]) -> None:
    async with asyncio.TaskGroup() as tasks:
        for one in each:
            tasks.create_task(subscriber.listen_and_tell(one))


def main(words: list[str]) -> None:
    cut = words.index("--")
    each = [values(*word.split("="), words[cut + 1 :]) for word in words[:cut]]
    logs.configure(role="subscriber", form=each[0]["log-format"], level=each[0]["log-level"])
    uvloop.run(run(each))


if __name__ == "__main__":
    main(sys.argv[1:])
