"""Life in a devkube that simulates: what controllers, nodes and kubelets do to objects, by a clock that the test moves.

Excluded: each controller's own cases (tests/unit/devkube). What a real kubelet would say is not compared here.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest_asyncio

from devkube.options import Settings
from devkube.server import DevKube
from tests.support.kubectl import Kubectl
from tests.support.kubeobjects import container, deployment, pod
from tests.support.kubernetes import Space

SPACE = Space("default")


@pytest_asyncio.fixture(loop_scope="session")
async def api() -> AsyncIterator[DevKube]:
    """Two nodes and a clock that stands."""
    async with DevKube(Settings(simulate=True, nodes=2)) as found:
        found.clock.freeze()
        yield found


async def make(api: DevKube, path: str, body: dict[str, Any]) -> Any:
    return await api.request("POST", path, body)


async def elapse(api: DevKube, seconds: float) -> None:
    """So much of cluster life; five real seconds are plenty."""
    async with asyncio.timeout(20):
        await api.simulation.elapse(seconds)
        await api.simulation.settle()


async def items(api: DevKube, path: str) -> list[dict[str, Any]]:
    return list((await api.request("GET", path))["items"])


def ready(one: dict[str, Any]) -> bool:
    conditions = one["status"].get("conditions") or []
    return {"type": "Ready", "status": "True"}.items() <= dict(
        next((found for found in conditions if found["type"] == "Ready"), {})
    ).items()


async def test_nodes_exist_and_are_ready(api: DevKube) -> None:
    """As many as were asked for."""
    nodes = await items(api, "/api/v1/nodes")
    assert len(nodes) == 2
    assert all(ready(node) for node in nodes)


async def test_a_pod_is_scheduled_pulled_started_and_ready(api: DevKube) -> None:
    """Pending, then Running with an address, a node and container statuses."""
    await make(api, SPACE.pods, pod("a"))
    await elapse(api, 60)
    found = await api.request("GET", f"{SPACE.pods}/a")
    assert found["spec"]["nodeName"]
    assert found["status"]["phase"] == "Running"
    assert ready(found)
    assert found["status"]["podIP"]
    (state,) = found["status"]["containerStatuses"]
    assert (state["ready"], state["started"], "running" in state["state"]) == (True, True, True)


async def test_pulling_an_image_takes_its_time(api: DevKube) -> None:
    """As long as the annotation says."""
    await make(api, SPACE.pods, pod("a", annotations={"devkube.io/pull-seconds": "30"}))
    await elapse(api, 20)
    before = await api.request("GET", f"{SPACE.pods}/a")
    assert before["status"]["phase"] == "Pending"
    await elapse(api, 20)
    assert (await api.request("GET", f"{SPACE.pods}/a"))["status"]["phase"] == "Running"


async def test_an_image_that_is_not_there(api: DevKube) -> None:
    """The container waits with the reason that kubectl get shows."""
    await make(api, SPACE.pods, pod("a", annotations={"devkube.io/pull-error": "no such image"}))
    await elapse(api, 30)
    (state,) = (await api.request("GET", f"{SPACE.pods}/a"))["status"]["containerStatuses"]
    assert state["state"]["waiting"]["reason"] in ("ErrImagePull", "ImagePullBackOff")


async def test_a_container_that_fails_restarts_and_backs_off(api: DevKube) -> None:
    """restartCount grows, CrashLoopBackOff in between; with Never the Pod fails."""
    marks = {"devkube.io/run-seconds": "1", "devkube.io/exit-code": "3"}
    await make(api, SPACE.pods, pod("again", annotations=marks))
    await make(api, SPACE.pods, pod("once", spec={"restartPolicy": "Never"}, annotations=marks))
    await elapse(api, 120)
    (state,) = (await api.request("GET", f"{SPACE.pods}/again"))["status"]["containerStatuses"]
    assert state["restartCount"] >= 2
    assert state["lastState"]["terminated"]["exitCode"] == 3
    assert (await api.request("GET", f"{SPACE.pods}/once"))["status"]["phase"] == "Failed"


async def test_readiness_comes_late_or_never(api: DevKube) -> None:
    """ready-seconds: running and not ready until then."""
    probe = {"readinessProbe": {"httpGet": {"port": 80}}}
    late = pod("late", container("main", **probe), annotations={"devkube.io/ready-seconds": "40"})
    never = pod("never", container("main", **probe), annotations={"devkube.io/ready-seconds": "never"})
    await make(api, SPACE.pods, late)
    await make(api, SPACE.pods, never)
    await elapse(api, 30)
    assert [ready(await api.request("GET", f"{SPACE.pods}/{name}")) for name in ("late", "never")] == [False, False]
    await elapse(api, 60)
    assert [ready(await api.request("GET", f"{SPACE.pods}/{name}")) for name in ("late", "never")] == [True, False]


async def test_init_containers_come_first_and_sidecars_stay(api: DevKube) -> None:
    """In order; a native sidecar runs beside the others."""
    spec = {"initContainers": [container("first"), container("side", restartPolicy="Always")]}
    await make(api, SPACE.pods, pod("a", spec=spec))
    await elapse(api, 60)
    status = (await api.request("GET", f"{SPACE.pods}/a"))["status"]
    first, side = status["initContainerStatuses"]
    assert first["state"]["terminated"]["exitCode"] == 0
    assert "running" in side["state"]
    assert status["phase"] == "Running"


async def test_a_deployment_makes_pods_and_rolls(api: DevKube) -> None:
    """Deployment, ReplicaSet, Pods, owned in a chain; a new template is a new ReplicaSet; the old one ends at 0."""
    await make(api, SPACE.deployments, deployment("d", replicas=3))
    await elapse(api, 120)
    found = await api.request("GET", f"{SPACE.deployments}/d")
    assert (found["status"]["readyReplicas"], found["status"]["updatedReplicas"]) == (3, 3)
    (first,) = await items(api, SPACE.of("apps/v1", "replicasets"))
    assert first["metadata"]["ownerReferences"][0]["name"] == "d"
    assert {one["metadata"]["ownerReferences"][0]["name"] for one in await items(api, SPACE.pods)} == {
        first["metadata"]["name"]
    }
    found["spec"]["template"]["spec"]["containers"][0]["image"] = "registry.example/app:2"
    await api.request("PUT", f"{SPACE.deployments}/d", found)
    await elapse(api, 300)
    replicas = sorted(one["spec"]["replicas"] for one in await items(api, SPACE.of("apps/v1", "replicasets")))
    assert replicas == [0, 3]
    images = {one["spec"]["containers"][0]["image"] for one in await items(api, SPACE.pods)}
    assert images == {"registry.example/app:2"}
    now = await api.request("GET", f"{SPACE.deployments}/d")
    assert now["status"]["observedGeneration"] == now["metadata"]["generation"]


async def test_a_deleted_pod_is_replaced_after_its_grace(api: DevKube) -> None:
    """Terminating while it stops, then gone; its ReplicaSet has made another."""
    await make(api, SPACE.deployments, deployment("d"))
    await elapse(api, 60)
    (before,) = await items(api, SPACE.pods)
    await api.request("DELETE", f"{SPACE.pods}/{before['metadata']['name']}")
    await elapse(api, 90)
    (after,) = await items(api, SPACE.pods)
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert ready(after)


async def test_deleting_a_deployment_empties_it(api: DevKube) -> None:
    """The garbage collector follows the chain, kubelets stop the Pods."""
    await make(api, SPACE.deployments, deployment("d", replicas=2))
    await elapse(api, 60)
    await api.request("DELETE", f"{SPACE.deployments}/d")
    await elapse(api, 120)
    assert await items(api, SPACE.pods) == []
    assert await items(api, SPACE.of("apps/v1", "replicasets")) == []


def workload(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container()]}}
    body = {"selector": {"matchLabels": labels}, "template": template, **spec}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": body}


async def test_a_stateful_set_numbers_its_pods(api: DevKube) -> None:
    """One after the other, by name."""
    await make(api, SPACE.of("apps/v1", "statefulsets"), workload("StatefulSet", "s", replicas=2, serviceName="s"))
    await elapse(api, 120)
    assert sorted(one["metadata"]["name"] for one in await items(api, SPACE.pods)) == ["s-0", "s-1"]
    assert (await api.request("GET", f"{SPACE.of('apps/v1', 'statefulsets')}/s"))["status"]["readyReplicas"] == 2


async def test_a_daemon_set_is_on_each_node(api: DevKube) -> None:
    """One Pod for each, also for one that joins."""
    await make(api, SPACE.of("apps/v1", "daemonsets"), workload("DaemonSet", "ds"))
    await elapse(api, 60)
    nodes = {one["spec"]["nodeName"] for one in await items(api, SPACE.pods)}
    assert len(nodes) == 2
    assert (await api.request("GET", f"{SPACE.of('apps/v1', 'daemonsets')}/ds"))["status"]["numberReady"] == 2


async def test_a_job_runs_to_its_end(api: DevKube) -> None:
    """Complete when its Pods succeeded, Failed when they did so too often."""
    path = SPACE.of("batch/v1", "jobs")
    template = {"spec": {"restartPolicy": "Never", "containers": [container()]}}
    await make(api, path, {"metadata": {"name": "good"}, "spec": {"completions": 2, "template": template}})
    marks = {"metadata": {"annotations": {"devkube.io/exit-code": "1", "devkube.io/run-seconds": "1"}}}
    await make(api, path, {"metadata": {"name": "bad"}, "spec": {"backoffLimit": 1, "template": {**template, **marks}}})
    await elapse(api, 600)
    for name, wanted in (("good", "Complete"), ("bad", "Failed")):
        status = (await api.request("GET", f"{path}/{name}"))["status"]
        assert wanted in {one["type"] for one in status["conditions"] if one["status"] == "True"}, status
    assert (await api.request("GET", f"{path}/good"))["status"]["succeeded"] == 2


async def test_what_happens_is_told_in_events(api: DevKube) -> None:
    """Scheduled, Pulled, Created, Started: what kubectl describe shows."""
    await make(api, SPACE.pods, pod("a"))
    await elapse(api, 60)
    told = {event["reason"] for event in await items(api, SPACE.of("v1", "events"))}
    assert {"Scheduled", "Pulled", "Created", "Started"} <= told


async def test_kubectl_sees_it_live(tmp_path: Path) -> None:
    """In real time: apply, rollout status, scale, wait, delete."""
    async with DevKube(Settings(simulate=True)) as api:
        kubectl = Kubectl(api.kubeconfig, tmp_path)
        (await kubectl("apply", "-f", "-", stdin=deployment("d", replicas=2))).ok()
        told = (await kubectl("rollout", "status", "deployment/d", "--timeout=30s")).ok()
        assert 'deployment "d" successfully rolled out' in told
        (await kubectl("scale", "deployment/d", "--replicas=3")).ok()
        (await kubectl("wait", "--for=jsonpath={.status.readyReplicas}=3", "deployment/d", "--timeout=30s")).ok()
        lines = (await kubectl("get", "pods", "--no-headers")).ok().splitlines()
        assert [line.split()[1:3] for line in lines] == [["1/1", "Running"]] * 3
        (await kubectl("delete", "deployment", "d", "--cascade=foreground", "--timeout=30s")).ok()
        assert (await kubectl("get", "pods", "-o", "name")).ok() == ""
