"""StatefulSets and DaemonSets: one Pod for each number, and one on every node. Updates replace one Pod at a time.

A Pod carries the fingerprint of its template.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from devkube.kinds import Object
from devkube.simulation import workloads
from devkube.simulation.client import Client
from devkube.simulation.nodes import chosen

_REVISION: Final = "controller-revision-hash"
Slot = Any  # what wants a Pod: a number, or the name of a node


async def stateful_set(client: Client, found: Object) -> None:
    own, spec = found["metadata"]["name"], found["spec"]

    def number_of(pod: Object) -> Slot:
        return int(pod["metadata"]["name"][len(own) + 1 :])

    def pod_at(number: Slot) -> Object:
        name = f"{own}-{number}"
        labels = {"statefulset.kubernetes.io/pod-name": name, "apps.kubernetes.io/pod-index": str(number)}
        pod = workloads.pod_of(found, name=name, labels=labels)
        pod["spec"].update(hostname=name, subdomain=spec.get("serviceName") or "")
        claims = [one["metadata"]["name"] for one in spec.get("volumeClaimTemplates") or ()]
        volumes = [{"name": one, "persistentVolumeClaim": {"claimName": f"{one}-{name}"}} for one in claims]
        pod["spec"]["volumes"] = [*(pod["spec"].get("volumes") or ()), *volumes]
        return pod

    pods, updated, ready = await _fill(client, found, range(spec["replicas"]), number_of, pod_at)
    update = workloads.fingerprint(spec["template"])
    before = (found.get("status") or {}).get("currentRevision", update)
    status = {
        "observedGeneration": found["metadata"]["generation"],
        "replicas": pods,
        "readyReplicas": ready,
        "availableReplicas": ready,
        "currentReplicas": pods - updated,
        "updatedReplicas": updated,
        "currentRevision": update if updated == ready == spec["replicas"] else before,
        "updateRevision": update,
    }
    await client.status(found, status)


async def daemon_set(client: Client, found: Object) -> None:
    def node_of(pod: Object) -> Slot:
        return pod["spec"].get("nodeName", "")

    def pod_at(node: Slot) -> Object:
        pod = workloads.pod_of(found)
        pod["spec"]["nodeName"] = node  # upstream leaves that to the scheduler; cordons are not for daemons anyhow
        return pod

    nodes, spec = await client.list("Node"), found["spec"]["template"]["spec"]
    slots = [one["metadata"]["name"] for one in nodes if chosen(spec, one)]
    pods, updated, ready = await _fill(client, found, slots, node_of, pod_at)
    status = {
        "observedGeneration": found["metadata"]["generation"],
        "desiredNumberScheduled": len(slots),
        "currentNumberScheduled": pods,
        "numberMisscheduled": 0,
        "numberReady": ready,
        "numberAvailable": ready,
        "updatedNumberScheduled": updated,
    }
    await client.status(found, status)


async def _fill(
    client: Client,
    found: Object,
    slots: Sequence[Slot],
    slot_of: Callable[[Object], Slot],
    pod_at: Callable[[Slot], Object],
) -> tuple[int, int, int]:
    """Bring a Pod to each slot. How many there are then, how many of the template as it is now, how many ready."""
    update = workloads.fingerprint(found["spec"]["template"])
    pods = {slot_of(pod): pod for pod in await workloads.owned(client, found)}
    going = _going(found, slots, pods, update)
    for pod in going:
        await workloads.drop(client, found, pod)
    ordered = found["spec"].get("podManagementPolicy") == "OrderedReady"
    for slot in slots if not going else ():
        if slot not in pods:
            pod = pod_at(slot)
            pod["metadata"]["labels"][_REVISION] = update
            await workloads.make(client, found, pod)
        if ordered and not (slot in pods and workloads.ready(pods[slot])):
            break
    active = list(filter(workloads.active, await workloads.owned(client, found)))
    return len(active), sum(_updated(one, update) for one in active), sum(map(workloads.ready, active))


def _going(found: Object, slots: Sequence[Slot], pods: Mapping[Slot, Object], update: str) -> list[Object]:
    """Who is in no slot, or over; else one of an older template, those first that are not ready, then if all are."""
    surplus = [pods[slot] for slot in sorted(pods, reverse=True) if slot not in slots]
    if surplus and found["spec"].get("podManagementPolicy") == "OrderedReady":
        return surplus[:1]
    there = [pods[slot] for slot in reversed(slots) if slot in pods]
    done = [one for one in (*surplus, *filter(workloads.over, there)) if not one["metadata"].get("deletionTimestamp")]
    if done or found["spec"]["updateStrategy"]["type"] != "RollingUpdate":
        return done
    stale = [one for one in there if not _updated(one, update)]
    sick = [one for one in there if not workloads.ready(one)]
    whole = not sick and len(there) == len(slots)
    return ([one for one in stale if one in sick] or (stale if whole else []))[:1]


def _updated(pod: Object, update: str) -> bool:
    return bool(pod["metadata"]["labels"].get(_REVISION) == update)
