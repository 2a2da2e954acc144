"""The loop of one kind over real sockets: a network that is half dead, a server that ends watches, bytes that are none.
Excluded: leaders and effects (test_trouble), what a line means (tests/unit/kubernetes)."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from crds import core
from devkube.options import Settings
from devkube.server import DevKube
from eventstore import memory
from subscribers.kubernetes import watcher
from subscribers.kubernetes.client import Client
from subscribers.kubernetes.watcher import Watcher
from tests.support.controllerhouse import until
from tests.support.leaderlog import Leader
from tests.support.tcpproxy import Proxy


class Watching:
    def __init__(self, api: DevKube, proxy: Proxy, watch: Watcher, leader: Leader) -> None:
        self.api, self.proxy, self.watch, self.leader = api, proxy, watch, leader
        self.task: asyncio.Task[Any] = asyncio.ensure_future(watch.run())

    async def pod(self, name: str) -> None:
        body = {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        await self.api.request("POST", "/api/v1/namespaces/default/pods", {"apiVersion": "v1", "kind": "Pod", **body})

    async def seen(self, *names: str) -> None:
        async def right() -> bool:
            if self.task.done():
                self.task.result()
            return [key.name for key in self.leader.world.keys(core.PODS)] == sorted(names)

        await until(right, 8, lambda: f"{self.leader.world.keys(core.PODS)} {self.watch.trouble}")


@pytest.fixture
async def watching(tmp_path: Path) -> AsyncIterator[Watching]:
    async with (
        DevKube(Settings(directory=tmp_path)) as api,
        Proxy("127.0.0.1", int(api.url.rsplit(":", 1)[1])) as proxy,
    ):
        config = yaml.safe_load(api.kubeconfig.read_text())
        config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{proxy.port}"
        (tmp_path / "config").write_text(yaml.safe_dump(config))
        async with await Client.open(kubeconfig=str(tmp_path / "config")) as client:
            leader = Leader(memory.MemoryStore())
            made = Watching(api, proxy, Watcher(client, core.PODS, leader.recorder), leader)
            yield made
            made.task.cancel()
            await asyncio.gather(made.task, return_exceptions=True)


async def test_a_watch_that_hears_nothing_any_more_is_begun_again(
    watching: Watching, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watcher, "SILENCE", 1.0)
    await watching.pod("a")
    await watching.seen("a")
    watching.proxy.freeze()
    watching.proxy.only_new()
    await watching.pod("b")
    await watching.seen("a", "b")
    assert watching.watch.counts["lists"] == 1
    assert watching.watch.counts["troubled"] >= 1


async def test_a_watch_that_the_server_ends_in_time_goes_on_from_where_it_was(
    watching: Watching, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watcher, "WATCH", 1.2)
    for number in range(8):
        await watching.pod(f"p{number}")
        await asyncio.sleep(0.4)
    await watching.seen(*(f"p{n}" for n in range(8)))
    assert watching.watch.counts["watches"] >= 2
    assert watching.watch.counts["lists"] == 1
    assert watching.watch.trouble == ""


async def test_a_history_that_is_gone_means_one_list(watching: Watching) -> None:
    await watching.pod("a")
    await watching.seen("a")
    watching.api.faults.fail(503, verb="watch", count=2)
    watching.proxy.cut()
    await watching.pod("b")
    await watching.api.request("DELETE", "/api/v1/namespaces/default/pods/a", {"gracePeriodSeconds": 0})
    watching.api.expire_history()
    await watching.seen("b")
    assert watching.watch.counts["lists"] == 2


async def test_pages_of_a_long_list_are_put_together(watching: Watching, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watcher, "PAGE", 3)
    watching.task.cancel()
    await asyncio.gather(watching.task, return_exceptions=True)
    for number in range(10):
        await watching.pod(f"p{number}")
    watching.task = asyncio.ensure_future(watching.watch.run())
    await watching.seen(*(f"p{n}" for n in range(10)))


async def test_a_list_that_is_refused_is_asked_for_again(watching: Watching) -> None:
    watching.task.cancel()
    await asyncio.gather(watching.task, return_exceptions=True)
    watching.api.faults.fail(429, verb="list", count=1, retry_after=1)
    watching.api.faults.fail(500, verb="list", count=1)
    await watching.pod("a")
    watching.task = asyncio.ensure_future(watching.watch.run())
    await watching.seen("a")
