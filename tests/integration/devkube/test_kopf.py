"""A small operator written with kopf, run by kopf's own command in a process of its own, unchanged."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from devkube.server import DevKube
from tests.support.kubectl import require
from tests.support.kubeobjects import configmap, crd, custom, version
from tests.support.kubernetes import Client, Cluster, Space, eventually

WHEEL = "kopf"
GROUP = "pots.example.com"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
OPERATOR = Path(__file__).with_name("operator_of_pots.py")
SPACE = Space("default")
POTS = SPACE.of(f"{GROUP}/v1", "pots")


@pytest.fixture
async def kube(api: DevKube) -> AsyncIterator[Client]:
    """An administrator; the CRD Pot is there."""
    require(WHEEL)
    async with Cluster("devkube", api.url, api.ca_file, api.kubeconfig).session() as session:
        found = Client(session, api.url, token=api.admin_token)
        free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        schema = {"spec": {"type": "object", "properties": {"soup": {"type": "string"}}}, "status": free}
        await found.create(CRDS, crd(GROUP, version(schema=schema, subresources={"status": {}}), kind="Pot"))
        yield found


@pytest.fixture
async def operator(kube: Client, api: DevKube, tmp_path: Path) -> AsyncIterator[Path]:
    """Its log, while it runs."""
    log = tmp_path / "operator.log"
    with log.open("wb") as out:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "kopf", "run", "--namespace=default", str(OPERATOR)),
            stdout=out,
            stderr=out,
            env={**os.environ, "KUBECONFIG": str(api.kubeconfig), "HOME": str(tmp_path)},
        )
    try:
        yield log
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def test_an_operator_lives_on_devkube(kube: Client, operator: Path) -> None:
    """create: a finalizer, an owned child, a status; update: only what changed; delete: its last words, then gone."""
    await kube.create(POTS, custom(GROUP, "p", {"soup": "leek"}, kind="Pot"))
    pot = f"{POTS}/p"

    async def full() -> None:
        found = await kube.read(pot)
        assert found.get("status", {}).get("phase") == "Full", operator.read_text()[-2000:]
        assert found["status"]["fill"] == {"soup": "leek"}
        assert found["metadata"]["finalizers"] == ["kopf.zalando.org/KopfFinalizerMarker"]

    await eventually(full)
    soup = await kube.read(f"{SPACE.configmaps}/p-soup")
    assert soup["data"] == {"of": "leek"}
    assert soup["metadata"]["ownerReferences"][0]["name"] == "p"
    (await kube.merge(pot, {"spec": {"soup": "onion"}})).ok(200)

    async def stirred() -> None:
        assert (await kube.read(pot))["status"].get("stirred") == "leek to onion", operator.read_text()[-2000:]

    await eventually(stirred)
    (await kube.delete(pot)).ok(200)

    async def gone() -> None:
        assert (await kube.get(pot)).status == 404, operator.read_text()[-2000:]
        assert (await kube.get(f"{SPACE.configmaps}/p-soup")).status == 404
        told = (await kube.read(SPACE.of("v1", "events")))["items"]
        assert "Emptied" in [event["reason"] for event in told]

    await eventually(gone)


async def test_it_hears_of_others_objects(kube: Client, operator: Path) -> None:
    """A raw watch of a built-in kind with a label filter of kopf's own."""
    await kube.create(SPACE.configmaps, configmap("bland"))
    await kube.create(SPACE.configmaps, configmap("salty", labels={"taste": "salt"}))

    async def tasted() -> None:
        assert "salty" in operator.read_text()

    await eventually(tasted)
    assert "bland" not in operator.read_text()


async def test_it_survives_broken_watches_and_lost_history(kube: Client, api: DevKube, operator: Path) -> None:
    """Connections cut, then a 410: it lists again and goes on."""
    await kube.create(POTS, custom(GROUP, "one", {"soup": "leek"}, kind="Pot"))

    async def full(name: str) -> None:
        assert (await kube.read(f"{POTS}/{name}")).get("status", {}).get("phase") == "Full", operator.read_text()[
            -2000:
        ]

    await eventually(lambda: full("one"))
    api.expire_history()
    api.faults.cut_connections()
    await eventually(lambda: _made(kube, "two"))
    await eventually(lambda: full("two"))


async def _made(kube: Client, name: str) -> None:
    """Our own connections were cut too: once more is enough."""
    try:
        await kube.create(POTS, custom(GROUP, name, {"soup": "beet"}, kind="Pot"))
    except aiohttp.ClientError as error:
        raise AssertionError(str(error)) from error
