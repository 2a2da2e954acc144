"""Endpoints and EndpointSlices of Services that select Pods. Rules: upstream's pkg/controller/endpoint{,slice}."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from devkube.errors import StatusError
from devkube.kinds import Object
from devkube.selectors import selector_text
from devkube.simulation import owning
from devkube.simulation.client import SERVICE, Client

MANAGED: Final = {"endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}
_EACH: Final = 100  # endpoints in a slice
_OF_CLASSIC: Final = 1000  # addresses in an Endpoints object
Json = dict[str, Any]


class EndpointsController:
    def __init__(self, client: Client) -> None:
        self._client = client

    async def reconcile(self, namespace: str, name: str) -> None:
        service = await self._client.get("Service", namespace, name)
        if service is None:
            if (old := await self._client.get("Endpoints", namespace, name)) and _LABEL in _labels(old):
                await self._client.delete(old)
            return
        spec = service["spec"]
        if not spec.get("selector") or spec["type"] == "ExternalName" or service["metadata"].get("deletionTimestamp"):
            return
        labels = selector_text({"matchLabels": spec["selector"]})
        pods = [one for one in await self._client.list("Pod", namespace, labels=labels) if _counts(one)]
        pods.sort(key=lambda one: str(one["metadata"]["name"]))
        groups: dict[tuple[Any, ...], list[Object]] = {}
        for pod in pods:
            groups.setdefault(_ports(service, pod), []).append(pod)
        await self._slices(service, groups)
        await self._classic(service, groups)

    async def _slices(self, service: Object, groups: Mapping[tuple[Any, ...], Sequence[Object]]) -> None:
        meta = service["metadata"]
        labels = {**(meta.get("labels") or {}), **MANAGED, SERVICE: meta["name"]}
        if service["spec"].get("clusterIP") == "None":
            labels["service.kubernetes.io/headless"] = ""
        bodies: list[Json] = []
        for ports, pods in groups.items():
            for at in range(0, len(pods), _EACH):
                endpoints = [_endpoint(service, one) for one in pods[at : at + _EACH]]
                bodies.append({"ports": [dict(one) for one in ports], "endpoints": endpoints})
        bodies = bodies or [{"ports": [], "endpoints": []}]
        there = await self._client.list("EndpointSlice", meta["namespace"], labels=f"{SERVICE}={meta['name']}")
        there = [one for one in there if MANAGED.items() <= _labels(one).items()]
        for body, old in zip(bodies, there, strict=False):
            if any((old.get(k) or []) != body[k] for k in body) or _labels(old) != labels:
                await self._client.update({**old, **body, "metadata": {**old["metadata"], "labels": labels}})
        for body in bodies[len(there) :]:
            own = {"generateName": f"{meta['name']}-", "namespace": meta["namespace"], "labels": labels}
            owned = {**own, "ownerReferences": [owning.reference(service)]}
            await self._client.create("EndpointSlice", {"metadata": owned, "addressType": "IPv4", **body})
        for old in there[len(bodies) :]:
            await self._client.delete(old)

    async def _classic(self, service: Object, groups: Mapping[tuple[Any, ...], Sequence[Object]]) -> None:
        meta = service["metadata"]
        subsets, room = [], _OF_CLASSIC
        for ports, pods in groups.items():
            pods = [one for one in pods if not one["metadata"].get("deletionTimestamp")][:room]
            room -= len(pods)
            well = [one for one in pods if _serves(service, one)]
            subset: Json = {"addresses": [_address(service, one) for one in well]}
            subset["notReadyAddresses"] = [_address(service, one) for one in pods if one not in well]
            subset["ports"] = [dict(one) for one in ports]
            if pods:
                subsets.append({key: value for key, value in subset.items() if value})
        labels = {**(meta.get("labels") or {}), _LABEL: "endpoint-controller"}
        old = await self._client.get("Endpoints", meta["namespace"], meta["name"])
        if old is None:
            made: Object = {"metadata": {"name": meta["name"], "namespace": meta["namespace"], "labels": labels}}
            try:
                await self._client.create("Endpoints", {**made, **({"subsets": subsets} if subsets else {})})
            except StatusError as error:
                if error.reason != "AlreadyExists":
                    raise
        elif (old.get("subsets") or []) != subsets or _labels(old) != labels:
            await self._client.update({**old, "subsets": subsets, "metadata": {**old["metadata"], "labels": labels}})


_LABEL: Final = "endpoints.kubernetes.io/managed-by"


def _labels(obj: Object) -> Mapping[str, str]:
    return obj["metadata"].get("labels") or {}


def _counts(pod: Object) -> bool:
    return bool((pod.get("status") or {}).get("podIP")) and not owning.over(pod)


def _serves(service: Object, pod: Object) -> bool:
    return bool(service["spec"].get("publishNotReadyAddresses")) or owning.ready(pod)


def _ports(service: Object, pod: Object) -> tuple[Any, ...]:
    """The Service's ports as this Pod has them: a target may be the name of one of its ports. Hashable."""
    found = []
    named = {
        p["name"]: p["containerPort"] for c in pod["spec"]["containers"] for p in c.get("ports") or () if "name" in p
    }
    for port in service["spec"].get("ports") or ():
        target = port.get("targetPort", port["port"])
        number = named.get(target) if isinstance(target, str) else target
        if number is not None:
            own = {"name": port.get("name", ""), "port": number, "protocol": port.get("protocol", "TCP")}
            if port.get("appProtocol"):
                own["appProtocol"] = port["appProtocol"]
            found.append(tuple(own.items()))
    return tuple(found)


def _target(pod: Object) -> Json:
    meta = pod["metadata"]
    return {"kind": "Pod", "namespace": meta["namespace"], "name": meta["name"], "uid": meta["uid"]}


def _hostname(service: Object, pod: Object) -> Json:
    spec, meta = pod["spec"], service["metadata"]
    fits = spec.get("hostname") and spec.get("subdomain") == meta["name"]
    return {"hostname": spec["hostname"]} if fits else {}


def _address(service: Object, pod: Object) -> Json:
    own = {"ip": pod["status"]["podIP"], "nodeName": pod["spec"]["nodeName"], "targetRef": _target(pod)}
    return {**own, **_hostname(service, pod)}


def _endpoint(service: Object, pod: Object) -> Json:
    going, serving = bool(pod["metadata"].get("deletionTimestamp")), owning.ready(pod)
    always = bool(service["spec"].get("publishNotReadyAddresses"))
    return {
        "addresses": [pod["status"]["podIP"]],
        "conditions": {"ready": always or (serving and not going), "serving": serving, "terminating": going},
        "targetRef": _target(pod),
        "nodeName": pod["spec"]["nodeName"],
        **_hostname(service, pod),
    }
