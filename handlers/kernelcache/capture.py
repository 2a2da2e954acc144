"""The capture sidecar into a producer: a serving Pod that got no cache, and whose revision has not been captured.

    container mcv           ordinary, last; waits for the runtime to be ready, then packs and pushes what it compiled
    volumes mcv-cache-<i>   what it sees of the runtime's cache, where the Pod has no place of its own
    projected volumes       its access to the API, and to the registry where that asks for it

A second look at the Pod keeps the session that it has. A Pod that cannot be captured is served without: `Skipped` says
why in one line.

Rules: seed 001, "Capture"; spec/kernelcache.md sections 4.1, 4.2, 6 ("Sidecar for a producer Pod"). Ours: a probe of a
foreign host, a floating image or a missing registry skips the capture, never the Pod.
"""

import ipaddress
import json
from typing import Any, Final, NamedTuple

from crds.kernelcache import KernelCacheCapture, KernelCachePath
from handlers.admission import podedit
from handlers.kernelcache import inject, names, naming, path
from handlers.kernelcache.config import Config
from handlers.kernelcache.identity import Identity
from handlers.kernelcache.path import PathError, Resolved
from handlers.outcome import Object

TERMINAL: Final = ("Complete", "Unchanged", "Failed")
_LOCAL: Final = ("", "localhost")


class Skipped(Exception):
    """One line that says why; `check` is its short name."""

    def __init__(self, check: str, message: str) -> None:
        super().__init__(message)
        self.check = check


class Plan(NamedTuple):
    """Everything that a sidecar needs to know."""

    name: str  # of the KernelCacheCapture
    target: str
    url: str
    paths: tuple[Resolved, ...]


def plan(pod: Object, namespace: str, identity: Identity, config: Config, existing: KernelCacheCapture | None) -> Plan:
    """Raises Skipped."""
    metadata = pod.get("metadata") or {}
    if identity.workload_kind != "InferenceService":
        raise Skipped("kind", f"{identity.workload_kind} cannot be captured yet")
    name = name_of(metadata, identity)
    if name is None:
        raise Skipped("revision", f"label {names.REVISION} names no revision: it cannot be captured")
    if identity.image_class == "floating":
        raise Skipped("floating-image", "its image is floating, so that nothing could ever reuse a capture: pin it")
    if existing is not None and not open_again(existing):
        raise Skipped("captured", f"capture {name} of this revision is {existing.status.phase}")
    spec = existing.spec if existing is not None else None
    target = naming.target(
        config.registry.endpoint,
        namespace=namespace,
        service=identity.workload_name,
        revision=str(metadata["labels"][names.REVISION]),
        explicit=spec.target_image if spec is not None else None,
    )
    if target is None:
        raise Skipped("target", "registry.endpoint is not configured and the capture names no targetImage")
    paths = (spec.cache_paths if spec is not None else None) or [KernelCachePath()]
    return Plan(name, target, readiness(pod, identity), places(pod, paths))


def name_of(metadata: Object, identity: Identity) -> str | None:
    return naming.capture(identity.workload_name, (metadata.get("labels") or {}).get(names.REVISION))


def open_again(capture: KernelCacheCapture) -> bool:
    """In progress, or ended only because its producer was gone."""
    status = capture.status
    if status.phase not in TERMINAL:
        return True
    reason = next((one.reason for one in status.conditions or () if one.type == "Ready"), "")
    return status.phase == "Failed" and reason == "ProducerGone" and status.artifact is None


def places(pod: Object, paths: list[KernelCachePath]) -> tuple[Resolved, ...]:
    try:
        found = tuple(path.resolve(one, pod) for one in paths)
        for one in found:
            path.mounted(pod, one)
    except PathError as error:
        raise Skipped(error.code, f"its cache cannot be captured: {error}") from None
    return found


