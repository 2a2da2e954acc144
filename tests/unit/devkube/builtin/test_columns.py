"""What kubectl shows of each kind, by the rules of upstream's printers."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from devkube.builtin.columns import human, summary
from devkube.kinds import Catalog, Object

Make = Callable[..., Object]
NOW = datetime.fromisoformat("2026-11-30T12:00:00Z").timestamp()
CREATED = "2026-11-30T11:55:00Z"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"),
        (-1, "0s"),
        (119, "119s"),
        (120, "2m"),
        (200, "3m20s"),
        (600, "10m"),
        (179 * 60, "179m"),
        (3 * 3600, "3h"),
        (5 * 3600 + 180, "5h3m"),
        (30 * 3600, "30h"),
        (76 * 3600, "3d4h"),
        (72 * 3600, "3d"),
        (40 * 86400, "40d"),
        (735 * 86400, "2y5d"),
        (730 * 86400, "2y"),
        (9 * 365 * 86400, "9y"),
    ],
)
def test_ages(seconds: int, text: str) -> None:
    assert human(seconds) == text


def waiting(reason: str) -> Object:
    return {"state": {"waiting": {"reason": reason}}}


RUNNING = {"ready": True, "started": True, "state": {"running": {}}}
FAILED = {"state": {"terminated": {"exitCode": 3}}}
DONE = {"state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}
READY = [{"type": "Ready", "status": "True"}]


def initial(state: Object) -> Object:
    return {"phase": "Pending", "initContainerStatuses": [{**state, "name": "i"}]}


GATED = {"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]}
CRASHES = {"phase": "Running", "containerStatuses": [RUNNING, waiting("CrashLoopBackOff")]}
PODS: list[tuple[str, Object, str, str]] = [
    ("new", {"phase": "Pending"}, "0/2", "Pending"),
    ("running", {"phase": "Running", "containerStatuses": [RUNNING, RUNNING]}, "2/2", "Running"),
    ("waits", {"phase": "Pending", "containerStatuses": [waiting("ContainerCreating")]}, "0/2", "ContainerCreating"),
    ("crashes", CRASHES, "1/2", "CrashLoopBackOff"),
    ("failed", {"phase": "Failed", "containerStatuses": [FAILED]}, "0/2", "ExitCode:3"),
    ("evicted", {"phase": "Failed", "reason": "Evicted"}, "0/2", "Evicted"),
    ("one done", {"phase": "Running", "conditions": READY, "containerStatuses": [DONE, RUNNING]}, "1/2", "Running"),
    ("one done, not ready", {"phase": "Running", "containerStatuses": [DONE, RUNNING]}, "1/2", "NotReady"),
    ("completed", {"phase": "Succeeded", "containerStatuses": [DONE, DONE]}, "0/2", "Completed"),
    ("initialises", initial(waiting("PodInitializing")), "0/2", "Init:0/1"),
    ("cannot initialise", initial(FAILED), "0/2", "Init:ExitCode:3"),
    ("gated", GATED, "0/2", "SchedulingGated"),
]


@pytest.mark.parametrize(("name", "status", "ready", "reason"), PODS, ids=[name for name, *_ in PODS])
def test_a_pods_state(name: str, status: Object, ready: str, reason: str) -> None:
    spec = {"containers": [{"name": "a"}, {"name": "b"}], "initContainers": [{"name": "i"}]}
    assert summary({"metadata": {}, "spec": spec, "status": status})[:2] == (ready, reason)


def test_sidecars_count(a_pod: Make) -> None:
    obj = a_pod(initContainers=[{"name": "s", "restartPolicy": "Always"}])
    obj["status"] = {"phase": "Running", "initContainerStatuses": [{**RUNNING, "name": "s"}]}
    obj["status"]["containerStatuses"] = [RUNNING]
    assert summary(obj)[:2] == ("2/2", "Running")


def test_what_is_going_terminates(a_pod: Make) -> None:
    obj = a_pod()
    obj["metadata"]["deletionTimestamp"] = CREATED
    obj["status"] = {"phase": "Running", "containerStatuses": [RUNNING]}
    assert summary(obj)[1] == "Terminating"


def row(catalog: Catalog, obj: Object) -> dict[str, Any]:
    obj["metadata"]["creationTimestamp"] = CREATED
    resource = catalog.of_kind(obj["apiVersion"], obj["kind"])
    assert resource is not None
    cells = resource.rules.table(obj, NOW)
    return dict(zip((c.name for c in resource.columns), cells, strict=True))


def test_a_pods_row(catalog: Catalog, a_pod: Make) -> None:
    obj = a_pod(nodeName="node-1")
    last = {"terminated": {"exitCode": 1, "finishedAt": "2026-11-30T11:59:00Z"}}
    one = {**RUNNING, "restartCount": 3, "lastState": last}
    obj["status"] = {"phase": "Running", "containerStatuses": [one], "podIP": "10.0.0.1"}
    assert row(catalog, obj) == {
        "Ready": "1/1",
        "Status": "Running",
        "Restarts": "3",
        "Age": "5m",
        "IP": "10.0.0.1",
        "Node": "node-1",
    }


def test_a_deployments_row(catalog: Catalog, a_workload: Make) -> None:
    obj = a_workload("Deployment", replicas=3)
    obj["status"] = {"readyReplicas": 1, "updatedReplicas": 2, "availableReplicas": 1}
    assert row(catalog, obj) == {
        "Ready": "1/3",
        "Up-to-date": 2,
        "Available": 1,
        "Age": "5m",
        "Containers": "main",
        "Images": "i:1",
        "Selector": "app=a",
    }


def test_a_services_row(catalog: Catalog) -> None:
    spec = {"type": "LoadBalancer", "clusterIP": "10.96.0.9", "selector": {"b": "2", "a": "1"}}
    spec["ports"] = [{"port": 80, "nodePort": 30080, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}]
    obj = {"apiVersion": "v1", "kind": "Service", "metadata": {}, "spec": spec}
    assert row(catalog, obj) == {
        "Type": "LoadBalancer",
        "Cluster-IP": "10.96.0.9",
        "External-IP": "<pending>",
        "Port(s)": "80:30080/TCP,53/UDP",
        "Age": "5m",
        "Selector": "a=1,b=2",
    }


def test_a_jobs_row(catalog: Catalog, a_workload: Make) -> None:
    obj = a_workload("Job", "batch/v1", completions=2)
    obj["status"] = {"succeeded": 2, "conditions": [{"type": "Complete", "status": "True"}]}
    found = row(catalog, obj)
    assert (found["Status"], found["Completions"]) == ("Complete", "2/2")


def test_a_nodes_row(catalog: Catalog) -> None:
    obj: Object = {"apiVersion": "v1", "kind": "Node", "metadata": {}, "spec": {"unschedulable": True}}
    obj["status"] = {"conditions": READY, "nodeInfo": {"kubeletVersion": "v1.36.0"}}
    found = row(catalog, obj)
    assert (found["Status"], found["Version"]) == ("Ready,SchedulingDisabled", "v1.36.0")


def test_every_row_has_a_cell_for_every_column(catalog: Catalog) -> None:
    for resource in catalog:
        cells = resource.rules.table({"metadata": {"name": "a"}}, NOW)
        assert len(cells) == len(resource.columns), resource.kind


def test_an_events_row(catalog: Catalog) -> None:
    obj: Object = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "type": "Normal", "reason": "R"}
    obj |= {"involvedObject": {"kind": "Pod", "name": "p"}, "message": "hello", "count": 2}
    obj |= {"lastTimestamp": "2026-11-30T11:59:30Z"}
    found = row(catalog, obj)
    assert (found["Last Seen"], found["Object"], found["Message"]) == ("30s", "pod/p", "hello")
    assert (found["Count"], found["Name"]) == (2, "e")
