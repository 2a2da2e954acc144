"""The controller as a process, with devkube and nats-server as others: how soon a changed resource has its status, and
how soon a new leader of a large, converged cluster is quiet. `watching` beside it is the cost of the watch alone.

Everything shares two cores with this process, which only asks and listens.
"""

import asyncio
import contextlib
import json
import os
import re
import ssl
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp

from crds import render
from eventstore import events
from eventstore.jetstream import connect
from eventstore.jetstream import store as jetstream
from tests.bench import watching
from tests.bench.row import Row
from warmlog import natsserver

ROOT = "/apis/inferencecache.io/v1alpha1"
CHANGES, CHANGED, BETWEEN = 300, 100, 0.04  # how many changes, of how many backends, seconds between two
ROUNDS = 3  # medians of them are told
P50, P99 = 60.0, 250.0  # ms
BACKENDS, PODS, SPACES = 2_000, 10_000, 100
QUIET = 6.0  # seconds
SAMPLE = re.compile(rb"^(warmlog_\w+)(?:\{[^}]*\})? (\S+)$", re.M)
Object = dict[str, Any]


class Stage:
    """devkube, nats-server and one controller, each a process. `port` is the controller's health port."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = 0
        self.controller: asyncio.subprocess.Process | None = None

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Stage"]:
        nats = await natsserver.start(self.directory / "nats")
        self.nats = nats.url
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, ("cmd", os.environ.get("PYTHONPATH"))))}
        words = ("-m", "devkube", "--port", "0", "--directory", str(self.directory / "kube"), "--history", "50000")
        api = await asyncio.create_subprocess_exec(
            sys.executable, *words, stdout=asyncio.subprocess.PIPE, env=environment
        )
        try:
            assert api.stdout is not None
            ready = json.loads(await api.stdout.readline())
            self.url, self.kubeconfig = ready["url"], self.directory / "kube" / "kubeconfig"
            token = json.loads(self.kubeconfig.read_text())["users"][0]["user"]["token"]
            context = ssl.create_default_context(cafile=ready["certificate_authority"])
            connector = aiohttp.TCPConnector(ssl=context, limit=16)
            headers = {"Authorization": f"Bearer {token}"}
            async with aiohttp.ClientSession(connector=connector, headers=headers, read_bufsize=2**22) as self.session:
                for document in render.documents().values():
                    await self.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", document)
                await self.ask("POST", "/api/v1/namespaces", space("inference-cache-system"))
                yield self
        finally:
            await self.stop()
            api.kill()
            await api.wait()
            await nats.stop()

    async def start(self) -> None:
        output = self.directory / "controller.log"
        words = (f"--nats={self.nats}", f"--kubeconfig={self.kubeconfig}", "--health-bind-address=127.0.0.1:0")
        with output.open("wb") as out:
            self.controller = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "warmlog", "controller", *words, "--log-format=json", stdout=out, stderr=out
            )
        while not (found := re.search(r'"health": ?(\d+)', output.read_text())):
            await asyncio.sleep(0.01)
        self.port = int(found[1])

    async def stop(self) -> None:
        if self.controller is not None:
            self.controller.terminate()
            await self.controller.wait()
            self.controller = None

    async def ask(self, method: str, path: str, body: Object | None = None, media: str = "application/json") -> Any:
        sent = None if body is None else json.dumps(body).encode()
        async with self.session.request(
            method, self.url + path, data=sent, headers={"Content-Type": media} if sent else {}
        ) as answer:
            content = await answer.read()
            assert answer.status < 300, content[:300]
            return json.loads(content)

    async def many(self, work: list[tuple[str, Object]]) -> None:
        """Create, sixteen at a time."""
        todo = iter(work)

        async def one() -> None:
            for path, body in todo:
                await self.ask("POST", path, body)

        await asyncio.gather(*(one() for _ in range(16)))

    async def numbers(self) -> dict[str, float]:
        """Sums of each family of /metrics."""
        async with self.session.get(f"http://127.0.0.1:{self.port}/metrics") as answer:
            found: dict[str, float] = {}
            for name, value in SAMPLE.findall(await answer.read()):
                found[name.decode()] = found.get(name.decode(), 0.0) + float(value)
            return found

    async def settled(self, looked: int) -> float:
        """Wait until so many keys were looked at and none waits, for 20 looks; when that began (perf_counter)."""
        since, still, before = 0.0, 0, -1.0
        while still < 20:
            found = await self.numbers()
            quiet = found.get("warmlog_reconcile_looked_total", 0) >= looked
            quiet = quiet and not found.get("warmlog_reconcile_waiting_keys", 1)
            quiet = quiet and found["warmlog_reconcile_looked_total"] == before
            before = found.get("warmlog_reconcile_looked_total", 0)
            since, still = (since or time.perf_counter(), still + 1) if quiet else (0.0, 0)
            await asyncio.sleep(0.05)
        return since

    async def effects(self) -> int:
        count = 0
        async with await connect.connect(self.nats, connect.Options(name="bench"), wait=10) as connection:
            async for batch in jetstream.JetStreamStore(connection).read(subject="wl.effect.>"):
                count += sum(isinstance(events.decode(one), events.Decoded) for one in batch)
        return count


def space(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def backend(name: str, **labels: str) -> Object:
    spec = {"runtime": "VLLM", "engineSelector": {"matchLabels": labels}}
    return {
        "apiVersion": "inferencecache.io/v1alpha1", "kind": "CacheBackend", "metadata": {"name": name}, "spec": spec,
    }  # fmt: skip


# A change and its status ----------------------------------------------------------------------------------------------


async def latencies(stage: Stage) -> list[float]:
    """Milliseconds from sending a change to its observedGeneration in the status that a watch brings."""
    await stage.ask("POST", "/api/v1/namespaces", space("bench"))
    path = f"{ROOT}/namespaces/bench/cachebackends"
    await stage.many([(path, backend(f"b{n}", serve=f"m{n}")) for n in range(CHANGED)])
    await stage.start()
    await stage.settled(CHANGED)
    sent: dict[tuple[str, int], float] = {}
    took: list[float] = []
    listed = await stage.ask("GET", path)
    generations = {one["metadata"]["name"]: one["metadata"]["generation"] for one in listed["items"]}

    async def listen(version: str) -> None:
        query = {"watch": "true", "resourceVersion": version}
        endless = aiohttp.ClientTimeout(total=None)
        async with stage.session.get(stage.url + path, params=query, timeout=endless) as answer:
            async for line in answer.content:
                one = json.loads(line)["object"]
                name = (one["metadata"]["name"], one.get("status", {}).get("observedGeneration", 0))
                if name in sent:
                    took.append(1000 * (time.perf_counter() - sent.pop(name)))

    listening = asyncio.create_task(listen(listed["metadata"]["resourceVersion"]))
    await asyncio.sleep(0.5)
    for number in range(CHANGES):
        name = f"b{number % CHANGED}"
        generations[name] += 1
        sent[name, generations[name]] = time.perf_counter()
        spec = {"spec": {"observation": {"firstEventTimeout": f"{number + 10}s"}}}
        await stage.ask("PATCH", f"{path}/{name}", spec, "application/merge-patch+json")
        await asyncio.sleep(BETWEEN)
    async with asyncio.timeout(30):
        while sent:
            await asyncio.sleep(0.05)
    listening.cancel()
    await asyncio.gather(listening, return_exceptions=True)
    return sorted(took)


# A large cluster that is as it should be ------------------------------------------------------------------------------


async def quiet(stage: Stage) -> tuple[float, int]:
    """Seconds from the start of a new controller until it is quiet, and how much it wrote."""
    spaces = [f"team-{n}" for n in range(SPACES)]
    await stage.many([("/api/v1/namespaces", space(name)) for name in spaces])
    work: list[tuple[str, Object]] = []
    for number in range(BACKENDS):
        name, group = spaces[number % SPACES], number // SPACES
        work.append((f"{ROOT}/namespaces/{name}/cachebackends", backend(f"b{group}", serve=f"m{group}")))
    for number in range(PODS):
        name, group = spaces[number % SPACES], number // SPACES % (BACKENDS // SPACES)
        pod = watching.pod(number)
        for field in ("uid", "resourceVersion", "managedFields", "ownerReferences", "creationTimestamp"):
            del pod["metadata"][field]
        pod["metadata"].update(namespace=name, labels={"serve": f"m{group}"})
        work.append((f"/api/v1/namespaces/{name}/pods", pod))
    await stage.many(work)
    await stage.start()
    await stage.settled(BACKENDS + PODS)
    await stage.stop()
    before = await stage.effects()
    began = time.perf_counter()
    await stage.start()
    seconds = await stage.settled(BACKENDS + PODS) - began
    return seconds, await stage.effects() - before


async def rows() -> list[Row]:
    found = await watching.rows()
    rounds = []
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as directory:
            async with Stage(Path(directory)).running() as stage:
                rounds.append(await latencies(stage))
    p50 = statistics.median(took[len(took) // 2] for took in rounds)
    p99 = statistics.median(took[int(len(took) * 0.99)] for took in rounds)
    found += [
        Row("a change of a CacheBackend to its status, p50", p50, "ms", P50, p50 <= P50),
        Row("the same, p99", p99, "ms", P99, p99 <= P99),
    ]
    with tempfile.TemporaryDirectory() as directory:
        async with Stage(Path(directory)).running() as stage:
            seconds, wrote = await quiet(stage)
    name = f"a new leader of {BACKENDS:,} backends and {PODS:,} Pods is quiet after"
    return [
        *found,
        Row(name, seconds, "s", QUIET, seconds <= QUIET),
        Row("what it wrote", wrote, "writes", 0.0, wrote == 0),
    ]
