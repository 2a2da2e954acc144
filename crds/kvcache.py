"""Kinds of `worker.gpustack.ai`: a Mooncake store, a pool of its capacity, a namespace's share of a pool.

v1 and v1alpha1 have the same schema; v1alpha1 is stored. Structs are lenient (see crds.schema); what makes sense
together is handlers/kvcachepool/validate.

Rules: seed 003; spec/worker-gpustack.md section 1.
"""

from typing import Annotated, Any, Final

import msgspec

from crds.cachebackend import EnvVar
from crds.meta import Condition, Metadata
from crds.schema import Is

GROUP: Final = "worker.gpustack.ai"
VERSIONS: Final = ("v1", "v1alpha1")
BACKENDS: Final = f"kvcachebackends.{GROUP}"
POOLS: Final = f"kvcachepools.{GROUP}"
BINDINGS: Final = f"kvcachepoolbindings.{GROUP}"

PROTOCOLS: Final = ("Auto", "TCP", "RDMA", "EFA", "CANN", "ROCM", "MUSA", "MACA")
LEDGER: Final = "QuotaLedgerAvailable"
Quantity = str | int

_PULL: Final = Is(enum=("Always", "IfNotPresent", "Never"))
_QUANTITY: Final = Is(format="quantity")
_ARGS: Final = Is(doc="Each item is one flag, `-flag` or `-flag=value`.")
_ENV: Final = Is(doc="Environment of the container.", map_keys=("name",))


class Transport(msgspec.Struct, frozen=True, rename="camel"):
    protocol: Annotated[str, Is(doc="How blocks travel; Auto is TCP.", enum=PROTOCOLS, default="Auto")] = "Auto"


class GroupTransport(msgspec.Struct, frozen=True, rename="camel"):
    protocol: Annotated[str, Is(doc="How this group's blocks travel; the backend's when unset.", enum=PROTOCOLS)] = ""


class LocalName(msgspec.Struct, frozen=True, rename="camel"):
    name: Annotated[str, Is(required=True)] = ""


class Leader(msgspec.Struct, frozen=True, rename="camel"):
    """The store's master."""

    replicas: Annotated[int | None, Is(doc="Masters.", minimum=1, maximum=5, default=1, format="int32")] = None
    election_backend: Annotated[str, Is(enum=("Kubernetes", "None"), default="Kubernetes")] = "Kubernetes"
    member_addressing: Annotated[str, Is(enum=("Service", "Lease"), default="Service")] = "Service"
    allocation_strategy: Annotated[
        str, Is(doc="Where new blocks go.", enum=("Random", "FreeRatioFirst"), default="FreeRatioFirst")
    ] = "FreeRatioFirst"
    multi_tenancy: Annotated[bool | None, Is(doc="Keep a ledger of quotas per domain; on unless false.")] = None
    extra_args: Annotated[list[str] | None, _ARGS] = None
    extra_env: Annotated[list[EnvVar] | None, _ENV] = None


class Watermark(msgspec.Struct, frozen=True, rename="camel"):
    high: Annotated[int | None, Is(minimum=1, maximum=100, format="int32")] = None
    low: Annotated[int | None, Is(minimum=1, maximum=100, format="int32")] = None


class Eviction(msgspec.Struct, frozen=True, rename="camel"):
    enabled: Annotated[bool, Is(default=True)] = True
    policy: Annotated[str, Is(enum=("FIFO", "LRU"))] = ""
    watermark: Watermark | None = None


class LocalDisk(msgspec.Struct, frozen=True, rename="camel"):
    path: Annotated[str, Is(doc="Absolute path on the node.", required=True)] = ""
    capacity: Annotated[Quantity | None, _QUANTITY] = None
    key_limit: Annotated[int | None, Is(minimum=1, format="int64")] = None
    eviction: Eviction | None = None
    clean_after_delete: Annotated[bool, Is(default=False)] = False


