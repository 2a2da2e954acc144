"""SGLang with LMCache in multiprocess mode: a worker beside the engine that owns the host memory.

The worker is a native sidecar (Kubernetes 1.29 and newer): it writes the configuration file that the engine reads, then
serves on loopback. Engine and worker share /etc/lmcache and /dev/shm. All or nothing: a name that belongs to somebody
else, or a /dev/shm that cannot be written, leaves the Pod as it came.

Rules: seed 004, "SGLang LMCache MP mode"; spec/inferencecache.md section 6.7.
"""

import json
from typing import Any, Final

from crds.cachebackend import CacheBackendSpec
from handlers.admission import podedit
from handlers.cachebackend import converge, names
from handlers.cachebackend.adapters.base import Declined, Remote, host_gib
from handlers.outcome import Object

CONFIG_DIR: Final = "/etc/lmcache"
CONFIG: Final = f"{CONFIG_DIR}/config.yaml"
SHM: Final = "/dev/shm"
CONFIG_VOLUME: Final = "lmcache-config"
SHM_VOLUME: Final = "lmcache-dshm"
OURS: Final = {"name": "INFERENCECACHE_MP_WORKER", "value": "true"}

#: Sources that can never be written.
READ_ONLY: Final = ("configMap", "secret", "downwardAPI", "projected", "image")
#: Sources that are read-only when they say so.
MAY_BE_READ_ONLY: Final = (
    "persistentVolumeClaim", "csi", "nfs", "cephfs", "rbd", "iscsi", "fc", "glusterfs", "azureDisk", "azureFile",
    "gcePersistentDisk", "awsElasticBlockStore", "cinder", "portworxVolume", "quobyte", "scaleIO", "storageos",
    "flexVolume",
)  # fmt: skip


def inject(pod: Object, engine: Object, spec: CacheBackendSpec, remote: Remote | None) -> None:
    existing = podedit.named(pod["spec"].get("initContainers"), names.MP_WORKER)
    own = existing is not None and OURS in (existing.get("env") or [])
    _refuse_collisions(pod, engine, existing, own=own)
    config = {"name": CONFIG_VOLUME, "mountPath": CONFIG_DIR}
    podedit.upsert(pod["spec"], "volumes", {"name": CONFIG_VOLUME, "emptyDir": {}})
    shm = _shared_memory(pod, engine, gib=_gib(spec))
    for mount in (config, shm):
        _mount(engine, mount)
    converge.upsert(pod["spec"], "initContainers", worker(engine, spec, remote, mounts=[config, shm]))
    _switch(engine, "--enable-lmcache")
    podedit.set_flag(engine, "--lmcache-config-file", CONFIG)
    podedit.set_env(engine, "LMCACHE_USE_EXPERIMENTAL", "True")
    podedit.set_env(engine, "INFERENCECACHE_FAIL_OPEN", str(spec.wiring.fail_open).lower())


def _refuse_collisions(pod: Object, engine: Object, existing: Object | None, *, own: bool) -> None:
    if existing is not None and not own:
        raise Declined("reserved-name", f"the init container {names.MP_WORKER} is the Pod's own; rename it")
    if podedit.named(podedit.containers(pod), names.MP_WORKER) is not None:
        raise Declined("reserved-name", f"the container {names.MP_WORKER} is the Pod's own; rename it")
    for name in (CONFIG_VOLUME, SHM_VOLUME):
        if podedit.named(pod["spec"].get("volumes"), name) is not None and not own:
            raise Declined("reserved-name", f"the volume {name} is the Pod's own; rename it")
    for mount in engine.get("volumeMounts") or []:
        if _path(mount) == CONFIG_DIR and mount.get("name") != CONFIG_VOLUME:
            raise Declined("reserved-path", f"{CONFIG_DIR} is mounted from the Pod's volume {mount.get('name')}")


def _path(mount: Object) -> str:
    return str(mount.get("mountPath", "")).rstrip("/")


