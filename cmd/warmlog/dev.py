"""Everything on a laptop, until Ctrl-C: nats-server, three simulated engines with subscribers, a server.

State lies under --dir; all sockets are on loopback; NATS asks for a token that is generated at every start. While it
runs, `warmlog events`, `replay` and `lookup` find it without flags. --engines=false starts no simulated engines: point
your own subscriber at the printed address. --policies DIR takes CachePolicy and CacheTenant manifests.
"""

import argparse
import asyncio
import contextlib
import os
import signal
from pathlib import Path
from typing import Final

from warmlog import cli, flags, lab, link, place

FLAGS: Final = (
    link.DIR,
    flags.Flag("engines", "start the three simulated engines", "true", flags.boolean),
    flags.Flag("policies", "directory of CachePolicy and CacheTenant manifests (YAML), read at start"),
    flags.Flag("nats-port", "port of nats-server (0 picks a free one)", "0", flags.at_least(0)),
    flags.Flag("lookup-port", "port of LookupRoute (0 picks a free one)", "0", flags.at_least(0)),
)


async def stay(values: flags.Values, directory: Path) -> int:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with lab.Lab(directory) as laboratory:
        await laboratory.start_nats(values["nats-port"])
        print(f"nats-server   {laboratory.nats_url}  (token in {directory / 'token'})", flush=True)
        if values["engines"]:
            for spec in lab.ENGINES:
                address = await laboratory.start_engine(spec)
                await laboratory.start_subscriber(spec)
                print(f"{spec.name}      {address.http}  {spec.form}, blocks of {spec.block_size}", flush=True)
        await laboratory.start_server(lookup_port=values["lookup-port"], policies=values["policies"])
        note = place.Note(os.getpid(), laboratory.nats_url, laboratory.token, laboratory.lookup, laboratory.admin)
        place.write(directory, note)
        try:
            print(f"LookupRoute   {note.lookup}/v1/lookup\nsnapshot      {note.admin}/snapshot", flush=True)
            print(f"logs          {directory / 'logs'}\n\nTry:", flush=True)
            if values["engines"]:
                engine = laboratory.engines[lab.ENGINES[0].name].http
                body = "'{\"token_ids\": ['$(seq -s, 1 256)']}'"
                print(f"  curl -s {engine}/v1/generate -d {body}")
            print(f"  warmlog lookup --tenant-id {lab.TENANT} --model-id {lab.MODEL} --token-ids 1..256")
            print("  warmlog events --last 20\n\nCtrl-C stops it all.", flush=True)
            await watch(laboratory, stop)
        finally:
            place.remove(directory)
    return 0


async def watch(laboratory: lab.Lab, stop: asyncio.Event) -> None:
    """Until a signal. A process that ends by itself is told, once, with its last words."""
    told: set[str] = set()
    while not stop.is_set():
        for process in laboratory.processes.values():
            if not process.running and process.name not in told:
                told.add(process.name)
                print(f"{process.name} ended with {process.child.returncode}: {process.last_words()}", flush=True)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.5):
                await stop.wait()


def run(values: flags.Values, arguments: argparse.Namespace) -> int:
    directory = place.directory(values["dir"])
    running = place.read(directory)
    if running is not None:
        raise cli.Failure(
            f"another `warmlog dev` (pid {running.pid}) uses {directory}; give --dir another", cli.REFUSED
        )
    try:
        return asyncio.run(stay(values, directory))
    except lab.LabError as error:
        raise cli.Failure(str(error)) from error
