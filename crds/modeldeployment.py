"""ModelDeployment of `worker.gpustack.ai`: a model served by roles of one engine. Only what touches a cache is known
here; everything else is kept as it is (OPEN).

Rules: spec/worker-gpustack.md section 7.
"""

from typing import Annotated, ClassVar, Final

import msgspec

from crds.cachebackend import EnvVar
from crds.kvcache import GROUP
from crds.meta import Condition, Metadata
from crds.schema import Is

DEPLOYMENTS: Final = f"modeldeployments.{GROUP}"
_CONDITIONS: Final = Is(map_keys=("type",))


class Model(msgspec.Struct, frozen=True, rename="camel"):
    OPEN: ClassVar = True

    name: Annotated[str, Is(max_length=253)] = ""


class Engine(msgspec.Struct, frozen=True, rename="camel"):
    OPEN: ClassVar = True

    name: Annotated[str, Is(enum=("vLLM", "SGLang"), required=True)] = ""
    version: str = ""


class CacheReference(msgspec.Struct, frozen=True, rename="camel"):
    name: Annotated[str, Is(doc="A KVCachePoolBinding of the same namespace.", required=True)] = ""


class KVCache(msgspec.Struct, frozen=True, rename="camel"):
    pool_ref: Annotated[CacheReference | None, Is(required=True)] = None
    connector: Annotated[str, Is(enum=("Mooncake",), default="Mooncake")] = "Mooncake"

    @property
    def binding(self) -> str:
        return self.pool_ref.name if self.pool_ref else ""


class KVTransfer(msgspec.Struct, frozen=True, rename="camel"):
    protocol: Annotated[str, Is(enum=("Auto", "TCP", "RDMA", "EFA", "CANN", "ROCM"), default="Auto")] = "Auto"


class Router(msgspec.Struct, frozen=True, rename="camel"):
    OPEN: ClassVar = True

    name: str = ""


class RoleResources(msgspec.Struct, frozen=True, rename="camel"):
    OPEN: ClassVar = True

    interface: Annotated[int | None, Is(doc="Fabric interfaces per replica.", minimum=0, format="int32")] = None


class Role(msgspec.Struct, frozen=True, rename="camel"):
    OPEN: ClassVar = True

    name: Annotated[str, Is(min_length=1, required=True)] = ""
    kind: Annotated[str, Is(enum=("Server", "Prefill", "Decode"), default="Server")] = "Server"
    replicas: Annotated[int | None, Is(minimum=0, maximum=1024, format="int32")] = None
    size: Annotated[int | None, Is(minimum=1, maximum=64, format="int32")] = None
    instance_type: str = ""
    command: Annotated[list[str] | None, Is(doc="Take over: nothing is added to it.")] = None
    resources: RoleResources | None = None
    extra_args: Annotated[list[str] | None, Is(doc="Appended to the engine's arguments.")] = None
    env: Annotated[list[EnvVar] | None, Is(map_keys=("name",))] = None


class ModelDeploymentSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The part that touches a cache."""

    OPEN: ClassVar = True

    model: Model | None = None
    engine: Annotated[Engine | None, Is(required=True)] = None
    kv_cache: KVCache | None = None
    kv_transfer: KVTransfer | None = None
    router: Router | None = None
    roles: Annotated[list[Role] | None, Is(min_items=1, max_items=10, map_keys=("name",), required=True)] = None


class RoleStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    OPEN: ClassVar = True

    name: str = ""
    unmanaged: bool | None = None


class ModelDeploymentStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    OPEN: ClassVar = True

    roles: list[RoleStatus] | None = None
    conditions: Annotated[list[Condition] | None, _CONDITIONS] = None


class ModelDeployment(msgspec.Struct, frozen=True, rename="camel"):
    metadata: Metadata
    spec: ModelDeploymentSpec = ModelDeploymentSpec()
    status: ModelDeploymentStatus = ModelDeploymentStatus()