def _shared_memory(pod: Object, engine: Object, *, gib: int) -> Object:
    """The mount of /dev/shm for the worker: the engine's own, or a volume that is made for it."""
    mount = next((one for one in engine.get("volumeMounts") or [] if _path(one) == SHM), None)
    if mount is None or mount.get("name") == SHM_VOLUME:
        source = {"medium": "Memory", "sizeLimit": f"{gib + 1}Gi"}
        podedit.upsert(pod["spec"], "volumes", {"name": SHM_VOLUME, "emptyDir": source})
        return {"name": SHM_VOLUME, "mountPath": SHM}
    if mount.get("readOnly"):
        raise Declined("shm-read-only", f"{SHM} is mounted read-only; the cache writes there")
    if mount.get("subPathExpr"):
        raise Declined("shm-sub-path", f"{SHM} is mounted with subPathExpr, which the worker cannot share")
    volume = podedit.named(pod["spec"].get("volumes"), str(mount.get("name"))) or {}
    kind = next((one for one in READ_ONLY if one in volume), "")
    if kind or any((volume.get(one) or {}).get("readOnly") for one in MAY_BE_READ_ONLY):
        raise Declined("shm-read-only", f"{SHM} comes from a {kind or 'read-only volume'}; the cache writes there")
    return {key: mount[key] for key in ("name", "mountPath", "subPath") if key in mount}


def _mount(container: Object, mount: Object) -> None:
    mounts = container.setdefault("volumeMounts", [])
    if not any(_path(one) == _path(mount) for one in mounts):
        mounts.append(dict(mount))


def _switch(container: Object, flag: str) -> None:
    words = container.setdefault("args", [])
    if flag not in words:
        words.append(flag)


def _gib(spec: CacheBackendSpec) -> int:
    gib = host_gib(spec, default=4)
    return gib if gib <= 1024 else 4


def worker(engine: Object, spec: CacheBackendSpec, remote: Remote | None, *, mounts: list[Object]) -> Object:
    """The native sidecar. Its image is the engine's unless another is named."""
    given, gib = spec.lm_cache, _gib(spec)
    chunk = (given.chunk_size_tokens if given else None) or 256
    chunk = chunk if 1 <= chunk <= 65536 else 256
    port = (given.worker_port if given else None) or 5555
    made: Object = {
        "name": names.MP_WORKER,
        "image": (given.worker_image if given else "") or engine.get("image", ""),
        "restartPolicy": "Always",
        "command": ["sh", "-c", script(chunk=chunk, port=port, gib=gib, remote=remote)],
        "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}, dict(OURS)],
        "resources": {"requests": {"memory": f"{gib + 1}Gi"}, "limits": {"memory": f"{gib + 1}Gi"}},
        "startupProbe": {"exec": {"command": _probe(port)}, "periodSeconds": 3, "failureThreshold": 40},
        "securityContext": _security(engine.get("securityContext") or {}),
        "volumeMounts": [dict(one) for one in mounts],
    }
    if engine.get("imagePullPolicy") and not (given and given.worker_image):
        made["imagePullPolicy"] = engine["imagePullPolicy"]
    return made


def script(*, chunk: int, port: int, gib: int, remote: Remote | None) -> str:
    """Writes the file that the engine reads, then becomes the server."""
    serve = (
        "exec python3 -m lmcache.v1.multiprocess.server --host 127.0.0.1"
        f" --port {port} --chunk-size {chunk} --l1-size-gb {gib} --eviction-policy LRU"
    )
    if remote is not None:
        address = remote.address
        l2 = {"type": "resp", "host": address.host.strip("[]"), "port": int(address.port)}
        serve += f" --l2-adapter '{json.dumps(l2, separators=(',', ':'))}'"
    return f"set -e; printf 'chunk_size: {chunk}\\nmp_host: \"127.0.0.1\"\\nmp_port: {port}\\n' > {CONFIG}; {serve}"


def _probe(port: int) -> list[str]:
    return ["python3", "-c", f"import socket; socket.create_connection(('127.0.0.1', {port}), 2).close()"]


def _security(engine: Object) -> dict[str, Any]:
    """No privileges of its own, and the engine's user: they share memory and files."""
    made: dict[str, Any] = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    made.update({key: engine[key] for key in ("runAsNonRoot", "runAsUser", "runAsGroup") if key in engine})
    return made
