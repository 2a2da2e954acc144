"""What a managed remote tier is made of: one row per provider, and the objects that are rendered from it.

Deployment, Service and autoscaler carry the CacheBackend's name and belong to it. Every field that the API server would
default is left out or written as it defaults it, so that applying twice changes nothing.

Rules: seed 004, "Resources", "Template Overrides", provider sections; spec/inferencecache.md section 7.
"""

import math
import shlex
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from crds.cachebackend import CacheBackend, CacheBackendSpec, RemoteStorage, ResourceRequirements, Template
from handlers import quantity
from handlers.cachebackend import names
from handlers.outcome import Object


class Provider(NamedTuple):
    """`ports` of the container by name; `published` are those that the Service has, the first is the endpoint."""

    container: str
    image: str
    command: tuple[str, ...]
    args: tuple[str, ...]
    ports: Mapping[str, int]
    published: tuple[str, ...]
    delay: int
    host_network: bool = False


PROVIDERS: Final = {
    "LMCacheServer": Provider(
        "lmcache-server",
        "lmcache/standalone:v0.4.7",
        ("lmcache_server",),
        ("0.0.0.0", "65432", "cpu"),
        {"lmcache": 65432},
        ("lmcache",),
        5,
    ),
    "Mooncake": Provider(
        "mooncake-master",
        "docker.io/kvcacheai/mooncake:0.3.11.post1",
        ("mooncake_master",),
        (
            "--rpc_port=50051",
            "--metrics_port=9003",
            "--enable_http_metadata_server=true",
            "--http_metadata_server_host=0.0.0.0",
            "--http_metadata_server_port=8080",
        ),
        {"mooncake-rpc": 50051, "mooncake-meta": 8080, "metrics": 9003},
        ("mooncake-rpc", "mooncake-meta"),
        5,
        host_network=True,
    ),
    "Redis": Provider("redis-l2", "docker.io/library/redis:7.4-alpine", (), (), {"redis": 6379}, ("redis",), 3),
}

DEFAULT_RESOURCES: Final = {"requests": {"memory": "4Gi"}, "limits": {"memory": "8Gi"}}
CPU_REQUEST: Final = "250m"


class Rendered(NamedTuple):
    """Bodies for server-side apply. `deployment` has no replicas where an autoscaler owns them."""

    deployment: Object
    service: Object
    autoscaler: Object | None


def selector(backend: CacheBackend) -> dict[str, str]:
    return {
        "app.kubernetes.io/name": "cachebackend",
        "app.kubernetes.io/instance": backend.metadata.name,
        "app.kubernetes.io/managed-by": names.MANAGED_BY,
    }


def endpoint(backend: CacheBackend) -> str:
    """host:port of the Service that is rendered for a managed backend."""
    storage = backend.spec.remote_storage
    provider = PROVIDERS[storage.provider if storage else ""]
    host = f"{backend.metadata.name}.{backend.metadata.namespace}.svc.cluster.local"
    return f"{host}:{provider.ports[provider.published[0]]}"


def singleton(spec: CacheBackendSpec) -> bool:
    """What must not run twice, even when an older version stored it so."""
    provider = PROVIDERS[spec.remote_storage.provider if spec.remote_storage else ""]
    return provider.host_network or (spec.runtime, spec.type) == ("SGLang", "LMCache")


def scaled(spec: CacheBackendSpec) -> bool:
    """Whether an autoscaler chooses the replicas."""
    return spec.autoscaling is not None and not singleton(spec)


def replicas(spec: CacheBackendSpec) -> int:
    wanted = 1 if spec.replicas is None else spec.replicas
    return min(wanted, 1) if singleton(spec) else wanted


def render(backend: CacheBackend, *, live_replicas: int | None = None) -> Rendered:
    """`live_replicas` is what the Deployment has now: an autoscaler's choice is kept, not under its floor."""
    storage = backend.spec.remote_storage
    if storage is None or storage.provider not in PROVIDERS:
        raise ValueError(f"{backend.metadata.name} has no managed storage to render")
    provider = PROVIDERS[storage.provider]
    chosen = scaled(backend.spec)
    if chosen:
        floor = (backend.spec.autoscaling.min_replicas if backend.spec.autoscaling else None) or 1
        count = max(live_replicas or 0, floor)
    else:
        count = replicas(backend.spec)
    deployment = _deployment(backend, storage, provider, count, cpu=backend.spec.autoscaling is not None)
    return Rendered(deployment, _service(backend, provider), _autoscaler(backend) if chosen else None)


