"""What only devkube has: the Python entry point, its clock and faults, mapped webhook services, static tokens."""

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from devkube.errors import StatusError
from devkube.options import Settings
from devkube.server import DevKube
from tests.support import kubehook
from tests.support.kubehook import VALIDATING, configuration, denied
from tests.support.kubeobjects import configmap, pod
from tests.support.kubernetes import MERGE_PATCH, Client, Cluster, Space

SPACE = Space("default")


def cluster_of(api: DevKube) -> Cluster:
    return Cluster("devkube", api.url, api.ca_file, api.kubeconfig, token=api.admin_token)


@pytest_asyncio.fixture(loop_scope="session")
async def api() -> AsyncIterator[DevKube]:
    async with DevKube() as found:
        yield found


@pytest_asyncio.fixture(loop_scope="session")
async def mine(api: DevKube) -> AsyncIterator[Client]:
    async with cluster_of(api).session() as session:
        yield Client(session, api.url, token=api.admin_token)


async def test_it_starts_within_a_second() -> None:
    """Certificates, built-in kinds, namespaces and the listening socket; imports have been paid by other tests."""
    started = time.process_time()
    async with DevKube() as api:
        assert api.url.startswith("https://127.0.0.1:")
        assert time.process_time() - started < 1.0


async def test_two_know_nothing_of_each_other(mine: Client) -> None:
    """Each has its own store, authority and token."""
    await mine.create(SPACE.configmaps, configmap("here"))
    async with DevKube() as other:
        assert await other.request("GET", f"{SPACE.configmaps}?fieldSelector=metadata.name%3Dhere") is not None
        with pytest.raises(StatusError, match='configmaps "here" not found'):
            await other.request("GET", f"{SPACE.configmaps}/here")


async def test_the_kubeconfig_opens_it(api: DevKube) -> None:
    """Server, embedded authority, a token; readable by its owner only."""
    content = json.loads(Path(api.kubeconfig).read_text())
    assert content["clusters"][0]["cluster"]["server"] == api.url
    assert content["users"][0]["user"]["token"] == api.admin_token
    assert Path(api.kubeconfig).stat().st_mode & 0o077 == 0


async def test_requests_in_process(api: DevKube, mine: Client) -> None:
    """The same store without a network; refusals are StatusErrors."""
    made = await api.request("POST", SPACE.configmaps, configmap("a", {"k": "v"}))
    assert (await mine.read(f"{SPACE.configmaps}/a")) == made
    with pytest.raises(StatusError) as caught:
        await api.request("POST", SPACE.configmaps, configmap("a"))
    assert (caught.value.code, caught.value.reason) == (409, "AlreadyExists")
    with pytest.raises(ValueError, match=r"use DevKube\.watch"):
        await api.request("GET", f"{SPACE.configmaps}?watch=true")


async def test_names_are_generated_until_one_is_free(api: DevKube) -> None:
    """By Python's own random numbers."""
    generated = {"metadata": {"generateName": "a-"}}
    names = set()
    for _ in range(2):
        random.seed(7)
        names.add((await api.request("POST", SPACE.configmaps, generated))["metadata"]["name"])
    assert len(names) == 2


async def test_what_a_namespace_gets_may_be_there_already(api: DevKube) -> None:
    """Who creates the ServiceAccount default first is not in anybody's way."""
    await api.request("POST", "/api/v1/namespaces", {"metadata": {"name": "new"}})
    path = Space("new").of("v1", "serviceaccounts")
    made = await api.request("POST", path, {"metadata": {"name": "default", "labels": {"l": "1"}}})
    async with asyncio.timeout(5):
        await api.lifecycle.idle.wait()
    assert await api.request("GET", f"{path}/default") == made
    assert await api.request("GET", f"{Space('new').configmaps}/kube-root-ca.crt")


async def test_watches_in_process(api: DevKube) -> None:
    """An asynchronous generator of types and objects, which ends when the watch does."""
    query = {"labelSelector": "l", "timeoutSeconds": "1"}
    for name in "ab":
        await api.request("POST", SPACE.configmaps, configmap(name, labels={"l": "1"}))
    async with asyncio.timeout(5):
        seen = [(kind, found["metadata"]["name"]) async for kind, found in api.watch(SPACE.configmaps, query=query)]
    assert seen == [("ADDED", "a"), ("ADDED", "b")]


async def test_who_falls_behind_history_is_told() -> None:
    """A watch whose reader is slower than changes are forgotten ends with a 410."""
    async with DevKube(Settings(history=10)) as api:
        await api.request("POST", SPACE.configmaps, configmap("a", labels={"l": "0"}))
        events = api.watch(SPACE.configmaps, query={"labelSelector": "l"})
        assert (await anext(events))[0] == "ADDED"
        for number in range(30):
            label = {"metadata": {"labels": {"l": str(number)}}}
            await api.request("PATCH", f"{SPACE.configmaps}/a", label, content_type=MERGE_PATCH)
        kind, status = await anext(events)
        assert (kind, status["code"], status["reason"]) == ("ERROR", 410, "Expired")
        await events.aclose()


async def test_bookmarks_come_by_the_clock(api: DevKube, mine: Client) -> None:
    """One a minute."""
    query = {"resourceVersion": await mine.version(SPACE.pods), "allowWatchBookmarks": "true"}
    async with mine.watch(SPACE.pods, **query) as watch:
        for _ in range(2):
            api.clock.advance(61)
            assert (await watch.next()).type == "BOOKMARK"


