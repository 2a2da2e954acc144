"""Kinds of Kernel Cache, `serving.kserve.io/v1alpha1`: which nodes hold caches, what they hold, a capture, a cache.

Field names, enums, bounds and immutability are the contract's. Ours, and optional everywhere: `status` of a node group,
`accelerators` and `cpuArch` of a node, `producer` of an artifact, `podUID` and `startedAt` of a session. Structs are
lenient (see crds.schema); the rules of the schemas are strict.

Rules: seed 001, "How it works", "Artifact and delivery model"; spec/kernelcache.md section 1.
"""

from typing import Annotated, Any, Final

import msgspec

from crds.meta import Condition, Metadata
from crds.schema import IMMUTABLE, Is, Rule

GROUP: Final = "serving.kserve.io"
NODE_GROUPS: Final = f"kernelcachenodegroups.{GROUP}"
NODES: Final = f"kernelcachenodes.{GROUP}"
CAPTURES: Final = f"kernelcachecaptures.{GROUP}"
CACHES: Final = f"kernelcaches.{GROUP}"

_DIGEST: Final = r"^sha256:[0-9a-f]{64}$"
_REFERENCE: Final = r"^[^@\s]+@sha256:[0-9a-f]{64}$"
#: One name in a path: neither empty nor `.` nor `..`.
_NAME: Final = r"([^/.%s\x00][^/%s\x00]*|\.[^/.%s\x00][^/%s\x00]*|\.\.[^/%s\x00]+)"
_ABSOLUTE: Final = f"^(/{_NAME % (('$',) * 5)})+/?$"
_RELATIVE: Final = f"^{_NAME % (('',) * 5)}(/{_NAME % (('',) * 5)})*$"

_Conditions = Annotated[list[Condition] | None, Is(map_keys=("type",))]
_Count = Annotated[int | None, Is(minimum=0, format="int32")]
_Time = Annotated[str | None, Is(format="date-time")]