def _meta(backend: CacheBackend) -> Object:
    return {
        "name": backend.metadata.name,
        "namespace": backend.metadata.namespace,
        "labels": {**selector(backend), names.BACKEND_TYPE: backend.spec.type},
        "ownerReferences": [
            {
                "apiVersion": "inferencecache.io/v1alpha1",
                "kind": "CacheBackend",
                "name": backend.metadata.name,
                "uid": backend.metadata.uid,
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }


def _deployment(backend: CacheBackend, storage: RemoteStorage, provider: Provider, count: int, *, cpu: bool) -> Object:
    spec: Object = {
        "containers": [container(storage, provider, cpu=cpu)],
        **_overrides(backend.spec.template or Template()),
    }
    if provider.host_network:
        spec |= {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
    labels = {**selector(backend), names.BACKEND_TYPE: backend.spec.type}
    made: Object = {
        "replicas": count,
        "selector": {"matchLabels": selector(backend)},
        "template": {"metadata": {"labels": labels}, "spec": spec},
    }
    if provider.host_network:
        made["strategy"] = {"type": "Recreate"}  # a surge Pod could not bind the ports that the old one holds
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": _meta(backend), "spec": made}


def _overrides(template: Template) -> Object:
    given = msgspec.to_builtins(template)
    return {key: value for key, value in given.items() if value not in (None, "")}


def container(storage: RemoteStorage, provider: Provider, *, cpu: bool) -> Object:
    """`cpu`: a request of CPU must be there."""
    block = {"Redis": storage.redis, "LMCacheServer": storage.lm_cache_server, "Mooncake": storage.mooncake}[
        storage.provider
    ]
    resources = _resources(block.resources if block else None, cpu=cpu)
    command, args = list(provider.command), list(provider.args)
    if storage.provider == "Redis":
        args = redis_args(resources)
    if given := getattr(block, "command", None):
        command, args = [given[0]], list(given[1:])
    probed = provider.published[0]
    made: Object = {
        "name": provider.container,
        "image": (block.image if block else "") or provider.image,
        "imagePullPolicy": "IfNotPresent",
        "ports": [{"name": name, "containerPort": port, "protocol": "TCP"} for name, port in provider.ports.items()],
        "readinessProbe": {
            "tcpSocket": {"port": probed},
            "initialDelaySeconds": provider.delay,
            "periodSeconds": 10,
            "failureThreshold": 6,
        },
        "resources": resources,
    }
    made |= {"command": command} if command else {}
    made |= {"args": args} if args else {}
    return made


def _resources(given: ResourceRequirements | None, *, cpu: bool) -> Object:
    """A block that is there replaces the default whole; an autoscaler needs a CPU request to compute with."""
    if given is None:
        found: dict[str, dict[str, Any]] = {key: dict(value) for key, value in DEFAULT_RESOURCES.items()}
    else:
        found = {key: dict(value) for key in ("requests", "limits") if (value := getattr(given, key))}
    asked = found.get("requests", {}).get("cpu")
    if cpu and (asked is None or quantity.parse(asked) <= 0):
        limit = found.get("limits", {}).get("cpu", CPU_REQUEST)
        small = 0 < quantity.parse(limit) < quantity.parse(CPU_REQUEST)  # a request above its limit is refused
        found.setdefault("requests", {})["cpu"] = limit if small else CPU_REQUEST
    return found


def redis_args(resources: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """A fifth of the memory limit is left to Redis itself; without a limit the default's is taken."""
    total = math.ceil(quantity.parse(resources.get("limits", {}).get("memory", "0")))
    total = total if total > 0 else int(quantity.parse(DEFAULT_RESOURCES["limits"]["memory"]))
    line = f'redis-server --save "" --appendonly no --protected-mode no --maxmemory {total - total // 5}'
    return [*shlex.split(line), "--maxmemory-policy", "allkeys-lru"]


def _service(backend: CacheBackend, provider: Provider) -> Object:
    spec: Object = {
        "type": "ClusterIP",
        "selector": selector(backend),
        "ports": [
            {"name": name, "port": provider.ports[name], "targetPort": name, "protocol": "TCP"}
            for name in provider.published
        ],
    }
    if provider.host_network:
        spec["clusterIP"] = "None"  # resolves to the node itself: engines dial ports that no Service lists
    return {"apiVersion": "v1", "kind": "Service", "metadata": _meta(backend), "spec": spec}


def _autoscaler(backend: CacheBackend) -> Object:
    given = backend.spec.autoscaling
    if given is None:
        raise ValueError("no autoscaling")
    target = {"type": "Utilization", "averageUtilization": given.target_cpu_utilization_percent or 80}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": _meta(backend),
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": backend.metadata.name},
            "minReplicas": given.min_replicas or 1,
            "maxReplicas": given.max_replicas,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
        },
    }
