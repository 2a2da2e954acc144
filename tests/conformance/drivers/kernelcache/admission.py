"""Area admission: Pods through handlers/kernelcache/admit.py, custom resources through their schemas."""

import copy
import json
from typing import Any

from crds import definitions, schema
from handlers.kernelcache import names
from tests.conformance import forms
from tests.support import kernelcaches as kc

#: A Pod that would be captured.
PRODUCER = {
    "enabled": True,
    "labels": kc.LABELS,
    "annotations": kc.ANNOTATIONS,
    "match": None,
    "sidecarInjection": True,
    "readinessProbe": kc.PROBE,
}
KINDS = {one.kind: one for one in definitions.DEFINITIONS}


def run(given: dict[str, Any]) -> dict[str, Any]:
    if "create" in given:
        forms.only(given, "create")
        return created(given["create"])
    if "update" in given:
        forms.only(given, "update")
        return updated(given["update"])
    return admitted(given)


# Custom resources -----------------------------------------------------------------------------------------------------


def created(given: dict[str, Any]) -> dict[str, Any]:
    forms.only(given, "kind", "mountType", "imageReference", "cachePathCount", "spec")
    spec = given.get("spec") or cache_spec()
    if "cachePathCount" in given:
        spec["artifact"]["cachePaths"] = [{"containerPath": f"/kc{n}"} for n in range(given["cachePathCount"])]
    if "imageReference" in given:
        spec["artifact"]["imageReference"] = given["imageReference"]
    if given.get("mountType") is not None:
        spec["mountType"] = given["mountType"]
    made = schema.defaulted(spec, KINDS[given["kind"]].spec)
    return {"error": bool(schema.violations(made, KINDS[given["kind"]].spec)), "mountType": made.get("mountType")}


def updated(given: dict[str, Any]) -> dict[str, Any]:
    forms.only(given, "kind", "field")
    struct = KINDS[given["kind"]].spec
    old = cache_spec()
    new = copy.deepcopy(old)
    if given["field"] == "spec.artifact":
        new["artifact"]["imageReference"] = kc.REFERENCE.replace("aaaa", "cccc")
    elif given["field"] == "spec.nodeGroupRef":
        new["nodeGroupRef"] = {"name": "h100"}
    else:
        raise forms.UnknownForm(given["field"])
    assert not schema.violations(new, struct)
    return {"error": bool(schema.transitions(new, old, struct))}


def cache_spec() -> dict[str, Any]:
    spec: dict[str, Any] = copy.deepcopy(kc.cache("c1", kc.pod())["spec"])
    del spec["mountType"]
    return spec


# Pods -----------------------------------------------------------------------------------------------------------------


def admitted(given: dict[str, Any]) -> dict[str, Any]:
    forms.only(
        given, "enabled", "labels", "annotations", "match", "image", "sidecarInjection", "readinessProbe", "times",
        "capturePhase", "existingVolume", "endpoint", "configuration",
    )  # fmt: skip
    registry = {"endpoint": given["endpoint"]} if given.get("endpoint", "reg.lan:5000") is None else None
    settings: dict[str, Any] = {
        "enabled": given["enabled"],
        "defaultSidecarInjection": given.get("sidecarInjection", True),
        "registry": {"endpoint": ""} if registry else {"endpoint": "reg.lan:5000"},
    }
    cluster = kc.Cluster(given.get("configuration", settings))
    container = {key: given[key] for key in ("image", "readinessProbe") if key in given}
    volumes = {"volumes": [given["existingVolume"]]} if "existingVolume" in given else {}
    pod = kc.pod(labels=given["labels"], annotations=given["annotations"], spec=volumes, **container)
    if given.get("match"):
        namespace, name = given["match"].split("/")
        assert namespace == pod["metadata"]["namespace"]
        fitting = kc.cache(name, pod)
        cluster.has(fitting, kc.node("n1", fitting))
    if "capturePhase" in given:
        spec = {"sourceRef": {"kind": "InferenceService", "name": "chat"}}
        metadata = {"name": "chat-kcc-r1", "namespace": "team-a"}
        cluster.has({"metadata": metadata, "spec": spec, "status": {"phase": given["capturePhase"]}})
    after, decision = pod, None
    for number in range(given.get("times", 1)):
        after, decision = cluster.decide(after, uid=f"review-{number}")
    other, _ = cluster.decide(pod, uid="another")
    return observed(pod, after, decision, other)


def observed(pod: Any, after: Any, decision: Any, other: Any) -> dict[str, Any]:
    spec = after["spec"]
    volumes, init = spec.get("volumes", []), spec.get("initContainers", [])
    images = [one for one in volumes if "image" in one]
    sidecars = [one for one in spec["containers"][1:] if one["name"] == names.SIDECAR]
    mounts = [
        one
        for container in (*init, *spec["containers"])
        for one in container.get("volumeMounts", [])
        if one["name"] == names.SOURCE_VOLUME
    ]
    return {
        "changed": after != pod,
        "podAdmitted": decision is None or decision.verdict != "refused",
        "mounted": bool(images),
        "sidecar": bool(sidecars),
        "sidecarName": sidecars[0]["name"] if sidecars else None,
        "sessionIDUnique": bool(sidecars) and session(after) != session(other),
        "volume": images[0] if images else None,
        "firstInitContainer": init[0]["name"] if init else None,
        "sourceMountReadOnly": len(mounts) == 2 and all(one["readOnly"] for one in mounts),
        "usage": after["metadata"]["annotations"].get(names.USAGE),
        # Of artifacts; the places that caches are put into are volumes of another kind.
        "volumesAdded": len(images),
        "initContainersAdded": len(init),
        "warnings": list(decision.warnings) if decision is not None else [],
    }


def session(pod: Any) -> str:
    (sidecar,) = [one for one in pod["spec"]["containers"] if one["name"] == names.SIDECAR]
    (text,) = [one["value"] for one in sidecar["env"] if one["name"] == names.CAPTURE_CONFIG]
    found: str = json.loads(text)["capture"]["sessionID"]
    return found
