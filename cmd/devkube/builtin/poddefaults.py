"""The defaults of Pods and of Pod templates (upstream's `pkg/apis/core/v1/defaults.go`)."""

from collections.abc import Iterable
from typing import Any

from devkube.kinds import Object

Json = dict[str, Any]
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_MODES = ("secret", "configMap", "downwardAPI", "projected")


def pod(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    pod_spec(spec)
    spec.setdefault("enableServiceLinks", True)
    # Upstream's ServiceAccount admission does this; webhooks that identify workloads rely on it.
    account = spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"
    spec["serviceAccountName"] = spec["serviceAccount"] = account
    _tolerations(spec)
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        if limits := container["resources"].get("limits"):
            container["resources"]["requests"] = {**limits, **container["resources"].get("requests", {})}
        if spec.get("hostNetwork"):
            for port in container.get("ports") or ():
                if not port.get("hostPort") and "containerPort" in port:
                    port["hostPort"] = port["containerPort"]
    status = obj.get("status") or {}
    for key in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"):
        for one in status.get(key) or ():  # what Go's struct always writes
            for name, zero in (("ready", False), ("restartCount", 0), ("image", ""), ("imageID", "")):
                one.setdefault(name, zero)


def _tolerations(spec: Json) -> None:
    """Five minutes on a node that is lost, where the Pod says nothing of it (admission DefaultTolerationSeconds)."""
    given = [one for one in spec.get("tolerations") or () if one.get("effect") in (None, "", "NoExecute")]
    for name in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        if not any(one.get("key") in (None, "", name) for one in given):
            one = {"key": name, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            spec.setdefault("tolerations", []).append(one)


def pod_spec(spec: Json) -> None:
    for key, value in (
        ("dnsPolicy", "ClusterFirst"),
        ("restartPolicy", "Always"),
        ("schedulerName", "default-scheduler"),
    ):
        if not spec.get(key):
            spec[key] = value
    spec.setdefault("securityContext", {})
    spec.setdefault("terminationGracePeriodSeconds", 30)
    if account := spec.get("serviceAccountName") or spec.get("serviceAccount"):
        spec["serviceAccountName"] = spec["serviceAccount"] = account  # the older name is written too
    for key in ("containers", "initContainers", "ephemeralContainers"):
        for container in spec.get(key) or ():
            _container(container)
    for volume in spec.get("volumes") or ():
        _volume(volume)


def _container(container: Json) -> None:
    if not container.get("imagePullPolicy"):
        container["imagePullPolicy"] = pull_policy(container.get("image", ""))
    if not container.get("terminationMessagePath"):
        container["terminationMessagePath"] = "/dev/termination-log"
    if not container.get("terminationMessagePolicy"):
        container["terminationMessagePolicy"] = "File"
    container.setdefault("resources", {})
    for port in container.get("ports") or ():
        if not port.get("protocol"):
            port["protocol"] = "TCP"
    for env in container.get("env") or ():
        if "valueFrom" in env:
            _fields([env["valueFrom"]])
    for name in _PROBES:
        if (probe := container.get(name)) is not None:
            for key, value in (("timeoutSeconds", 1), ("periodSeconds", 10)):
                probe[key] = probe.get(key) or value
            for key, value in (("successThreshold", 1), ("failureThreshold", 3)):
                probe[key] = probe.get(key) or value
            _handler(probe)
    for hook in (container.get("lifecycle") or {}).values():
        if isinstance(hook, dict):
            _handler(hook)


def pull_policy(image: str) -> str:
    """Always for the tag `latest`, also where no tag is written; a digest alone has no tag."""
    name, _, digest = image.partition("@")
    tag = name.rpartition("/")[2].partition(":")[2] or ("" if digest else "latest")
    return "Always" if tag == "latest" else "IfNotPresent"


def _handler(found: Json) -> None:
    if (get := found.get("httpGet")) is not None:
        get["path"], get["scheme"] = get.get("path") or "/", get.get("scheme") or "HTTP"
    if (call := found.get("grpc")) is not None:
        call.setdefault("service", "")


def _fields(items: Iterable[Json]) -> None:
    for item in items:
        if (reference := item.get("fieldRef")) is not None and not reference.get("apiVersion"):
            reference["apiVersion"] = "v1"
        if (amount := item.get("resourceFieldRef")) is not None:
            amount.setdefault("divisor", "0")


def _volume(volume: Json) -> None:
    if not volume.keys() - {"name"}:
        volume["emptyDir"] = {}
    for key in _MODES:
        if (source := volume.get(key)) is not None:
            source.setdefault("defaultMode", 0o644)
    if (image := volume.get("image")) is not None and not image.get("pullPolicy"):
        image["pullPolicy"] = pull_policy(image.get("reference", ""))
    if (path := volume.get("hostPath")) is not None:
        path.setdefault("type", "")
    _fields((volume.get("downwardAPI") or {}).get("items") or ())
    for source in (volume.get("projected") or {}).get("sources") or ():
        if (token := source.get("serviceAccountToken")) is not None:
            token.setdefault("expirationSeconds", 3600)
        _fields((source.get("downwardAPI") or {}).get("items") or ())
    if template := (volume.get("ephemeral") or {}).get("volumeClaimTemplate"):
        template.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
