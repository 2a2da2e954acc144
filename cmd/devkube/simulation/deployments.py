"""Deployments: one ReplicaSet per Pod template, scaled so that an update rolls over (or all is made anew, Recreate).

Rules: upstream's pkg/controller/deployment (rolling.go, recreate.go, sync.go). Left out: proportional scaling in the
middle of an update; the update's own arithmetic gets there as well.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from devkube.errors import StatusError
from devkube.kinds import Object
from devkube.selectors import selector_text
from devkube.simulation import owning
from devkube.simulation.client import Client
from devkube.simulation.progress import bounds, status_of
from devkube.values import clone

HASH: Final = "pod-template-hash"
REVISION: Final = "deployment.kubernetes.io/revision"
DESIRED: Final = "deployment.kubernetes.io/desired-replicas"
LARGEST: Final = "deployment.kubernetes.io/max-replicas"
_NOT_COPIED: Final = (REVISION, DESIRED, LARGEST, "kubectl.kubernetes.io/last-applied-configuration")


class Deployments:
    def __init__(self, client: Client) -> None:
        self._client = client

    async def reconcile(self, namespace: str, name: str) -> float | None:
        found = await self._client.get("Deployment", namespace, name)
        if found is None or found["metadata"].get("deletionTimestamp"):
            return None
        spec = found["spec"]
        sets = sorted(await owning.claim(self._client, found, "ReplicaSet"), key=_age)
        new = next((one for one in sets if _bare(one["spec"]["template"]) == _bare(spec["template"])), None)
        old = [one for one in sets if one is not new]
        made = False
        if spec.get("paused"):
            # The template may have changed already: what there is of the old one is still scaled.
            running = [one for one in sets if _replicas(one)] or ([new] if new else sets[-1:])
            if len(running) == 1:
                await self._scale(found, running[0], spec["replicas"])
        elif spec["strategy"]["type"] != "Recreate" or not await self._clear(found, old):
            if new is None:
                new, made = await self._make(found, old), True
            found, new = await self._number(found, new, old)
            if spec["strategy"]["type"] == "Recreate":
                await self._scale(found, new, spec["replicas"])
            else:
                await self._roll(found, new, old)
        return await self._finish(found, new, made=made)

    async def _clear(self, found: Object, old: Sequence[Object]) -> bool:
        """Recreate: scale the old ones to nothing. Whether some of their Pods are still there."""
        for one in old:
            await self._scale(found, one, 0)
        uids = {one["metadata"]["uid"] for one in old}
        labels = selector_text(found["spec"]["selector"])
        pods = await self._client.list("Pod", found["metadata"]["namespace"], labels=labels)
        return any(owning.controller(one).get("uid") in uids and not owning.over(one) for one in pods)

    async def _make(self, found: Object, old: Sequence[Object]) -> Object:
        """The ReplicaSet of the template as it is now. When its name is taken by another, one more is counted."""
        meta, spec = found["metadata"], found["spec"]
        salt = (found.get("status") or {}).get("collisionCount") or 0
        hashed = owning.fingerprint(spec["template"], salt)
        template, selector = clone(spec["template"]), clone(spec["selector"])
        template.setdefault("metadata", {}).setdefault("labels", {})[HASH] = hashed
        selector.setdefault("matchLabels", {})[HASH] = hashed
        body: Object = {
            "metadata": {
                "name": f"{meta['name']}-{hashed}",
                "namespace": meta["namespace"],
                "labels": template["metadata"]["labels"],
                "annotations": self._annotations(found, _newest(old) + 1),
                "ownerReferences": [owning.reference(found)],
            },
            "spec": {"replicas": 0, "selector": selector, "template": template},
        }
        if spec.get("minReadySeconds"):
            body["spec"]["minReadySeconds"] = spec["minReadySeconds"]
        try:
            return await self._client.create("ReplicaSet", body)
        except StatusError as error:
            if error.reason == "AlreadyExists":
                await self._client.status(found, {**(found.get("status") or {}), "collisionCount": salt + 1})
            raise

    async def _number(self, found: Object, new: Object, old: Sequence[Object]) -> tuple[Object, Object]:
        """The newest template has the highest revision, also when it is an old one that came back."""
        number = max(_newest(old) + 1, _revision(new))
        wanted = {**(new["metadata"].get("annotations") or {}), **self._annotations(found, number)}
        least = found["spec"].get("minReadySeconds", 0)
        if wanted != new["metadata"].get("annotations") or least != new["spec"].get("minReadySeconds", 0):
            new = await self._client.patch(
                new, {"metadata": {"annotations": wanted}, "spec": {"minReadySeconds": least}}
            )
        if _revision(found) != number:
            found = await self._client.patch(found, {"metadata": {"annotations": {REVISION: str(number)}}})
        return found, new

    @staticmethod
    def _annotations(found: Object, number: int) -> Mapping[str, str]:
        own = found["metadata"].get("annotations") or {}
        replicas, surge = found["spec"]["replicas"], bounds(found["spec"])[0]
        copied = {key: value for key, value in own.items() if key not in _NOT_COPIED}
        return {**copied, REVISION: str(number), DESIRED: str(replicas), LARGEST: str(replicas + surge)}

    async def _roll(self, found: Object, new: Object, old: Sequence[Object]) -> None:
        wanted = found["spec"]["replicas"]
        surge, unavailable = bounds(found["spec"])
        total, ours = sum(map(_replicas, (new, *old))), _replicas(new)
        if ours > wanted:
            await self._scale(found, new, wanted)
            return
        if ours < wanted and (room := wanted + surge - total) > 0:
            await self._scale(found, new, min(wanted, ours + room))
            return
        # Only as many go as are not needed: those that are not available first.
        least = wanted - unavailable
        spare = total - least - (ours - _available(new))
        left = {one["metadata"]["uid"]: _replicas(one) for one in old}
        for one in old:
            sick = min(spare, _replicas(one) - _available(one))
            if sick > 0:
                left[one["metadata"]["uid"]] -= sick
                spare -= sick
        spare = min(spare, sum(map(_available, (new, *old))) - least)
        for one in old:
            if (healthy := min(spare, left[one["metadata"]["uid"]])) > 0:
                left[one["metadata"]["uid"]] -= healthy
                spare -= healthy
        for one in old:
            await self._scale(found, one, left[one["metadata"]["uid"]])

    async def _scale(self, found: Object, one: Object, replicas: int) -> None:
        before, name = _replicas(one), one["metadata"]["name"]
        if before == replicas:
            return
        await self._client.patch(one, {"spec": {"replicas": replicas}})
        way = "up" if replicas > before else "down"
        text = f"Scaled {way} replica set {name} from {before} to {replicas}"
        await self._client.tell(found, "ScalingReplicaSet", text)

    async def _finish(self, found: Object, new: Object | None, *, made: bool) -> float | None:
        sets = sorted(await owning.claim(self._client, found, "ReplicaSet"), key=_age)
        uid = new["metadata"]["uid"] if new else ""
        current = next((one for one in sets if one["metadata"]["uid"] == uid), None)
        status, again, complete = status_of(found, current, sets, self._client.now(), made=made)
        await self._client.status(found, status)
        if complete:
            empty = [one for one in sets if one is not current and not _replicas(one) and not _held(one)]
            for one in empty[: max(0, len(empty) - found["spec"]["revisionHistoryLimit"])]:
                await self._client.delete(one)
        return again


def _bare(template: Mapping[str, Any]) -> Mapping[str, Any]:
    meta = template.get("metadata") or {}
    labels = {key: value for key, value in (meta.get("labels") or {}).items() if key != HASH}
    return {**template, "metadata": {**meta, "labels": labels}}


def _age(obj: Object) -> tuple[str, int, str]:
    return obj["metadata"]["creationTimestamp"], _revision(obj), obj["metadata"]["name"]


def _revision(obj: Object) -> int:
    text = (obj["metadata"].get("annotations") or {}).get(REVISION, "0")
    return int(text) if text.isdecimal() else 0


def _newest(sets: Sequence[Object]) -> int:
    return max(map(_revision, sets), default=0)


def _replicas(one: Object) -> int:
    return int(one["spec"].get("replicas", 1))


def _available(one: Object) -> int:
    return int((one.get("status") or {}).get("availableReplicas") or 0)


def _held(one: Object) -> bool:
    """Whether it still has Pods, or is on its way out."""
    return bool((one.get("status") or {}).get("replicas") or one["metadata"].get("deletionTimestamp"))
