"""A house for tests of the controller: an API server (devkube in the test's process, or a real one), which controllers
see through a proxy; a real nats-server; controllers as processes; and an audit of what was written, read off log and
API.

    house.cache("a", labels={"serve": "x"}); await house.status("a", lambda status: …)
    await house.audit()      # nothing doubled, nothing lost, nothing left to do, the log replays to what the API shows
"""

import asyncio
import contextlib
import re
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import yaml

from crds import cachebackend, core, render
from devkube.errors import StatusError
from eventstore import events
from eventstore.jetstream import connect
from eventstore.jetstream import store as jetstream
from handlers.outcome import Key
from handlers.reconcile import Loop
from handlers.world.fold import fold
from handlers.world.state import World
from subscribers.kubernetes.narrow import narrow
from subscribers.kubernetes.routes import ROUTES
from tests.support import houseapi, natsserver
from tests.support.tcpproxy import Proxy
from warmlog import systems

Object = dict[str, Any]
SYSTEM, SPACE = "inference-cache-system", "ml"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases/inference-cache-controller-leader-lock"
DURATION = 3.0  # of the Lease
PATIENCE = 20.0


class Controller:
    """One process."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, output: Path) -> None:
        self.name, self.process, self.output = name, process, output

    def said(self) -> str:
        return self.output.read_text()

    async def ask(self, path: str) -> str:
        """Of its health address."""
        port = re.findall(r"health=(\d+)", self.said())[-1]
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}{path}") as answer:
            return await answer.text()

    async def kill(self) -> None:
        self.process.kill()
        await self.process.wait()

    def suspend(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    async def stop(self) -> int:
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            try:
                async with asyncio.timeout(10):
                    await self.process.wait()
            except TimeoutError:
                await self.kill()
        return self.process.returncode or 0


class House:
    def __init__(self, directory: Path, api: str = "devkube") -> None:
        self.directory = directory
        self.nats = natsserver.Server(directory / "nats")
        self.api = houseapi.made(api, directory / "kube")
        self.proxy = Proxy("127.0.0.1", 0)
        self.controllers: dict[str, Controller] = {}
        self.kubeconfig = directory / "kubeconfig"

    async def start(self, *, crds: bool = True) -> None:
        await self.nats.start()
        await self.api.start()
        self.proxy.target = int(self.api.url.rsplit(":", 1)[1])
        await self.proxy.up()
        self.write_kubeconfig(self.api.admin_token)
        if crds:
            await self.install()

    async def install(self, api: houseapi.Api | None = None) -> None:
        for document in render.documents().values():
            await (api or self.api).request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", document)
        await self.spaces(api)

    async def spaces(self, api: houseapi.Api | None = None) -> None:
        for name in (SPACE, SYSTEM):
            with contextlib.suppress(StatusError):
                body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
                await (api or self.api).request("POST", "/api/v1/namespaces", body)

    def write_kubeconfig(self, token: str) -> None:
        content = yaml.safe_load(self.api.kubeconfig.read_text())
        content["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{self.proxy.port}"
        content["users"][0]["user"]["token"] = token
        self.kubeconfig.write_text(yaml.safe_dump(content))

    async def close(self) -> None:
        for one in self.controllers.values():
            await one.stop()
        await self.proxy.down()
        await self.api.stop()
        await self.nats.stop()

    # Controllers ------------------------------------------------------------------------------------------------------

    async def controller(self, name: str = "one") -> Controller:
        output = self.directory / f"{name}.log"
        words = (
            f"--nats={self.nats.url}", f"--kubeconfig={self.kubeconfig}", f"--instance={name}",
            f"--lease-duration={DURATION:g}s", "--health-bind-address=127.0.0.1:0", "--log-format=text",
        )  # fmt: skip
        with output.open("ab") as out:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "warmlog", "controller", *words, stdout=out, stderr=out
            )
        self.controllers[name] = Controller(name, process, output)
        return self.controllers[name]

    async def leader(self, other_than: str = "") -> Controller:
        """Who holds the Lease, as soon as one of ours does."""

        async def held() -> Controller | None:
            try:
                lease = await self.api.request("GET", LEASE)
            except StatusError:
                return None
            name = lease["spec"].get("holderIdentity", "")
            return self.controllers.get(name) if name != other_than else None

        found = await until(held)
        assert isinstance(found, Controller)
        return found

    # Objects ----------------------------------------------------------------------------------------------------------

    async def cache(self, name: str, *, managed: bool = True, labels: dict[str, str] | None = None) -> Object:
        spec: Object = {"runtime": "VLLM", "engineSelector": {"matchLabels": labels or {"serve": name}}}
        if managed:
            spec["remoteStorage"] = {"provider": "LMCacheServer", "ownership": "Managed"}
        metadata = {"name": name, "namespace": SPACE}
        body = {"apiVersion": "inferencecache.io/v1alpha1", "kind": "CacheBackend", "metadata": metadata, "spec": spec}
        made: Object = await self.api.request("POST", path(cachebackend.CACHE_BACKENDS), body)
        return made

    async def pod(self, name: str, **labels: str) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": SPACE, "labels": labels},
            "spec": {"containers": [{"name": "engine", "image": "vllm:1"}]},
        }
        await self.api.request("POST", path(core.PODS), body)

    async def delete(self, kind: str, name: str) -> None:
        body = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}
        await self.api.request("DELETE", path(kind, name), body)

    async def merge(self, kind: str, name: str, body: Object) -> Object:
        media = "application/merge-patch+json"
        made: Object = await self.api.request("PATCH", path(kind, name), body, content_type=media)
        return made

    async def get(self, kind: str, name: str) -> Object | None:
        try:
            found: Object = await self.api.request("GET", path(kind, name))
        except StatusError:
            return None
        return found

    async def all_of(self, kind: str, namespace: str = SPACE) -> list[Object]:
        route = ROUTES[kind]
        items: list[Object] = (await self.api.request("GET", route.path(namespace), query=route.query))["items"]
        return items

    async def status(self, name: str, right: Callable[[Object], bool], within: float = PATIENCE) -> float:
        """Wait until the status of a cache is right; how many seconds it took."""
        began = time.monotonic()

        async def is_right() -> bool:
            found = await self.get(cachebackend.CACHE_BACKENDS, name)
            return found is not None and right(found.get("status", {}))

        await until(is_right, within, lambda: f"the status of {name}; {self.tails()}")
        return time.monotonic() - began

    def tails(self) -> str:
        return "".join(f"\n--- {one.name}\n{one.said()[-3000:]}" for one in self.controllers.values())

    # The log ----------------------------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def log(self) -> AsyncIterator[jetstream.JetStreamStore]:
        async with await connect.connect(self.nats.url, connect.Options(name="test"), wait=10) as connection:
            yield jetstream.JetStreamStore(connection)

    async def told(self) -> list[events.Decoded]:
        found = []
        async with self.log() as log:
            async for batch in log.read():
                for stored in batch:
                    decoded = events.decode(stored)
                    assert isinstance(decoded, events.Decoded), decoded
                    found.append(decoded)
        return found

    async def effects(self) -> list[events.EffectApplied]:
        return [one.data for one in await self.told() if isinstance(one.data, events.EffectApplied)]

    # The audit --------------------------------------------------------------------------------------------------------

    async def audit(self, within: float = PATIENCE) -> World:
        """Waits until the log and the API agree and nothing is left to do, then looks at how it came to that."""
        why = ""

        async def settled() -> World | None:
            nonlocal why
            world, why = await self._replayed()
            return None if why else world

        found = await until(settled, within, lambda: f"{why}; {self.tails()}", pause=0.3)
        assert isinstance(found, World)
        told = await self.told()
        _nothing_doubled(told)
        _epochs_in_order(told)
        await self._statuses_as_recorded(told)
        return found

    async def _replayed(self) -> tuple[World, str]:
        """The log folded from its start, and what is not right about it yet."""
        world = World()
        async with self.log() as log:
            async for batch in log.read():
                for stored in batch:
                    fold(world, stored, incarnation="i")
        for kind in sorted(world.listed):
            if (wrong := await self._differs(world, kind)) != "":
                return world, wrong
        loop = Loop(systems.systems(), world)
        for kind in world.listed:
            loop.listed(kind)
        left = [work for work in iter(loop.look, None) if work.intents or work.defect]
        return world, f"left to do: {left[:3]}" if left else ""

    async def _differs(self, world: World, kind: str) -> str:
        held = {}
        for document in await self.all_of(kind, ""):
            one = narrow(kind, msgspec.json.encode({**document, "kind": kind}))
            held[Key(kind, one.namespace, one.name)] = (one.uid, one.value)
        known = {key: world.find(key) for key in world.keys(kind)}
        found = {key: (one.uid, one.value) for key, one in known.items() if one is not None}
        missing, extra = sorted(held.keys() - found.keys()), sorted(found.keys() - held.keys())
        changed = sorted(key for key in held.keys() & found.keys() if held[key] != found[key])
        return (
            f"{kind}: the world lacks {missing}, has {extra}, differs in {changed}"
            if missing or extra or changed
            else ""
        )

    async def _statuses_as_recorded(self, told: list[events.Decoded]) -> None:
        """The last status that was recorded of each cache is what the API shows, byte for byte."""
        last: dict[str, Object] = {}
        for one in told:
            if isinstance(one.data, events.EffectApplied) and one.data.verb == "status":
                last[one.data.uid] = one.data.body["status"]
        for item in await self.all_of(cachebackend.CACHE_BACKENDS):
            assert item.get("status") == last.get(item["metadata"]["uid"]), item["metadata"]["name"]


def _nothing_doubled(told: list[events.Decoded]) -> None:
    """No Event twice, no status twice in a row, no object created twice under one uid."""
    effects = [one.data for one in told if isinstance(one.data, events.EffectApplied)]
    names = Counter((one.namespace, one.name) for one in effects if one.verb == "event")
    assert [name for name, count in names.items() if count > 1] == []
    last: dict[str, str] = {}
    for effect in effects:
        if effect.verb == "status":
            assert last.get(effect.uid) != effect.desired, f"{effect.name}: the same status twice in a row"
            last[effect.uid] = effect.desired


def _epochs_in_order(told: list[events.Decoded]) -> None:
    """Nobody writes after a successor was elected. One that was stopped between a write and its record may tell of it
    when it wakes; an event's time is that of the write."""
    epoch, since = 0, ""
    for one in told:
        match one.data:
            case events.LeaderElected() as elected:
                assert elected.epoch > epoch
                epoch, since = elected.epoch, one.envelope.time
            case events.EffectApplied() as effect:
                late = effect.epoch < epoch and one.envelope.time < since
                words = f"{effect.verb} of {effect.name} by epoch {effect.epoch} in {epoch}"
                assert effect.epoch == epoch or late, words


def path(kind: str, name: str = "") -> str:
    return ROUTES[kind].path(SPACE, name)


async def until(
    right: Callable[[], Any], within: float = PATIENCE, why: Callable[[], str] = lambda: "", *, pause: float = 0.02
) -> Any:
    """What `right` gives once it is true; an AssertionError with `why` otherwise."""
    deadline = time.monotonic() + within
    while True:
        if found := await right():
            return found
        assert time.monotonic() < deadline, f"not within {within:g} s: {why()}"
        await asyncio.sleep(pause)


def condition(kind: str, reason: str) -> Callable[[Object], bool]:
    return lambda status: any(one["type"] == kind and one["reason"] == reason for one in status.get("conditions", []))


def underway(status: Object) -> bool:
    """A workload was made and is not available: nobody starts its Pods. A real API's controllers say so at once."""
    return any(condition("Ready", reason)(status) for reason in ("RolloutInProgress", "ReplicasUnavailable"))


def matched(count: int) -> Callable[[Object], bool]:
    return lambda status: status.get("matchedEnginePods") == count
