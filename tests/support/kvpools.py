"""Backends, pools, Bindings and Pods for tests of KV cache injection."""

import copy
from typing import Any

from crds import kvcache, schema
from handlers.kvcachepool import admit, names
from handlers.kvcachepool.inject import Settings
from handlers.outcome import Object
from handlers.world import kinds
from handlers.world.reader import Reader
from handlers.world.state import Known, Listed, World

KINDS = {
    "KVCacheBackend": kvcache.BACKENDS,
    "KVCachePool": kvcache.POOLS,
    "KVCachePoolBinding": kvcache.BINDINGS,
}
TRUE = {"type": "QuotaLedgerAvailable", "status": "True", "reason": "Available"}
DISABLED = {"type": "QuotaLedgerAvailable", "status": "False", "reason": "MultiTenancyDisabled"}


def binding(name: str = "chat", namespace: str = "team", pool: str = "main", **domain: Any) -> Object:
    return {
        "apiVersion": "worker.gpustack.ai/v1",
        "kind": "KVCachePoolBinding",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "poolRef": {"name": pool},
            "quota": {"ceiling": "1Gi"},
            "domain": {"name": "team-chat", "dtype": "bfloat16", **domain},
        },
    }


def pool(
    name: str = "main", backend: str = "store", condition: Object | None = TRUE, endpoint: str = "m:50051"
) -> Object:
    return {
        "apiVersion": "worker.gpustack.ai/v1",
        "kind": "KVCachePool",
        "metadata": {"name": name},
        "spec": {"backends": [backend] if backend else [], "quota": {"total": "10Gi"}},
        "status": {"clientEndpoint": endpoint, "conditions": [condition] if condition else []},
    }


def backend(name: str = "store", *groups: str, protocol: str = "TCP", tenancy: bool | None = None) -> Object:
    members = [
        {
            "nodeSelector": {"g": str(number)},
            "medium": "DRAM",
            "capacityPerMember": "1Gi",
            "transport": {"protocol": one},
        }
        for number, one in enumerate(groups)
    ]
    members = members or [{"nodeSelector": {"g": "0"}, "medium": "DRAM", "capacityPerMember": "1Gi"}]
    leader = {} if tenancy is None else {"multiTenancy": tenancy}
    return {
        "apiVersion": "worker.gpustack.ai/v1",
        "kind": "KVCacheBackend",
        "metadata": {"name": name},
        "spec": {
            "transport": {"protocol": protocol},
            "connection": {"managed": {"leader": leader, "members": members}},
        },
    }


def external(name: str = "store", client: str = "10.0.0.1:50051", admin: str = "10.0.0.1:9003") -> Object:
    endpoints = [{"name": "Client", "address": client}, {"name": "Admin", "address": admin}]
    metadata = {"name": name}
    return {
        "apiVersion": "worker.gpustack.ai/v1",
        "kind": "KVCacheBackend",
        "metadata": metadata,
        "spec": {"connection": {"external": {"endpoints": endpoints}}},
    }


STORE = (binding(), pool(), backend())


def world(*objects: Object) -> Reader:
    made = World(sequence=1)
    for kind in KINDS.values():
        made.listed[kind] = Listed(1, 1, 0)
    for one in objects:
        kind, metadata = KINDS[one["kind"]], one["metadata"]
        value, problem = kinds.decode(kind, schema.without_nulls(one))
        spaces = made.objects.setdefault(kind, {})
        known = Known(f"uid-{metadata['name']}", "1", 1, 1, 1, value, problem)
        spaces.setdefault(metadata.get("namespace", ""), {})[metadata["name"]] = known
    return Reader(made)


def pod(engine: str = "vLLM", annotations: Object | None = None, **container: Any) -> Object:
    launch = {"command": ["vllm"], "args": ["serve", "m"]}
    if engine == "SGLang":
        launch = {"command": ["python3", "-m", "sglang.launch_server"], "args": ["--model-path", "m"]}
    given = {names.BINDING: "chat", names.ENGINE: engine, **(annotations or {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "chat-0",
            "namespace": "team",
            "labels": {names.INJECT: "true"},
            "annotations": {key: value for key, value in given.items() if value is not None},
        },
        "spec": {"containers": [{"name": "server", "image": "registry/engine:1", **launch, **container}]},
    }


def changed(document: Object, **fields: Any) -> Object:
    """A copy with fields set by their path, `spec__quota__total=…`; None takes one away."""
    made = copy.deepcopy(document)
    for path, value in fields.items():
        *parts, last = path.split("__")
        at = made
        for part in parts:
            at = at[int(part)] if isinstance(at, list) else at.setdefault(part, {})
        if value is None:
            at.pop(last, None)
        else:
            at[last] = value
    return made


INJECTION = admit.Injection(Settings())
