"""Deployments and ReplicaSets: one ReplicaSet per Pod template, scaled so that an update rolls over (or Recreate).

Rules: upstream's pkg/controller/deployment (rolling.go, recreate.go). A ReplicaSet that is ready counts as available:
minReadySeconds and progress deadlines are left out.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from devkube.errors import StatusError
from devkube.kinds import Object
from devkube.simulation import owning
from devkube.simulation.client import Client, condition, set_condition
from devkube.values import clone

HASH: Final = "pod-template-hash"
REVISION: Final = "deployment.kubernetes.io/revision"


class Deployments:
    def __init__(self, client: Client) -> None:
        self._client = client

    async def reconcile(self, namespace: str, name: str) -> None:
        found = await self._client.get("Deployment", namespace, name)
        if found is None or found["metadata"].get("deletionTimestamp"):
            return
        spec = found["spec"]
        sets = sorted(await owning.claim(self._client, found, "ReplicaSet"), key=_revision)
        new = next((one for one in sets if _bare(one["spec"]["template"]) == _bare(spec["template"])), None)
        old = [one for one in sets if one is not new]
        recreate = spec["strategy"]["type"] == "Recreate"
        if spec.get("paused"):
            # The template may have changed already: what there is of the old one is still scaled.
            running = [one for one in sets if _replicas(one)] or ([new] if new else sets[-1:])
            if len(running) == 1:
                await self._scale(found, running[0], spec["replicas"])
        elif not recreate or not await self._clear(found, old):
            found, new = await self._newest(found, new, old)
            await self._scale(found, new, spec["replicas"]) if recreate else await self._roll(found, new, old)
        await self._tell(found, new)

    async def _clear(self, found: Object, old: Sequence[Object]) -> bool:
        """Recreate: scale the old ones to nothing. Whether some of their Pods are still there."""
        for one in old:
            await self._scale(found, one, 0)
        uids = {one["metadata"]["uid"] for one in old}
        pods = await self._client.list("Pod", found["metadata"]["namespace"])
        return any(owning.controller(one).get("uid") in uids and not owning.over(one) for one in pods)

    async def _newest(self, found: Object, new: Object | None, old: Sequence[Object]) -> tuple[Object, Object]:
        """The ReplicaSet of the template as it is now; it has the highest revision, also when it came back."""
        number = max((_revision(one) for one in old), default=0) + 1
        if new is None:
            new = await self._make(found, number)
        elif _revision(new) < number:
            new = await self._client.patch(new, {"metadata": {"annotations": {REVISION: str(number)}}})
        if _revision(found) != _revision(new):
            change = {"metadata": {"annotations": {REVISION: str(_revision(new))}}}
            found = await self._client.patch(found, change)
        return found, new

    async def _make(self, found: Object, number: int) -> Object:
        meta, spec = found["metadata"], found["spec"]
        hashed = owning.fingerprint(spec["template"])
        template, selector = clone(spec["template"]), clone(spec["selector"])
        template.setdefault("metadata", {}).setdefault("labels", {})[HASH] = hashed
        selector.setdefault("matchLabels", {})[HASH] = hashed
        own = {
            "name": f"{meta['name']}-{hashed}",
            "namespace": meta["namespace"],
            "labels": template["metadata"]["labels"],
            "annotations": {REVISION: str(number)},
            "ownerReferences": [owning.reference(found)],
        }
        spec = {"replicas": 0, "selector": selector, "template": template}
        return await self._client.create("ReplicaSet", {"metadata": own, "spec": spec})

    async def _roll(self, found: Object, new: Object, old: Sequence[Object]) -> None:
        wanted = found["spec"]["replicas"]
        surge, unavailable = bounds(found["spec"])
        total, ours = sum(map(_replicas, (new, *old))), _replicas(new)
        if ours > wanted:
            await self._scale(found, new, wanted)
        elif ours < wanted and (room := wanted + surge - total) > 0:
            await self._scale(found, new, min(wanted, ours + room))
        else:
            # Only as many go as are not needed: those that are not available first.
            spare = total - (wanted - unavailable) - (ours - _ready(new))
            left = {one["metadata"]["uid"]: _replicas(one) for one in old}
            spare = min(spare, sum(left.values()))
            for sick in (True, False):
                for one in old:
                    uid = one["metadata"]["uid"]
                    goes = max(0, min(spare, left[uid] - _ready(one) if sick else left[uid]))
                    left[uid], spare = left[uid] - goes, spare - goes
            for one in old:
                await self._scale(found, one, left[one["metadata"]["uid"]])

    async def _scale(self, found: Object, one: Object, replicas: int) -> None:
        before, name = _replicas(one), one["metadata"]["name"]
        if before != replicas:
            await self._client.patch(one, {"spec": {"replicas": replicas}})
            way = "up" if replicas > before else "down"
            text = f"Scaled {way} replica set {name} from {before} to {replicas}"
            await self._client.tell(found, "ScalingReplicaSet", text)

    async def _tell(self, found: Object, new: Object | None) -> None:
        """What `kubectl rollout status` reads."""
        sets, spec, now = await owning.claim(self._client, found, "ReplicaSet"), found["spec"], self._client.timestamp()
        current = next((one for one in sets if new and one["metadata"]["uid"] == new["metadata"]["uid"]), None)
        total, ready = (_sum(sets, key) for key in ("replicas", "readyReplicas"))
        updated, wanted = _sum([current] if current else [], "replicas"), spec["replicas"]
        counts = {
            "replicas": total,
            "updatedReplicas": updated,
            "readyReplicas": ready,
            "availableReplicas": ready,
            "unavailableReplicas": max(0, sum(map(_replicas, sets)) - ready),
        }
        status: dict[str, Any] = {key: value for key, value in counts.items() if value}
        status["observedGeneration"] = found["metadata"]["generation"]
        enough = ready >= wanted - bounds(spec)[1]
        told = {
            "Available": ("True" if enough else "False", f"MinimumReplicas{'A' if enough else 'Una'}vailable"),
            "Progressing": ("True", "ReplicaSetUpdated"),
        }
        if spec.get("paused"):
            told["Progressing"] = ("Unknown", "DeploymentPaused")
        elif updated == wanted == total == ready:
            told["Progressing"] = ("True", "NewReplicaSetAvailable")
        if current and (failure := condition(current, "ReplicaFailure")):
            told["ReplicaFailure"] = ("True", failure["reason"])
        conditions: list[dict[str, Any]] = []
        for kind, (state, reason) in told.items():
            old = condition(found, kind)
            if (old.get("status"), old.get("reason")) == (state, reason):
                conditions.append(old)
                continue
            conditions += [old] if old else []
            new_one = {"type": kind, "status": state, "reason": reason, "lastUpdateTime": now}
            message = condition(current, kind).get("message") if current and kind == "ReplicaFailure" else ""
            set_condition(conditions, {**new_one, "message": message}, now)
        status["conditions"] = conditions
        await self._client.status(found, status)


class ReplicaSets:
    """As many Pods of the template as are wanted."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def reconcile(self, namespace: str, name: str) -> None:
        found = await self._client.get("ReplicaSet", namespace, name)
        if found is None:
            return
        failure: StatusError | None = None
        try:
            if not found["metadata"].get("deletionTimestamp"):
                await self._count(found, found["spec"].get("replicas", 1))
        except StatusError as error:
            failure = error
        pods = [one for one in await owning.claim(self._client, found, "Pod") if owning.active(one)]
        ready = sum(map(owning.ready, pods))
        status: dict[str, Any] = {"replicas": len(pods), "observedGeneration": found["metadata"]["generation"]}
        status |= {key: ready for key in ("readyReplicas", "availableReplicas") if ready}
        if failure is not None:
            told = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": str(failure)}
            status["conditions"] = []
            set_condition(status["conditions"], told, self._client.timestamp())
        await self._client.status(found, status)
        if failure is not None:
            raise failure

    async def _count(self, found: Object, wanted: int) -> None:
        pods = [one for one in await owning.claim(self._client, found, "Pod") if owning.active(one)]
        for _ in range(wanted - len(pods)):
            await owning.make(self._client, found, owning.pod_of(found))
        for pod in sorted(pods, key=owning.expendable)[: max(0, len(pods) - wanted)]:
            await owning.drop(self._client, found, pod)


