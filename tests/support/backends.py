"""CacheBackends for tests of their handler, and what a world shows of one: its workload, its engines, its status."""

from typing import Any

from crds import cachebackend, core
from handlers.cachebackend import names, providers
from handlers.cachebackend.system import KINDS, CacheBackends
from handlers.outcome import Key, Outcome, Patch, Status
from handlers.world.reader import Reader
from tests.support.worlds import Teller

KEY = Key(cachebackend.CACHE_BACKENDS, "ml", "kv")
SYSTEM = CacheBackends()
OWNER: list[dict[str, Any]] = [{"kind": "CacheBackend", "name": "kv", "uid": "uid-kv", "controller": True}]


def teller() -> Teller:
    return Teller(*KINDS)


def backend(*, annotations: dict[str, str] | None = None, generation: int = 1, **spec: Any) -> dict[str, Any]:
    metadata = {"name": "kv", "namespace": "ml", "generation": generation, "annotations": annotations or {}}
    given = {"runtime": "VLLM", "engineSelector": {"matchLabels": {"serve": "qwen"}}, **spec}
    return {"metadata": metadata, "spec": given}


MANAGED = {"remoteStorage": {"provider": "LMCacheServer", "ownership": "Managed"}}


def deployment(*, available: int = 1, owner: Any = OWNER, name: str = "kv", replicas: int = 1) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "ml", "generation": 1, "ownerReferences": owner},
        "spec": {
            "replicas": replicas,
            "template": {"metadata": {"labels": {}}, "spec": {"containers": [{"name": "lmcache-server"}]}},
        },
        "status": {
            "observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "readyReplicas": available,
            "availableReplicas": available,
        },
    }  # fmt: skip


def service(*, owner: Any = OWNER, cluster_ip: str = "10.0.0.1") -> dict[str, Any]:
    ports = [{"name": "lmcache", "port": 65432, "targetPort": "lmcache"}]
    labels = {
        "app.kubernetes.io/name": "cachebackend",
        "app.kubernetes.io/instance": "kv",
        "app.kubernetes.io/managed-by": "inference-cache-controller",
    }
    metadata = {"name": "kv", "namespace": "ml", "ownerReferences": owner}
    return {"metadata": metadata, "spec": {"clusterIP": cluster_ip, "ports": ports, "selector": labels}}


def engine(name: str, *, wired: bool = True, owner: Any = (), **status: Any) -> dict[str, Any]:
    marks = {names.INJECTED_BY: "ml/kv", names.INJECTED_BY_UID: "uid-kv"} if wired else {}
    metadata = {"name": name, "namespace": "ml", "labels": {"serve": "qwen"}, "annotations": marks}
    return {"metadata": {**metadata, "ownerReferences": list(owner)}, "status": {"phase": "Running", **status}}


def look(told: Teller, key: Key = KEY) -> Outcome:
    return SYSTEM.desired(Reader(told.world), key)


def settle(told: Teller, key: Key = KEY) -> tuple[dict[str, Any], list[str]]:
    """Carry out until nothing is left to do: the status that is shown then, and the Events on the way."""
    reasons: list[str] = []
    for _ in range(5):
        outcome = look(told, key)
        new = told.carry_out(key, outcome)
        reasons += new
        if not new and not any(isinstance(one, Status | Patch) for one in outcome.intents):
            return Reader(told.world).status(key, {}), reasons
    raise AssertionError("it never settles")


def change(told: Teller, generation: int, **spec: Any) -> None:
    """Its author applies another spec; the status stays, as it does in an API server."""
    status = Reader(told.world).status(KEY, {})
    told.seen(KEY.kind, {**backend(generation=generation, **spec), "status": status})


def condition(status: dict[str, Any], kind: str) -> tuple[str, str] | None:
    found = [one for one in status.get("conditions", []) if one["type"] == kind]
    return (found[0]["status"], found[0]["reason"]) if found else None


def owned_by(kind: str, name: str) -> list[dict[str, Any]]:
    """A controller reference of apps/v1."""
    return [{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": f"uid-{name}", "controller": True}]


def replica_set(name: str, deployment: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "ml", "ownerReferences": owned_by("Deployment", deployment)}}


def server(name: str, restarts: int = 0, *, owner: str = "kv-rs") -> dict[str, Any]:
    """A Ready Pod of the managed workload, with a container of somebody else's beside it."""
    labels = providers.selector(cachebackend.CacheBackend(metadata=cachebackend.Metadata(name="kv", namespace="ml")))
    status = {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [
            {"name": "lmcache-server", "restartCount": restarts}, {"name": "mesh", "restartCount": 40},
        ],
    }  # fmt: skip
    metadata = {"name": name, "namespace": "ml", "uid": f"uid-{name}", "labels": labels}
    return {"metadata": {**metadata, "ownerReferences": owned_by("ReplicaSet", owner)}, "status": status}


def rolled_world() -> Teller:
    """A managed backend and one engine that was wired to it, each under its Deployment."""
    told = teller()
    told.seen(KEY.kind, backend(**MANAGED))
    told.seen(core.SERVICES, service())
    told.seen(core.DEPLOYMENTS, deployment())
    told.seen(core.REPLICA_SETS, replica_set("kv-rs", "kv"))
    told.seen(core.DEPLOYMENTS, deployment(name="engine", owner=[]))
    told.seen(core.REPLICA_SETS, replica_set("rs", "engine"))
    told.seen(core.PODS, engine("e0", owner=owned_by("ReplicaSet", "rs")))
    return told


def patches(told: Teller) -> list[Patch]:
    return [one for one in look(told).intents if isinstance(one, Patch)]
