"""Kernel caches for tests: Pods of an InferenceService, caches and nodes that fit them, a world that knows both."""

import json
from typing import Any

from crds import core, kernelcache
from devkube.patches import json_patch
from handlers.admission import patches
from handlers.admission.decision import Decision, Question
from handlers.kernelcache import admit, identity, names
from handlers.kernelcache.inject import Options
from handlers.world.reader import Reader
from tests.support import worlds

Object = dict[str, Any]
DIGEST = "sha256:" + "a" * 64
IMAGE = f"rt/vllm@sha256:{'b' * 64}"
REFERENCE = f"reg.lan:5000/team-a/kernel-cache-chat@{DIGEST}"
LABELS = {names.SERVICE: "chat", names.REVISION: "r1"}
ANNOTATIONS = {names.SUPPORTED: "true", names.SOURCE_URI: "hf://org/m"}
PROBE = {"httpGet": {"path": "/health", "port": 8080}}
PATH = {"containerName": "kserve-container", "containerPath": names.DEFAULT_ROOT, "ociPath": names.VLLM_TREE}


def pod(
    *, labels: Object | None = None, annotations: Object | None = None, spec: Object | None = None, **container: Any
) -> Object:
    """Of InferenceService chat, on a pinned image, unless told otherwise."""
    runtime = {"name": "kserve-container", "image": IMAGE, "args": ["--model=/mnt/models"], **container}
    return {
        "metadata": {
            "name": "chat-a",
            "namespace": "team-a",
            "labels": LABELS if labels is None else labels,
            "annotations": ANNOTATIONS if annotations is None else annotations,
        },
        "spec": {"containers": [runtime], **(spec or {})},
    }


def footprints(of: Object) -> Object:
    found = identity.of(of, of["metadata"]["namespace"]).footprints
    return {
        "workloadFootprint": found.workload_footprint,
        "compatibilityFootprint": found.compatibility_footprint,
    }


def cache(name: str, of: Object, *, paths: list[Object] | None = None, **fields: Any) -> Object:
    """A KernelCache that a Pod made."""
    made = identity.of(of, of["metadata"]["namespace"])
    artifact = {
        "imageReference": REFERENCE,
        "cachePaths": [PATH] if paths is None else paths,
        "identity": {"footprints": footprints(of), "factors": made.factors},
        **fields.pop("artifact", {}),
    }
    metadata = {"name": name, "namespace": of["metadata"]["namespace"], **fields.pop("metadata", {})}
    return {"metadata": metadata, "spec": {"artifact": artifact, "mountType": "oci", **fields}}


def node(name: str, *caches: Object, state: str = "Ready", **status: Any) -> Object:
    """A KernelCacheNode that has these."""
    held = {}
    for one in caches:
        metadata, artifact = one["metadata"], one["spec"]["artifact"]
        held[f"{metadata['namespace']}/{metadata['name']}"] = {
            "kernelCacheRef": {"namespace": metadata["namespace"], "name": metadata["name"]},
            "imageReference": artifact["imageReference"],
            "state": state,
            "footprints": artifact["identity"]["footprints"],
        }
    return {"metadata": {"name": name}, "status": {"cacheStatus": held, **status}}


class Cluster:
    """A world with Kernel Cache in it; `admit` answers as the webhook would."""

    def __init__(self, configuration: Object | str | None = None, **options: Any) -> None:
        self.teller = worlds.Teller(*admit.Pods.kinds)
        self.admitter = admit.Pods(Options(**options))
        enabled = {"enabled": True, "registry": {"endpoint": "reg.lan:5000"}}
        self.configure(enabled if configuration is None else configuration)

    def configure(self, configuration: Object | str) -> None:
        text = configuration if isinstance(configuration, str) else json.dumps(configuration)
        document = {"metadata": {"name": names.CONFIG_MAP, "namespace": "kserve"}, "data": {names.CONFIG_KEY: text}}
        self.teller.seen(core.CONFIG_MAPS, document)

    def has(self, *documents: Object) -> "Cluster":
        """Caches, nodes and captures, told apart by what they hold."""
        for one in documents:
            if "artifact" in one.get("spec", {}):
                self.teller.seen(kernelcache.CACHES, one)
            elif "sourceRef" in one.get("spec", {}):
                self.teller.seen(kernelcache.CAPTURES, one)
            elif "cacheStatus" in one.get("status", {}):
                self.teller.seen(kernelcache.NODES, one)
            else:
                self.teller.seen(core.NODES, one)
        return self

    def decide(
        self, given: Object, *, uid: str = "review", operation: Any = "CREATE"
    ) -> tuple[Object, Decision | None]:
        """The Pod afterwards, and the decision; None where nothing of ours is concerned."""
        seen = self.admitter.see(given)
        question = Question(
            uid=uid,
            operation=operation,
            kind=core.PODS,
            namespace=given["metadata"].get("namespace", ""),
            view=seen.object,
        )
        world = Reader(self.teller.world)
        if not self.admitter.concerned(question, world):
            return given, None
        decision = self.admitter.decide(question, world)
        return json_patch(given, patches.effective(seen.fill(list(decision.patch)), given)), decision
