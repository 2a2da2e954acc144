"""Where objects of a kind live: group and version, and whether they have namespaces.

A kind is `<plural>.<group>`, core kinds are the plural alone. The version is the one that Warmlog speaks.
"""

from typing import Final, NamedTuple
from urllib.parse import quote


class Route(NamedTuple):
    group_version: str  # "v1", "apps/v1"
    plural: str
    namespaced: bool = True
    only: str = ""  # the one name that is listed and watched, in every namespace

    @property
    def query(self) -> dict[str, str]:
        """Of lists and watches."""
        return {"fieldSelector": f"metadata.name={self.only}"} if self.only else {}

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """An empty namespace of a namespaced kind is all of them."""
        root = "/api" if "/" not in self.group_version else "/apis"
        parts = [root, self.group_version]
        if self.namespaced and namespace:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        if name:
            parts.append(quote(name, safe=""))
        if subresource:
            parts.append(subresource)
        return "/".join(parts)


ROUTES: Final = {
    "pods": Route("v1", "pods"),
    "services": Route("v1", "services"),
    "secrets": Route("v1", "secrets"),
    "configmaps": Route("v1", "configmaps", only="inferenceservice-config"),
    "events": Route("v1", "events"),
    "namespaces": Route("v1", "namespaces", namespaced=False),
    "nodes": Route("v1", "nodes", namespaced=False),
    "deployments.apps": Route("apps/v1", "deployments"),
    "replicasets.apps": Route("apps/v1", "replicasets"),
    "horizontalpodautoscalers.autoscaling": Route("autoscaling/v2", "horizontalpodautoscalers"),
    "leases.coordination.k8s.io": Route("coordination.k8s.io/v1", "leases"),
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": Route(
        "admissionregistration.k8s.io/v1", "mutatingwebhookconfigurations", namespaced=False
    ),
    "validatingwebhookconfigurations.admissionregistration.k8s.io": Route(
        "admissionregistration.k8s.io/v1", "validatingwebhookconfigurations", namespaced=False
    ),
    "cachebackends.inferencecache.io": Route("inferencecache.io/v1alpha1", "cachebackends"),
    "cachepolicies.inferencecache.io": Route("inferencecache.io/v1alpha1", "cachepolicies"),
    "cachetenants.inferencecache.io": Route("inferencecache.io/v1alpha1", "cachetenants"),
    "kernelcachenodegroups.serving.kserve.io": Route(
        "serving.kserve.io/v1alpha1", "kernelcachenodegroups", namespaced=False
    ),
    "kernelcachenodes.serving.kserve.io": Route("serving.kserve.io/v1alpha1", "kernelcachenodes", namespaced=False),
    "kernelcachecaptures.serving.kserve.io": Route("serving.kserve.io/v1alpha1", "kernelcachecaptures"),
    "kernelcaches.serving.kserve.io": Route("serving.kserve.io/v1alpha1", "kernelcaches"),
    "kvcachebackends.worker.gpustack.ai": Route("worker.gpustack.ai/v1", "kvcachebackends", namespaced=False),
    "kvcachepools.worker.gpustack.ai": Route("worker.gpustack.ai/v1", "kvcachepools", namespaced=False),
    "kvcachepoolbindings.worker.gpustack.ai": Route("worker.gpustack.ai/v1", "kvcachepoolbindings"),
    "modeldeployments.worker.gpustack.ai": Route("worker.gpustack.ai/v1", "modeldeployments"),
}
