"""CacheBackend of `inferencecache.io/v1alpha1`: an engine-side cache, an optional remote tier, and who is wired to it.

Field names, enums, bounds and defaults are the contract's. Structs are lenient (see crds.schema); what makes sense
together is handlers/cachebackend/validate.py.

Rules: seed 004, tables "Spec" and "Status"; spec/inferencecache.md section 6.1.
"""

from typing import Annotated, Any, ClassVar, Final

import msgspec

from crds.inferencecache import GROUP
from crds.meta import Condition, Metadata
from crds.schema import Is, Rule

CACHE_BACKENDS: Final = f"cachebackends.{GROUP}"

Quantity = str | int
Resources = Annotated[dict[str, Annotated[Quantity, Is(format="quantity")]], Is()]


class HostMemory(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    capacity: Annotated[
        Quantity | None,
        Is(
            doc="Memory of the engine's host that the cache may use.",
            format="quantity",
            rules=(Rule("quantity(string(self)).compareTo(quantity('0')) > 0", "capacity must be greater than 0"),),
        ),
    ] = None


class LMCache(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Typed settings of LMCache inside the engine's Pod."""

    chunk_size_tokens: Annotated[int | None, Is(doc="Tokens per chunk.", minimum=1, format="int32")] = None
    host_memory: Annotated[HostMemory | None, Is(doc="The cache's share of host memory.")] = None
    worker_image: Annotated[str, Is(doc="Image of SGLang's LMCache worker; the engine's when unset.")] = ""
    worker_port: Annotated[
        int | None, Is(doc="Loopback port of SGLang's LMCache worker.", minimum=1, maximum=65535, format="int32")
    ] = None
    remote_serde: Annotated[str, Is(doc="How vLLM's LMCache serialises what it sends to the remote tier.")] = ""


class ResourceRequirements(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    limits: Annotated[dict[str, Annotated[Quantity, Is(format="quantity")]] | None, Is()] = None
    requests: Annotated[dict[str, Annotated[Quantity, Is(format="quantity")]] | None, Is()] = None
    claims: Annotated[list[dict[str, Any]] | None, Is(doc="Not supported; refused at admission.", free=True)] = None


_IMAGE: Final = Is(doc="Image of the managed workload.")
_RESOURCES: Final = Is(doc="Resources of the managed container; 4Gi requested, 8Gi at most when unset.")
_COMMAND: Final = Is(doc="Command and arguments, instead of the default's.", min_items=1)


class Redis(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    image: Annotated[str, _IMAGE] = ""
    resources: Annotated[ResourceRequirements | None, _RESOURCES] = None


class Server(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """An LMCache server or a Mooncake master."""

    image: Annotated[str, _IMAGE] = ""
    command: Annotated[list[Annotated[str, Is(min_length=1)]] | None, _COMMAND] = None
    resources: Annotated[ResourceRequirements | None, _RESOURCES] = None


class RemoteStorage(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    provider: Annotated[
        str, Is(doc="Technology of the remote tier.", enum=("Redis", "LMCacheServer", "Mooncake"), required=True)
    ] = ""
    ownership: Annotated[
        str, Is(doc="Who runs it: this controller, or somebody else.", enum=("Managed", "External"), required=True)
    ] = ""
    endpoint: Annotated[str, Is(doc="host:port of External storage; refused for Managed.")] = ""
    redis: Annotated[Redis | None, Is(doc="Settings of a managed Redis.")] = None
    lm_cache_server: Annotated[Server | None, Is(doc="Settings of a managed LMCache server.")] = None
    mooncake: Annotated[Server | None, Is(doc="Settings of a managed Mooncake master.")] = None


class Observation(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    model_id: Annotated[str, Is(doc="Model id that the KV-event subscriber reports.")] = msgspec.field(
        default="", name="modelID"
    )
    first_event_timeout: Annotated[
        str | None, Is(doc="How long to wait for the first KV event.", format="duration", default="5m")
    ] = None


class Autoscaling(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    min_replicas: Annotated[int | None, Is(doc="Fewest replicas.", minimum=1, format="int32")] = None
    max_replicas: Annotated[int | None, Is(doc="Most replicas.", minimum=1, format="int32", required=True)] = None
    target_cpu_utilization_percent: Annotated[
        int | None,
        Is(doc="Average CPU use to hold, in percent; 80 when unset.", minimum=1, maximum=100, format="int32"),
    ] = msgspec.field(default=None, name="targetCPUUtilizationPercent")

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.minReplicas) || self.minReplicas <= self.maxReplicas",
            "minReplicas must not be greater than maxReplicas",
            holds=lambda given: given.get("minReplicas") is None or given["minReplicas"] <= given["maxReplicas"],
        ),
    )


class EnvVar(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    name: Annotated[str, Is(required=True)] = ""
    value: str | None = None
    value_from: Annotated[dict[str, Any] | None, Is(free=True)] = None


class EngineOverrides(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    args: Annotated[list[str] | None, Is(doc="Arguments that replace injected ones or are added.")] = None
    suppress_args: Annotated[list[str] | None, Is(doc="Flags that are not injected.")] = None
    env: Annotated[list[EnvVar] | None, Is(doc="Environment that replaces what is injected or is added.")] = None
    suppress_env: Annotated[list[str] | None, Is(doc="Environment variables that are not injected.")] = None


class Integration(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    mode: Annotated[
        str,
        Is(
            doc="EventsOnly wires no KV connector.",
            enum=("Offload", "EventsOnly"),
            default="Offload",
        ),
    ] = "Offload"
    role: Annotated[
        str,
        Is(doc="What engines do with the cache.", enum=("ReadOnly", "WriteOnly", "ReadWrite"), default="ReadWrite"),
    ] = "ReadWrite"
    fail_open: Annotated[bool, Is(doc="Serve without the cache when it cannot be reached.", default=True)] = True
    engine_overrides: Annotated[EngineOverrides | None, Is(doc="Changes to what is injected into engines.")] = None
    engine_host_network: Annotated[bool, Is(doc="Move matched engines to the host network (Mooncake).")] = False


class EngineSelector(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    match_labels: Annotated[dict[str, str] | None, Is(doc="Labels that an engine's Pod must all have.")] = None


class HiCache(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    size_gb: Annotated[int | None, Is(doc="Host memory in GB.", minimum=1, format="int32")] = msgspec.field(
        default=None, name="sizeGB"
    )
    ratio: Annotated[str | None, Is(doc="Host memory as a multiple of the device's, a decimal.")] = None
    write_policy: Annotated[str | None, Is(enum=("write_back", "write_through", "write_through_selective"))] = None
    io_backend: Annotated[str | None, Is(enum=("direct", "kernel", "kernel_ascend"))] = None
    memory_layout: Annotated[
        str | None,
        Is(enum=("layer_first", "page_first", "page_first_direct", "page_first_kv_split", "page_head")),
    ] = None


class Template(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Overrides of a managed Pod. Values are passed through as they are."""

    node_selector: dict[str, str] | None = None
    affinity: Annotated[dict[str, Any] | None, Is(free=True)] = None
    tolerations: Annotated[list[dict[str, Any]] | None, Is(free=True)] = None
    topology_spread_constraints: Annotated[list[dict[str, Any]] | None, Is(free=True)] = None
    image_pull_secrets: Annotated[list[dict[str, Any]] | None, Is(free=True)] = None
    service_account_name: str = ""
    security_context: Annotated[dict[str, Any] | None, Is(free=True)] = None
    priority_class_name: str = ""
    scheduler_name: str = ""
    runtime_class_name: str | None = None
    termination_grace_period_seconds: Annotated[int | None, Is(minimum=0, format="int64")] = None


class CacheBackendSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    runtime: Annotated[str, Is(doc="Inference runtime of the engines.", enum=("VLLM", "SGLang"), required=True)] = ""
    type: Annotated[
        str, Is(doc="Cache implementation inside the engine.", enum=("LMCache", "SGLangHiCache"), default="LMCache")
    ] = "LMCache"
    lm_cache: Annotated[LMCache | None, Is(doc="Settings of LMCache.")] = None
    remote_storage: Annotated[RemoteStorage | None, Is(doc="Remote tier; none is host memory only.")] = None
    observation: Annotated[Observation | None, Is(doc="What to observe of the engines' KV events.")] = None
    deployment_kind: Annotated[
        str, Is(doc="Kind of the managed workload.", enum=("Deployment", "StatefulSet"), default="Deployment")
    ] = "Deployment"
    replicas: Annotated[
        int | None, Is(doc="Replicas of the managed workload.", minimum=0, format="int32", default=1)
    ] = None
    autoscaling: Annotated[Autoscaling | None, Is(doc="A HorizontalPodAutoscaler for the managed workload.")] = None
    integration: Annotated[Integration | None, Is(doc="How engines are wired.")] = None
    engine_selector: Annotated[EngineSelector | None, Is(doc="Which Pods are engines of this backend.")] = None
    hi_cache: Annotated[HiCache | None, Is(doc="Settings of SGLang's own host cache.")] = None
    template: Annotated[Template | None, Is(doc="Overrides of the managed Pods.")] = None
    allow_cross_namespace: Annotated[
        bool, Is(doc="Let the endpoint be a Service of another namespace.", default=False)
    ] = False

    @property
    def offload(self) -> bool:
        return self.integration is None or self.integration.mode != "EventsOnly"

    @property
    def wiring(self) -> Integration:
        return self.integration or Integration()

    @property
    def labels(self) -> dict[str, str]:
        """What an engine's Pod must have; empty claims no Pod."""
        return (self.engine_selector.match_labels if self.engine_selector else None) or {}


_DECIMAL: Final = Is(doc="A share between 0 and 1, as the shortest decimal.")


class IndexParticipation(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """What the prefix index holds of this backend's engines."""

    prefix_count: Annotated[int | None, Is(doc="Keys held by its replicas.", format="int64")] = None
    last_event_at: Annotated[str | None, Is(doc="Newest KV event.", format="date-time")] = None
    hit_rate: Annotated[str | None, _DECIMAL] = None
    t2_hit_rate: Annotated[str | None, _DECIMAL] = None


class CacheBackendStatus(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    observed_generation: Annotated[int | None, Is(format="int64")] = None
    endpoint: Annotated[str, Is(doc="Where clients reach the remote tier.")] = ""
    matched_engine_pods: Annotated[int | None, Is(doc="Pods that the selector matches.", format="int32")] = None
    engine_selector_message: Annotated[str, Is(doc="Why no Pod matches, where some should.")] = ""
    fail_open: Annotated[bool | None, Is(doc="The effective spec.integration.failOpen.")] = None
    index_participation: Annotated[IndexParticipation | None, Is()] = None
    first_kv_event_observed_at: Annotated[str | None, Is(doc="First KV event ever.", format="date-time")] = (
        msgspec.field(default=None, name="firstKVEventObservedAt")
    )
    first_available_at: Annotated[str | None, Is(doc="Start of the wait for the first event.", format="date-time")] = (
        None
    )
    observed_server_instance: Annotated[str, Is(doc="Pods of the cache server that engines were last rolled for.")] = ""
    conditions: Annotated[list[Condition] | None, Is(map_keys=("type",))] = None


class CacheBackend(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    metadata: Metadata
    spec: CacheBackendSpec = CacheBackendSpec()
    status: CacheBackendStatus = CacheBackendStatus()