class MemberGroup(msgspec.Struct, frozen=True, rename="camel"):
    """Nodes that give memory to the store. The position in the list is the group's identity."""

    node_selector: Annotated[dict[str, str] | None, Is(doc="Nodes of this group.", required=True)] = None
    medium: Annotated[str, Is(enum=("DRAM", "VRAM"), default="DRAM")] = "DRAM"
    capacity_per_member: Annotated[
        Quantity | None, Is(doc="What each member gives.", format="quantity", required=True)
    ] = None
    local_buffer_size: Annotated[Quantity | None, _QUANTITY] = None
    image: Annotated[str, Is(max_length=512)] = ""
    extra_args: Annotated[list[str] | None, _ARGS] = None
    extra_env: Annotated[list[EnvVar] | None, _ENV] = None
    security_context: Annotated[dict[str, Any] | None, Is(free=True)] = None
    host_paths: Annotated[list[dict[str, Any]] | None, Is(free=True, max_items=32)] = None
    runtime_class_name: str = ""
    transport: GroupTransport | None = None
    fabric_interface_count: Annotated[int | None, Is(doc="RDMA and EFA only.", minimum=1, format="int32")] = None
    local_disks: Annotated[list[LocalDisk] | None, Is(max_items=1)] = None


class ScaleIn(msgspec.Struct, frozen=True, rename="camel"):
    grace_period_seconds: Annotated[int | None, Is(minimum=0, maximum=3600, format="int32")] = None


class Managed(msgspec.Struct, frozen=True, rename="camel"):
    leader: Leader = Leader()
    members: Annotated[list[MemberGroup] | None, Is(min_items=1, max_items=32, required=True)] = None
    scale_in: ScaleIn | None = None


class Endpoint(msgspec.Struct, frozen=True, rename="camel"):
    name: Annotated[str, Is(enum=("Client", "Admin"), required=True)] = ""
    address: Annotated[str, Is(doc="host:port", max_length=259, required=True)] = ""


class External(msgspec.Struct, frozen=True, rename="camel"):
    endpoints: Annotated[list[Endpoint] | None, Is(map_keys=("name",), required=True)] = None


class Connection(msgspec.Struct, frozen=True, rename="camel"):
    """A store that is run here, or one that somebody else runs: exactly one."""

    managed: Managed | None = None
    external: External | None = None


class KVCacheBackendSpec(msgspec.Struct, frozen=True, rename="camel"):
    type: Annotated[str, Is(enum=("Mooncake",), default="Mooncake")] = "Mooncake"
    image: Annotated[str, Is(doc="Image of the store; the setting's when unset.", max_length=512)] = ""
    image_pull_policy: Annotated[str, _PULL] = ""
    image_pull_secrets: Annotated[list[LocalName] | None, Is(max_items=32)] = None
    transport: Annotated[Transport, Is()] = Transport()
    connection: Annotated[Connection | None, Is(required=True)] = None

    @property
    def managed(self) -> Managed | None:
        return self.connection.managed if self.connection else None