async def test_a_frozen_clock_dates_everything(api: DevKube, mine: Client) -> None:
    """Objects, deletions and tokens go by it."""
    api.clock.freeze()
    one = await mine.create(SPACE.configmaps, configmap("a"))
    api.clock.advance(3600)
    two = await mine.create(SPACE.configmaps, configmap("b"))
    first, second = (one["metadata"]["creationTimestamp"], two["metadata"]["creationTimestamp"])
    assert first < second
    assert second == api.clock.timestamp()
    with pytest.raises(ValueError, match="does not go back"):
        api.clock.advance(-1)
    api.clock.thaw()


async def test_tokens_expire_by_the_clock(api: DevKube, mine: Client) -> None:
    """Ten minutes pass in no time."""
    path = SPACE.of("v1", "serviceaccounts")
    await mine.create(path, {"metadata": {"name": "robot"}})
    given = (await mine.create(f"{path}/robot/token", {"spec": {"expirationSeconds": 600}}))["status"]["token"]
    robot = mine.as_token(given)
    (await robot.get(SPACE.pods)).refused(403)
    api.clock.advance(599)
    (await robot.get(SPACE.pods)).refused(403)
    api.clock.advance(120)
    (await robot.get(SPACE.pods)).refused(401, "Unauthorized")


async def test_requests_fail_on_demand(api: DevKube, mine: Client) -> None:
    """By verb and resource, so many times, with the reason that clients look at."""
    fault = api.faults.fail(503, verb="list", resource="pods", count=2, retry_after=1)
    for _ in range(2):
        told = (await mine.get(SPACE.pods)).refused(503, "ServiceUnavailable")
        assert told["details"]["retryAfterSeconds"] == 1
    (await mine.get(SPACE.pods)).ok(200)
    (await mine.get(SPACE.configmaps)).ok(200)
    assert fault.hits == 2


async def test_conflicts_on_demand(api: DevKube, mine: Client) -> None:
    """What a controller's retry is tested with."""
    await mine.create(SPACE.configmaps, configmap("a"))
    api.faults.fail(409, verb="update", resource="configmaps", name="a", count=1)
    (await mine.put(f"{SPACE.configmaps}/a", configmap("a", {"k": "v"}))).refused(409, "Conflict")
    (await mine.put(f"{SPACE.configmaps}/a", configmap("a", {"k": "v"}))).ok(200)


async def test_requests_wait_on_demand(api: DevKube, mine: Client) -> None:
    """delay holds the answer, not the server."""
    api.faults.delay(0.5, verb="get", resource="configmaps")
    started = time.monotonic()
    slow = asyncio.create_task(mine.get(f"{SPACE.configmaps}/kube-root-ca.crt"))
    (await mine.get(SPACE.pods)).ok(200)
    await slow
    assert time.monotonic() - started >= 0.5
    api.faults.clear()


async def test_connections_break_on_demand(api: DevKube, mine: Client) -> None:
    """A watch that is cut ends with an error, as a crashed server's does; so may the answer of one request."""
    api.faults.cut(verb="create", resource="pods")
    with pytest.raises(aiohttp.ClientError):
        await mine.post(SPACE.pods, pod("a"))
    (await mine.post(SPACE.pods, pod("a"))).ok(201)
    with pytest.raises(TypeError, match="not pod"):
        api.faults.cut(pod="a")
    async with mine.watch(SPACE.pods, resourceVersion=await mine.version(SPACE.pods)) as watch:
        assert api.faults.cut_connections() >= 1
        with pytest.raises(aiohttp.ClientError):
            await watch.next()
    (await mine.get(SPACE.pods)).ok(200)


async def test_expired_history_ends_lists_too(api: DevKube, mine: Client) -> None:
    """A continue token of before what changed is Expired: begin again. Nothing has changed: it is served on."""
    for name in "abc":
        await mine.create(SPACE.pods, pod(name))
    query = {"limit": "1", "continue": (await mine.read(SPACE.pods, limit="1"))["metadata"]["continue"]}
    api.expire_history()
    assert await mine.names(SPACE.pods, **query) == ["b"]
    await mine.create(SPACE.pods, pod("d"))
    (await mine.get(SPACE.pods, **query)).refused(410, "Expired", "the continue parameter is too old")


@pytest.mark.parametrize("port", ["", ":8443"])
async def test_services_of_webhooks_are_mapped(port: str) -> None:
    """A service reference is called where the settings say, for the name that its certificate must have."""
    space = Space("default")
    async with kubehook.serving(names=("hook.default.svc",)) as hook:
        address = hook.url.removeprefix("https://")
        async with DevKube(Settings(webhook_services={f"default/hook{port}": address})) as api:
            hook.answer["/v"] = denied("no")
            service: dict[str, Any] = {"namespace": "default", "name": "hook", "path": "/v"}
            if port:
                service["port"] = int(port[1:])
            bundle = hook.entry("/v")["clientConfig"]["caBundle"]
            entry = hook.entry("/v", clientConfig={"service": service, "caBundle": bundle})
            await api.request("POST", VALIDATING, configuration("Validating", space, entry))
            with pytest.raises(StatusError, match="denied the request: no"):
                await api.request("POST", SPACE.configmaps, configmap("a"))


async def test_the_directory_and_kubeconfig_are_where_one_says(tmp_path: Path) -> None:
    """Kept after the end when named."""
    config = tmp_path / "sub" / "config"
    async with DevKube(Settings(directory=tmp_path / "state", kubeconfig=config)) as api:
        assert api.ca_file.is_relative_to(tmp_path / "state")
        assert json.loads(config.read_text())["clusters"][0]["cluster"]["server"] == api.url
    assert config.exists()
