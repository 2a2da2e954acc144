"""Rules of the kinds that are neither Pods, workloads nor Services.

Rule: upstream's `pkg/apis/*/validation`. Of CRDs nothing is here: `devkube.custom` checks them.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from typing import Any

from devkube.builtin import names
from devkube.builtin.causes import (
    forbidden,
    invalid,
    required,
    too_long,
    unchanged,
    unsupported,
)
from devkube.builtin.labelselectors import label_selector
from devkube.builtin.workloads import claim_spec, template
from devkube.errors import Cause
from devkube.kinds import Object

SIZE_LIMIT = 1024 * 1024
_FROZEN = "field is immutable when `immutable` is set"
_DOCKER = {"kubernetes.io/dockercfg": ".dockercfg", "kubernetes.io/dockerconfigjson": ".dockerconfigjson"}
_KEYS = {"kubernetes.io/tls": ("tls.crt", "tls.key"), "kubernetes.io/ssh-auth": ("ssh-privatekey",)}
ACCOUNT = "kubernetes.io/service-account.name"
_NOT_SOURCES = ("capacity", "claimRef", "nodeAffinity")  # of a PersistentVolume's objects


def _frozen(new: Object, old: Object | None, keys: tuple[str, ...]) -> Iterator[Cause]:
    if old is None or not old.get("immutable"):
        return
    if not new.get("immutable"):
        yield forbidden("immutable", _FROZEN)
    for key in keys:
        if (new.get(key) or {}) != (old.get(key) or {}):
            yield forbidden(key, _FROZEN)


def config_map(new: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    yield from _frozen(new, old, ("data", "binaryData"))
    text, binary = new.get("data") or {}, new.get("binaryData") or {}
    for key in text:
        yield from names.check(f"data[{key}]", key, names.config_key)
        if key in binary:
            yield invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
    for key in binary:
        yield from names.check(f"binaryData[{key}]", key, names.config_key)
    size = sum(len(value.encode()) for value in text.values()) + sum(len(one) * 3 // 4 for one in binary.values())
    if size > SIZE_LIMIT:
        yield too_long("[]", SIZE_LIMIT)  # as upstream writes a path of nothing


def secret(new: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    if old is not None:
        yield from unchanged("type", new.get("type"), old.get("type"))
    yield from _frozen(new, old, ("data",))
    data, kind = new.get("data") or {}, new.get("type") or ""
    for key in data:
        yield from names.check(f"data[{key}]", key, names.config_key)
    if sum(len(one) * 3 // 4 for one in data.values()) > SIZE_LIMIT:
        yield too_long("data", SIZE_LIMIT)
    if kind == "kubernetes.io/service-account-token":
        if not ((new.get("metadata") or {}).get("annotations") or {}).get(ACCOUNT):
            yield required(f"metadata.annotations[{ACCOUNT}]")
    elif kind == "kubernetes.io/basic-auth" and not data.keys() & {"username", "password"}:
        yield required("data[username]")
        yield required("data[password]")
    for key in _KEYS.get(kind, ()):
        if key not in data:
            yield required(f"data[{key}]")
    if name := _DOCKER.get(kind):
        if name not in data:
            yield required(f"data[{name}]")
            return
        try:
            json.loads(b64decode(data[name]))
        except ValueError as error:
            yield invalid(f"data[{name}]", "<secret contents redacted>", str(error))


def secret_data(new: Object, old: Object | None, subresource: str) -> None:
    """stringData becomes data, as upstream's conversion does it; it is never stored."""
    given = new.pop("stringData", None) or {}
    for key, value in given.items():
        new.setdefault("data", {})[key] = b64encode(value.encode()).decode()


