"""Area pod_injection: what becomes of an engine's Pod, from handlers/cachebackend/inject.py."""

import json
import re
from typing import Any

from crds import schema
from crds.cachebackend import CacheBackend
from devkube import patches
from handlers.cachebackend import adapters, inject
from tests.conformance import forms


def run(given: dict[str, Any]) -> dict[str, Any]:
    if "annotation" in given:
        forms.only(given, "annotation")
        return {"opts_out": inject.opts_out(given["annotation"])}
    forms.only(given, "controller", "backends", "pod")
    forms.only(given["controller"], "subscriberImage", "policyServerGRPCAddress")
    options = inject.Options(
        subscriber_image=given["controller"]["subscriberImage"], server=given["controller"]["policyServerGRPCAddress"]
    )
    backends = [schema.read(one, CacheBackend) for one in given["backends"]]
    decision = inject.decide(given["pod"], backends, options)
    pod = patches.json_patch(given["pod"], list(decision.patch))
    spec = pod["spec"]
    runtimes = {one.spec.runtime for one in backends}
    names = [adapters.ENGINES[one] for one in runtimes if one in adapters.ENGINES]
    engine = next((one for one in spec["containers"] if one["name"] in names), spec["containers"][0])
    return {
        "patch": "some" if decision.patch else "none",
        "annotations": pod["metadata"].get("annotations", {}),
        "args": engine.get("args", []),
        "env": {one["name"]: one.get("value") for one in engine.get("env", [])},
        "containers": [one["name"] for one in spec["containers"]],
        "init_containers": [one["name"] for one in spec.get("initContainers", [])],
        "init_env": {e["name"]: e["value"] for one in spec.get("initContainers", []) for e in one.get("env", [])},
        "hostNetwork": spec.get("hostNetwork", False),
        "dnsPolicy": spec.get("dnsPolicy", ""),
        "warnings": len(decision.warnings),
        "sidecar": next((one for one in spec["containers"] if one["name"] == "kvevent-subscriber"), {}),
        "volumes": [one["name"] for one in spec.get("volumes", [])],
        "mounts": {one["name"]: one["mountPath"] for one in engine.get("volumeMounts", [])},
        **{key: value for one in spec.get("initContainers", [])[:1] for key, value in worker(one, spec).items()},
    }


def worker(one: dict[str, Any], spec: dict[str, Any]) -> dict[str, Any]:
    """The MP worker as the cases speak of it; what stands in its script is read from there."""
    if one["name"] != "lmcache-mp-worker" or "securityContext" not in one:
        return {}
    script = one["command"][-1]
    l2 = re.search(r"--l2-adapter '(.*?)'", script)
    shm = [volume["emptyDir"]["sizeLimit"] for volume in spec["volumes"] if volume["name"] == "lmcache-dshm"]
    security, memory = one["securityContext"], one["resources"]["limits"]["memory"]
    assert one["resources"]["requests"]["memory"] == memory
    return {
        "worker": {
            "name": one["name"],
            "image": one["image"],
            "restartPolicy": one["restartPolicy"],
            "mp_port": re.search(r"--port (\d+)", script)[1],
            "chunk_size": re.search(r"--chunk-size (\d+)", script)[1],
            "l1_size_gb": re.search(r"--l1-size-gb (\d+)", script)[1],
            "l2_adapter": json.loads(l2[1]) if l2 else None,
            "memory_request_and_limit": memory,
            "env": {e["name"]: e["value"] for e in one["env"]},
            "startup_probe": {key: one["startupProbe"][key] for key in ("periodSeconds", "failureThreshold")},
        },
        "worker_security": {
            **{key: security[key] for key in ("runAsUser", "runAsNonRoot") if key in security},
            "allowPrivilegeEscalation": security["allowPrivilegeEscalation"],
            "drop": security["capabilities"]["drop"],
            "seccomp": security["seccompProfile"]["type"],
        },
        "shm_size": shm[0] if shm else None,
    }


def compare(expect: dict[str, Any], observed: dict[str, Any]) -> list[str]:
    """Environment and annotations are compared by the names that are expected; an empty map means none of ours."""
    found = []
    for name, wanted in expect.items():
        if name in ("env", "annotations", "sidecar", "init_env") and wanted:
            seen = {key: observed[name].get(key) for key in wanted}
            found += forms.differences({name: wanted}, {name: seen})
        elif name == "absent_env":
            found += [f"{one} is there" for one in wanted if one in observed["env"]]
        else:
            found += forms.differences({name: wanted}, observed)
    return found