def readiness(pod: Object, identity: Identity) -> str:
    """Where to ask whether the runtime is ready: its own probe, on this Pod and nowhere else."""
    runtime = podedit.named(podedit.containers(pod), identity.container) or {}
    probe = (runtime.get("readinessProbe") or {}).get("httpGet")
    if not isinstance(probe, dict):
        raise Skipped(
            "readiness-probe", f"{identity.container} has no HTTP readinessProbe: nobody could tell when to capture"
        )
    host = str(probe.get("host") or "")
    if host not in _LOCAL and not _loopback(host):
        raise Skipped("readiness-probe", f"the readinessProbe asks {host[:80]}, which is not this Pod")
    port = _port(runtime, probe.get("port"))
    where = str(probe.get("path") or "/")
    scheme = str(probe.get("scheme") or "HTTP").lower()
    return f"{scheme}://{_bracketed(host) or '127.0.0.1'}:{port}{where if where.startswith('/') else f'/{where}'}"


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _port(runtime: Object, given: Any) -> int:
    port = given
    if isinstance(given, str) and not given.isdigit():
        port = (podedit.named(runtime.get("ports"), given) or {}).get("containerPort")
    if isinstance(port, str):
        port = int(port)
    if not isinstance(port, int) or isinstance(port, bool) or not 0 < port < 65536:
        raise Skipped("readiness-probe", f"the readinessProbe's port {str(given)[:40]!r} is no port of the container")
    return port


# Into the Pod ---------------------------------------------------------------------------------------------------------


def add(pod: Object, plan: Plan, namespace: str, identity: Identity, config: Config, *, session: str) -> None:
    """Edit the Pod. Raises inject.Conflict, with the Pod half done."""
    volumes = [f"{names.SIDECAR_VOLUME}{number}" for number in range(len(plan.paths))]
    reserved = (names.REPORTER_VOLUME, names.REGISTRY_VOLUME)
    inject.reserve(pod, volumes=reserved, main=(names.SIDECAR,))
    spec = pod["spec"]
    runtime = podedit.named(podedit.containers(pod), identity.container) or {}
    mounts = []
    for number, at in enumerate(plan.paths):
        mounts.append(_shared(pod, at, volumes[number], f"{names.SIDECAR_CACHE}/{number}"))
    secret = naming.access("reporter", plan.name)
    mounts.append({"name": names.REPORTER_VOLUME, "mountPath": names.REPORTER_MOUNT, "readOnly": True})
    spec.setdefault("volumes", []).append(_reporter(secret))
    if config.registry.auth.type != "none":
        mounts.append({"name": names.REGISTRY_VOLUME, "mountPath": names.REGISTRY_MOUNT, "readOnly": True})
        spec["volumes"].append(_registry(plan.name, config))
    spec["containers"].append(
        {
            "name": names.SIDECAR,
            "image": config.mcv_image,
            "imagePullPolicy": "Always",
            "env": environment(plan, namespace, identity, config, session),
            "volumeMounts": mounts,
            "resources": {
                "requests": {"cpu": "10m", "memory": "64Mi"},
                "limits": {"cpu": "1", "memory": "1Gi"},
            },
            "securityContext": inject.security(
                pod, runtime, read_only_root=False
            ),  # it packs in a directory of its own
        }
    )
    podedit.annotate(pod, names.REPORTER_SECRET, secret)


def _shared(pod: Object, at: Resolved, volume: str, inside: str) -> Object:
    """The sidecar's mount of a place of the runtime, which is made where there is none."""
    own = path.mounted(pod, at)
    if own is not None:
        return {"name": own["name"], "mountPath": inside}
    inject.reserve(pod, volumes=(volume,))
    pod["spec"].setdefault("volumes", []).append({"name": volume, "emptyDir": {}})
    container = podedit.named(podedit.containers(pod), at.container)
    assert container is not None  # resolved in this Pod
    container.setdefault("volumeMounts", []).append({"name": volume, "mountPath": at.container_path})
    return {"name": volume, "mountPath": inside}