def lease(new: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    spec = new.get("spec") or {}
    if (seconds := spec.get("leaseDurationSeconds")) is not None and seconds <= 0:
        yield invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0")
    if (count := spec.get("leaseTransitions")) is not None and count < 0:
        yield invalid("spec.leaseTransitions", count, "must be greater than or equal to 0")
    if spec.get("preferredHolder") and not spec.get("strategy"):
        yield forbidden("spec.preferredHolder", "may only be specified if `strategy` is defined")


def claim(new: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    spec = new.get("spec") or {}
    yield from claim_spec(spec, "spec")
    if old is None or subresource:
        return
    before, after = (_settled(one) for one in (old.get("spec") or {}, spec))
    if not before.get("volumeName"):
        before["volumeName"] = after.get("volumeName")
    before, after = ({k: v for k, v in one.items() if v is not None} for one in (before, after))
    if before != after:
        text = (
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
        )
        yield forbidden("spec", text)


def _settled(spec: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in spec.items() if key not in ("resources", "volumeAttributesClassName")}


def disruption_budget(new: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    spec = new.get("spec") or {}
    if "minAvailable" in spec and "maxUnavailable" in spec:
        yield invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set")
    yield from label_selector(spec.get("selector") or {}, "spec.selector")


def autoscaler(new: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    spec = new.get("spec") or {}
    low, high = spec.get("minReplicas", 1), spec.get("maxReplicas", 0)
    if low < 1:
        yield invalid("spec.minReplicas", low, "must be greater than or equal to 1")
    if high < 1:
        yield invalid("spec.maxReplicas", high, "must be greater than or equal to 1")
    if high < low:
        yield invalid("spec.maxReplicas", high, "must be greater than or equal to `minReplicas`")
    yield from _metrics(spec.get("metrics") or ())
    target = spec.get("scaleTargetRef") or {}
    if "/" not in (version := target.get("apiVersion") or "") and target.get("kind") != "ReplicationController":
        yield invalid("spec.scaleTargetRef.apiVersion", version, "apiVersion must specify API group")


METRICS = ("ContainerResource", "External", "Object", "Pods", "Resource")


def _metrics(found: Any) -> Iterator[Cause]:
    for index, one in enumerate(found):
        at, kind = f"spec.metrics[{index}]", one.get("type") or ""
        if not kind:
            yield required(f"{at}.type", "must specify a metric source type")
        if kind not in METRICS:
            yield unsupported(f"{at}.type", kind, METRICS)
        elif (source := kind[0].lower() + kind[1:]) not in one:
            yield required(f"{at}.{source}", "must populate information for the given metric source")


def persistent_volume(new: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    spec = new.get("spec") or {}
    if not spec.get("accessModes"):
        yield required("spec.accessModes")
    if not spec.get("capacity"):
        yield required("spec.capacity")
    if set(spec.get("capacity") or ()) != {"storage"}:
        yield unsupported("spec.capacity", spec.get("capacity") or {}, ("storage",))
    if not any(isinstance(value, dict) for key, value in spec.items() if key not in _NOT_SOURCES):
        yield required("spec", "must specify a volume type")


def runtime_class(new: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    if new.get("handler"):
        yield from names.check("handler", new["handler"], names.dns_label)
    if old is not None:
        yield from unchanged("handler", new.get("handler"), old.get("handler"))


def ingress_class(new: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    if not (new.get("spec") or {}).get("controller"):
        yield required("spec.controller")


def pod_template(new: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    yield from template(new.get("template") or {}, "template")


def fixed(*keys: str) -> Any:
    """A rule for kinds of which these top-level fields never change."""

    def rule(new: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
        if old is not None:
            for key in keys:
                yield from unchanged(key, new.get(key), old.get(key))

    return rule


VALIDATES: Mapping[str, Any] = {
    "ConfigMap": config_map,
    "Secret": secret,
    "Lease": lease,
    "PersistentVolumeClaim": claim,
    "PodDisruptionBudget": disruption_budget,
    "HorizontalPodAutoscaler": autoscaler,
    "PersistentVolume": persistent_volume,
    "IngressClass": ingress_class,
    "PodTemplate": pod_template,
    "StorageClass": fixed("provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"),
    "PriorityClass": fixed("value", "preemptionPolicy"),
    "RuntimeClass": runtime_class,
    "ControllerRevision": fixed("data"),
}