class Claim(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    kind: str = ""
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


_CONDITIONS: Final = Is(map_keys=("type",))
_PHASE: Final = Is(enum=("Provisioning", "Ready", "Degraded", "Error", "Deleting"))


class KVCacheBackendStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    phase: Annotated[str, _PHASE] = ""
    phase_message: str = ""
    endpoints: Annotated[list[Endpoint] | None, Is(map_keys=("name",))] = None
    capacity: Annotated[Quantity | None, _QUANTITY] = None
    members: Annotated[list[dict[str, Any]] | None, Is(free=True)] = None
    used_by: list[Claim] | None = None
    conditions: Annotated[list[Condition] | None, _CONDITIONS] = None


class KVCacheBackend(msgspec.Struct, frozen=True, rename="camel"):
    metadata: Metadata
    spec: KVCacheBackendSpec = KVCacheBackendSpec()
    status: KVCacheBackendStatus = KVCacheBackendStatus()


class PoolQuota(msgspec.Struct, frozen=True, rename="camel"):
    total: Annotated[Quantity | None, Is(doc="What all Bindings share.", format="quantity", required=True)] = None


class KVCachePoolSpec(msgspec.Struct, frozen=True, rename="camel"):
    backends: Annotated[
        list[str] | None, Is(doc="Exactly one KVCacheBackend.", min_items=1, max_items=1, required=True)
    ] = None
    quota: Annotated[PoolQuota | None, Is(required=True)] = None

    @property
    def backend(self) -> str:
        """Its name, "" when none is named."""
        return self.backends[0] if self.backends else ""


class DomainStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    name: str = ""
    binding: Claim | None = None
    block_size: int | None = None
    dtype: str = ""
    blocks: int | None = None
    hit_rate: str = ""


class Usage(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    total: Annotated[Quantity | None, _QUANTITY] = None


class KVCachePoolStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    phase: Annotated[str, _PHASE] = ""
    phase_message: str = ""
    client_endpoint: Annotated[str, Is(doc="Where engines reach the store's master.")] = ""
    usage: Usage | None = None
    domains: list[DomainStatus] | None = None
    used_by: list[Claim] | None = None
    conditions: Annotated[list[Condition] | None, _CONDITIONS] = None

    @property
    def ledger(self) -> Condition | None:
        """QuotaLedgerAvailable, None while nobody has said."""
        return next((one for one in self.conditions or () if one.type == LEDGER), None)


class KVCachePool(msgspec.Struct, frozen=True, rename="camel"):
    metadata: Metadata
    spec: KVCachePoolSpec = KVCachePoolSpec()
    status: KVCachePoolStatus = KVCachePoolStatus()


class Reference(msgspec.Struct, frozen=True, rename="camel"):
    name: Annotated[str, Is(min_length=1, required=True)] = ""


class BindingQuota(msgspec.Struct, frozen=True, rename="camel"):
    ceiling: Annotated[Quantity | None, Is(doc="Most that the domain may hold.", format="quantity", required=True)] = (
        None
    )


class Domain(msgspec.Struct, frozen=True, rename="camel"):
    """Blocks are reused within a domain; the store calls it a tenant."""

    name: Annotated[str, Is(doc="A DNS label.", min_length=1, max_length=63, default="default")] = "default"
    block_size: Annotated[int | None, Is(doc="Tokens per block.", minimum=1, format="int32")] = None
    dtype: Annotated[
        str, Is(doc="Data type of cached blocks, as the engine spells it.", min_length=1, max_length=32, required=True)
    ] = ""


class KVCachePoolBindingSpec(msgspec.Struct, frozen=True, rename="camel"):
    pool_ref: Annotated[Reference | None, Is(doc="The KVCachePool.", required=True)] = None
    quota: Annotated[BindingQuota | None, Is(required=True)] = None
    domain: Annotated[Domain | None, Is(required=True)] = None

    @property
    def pool(self) -> str:
        return self.pool_ref.name if self.pool_ref else ""


class KVCachePoolBindingStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    phase: Annotated[str, _PHASE] = ""
    phase_message: str = ""
    requested_quota: Annotated[Quantity | None, _QUANTITY] = None
    effective_quota: Annotated[Quantity | None, _QUANTITY] = None
    usage: Annotated[Quantity | None, _QUANTITY] = None
    over_quota: bool | None = None
    blocks: Annotated[int | None, Is(format="int64")] = None
    hit_rate: str = ""
    used_by: list[Claim] | None = None
    conditions: Annotated[list[Condition] | None, _CONDITIONS] = None


class KVCachePoolBinding(msgspec.Struct, frozen=True, rename="camel"):
    metadata: Metadata
    spec: KVCachePoolBindingSpec = KVCachePoolBindingSpec()
    status: KVCachePoolBindingStatus = KVCachePoolBindingStatus()