def environment(plan: Plan, namespace: str, identity: Identity, config: Config, session: str) -> list[Object]:
    runtime = {key: identity.factors.get(key, "") for key in ("commandHash", "argsHash", "modelURIHash")}
    values = {
        "MCV_CAPTURE_MODE": "true",
        names.CAPTURE_CONFIG: _json(
            {
                "version": 1,
                "cacheDir": f"{names.SIDECAR_CACHE}/0",
                "targetImage": plan.target,
                "capture": {"name": plan.name, "namespace": namespace, "sessionID": session},
                "cachePaths": [
                    {"containerName": one.container, "containerPath": one.container_path, "ociPath": one.oci_path}
                    for one in plan.paths
                ],
            }
        ),
        "MCV_READINESS_CONFIG": _json(
            {
                "url": plan.url,
                "mcvCaptureReadinessTimeoutSeconds": config.mcv_capture_readiness_timeout_seconds,
            }
        ),
        "MCV_RUNTIME_INFO": _json({key: value for key, value in runtime.items() if value}),
        "MCV_REPORTER_ACCESS_FILE": f"{names.REPORTER_MOUNT}/access.json",
        "MCV_KUBERNETES_CA_FILE": f"{names.REPORTER_MOUNT}/kube-root-ca.crt",
    }
    if config.registry.auth.type != "none":
        values["MCV_REGISTRY_ACCESS_FILE"] = f"{names.REGISTRY_MOUNT}/access.json"
        values["MCV_REGISTRY_ALLOWED_ENDPOINT"] = config.registry.endpoint
        if config.registry.ca_config_map_ref is not None:
            values["MCV_REGISTRY_CA_FILE"] = f"{names.REGISTRY_MOUNT}/ca.crt"
    found: list[Object] = [{"name": name, "value": value} for name, value in values.items()]
    found.append({"name": "MCV_SOURCE_POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}})
    return found


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _reporter(secret: str) -> Object:
    """Optional: the Pod starts before the controller has made the Secret."""
    access = {"name": secret, "optional": True, "items": [{"key": "access.json", "path": "access.json"}]}
    root = {"name": "kube-root-ca.crt", "optional": True, "items": [{"key": "ca.crt", "path": "kube-root-ca.crt"}]}
    return {"name": names.REPORTER_VOLUME, "projected": {"sources": [{"secret": access}, {"configMap": root}]}}


def _registry(capture: str, config: Config) -> Object:
    access = {
        "name": naming.access("pusher", capture),
        "optional": True,
        "items": [{"key": "access.json", "path": "access.json"}],
    }
    sources: list[Object] = [{"secret": access}]
    if (authority := config.registry.ca_config_map_ref) is not None:
        items = [{"key": authority.key, "path": "ca.crt"}]
        sources.append({"configMap": {"name": authority.name, "optional": True, "items": items}})
    return {"name": names.REGISTRY_VOLUME, "projected": {"sources": sources}}


# Taking it off again --------------------------------------------------------------------------------------------------


def session_of(pod: Object) -> tuple[str, str] | None:
    """Capture and session of the sidecar that an earlier call for the same Pod added; None where there is none of
    ours."""
    sidecar = podedit.named(podedit.containers(pod), names.SIDECAR) or {}
    annotations = pod.get("metadata", {}).get("annotations") or {}
    said = podedit.named(sidecar.get("env"), names.CAPTURE_CONFIG) or {}
    if names.REPORTER_SECRET not in annotations or not isinstance(said.get("value"), str):
        return None
    try:
        capture = json.loads(said["value"])["capture"]
        return str(capture["name"]), str(capture["sessionID"])
    except (ValueError, LookupError, TypeError, RecursionError):
        return None


def remove(pod: Object) -> None:
    """What `add` did, undone. Nothing is done to a Pod that it did not touch."""
    if session_of(pod) is None:
        return
    podedit.remove(pod["spec"], "containers", names.SIDECAR)
    volumes = [str(one.get("name", "")) for one in pod["spec"].get("volumes") or ()]
    made = [
        one
        for one in volumes
        if one in (names.REPORTER_VOLUME, names.REGISTRY_VOLUME)
        or (one.startswith(names.SIDECAR_VOLUME) and one[len(names.SIDECAR_VOLUME) :].isdigit())
    ]
    inject.forget(pod, made)
    podedit.unannotate(pod, names.REPORTER_SECRET)
