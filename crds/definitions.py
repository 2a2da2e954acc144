"""The kinds that have a CRD: names, versions, printer columns, and the Structs of their specs and statuses.

Two versions of a kind with the same schema share a Struct.

Rules: printer columns of seed 004 and spec/inferencecache.md sections 5 and 6.1.
"""

from typing import Final, NamedTuple

import msgspec

from crds import cachebackend, inferencecache, kernelcache, kvcache, modeldeployment, schema


class Column(NamedTuple):
    name: str
    type: str
    path: str
    description: str = ""


class Definition(NamedTuple):
    """One kind. `spec` and `status` are Structs; `versions` are served, the last one named is stored."""

    group: str
    kind: str
    plural: str
    short: tuple[str, ...]
    spec: type[msgspec.Struct]
    status: type[msgspec.Struct] | None
    columns: tuple[Column, ...]
    doc: str
    versions: tuple[str, ...] = ("v1alpha1",)
    cluster: bool = False
    spec_required: bool = True
    rules: tuple[schema.Rule, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.plural}.{self.group}"


_AGE: Final = Column("Age", "date", ".metadata.creationTimestamp")

DEFINITIONS: Final = (
    Definition(
        inferencecache.GROUP,
        "CacheBackend",
        "cachebackends",
        ("cb",),
        cachebackend.CacheBackendSpec,
        cachebackend.CacheBackendStatus,
        (
            Column("Type", "string", ".spec.type"),
            Column("Ready", "string", '.status.conditions[?(@.type=="Ready")].status'),
            Column("Matched", "integer", ".status.matchedEnginePods"),
            Column("Endpoint", "string", ".status.endpoint"),
            Column("Prefixes", "integer", ".status.indexParticipation.prefixCount"),
            Column("LastEvent", "date", ".status.indexParticipation.lastEventAt"),
            _AGE,
        ),
        "An engine-side KV cache, an optional remote tier, and the engines that are wired to them.",
    ),
    Definition(
        inferencecache.GROUP,
        "CachePolicy",
        "cachepolicies",
        ("cpol",),
        inferencecache.CachePolicySpec,
        inferencecache.ReservedStatus,
        (_AGE,),
        "How the prefix index answers for one namespace.",
    ),
    Definition(
        inferencecache.GROUP,
        "CacheTenant",
        "cachetenants",
        ("ct",),
        inferencecache.CacheTenantSpec,
        inferencecache.CacheTenantStatus,
        (Column("Tenant", "string", ".spec.tenantID"), Column("Entries", "integer", ".status.indexEntries"), _AGE),
        "How many keys a tenant may keep in the prefix index.",
    ),
    Definition(
        inferencecache.GROUP,
        "CacheIndex",
        "cacheindices",
        ("ci",),
        inferencecache.CacheIndexSpec,
        inferencecache.CacheIndexStatus,
        (Column("Prefixes", "integer", ".status.prefixes.summary.total"), _AGE),
        "What the prefix index holds in all, as the controller last read it.",
        cluster=True,
        spec_required=False,
    ),
    Definition(
        inferencecache.GROUP,
        "PDTopology",
        "pdtopologies",
        ("pdt",),
        inferencecache.PDTopologySpec,
        inferencecache.ReservedStatus,
        (_AGE,),
        "Pools of prefill and decode engines. Reserved: nothing reads it yet.",
    ),
    Definition(
        inferencecache.GROUP,
        "PromptTemplate",
        "prompttemplates",
        ("pt",),
        inferencecache.PromptTemplateSpec,
        inferencecache.PromptTemplateStatus,
        (_AGE,),
        "A prompt with stable and mutable slots. Reserved: nothing reads it yet.",
    ),
    Definition(
        kernelcache.GROUP,
        "KernelCacheNodeGroup",
        "kernelcachenodegroups",
        ("kcng",),
        kernelcache.NodeGroupSpec,
        kernelcache.NodeGroupStatus,
        (
            Column("Nodes", "integer", ".status.matchedNodes"),
            Column("Ready", "integer", ".status.readyNodes"),
            _AGE,
        ),
        "Nodes that can prepare and serve kernel caches.",
        cluster=True,
    ),
    Definition(
        kernelcache.GROUP,
        "KernelCacheNode",
        "kernelcachenodes",
        ("kcn",),
        kernelcache.NoSpec,
        kernelcache.NodeStatus,
        (
            Column("Ready", "integer", ".status.counts.cachesReady"),
            Column("Preparing", "integer", ".status.counts.cachesPreparing"),
            Column("Error", "integer", ".status.counts.cachesError"),
            Column("Pods-Using", "integer", ".status.counts.totalPodsUsing"),
            _AGE,
        ),
        "What one node has of every kernel cache. Its name is the node's.",
        cluster=True,
        spec_required=False,
    ),
    Definition(
        kernelcache.GROUP,
        "KernelCacheCapture",
        "kernelcachecaptures",
        ("kcc",),
        kernelcache.CaptureSpec,
        kernelcache.CaptureStatus,
        (
            Column("Phase", "string", ".status.phase"),
            Column("Image", "string", ".status.artifact.imageReference"),
            _AGE,
        ),
        "A session that captures the kernels of a serving workload.",
    ),
    Definition(
        kernelcache.GROUP,
        "KernelCache",
        "kernelcaches",
        ("kc",),
        kernelcache.CacheSpec,
        kernelcache.CacheState,
        (
            Column("State", "string", ".status.state"),
            Column("MountType", "string", ".spec.mountType"),
            Column("Pods-Using", "integer", ".status.usage.totalPodsUsing"),
            _AGE,
        ),
        "A completed OCI artifact of compiled kernels, and the nodes that prepare it.",
    ),
    Definition(
        kvcache.GROUP,
        "KVCacheBackend",
        "kvcachebackends",
        ("kvcb",),
        kvcache.KVCacheBackendSpec,
        kvcache.KVCacheBackendStatus,
        (
            Column("Type", "string", ".spec.type"),
            Column("Phase", "string", ".status.phase"),
            Column("Endpoint", "string", '.status.endpoints[?(@.name=="Client")].address'),
            _AGE,
        ),
        "A Mooncake store that engines share: run here, or somewhere else.",
        versions=kvcache.VERSIONS,
        cluster=True,
    ),
    Definition(
        kvcache.GROUP,
        "KVCachePool",
        "kvcachepools",
        ("kvcp",),
        kvcache.KVCachePoolSpec,
        kvcache.KVCachePoolStatus,
        (
            Column("Total", "string", ".spec.quota.total"),
            Column("Phase", "string", ".status.phase"),
            Column("Endpoint", "string", ".status.clientEndpoint"),
            _AGE,
        ),
        "Capacity of one store, shared by namespaces.",
        versions=kvcache.VERSIONS,
        cluster=True,
    ),
    Definition(
        kvcache.GROUP,
        "KVCachePoolBinding",
        "kvcachepoolbindings",
        ("kvcpb",),
        kvcache.KVCachePoolBindingSpec,
        kvcache.KVCachePoolBindingStatus,
        (
            Column("Pool", "string", ".spec.poolRef.name"),
            Column("Domain", "string", ".spec.domain.name"),
            Column("Ceiling", "string", ".spec.quota.ceiling"),
            Column("Phase", "string", ".status.phase"),
            _AGE,
        ),
        "A namespace's share of a pool, and the domain in which its engines reuse blocks.",
        versions=kvcache.VERSIONS,
    ),
    Definition(
        kvcache.GROUP,
        "ModelDeployment",
        "modeldeployments",
        ("md",),
        modeldeployment.ModelDeploymentSpec,
        modeldeployment.ModelDeploymentStatus,
        (
            Column("Engine", "string", ".spec.engine.name"),
            Column("Cache", "string", ".spec.kvCache.poolRef.name"),
            _AGE,
        ),
        "A model served by roles of one engine; here only what touches a cache is known.",
        versions=kvcache.VERSIONS,
    ),
)
