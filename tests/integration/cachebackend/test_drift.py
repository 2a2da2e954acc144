"""The real controller, and somebody who changes what is its own: it comes back exactly, in a few writes, and what is
not its own stays."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest_asyncio

from crds import cachebackend, core
from tests.support import natsserver
from tests.support.controllerhouse import SPACE, House, condition, path, until

Object = dict[str, Any]
KINDS = (core.DEPLOYMENTS, core.SERVICES, core.AUTOSCALERS)


@pytest_asyncio.fixture(loop_scope="session")
async def house(tmp_path: Path) -> AsyncIterator[House]:
    natsserver.require()
    made = House(tmp_path)
    try:
        await made.start()
        yield made
    finally:
        await made.close()


async def specs(house: House, name: str) -> list[Object | None]:
    found = [await house.get(kind, name) for kind in KINDS]
    return [None if one is None else one["spec"] for one in found]


async def respecify(house: House, name: str, **spec: Any) -> None:
    await house.merge(cachebackend.CACHE_BACKENDS, name, {"spec": spec})


async def scaled(house: House, name: str) -> list[Object | None]:
    """A backend with all three objects; what they say once nothing is left to do."""
    await house.cache(name)
    await respecify(house, name, autoscaling={"minReplicas": 1, "maxReplicas": 3})

    async def made() -> bool:
        return None not in await specs(house, name)

    await until(made)
    await house.audit()
    return await specs(house, name)


CHANGES: list[tuple[str, Object]] = [
    (core.DEPLOYMENTS, {"template": {"spec": {"containers": [
        {"name": "lmcache-server", "image": "evil:1", "env": [{"name": "A", "value": "1"}],
         "livenessProbe": {"tcpSocket": {"port": 1}}, "volumeMounts": [{"name": "v", "mountPath": "/v"}]},
        {"name": "miner", "image": "evil:1"},
    ], "volumes": [{"name": "v", "emptyDir": {}}], "nodeSelector": {"a": "b"}, "hostNetwork": True,
        "priorityClassName": "high", "schedulerName": "other"}}}),
    (core.SERVICES, {"type": "NodePort", "selector": {"other": "thing"}, "ports": [{"name": "x", "port": 1}]}),
    (core.AUTOSCALERS, {"minReplicas": 2, "maxReplicas": 40, "metrics": None}),
]  # fmt: skip


async def test_what_is_ours_comes_back_exactly_and_in_few_writes(house: House) -> None:
    await house.controller()
    right = await scaled(house, "a")
    left: list[Object] = []
    for kind, change in CHANGES:
        before = len(await house.effects())
        await house.merge(kind, "a", {"spec": change})

        async def repaired() -> bool:
            now = _plain(await specs(house, "a"))
            left[:] = [one for one, wanted in zip(now, _plain(right), strict=True) if one != wanted]
            return not left

        await until(repaired, within=8, why=lambda: f"{left}, not {right}; {house.tails()}")
        await house.audit()
        await asyncio.sleep(0.5)  # a loop that never rests would write on
        assert len(await house.effects()) - before <= 6, kind
    assert _plain(await specs(house, "a")) == _plain(right)


def _plain(given: list[Object | None]) -> list[Object]:
    """Without what the API server chose for itself, and what is left of another type without having an effect."""
    chosen = ("clusterIP", "clusterIPs", "externalTrafficPolicy")
    return [{key: value for key, value in (one or {}).items() if key not in chosen} for one in given]


async def test_a_change_of_provider_goes_there_and_back(house: House) -> None:
    await house.controller()
    await house.cache("a")
    for provider, port, strategy in (
        ("Mooncake", 50051, "Recreate"),
        ("LMCacheServer", 65432, "RollingUpdate"),
        ("Mooncake", 50051, "Recreate"),
    ):
        await respecify(house, "a", remoteStorage={"provider": provider})

        async def there(port: int = port, strategy: str = strategy) -> bool:
            deployment, service, _ = await specs(house, "a")
            if deployment is None or service is None:
                return False
            ports = [one["port"] for one in service["ports"]]
            host = deployment["template"]["spec"].get("hostNetwork", False)
            headless = service["clusterIP"] == "None"
            return (
                ports[0] == port and deployment["strategy"]["type"] == strategy and host == headless == (port == 50051)
            )

        await until(there, why=house.tails)
        await house.status("a", lambda status, port=port: status.get("endpoint", "").endswith(f":{port}"))  # type: ignore[misc]
        await house.audit()


async def test_what_somebody_else_has_under_the_name_stays_theirs(house: House) -> None:
    pod = {"metadata": {"labels": {"x": "y"}}, "spec": {"containers": [{"name": "theirs", "image": "theirs:1"}]}}
    bodies: dict[str, Object] = {
        core.DEPLOYMENTS: {
            "apiVersion": "apps/v1", "kind": "Deployment",
            "spec": {"selector": {"matchLabels": {"x": "y"}}, "template": pod},
        },
        core.SERVICES: {
            "apiVersion": "v1", "kind": "Service", "spec": {"selector": {"x": "y"}, "ports": [{"port": 80}]},
        },
        core.AUTOSCALERS: {
            "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
            "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"}, "maxReplicas": 2},
        },
    }  # fmt: skip
    for kind, body in bodies.items():
        await house.api.request("POST", path(kind), {**body, "metadata": {"name": "a", "namespace": SPACE}})
    before = [await house.get(kind, "a") for kind in KINDS]
    await house.controller()
    await house.cache("a")
    await respecify(house, "a", autoscaling={"minReplicas": 1, "maxReplicas": 3})
    await house.status("a", condition("Ready", "RolloutInProgress"))
    await house.audit()
    found = await house.get(cachebackend.CACHE_BACKENDS, "a")
    assert found is not None
    (ready,) = [one for one in found["status"]["conditions"] if one["type"] == "Ready"]
    assert "somebody else" in ready["message"]
    assert "endpoint" not in found["status"]
    await respecify(house, "a", remoteStorage=None, autoscaling=None)
    await house.status("a", condition("Ready", "AwaitingFirstKVEvent"))
    await house.delete(cachebackend.CACHE_BACKENDS, "a")
    assert [await house.get(kind, "a") for kind in KINDS] == before
