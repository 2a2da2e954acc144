"""The demo's Kernel Cache: a Pod that compiles what a cache holds gets it mounted, one that does not is told why.

Capture is not played here: the cache and the state of its node are applied as a controller would leave them, with the
footprints that `warmlog identity` shows. Each Pod is read back from the API; what differs raises Wrong.
"""

import json
from typing import Any, Final

import msgspec
import yaml

from crds import core, kernelcache
from handlers import canonical
from handlers.kernelcache import identity, names, placement
from handlers.kernelcache.identity import Identity
from handlers.outcome import Key, Object
from warmlog import kubectl, lab, labkube
from warmlog.demoasking import Wrong
from warmlog.demoengines import Engines

SPACE: Final = lab.TENANT
CACHE: Final = "kernels"
NODE: Final = "gpu-1"
LENGTHS: Final = {"known": 4096, "other": 8192}  # max-model-len, of which a kernel's shapes depend
API: Final = "serving.kserve.io/v1alpha1"


def pod(name: str, length: int) -> Object:
    """Of InferenceService chat, as KServe writes it."""
    container = {
        "name": "kserve-container",
        "image": f"registry.example.com/vllm@sha256:{'b' * 64}",
        "args": ["--model=/mnt/models", f"--max-model-len={length}"],
    }
    labels = {names.SERVICE: "chat", names.REVISION: "r1"}
    annotations = {names.SUPPORTED: "true", names.SOURCE_URI: "hf://org/m"}
    metadata = {"name": f"kernels-{name}", "namespace": SPACE, "labels": labels, "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}


def configuration() -> list[Object]:
    text = json.dumps({"enabled": True, "defaultSidecarInjection": False})
    metadata = {"name": names.CONFIG_MAP, "namespace": "kserve"}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kserve"}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {names.CONFIG_KEY: text}},
    ]


def cache(of: Identity) -> Object:
    """What a Pod of that identity would have captured."""
    path = {"containerName": "kserve-container", "containerPath": names.DEFAULT_ROOT, "ociPath": names.VLLM_TREE}
    artifact = {
        "imageReference": f"registry.example.com/{SPACE}/kernel-cache-chat@sha256:{'a' * 64}",
        "cachePaths": [path],
        "identity": {"footprints": msgspec.to_builtins(of.footprints), "factors": of.factors},
    }
    metadata = {"name": CACHE, "namespace": SPACE}
    return {
        "apiVersion": API,
        "kind": "KernelCache",
        "metadata": metadata,
        "spec": {"artifact": artifact, "mountType": "oci"},
    }


def held(of: Object) -> Object:
    """The status of a node that has the cache on its disk."""
    artifact = of["spec"]["artifact"]
    entry = {
        "kernelCacheRef": {"namespace": SPACE, "name": CACHE},
        "imageReference": artifact["imageReference"],
        "state": "Ready",
        "footprints": artifact["identity"]["footprints"],
    }
    return {"cacheStatus": {f"{SPACE}/{CACHE}": entry}}


def mounted(of: Object) -> bool:
    return any("image" in volume for volume in of["spec"].get("volumes", ()))


class Kernels:
    def __init__(self, story: Engines, kube: labkube.Kube) -> None:
        self.story, self.kube = story, kube

    async def play(self) -> None:
        self.story.step("Kernel Cache: two Pods of one InferenceService, one of them compiles what a cache holds")
        made = await self._prepared()
        told = await self.kube.kubectl.apply(*(pod(name, length) for name, length in LENGTHS.items()))
        self.story.say("\n".join(told))
        for name, length in LENGTHS.items():
            found = await self.kube.get(core.PODS, SPACE, f"kernels-{name}")
            if mounted(found) != (name == "known"):
                raise Wrong(f"Pod kernels-{name}, max-model-len {length}, mounts {found['spec'].get('volumes')}")
        self.story.say(f"kernels-known: + image volume of the cache, + init container {names.LINKER}")
        self.story.say("kernels-other: admitted as it came, it will compile its own kernels")
        await self._asked(made)
        await self._why("known", f"mounted, kernel cache {CACHE} by its workload footprint")
        await self._why("other", f"{CACHE}: footprints: option.maxModelLen is 8192 here and 4096 there")

    async def _prepared(self) -> Object:
        """The cache, ready on one node, and known to the webhook."""
        known = pod("known", LENGTHS["known"])
        made = cache(identity.of(known, SPACE))
        nodes: list[Object] = [
            {"apiVersion": API, "kind": "KernelCacheNode", "metadata": {"name": NODE}},
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE, "labels": {placement.HOSTNAME: NODE}}},
        ]
        told = await self.kube.kubectl.apply(*configuration(), made, *nodes)
        self.story.say("\n".join(told))
        found = await self.kube.get(kernelcache.NODES, "", NODE)
        await self.kube.objects.status(Key(kernelcache.NODES, "", NODE), {**found, "status": held(made)})
        await self.story.lab.until(lambda: self._would_mount(known), what="the webhook to know the cache")
        return made

    async def _would_mount(self, known: Object) -> bool:
        """Asked with a dry run, which leaves nothing behind."""
        return mounted(await self.kube.rehearse(core.PODS, known))

    async def _asked(self, made: Object) -> None:
        """The commands that the feature's own document gives its operators."""
        tool = self.kube.kubectl
        if not isinstance(tool, kubectl.Kubectl):
            return
        shown = "{.spec.artifact.identity}"
        words = ("get", "kernelcache", CACHE, "--namespace", SPACE, "-o", f"jsonpath={shown}")
        _same(await tool.run(*words), made["spec"]["artifact"]["identity"])
        self.story.say(f"$ kubectl get kernelcache {CACHE} -n {SPACE} -o jsonpath='{shown}': its footprints, factors")
        told = await tool.run("get", "kernelcachenode", NODE, "-o", "jsonpath={.status.cacheStatus}")
        _same(told, held(made)["cacheStatus"])
        self.story.say(f"$ kubectl get kernelcachenode {NODE} -o jsonpath='{{.status.cacheStatus}}': Ready")
        told = await tool.run("get", "pod", "kernels-known", "--namespace", SPACE, "-o", "yaml")
        if not mounted(yaml.safe_load(told)):
            raise Wrong(f"kubectl get pod kernels-known -o yaml shows no image volume: {told}")
        told = await tool.run("describe", "pod", "kernels-known", "--namespace", SPACE)
        if names.LINKER not in told:
            raise Wrong(f"kubectl describe pod kernels-known shows no {names.LINKER}: {told}")
        self.story.say(f"$ kubectl describe pod kernels-known -n {SPACE}: shows {names.LINKER} and its mounts")

    async def _why(self, name: str, reason: str) -> None:
        about = f"pod/{SPACE}/kernels-{name}"
        told = await self.story.tool("explain", about)
        line = next((line for line in told.splitlines() if reason in line), None)
        if line is None:
            raise Wrong(f"warmlog explain {about} does not say {reason!r}: {told}")
        self.story.say(f"$ warmlog explain {about}\n{line}")


def _same(told: str, wanted: Any) -> None:
    if canonical.encode(msgspec.json.decode(told)) != canonical.encode(wanted):
        raise Wrong(f"the API shows {told}, applied was {wanted}")