class KernelCachePath(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Where a part of an artifact belongs. What is left out is resolved from the Pod."""

    container_name: Annotated[
        str | None, Is(doc="Container that reads it; the runtime's when unset.", min_length=1)
    ] = None
    container_path: Annotated[
        str | None,
        Is(doc="Absolute path in the container.", min_length=2, max_length=4096, pattern=_ABSOLUTE),
    ] = None
    oci_path: Annotated[
        str | None,
        Is(doc="Path inside the artifact.", max_length=4096, pattern=_RELATIVE, default="io.vllm.cache"),
    ] = None


class Footprints(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Opaque SHA-256 values; empty where the runtime image does not allow one."""

    workload_footprint: Annotated[str, Is(doc="Equal for the same workload.", pattern=f"^$|{_DIGEST}")] = ""
    compatibility_footprint: Annotated[str, Is(doc="Equal where a cache is of use.", pattern=f"^$|{_DIGEST}")] = ""


class Identity(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What a cache was made by. `factors` are for people; only footprints are compared."""

    footprints: Annotated[Footprints, Is(doc="What is compared.")] = Footprints()
    factors: Annotated[
        dict[str, Annotated[str, Is(max_length=4096)]] | None,
        Is(doc="What the footprints were computed from.", max_properties=128),
    ] = None


class Producer(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The hardware that kernels were compiled on, where it is known. Never part of a footprint."""

    accelerator_product: Annotated[str, Is(doc="As a node's label has it.", max_length=253)] = ""
    accelerator_arch: Annotated[str, Is(doc="sm_90, gfx942.", max_length=63)] = ""
    cpu_arch: Annotated[str, Is(doc="amd64, arm64.", max_length=63)] = ""


class Artifact(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """An OCI image of kernels, by digest, and what it was made by."""

    image_reference: Annotated[
        str, Is(doc="registry/repository@sha256:<digest>.", required=True, max_length=1024, pattern=_REFERENCE)
    ] = ""
    cache_paths: Annotated[
        list[KernelCachePath] | None,
        Is(doc="Where its parts belong.", required=True, min_items=1, max_items=64, atomic=True),
    ] = None
    identity: Annotated[Identity | None, Is(doc="Of the workload that made it.", required=True)] = None
    producer: Annotated[Producer | None, Is(doc="Hardware of the node that made it.")] = None

    @property
    def paths(self) -> list[KernelCachePath]:
        return self.cache_paths or []

    @property
    def footprints(self) -> Footprints:
        return self.identity.footprints if self.identity is not None else Footprints()


class Reference(msgspec.Struct, frozen=True):
    namespace: Annotated[str, Is(required=True, min_length=1)] = ""
    name: Annotated[str, Is(required=True, min_length=1)] = ""


class NameReference(msgspec.Struct, frozen=True, omit_defaults=True):
    name: Annotated[str, Is(required=True, min_length=1)] = ""


# KernelCacheNodeGroup -------------------------------------------------------------------------------------------------


class NodeGroupSpec(msgspec.Struct, frozen=True, rename="camel"):
    node_selector: Annotated[
        dict[str, str] | None,
        Is(doc="Labels that a member has, all of them, with these values.", required=True, min_properties=1),
    ] = None
    tolerations: Annotated[
        list[dict[str, Any]] | None, Is(doc="Of agents and preparation; they add no members.", free=True, atomic=True)
    ] = None


class NodeGroupStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    observed_generation: Annotated[int | None, Is(format="int64")] = None
    matched_nodes: _Count = None
    ready_nodes: _Count = None
    conditions: _Conditions = None


class KernelCacheNodeGroup(msgspec.Struct, frozen=True):
    metadata: Metadata
    spec: NodeGroupSpec = NodeGroupSpec()
    status: NodeGroupStatus = NodeGroupStatus()


# KernelCacheNode ------------------------------------------------------------------------------------------------------


class CacheStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What one node has of one cache."""

    kernel_cache_ref: Annotated[Reference, Is(doc="The cache.", required=True)] = Reference()
    image_reference: Annotated[str, Is(doc="The artifact that was prepared.")] = ""
    state: Annotated[str, Is(enum=("Pending", "Pulling", "Extracting", "Ready", "Error"))] = ""
    message: str = ""
    last_update: _Time = None
    footprints: Annotated[Footprints, Is(doc="Those of the prepared artifact.", required=True)] = Footprints()


class NodeCounts(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    caches_ready: _Count = None
    caches_preparing: _Count = None
    caches_error: _Count = None
    total_pods_using: _Count = None


class Accelerator(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    product: Annotated[str, Is(doc="As the node's label has it.")] = ""
    arch: Annotated[str, Is(doc="sm_90, gfx942.")] = ""
    count: _Count = None
    driver: Annotated[str, Is(doc="Version of its driver.")] = ""


class NodeStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    cache_status: Annotated[
        dict[str, CacheStatus] | None, Is(doc="By <namespace>/<name> of the cache.", max_properties=4096)
    ] = None
    counts: Annotated[NodeCounts | None, Is(doc="How many caches are in which state.")] = None
    accelerators: Annotated[list[Accelerator] | None, Is(doc="What kernels run on here.", atomic=True)] = None
    cpu_arch: Annotated[str, Is(doc="amd64, arm64.")] = ""
    conditions: _Conditions = None


class NoSpec(msgspec.Struct, frozen=True):
    """Nothing is configured here."""


class KernelCacheNode(msgspec.Struct, frozen=True):
    metadata: Metadata
    status: NodeStatus = NodeStatus()


# KernelCacheCapture ---------------------------------------------------------------------------------------------------


class SourceReference(msgspec.Struct, frozen=True):
    kind: Annotated[str, Is(doc="Kind of the workload.", enum=("InferenceService",), required=True)] = ""
    name: Annotated[str, Is(doc="Its name, in this namespace.", min_length=1, required=True)] = ""


class Signing(msgspec.Struct, frozen=True, rename="camel"):
    profile_ref: Annotated[NameReference | None, Is(doc="Key to sign with.")] = None


class CaptureSpec(msgspec.Struct, frozen=True, rename="camel"):
    source_ref: Annotated[
        SourceReference,
        Is(doc="Whose kernels.", required=True, rules=(Rule(IMMUTABLE, "sourceRef is immutable"),)),
    ] = SourceReference()
    target_image: Annotated[str | None, Is(doc="Where to push; configured when unset.", min_length=1)] = None
    cache_paths: Annotated[
        list[KernelCachePath] | None,
        Is(doc="What to capture; the runtime's cache when unset.", max_items=64, atomic=True),
    ] = None
    signing: Annotated[Signing | None, Is(doc="How to sign.")] = None


class Session(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The one Pod that may report."""

    id: Annotated[str, Is(required=True)] = ""
    pod_name: Annotated[str, Is(required=True)] = ""
    node_name: str = ""
    requested_node_group: str = ""
    pod_uid: str = msgspec.field(default="", name="podUID")
    started_at: _Time = None


class SigningStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    mode: Annotated[str, Is(enum=("none", "cert"))] = ""
    state: Annotated[str, Is(enum=("Pending", "Succeeded", "Failed", "Skipped"))] = ""
    signed: bool = False
    reason: str = ""
    message: str = ""
    signed_at: _Time = None


class CaptureStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    observed_generation: Annotated[int | None, Is(format="int64")] = None
    phase: Annotated[
        str,
        Is(
            doc="How far the capture is.",
            enum=("Pending", "WaitingForWorkload", "Capturing", "Pushing", "Complete", "Unchanged", "Failed"),
        ),
    ] = ""
    active_session: Annotated[Session | None, Is()] = None
    runtime_result: Annotated[dict[str, str] | None, Is(doc="As reported: untrusted.", max_properties=64)] = None
    artifact: Annotated[Artifact | None, Is(doc="What was captured.")] = None
    captured_at: _Time = None
    captured_cache_size_bytes: Annotated[int | None, Is(minimum=0, format="int64")] = None
    kernel_cache_ref: Annotated[Reference | None, Is(doc="The cache that was made of it.")] = None
    signing: Annotated[SigningStatus | None, Is()] = None
    conditions: _Conditions = None


class KernelCacheCapture(msgspec.Struct, frozen=True):
    metadata: Metadata
    spec: CaptureSpec = CaptureSpec()
    status: CaptureStatus = CaptureStatus()


# KernelCache ----------------------------------------------------------------------------------------------------------


class CacheSpec(msgspec.Struct, frozen=True, rename="camel"):
    artifact: Annotated[
        Artifact,
        Is(doc="The cache itself.", required=True, rules=(Rule(IMMUTABLE, "artifact is immutable"),)),
    ] = Artifact()
    mount_type: Annotated[str, Is(doc="How Pods get it.", enum=("oci",), default="oci")] = ""
    node_group_ref: Annotated[NameReference | None, Is(doc="Where it is prepared; configured when unset.")] = None


class Verification(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    mode: Annotated[str, Is(enum=("none", "cert"))] = ""
    state: Annotated[str, Is(enum=("Pending", "Succeeded", "Failed", "Skipped"))] = ""
    verified: bool = False
    reason: str = ""
    message: str = ""
    verified_at: _Time = None


class UsingPod(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    pod_uid: Annotated[str, Is(required=True)] = msgspec.field(default="", name="podUID")
    pod_ref: Annotated[Reference | None, Is()] = None
    node_name: str = ""
    observed_at: _Time = None


class Usage(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    pods: Annotated[list[UsingPod] | None, Is(map_keys=("podUID",))] = None
    total_pods_using: _Count = None


class CacheCounts(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    node_count: _Count = None
    nodes_ready: _Count = None
    nodes_preparing: _Count = None
    nodes_error: _Count = None


class CacheState(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    observed_generation: Annotated[int | None, Is(format="int64")] = None
    state: Annotated[str, Is(enum=("Pending", "Preparing", "Ready", "Error"))] = ""
    mount_type: str = ""
    verification: Annotated[Verification | None, Is()] = None
    usage: Annotated[Usage | None, Is(doc="Pods that have it mounted.")] = None
    counts: Annotated[CacheCounts | None, Is(doc="Over ready members of the node group.")] = None
    conditions: _Conditions = None


class KernelCache(msgspec.Struct, frozen=True):
    metadata: Metadata
    spec: CacheSpec = CacheSpec()
    status: CacheState = CacheState()