def bounds(spec: Mapping[str, Any]) -> tuple[int, int]:
    """How many Pods more than wanted there may be in a rolling update, and how many fewer available."""
    rolling, replicas = spec["strategy"].get("rollingUpdate") or {}, spec["replicas"]
    if spec["strategy"]["type"] != "RollingUpdate":
        return 0, 0
    surge = _amount(rolling.get("maxSurge"), replicas, up=True)
    unavailable = min(_amount(rolling.get("maxUnavailable"), replicas, up=False), replicas)
    return surge, unavailable if surge or unavailable else 1


def _amount(value: Any, whole: int, *, up: bool) -> int:
    """A number, or a percentage of `whole`."""
    if isinstance(value, str) and value.endswith("%"):
        part = whole * int(value[:-1])
        return -(-part // 100) if up else part // 100
    return int(value or 0)


def _bare(template: Mapping[str, Any]) -> Mapping[str, Any]:
    meta = template.get("metadata") or {}
    labels = {key: value for key, value in (meta.get("labels") or {}).items() if key != HASH}
    return {**template, "metadata": {**meta, "labels": labels}}


def _revision(obj: Object) -> int:
    text = (obj["metadata"].get("annotations") or {}).get(REVISION, "0")
    return int(text) if text.isdecimal() else 0


def _replicas(one: Object) -> int:
    return int(one["spec"].get("replicas", 1))


def _ready(one: Object) -> int:
    return int((one.get("status") or {}).get("readyReplicas") or 0)


def _sum(sets: Sequence[Object], key: str) -> int:
    return sum(int((one.get("status") or {}).get(key) or 0) for one in sets)
