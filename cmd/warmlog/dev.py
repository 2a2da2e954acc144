"""Everything on a laptop, until Ctrl-C: nats-server, Kubernetes, controller, webhook, simulated engines, a server.

State lies under --dir; all sockets are on loopback; NATS asks for a token that is generated at every start. While it
runs, `warmlog events`, `replay` and `lookup` find it without flags. --engines=false starts no simulated engines: point
your own subscriber at the printed address. --policies DIR takes CachePolicy and CacheTenant manifests.

Kubernetes is devkube, or the kube-apiserver of $KUBEBUILDER_ASSETS; its objects lie under --dir too. In it stand a
CacheBackend and a Pod for each simulated engine; --kubernetes none does without.
"""

import argparse
import asyncio
import contextlib
import os
import shlex
import sys
from pathlib import Path
from typing import Final

from crds import core
from crds.cachebackend import CACHE_BACKENDS
from handlers.effects.cluster import ClusterError
from handlers.outcome import Key
from warmlog import cli, flags, kubectl, lab, labkube, labobjects, link, manifests, natsserver, place, signals

FLAGS: Final = (
    link.DIR,
    flags.Flag("engines", "start the three simulated engines", "true", flags.boolean),
    labkube.FLAG,
    flags.Flag("policies", "directory of CachePolicy and CacheTenant manifests (YAML), read at start"),
    flags.Flag("nats-port", "port of nats-server (0 picks a free one)", "0", flags.at_least(0)),
    flags.Flag("lookup-port", "port of LookupRoute (0 picks a free one)", "0", flags.at_least(0)),
)


async def stay(values: flags.Values, directory: Path) -> int:
    stop = signals.told()
    # What is wrong with the flags is told before anything is started.
    if values["policies"]:
        manifests.read(Path(values["policies"]))
    choice = labkube.chosen(values["kubernetes"])
    async with contextlib.AsyncExitStack() as closing:
        laboratory = await closing.enter_async_context(lab.Lab(directory))
        kube = None
        if choice != "none":
            kube = labkube.Kube(laboratory, choice)
            closing.push_async_callback(kube.close)
        await signals.unless(stop, begin(values, laboratory, kube))
        if stop.is_set():
            return 0
        note = place.Note(
            os.getpid(),
            laboratory.nats_url,
            laboratory.token,
            laboratory.lookup,
            laboratory.admin,
            str(kube.kubeconfig) if kube else "",
        )
        place.write(directory, note)
        try:
            print(f"LookupRoute   {note.lookup}/v1/lookup\nsnapshot      {note.admin}/snapshot", flush=True)
            print(f"logs          {directory / 'logs'}\n\nTry:", flush=True)
            for line in suggestions(laboratory, directory, values, note):
                print(f"  {line}")
            print("\nCtrl-C stops it all.", flush=True)
            await watch(laboratory, stop)
        finally:
            place.remove(directory)
    return 0


def suggestions(laboratory: lab.Lab, directory: Path, values: flags.Values, note: place.Note) -> list[str]:
    """Lines that work as they are printed, from the shell that started this."""
    program = shlex.quote(sys.argv[0])
    here = f" --dir {shlex.quote(str(directory))}" if values["dir"] else ""
    lines = []
    if values["engines"]:
        engine = laboratory.engines[lab.ENGINES[0].name].http
        lines.append(f'curl -s {engine}/v1/generate -d "{{\\"token_ids\\": [$(seq -s, 1 256)]}}"')
    lines += [
        f"{program} lookup{here} --tenant-id {lab.TENANT} --model-id {lab.MODEL} --token-ids 1..256 --explain",
        f"{program} events{here} --type replica.observed",
    ]
    if note.kubeconfig and (command := kubectl.find()):
        lines.append(
            f"{shlex.quote(str(command))} --kubeconfig {shlex.quote(note.kubeconfig)} -n {lab.TENANT} get cb,pods"
        )
    lines.append(
        f"{program} subscriber --server {laboratory.nats_url} --nats-token-file {directory / 'token'} "
        f"--tenant-id {lab.TENANT} --model-id {lab.MODEL} --replica-id mine --engine-endpoint tcp://127.0.0.1:5557"
    )
    return lines


async def begin(values: flags.Values, laboratory: lab.Lab, kube: labkube.Kube | None) -> None:
    """Everything up and ready."""
    await laboratory.start_nats(values["nats-port"])
    print(f"nats-server   {laboratory.nats_url}  (token in {laboratory.directory / 'token'})", flush=True)
    if kube is not None:
        laboratory.summary_interval = "5s"
        await kube.start()
        print(f"kubernetes    {kube.server.url}  ({kube.choice})\nKUBECONFIG    {kube.kubeconfig}", flush=True)
        await kube.install()
        await kube.start_roles()
    given = values["policies"]
    await laboratory.start_server(lookup_port=values["lookup-port"], policies="" if kube is not None else given)
    if kube is not None:
        await kube.roles_ready()
        print(f"controller    http://{kube.health['controller']}/metrics", flush=True)
        print(f"webhook       http://{kube.health['webhook']}/metrics, reviews on {kube.reviews}", flush=True)
        if given:
            await apply(kube, manifests.read(Path(given)))
        await objects(kube, engines=values["engines"])
    if values["engines"]:
        for spec in lab.ENGINES:
            address = await laboratory.start_engine(spec)
            await laboratory.start_subscriber(spec)
            print(f"{spec.name}      {address.http}  {spec.form}, blocks of {spec.block_size}", flush=True)


async def apply(kube: labkube.Kube, given: list[manifests.Manifest]) -> None:
    """Where there is Kubernetes, policies are objects of it: the controller tells of what is there, and of no more."""
    for one in given:
        await kube.kubectl.apply(labkube.namespace(one.namespace))
        metadata = {"name": one.name, "namespace": one.namespace}
        await kube.kubectl.apply({**one.document, "metadata": metadata})


async def objects(kube: labkube.Kube, *, engines: bool) -> None:
    """A CacheBackend, and a Pod for each engine under the engine's name: what the engine publishes counts for it."""
    await kube.kubectl.apply(labobjects.backend())
    await kube.judged(CACHE_BACKENDS, lab.TENANT, labobjects.BACKEND)
    for spec in lab.ENGINES if engines else ():
        try:
            await kube.objects.create(Key(core.PODS, lab.TENANT, spec.name), labobjects.pod(spec))
        except ClusterError as error:
            if error.code != 409:  # from the last time
                raise lab.LabError(f"the Pod of {spec.name} cannot be made: {error}") from error


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
    except manifests.ManifestError as error:
        raise flags.UsageError(str(error)) from error
    except natsserver.NatsServerError as error:
        raise cli.Failure(str(error), cli.REFUSED) from error
    except lab.LabError as error:
        raise cli.Failure(str(error)) from error
    except OSError as error:
        raise cli.Failure(f"cannot keep state in {directory}: {error}; give --dir another", cli.REFUSED) from error
