"""Rules of the kinds that are neither Pods, workloads nor Services.

Rule: upstream's `pkg/apis/*/validation`. Of CRDs nothing is here: `devkube.custom` checks them.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from devkube.admission import conditions
from devkube.builtin import names
from devkube.builtin.causes import (
    duplicate,
    forbidden,
    invalid,
    required,
    too_long,
    unchanged,
    unsupported,
)
from devkube.builtin.defaults import RBAC
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
REVIEWS = ("v1", "v1beta1")


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


def role(new: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    for index, rule in enumerate(new.get("rules") or ()):
        at, urls = f"rules[{index}]", rule.get("nonResourceURLs")
        if urls:
            if new["kind"] == "Role":
                text = "namespaced rules cannot apply to non-resource URLs"
                yield invalid(f"{at}.nonResourceURLs", urls, text)
            if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
                text = "rules cannot apply to both regular resources and non-resource URLs"
                yield invalid(f"{at}.nonResourceURLs", urls, text)
            continue
        if not rule.get("apiGroups"):
            yield required(f"{at}.apiGroups", "resource rules must supply at least one api group")
        if not rule.get("resources"):
            yield required(f"{at}.resources", "resource rules must supply at least one resource")
    if "aggregationRule" in new:
        at, found = "aggregationRule.clusterRoleSelectors", new["aggregationRule"].get("clusterRoleSelectors") or ()
        if not found:
            text = "at least one clusterRoleSelector required if aggregationRule is non-nil"
            yield required(at, text)
        for index, one in enumerate(found):
            yield from label_selector(one, f"{at}[{index}]")


def role_binding(new: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    reference = new.get("roleRef") or {}
    kinds = ("Role", "ClusterRole") if new["kind"] == "RoleBinding" else ("ClusterRole",)
    if reference.get("apiGroup") != RBAC:
        yield unsupported("roleRef.apiGroup", reference.get("apiGroup") or "", (RBAC,))
    if reference.get("kind") not in kinds:
        yield unsupported("roleRef.kind", reference.get("kind") or "", kinds)
    if reference.get("name"):
        yield from names.check("roleRef.name", reference["name"], names.path_segment)
    for index, subject in enumerate(new.get("subjects") or ()):
        at, kind, group = f"subjects[{index}]", subject.get("kind"), subject.get("apiGroup") or ""
        if kind == "ServiceAccount":
            if subject.get("name"):
                yield from names.check(f"{at}.name", subject["name"], names.dns_subdomain)
            if group:
                yield unsupported(f"{at}.apiGroup", group, ("",))
            if new["kind"] == "ClusterRoleBinding" and not subject.get("namespace"):
                yield required(f"{at}.namespace")
        elif kind in ("User", "Group") and group != RBAC:
            yield unsupported(f"{at}.apiGroup", group, (RBAC,))
    if old is not None and reference != (old.get("roleRef") or {}):
        yield invalid("roleRef", reference, "cannot change roleRef")


def webhooks(new: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    seen: set[str] = set()
    known = [one for hook in (old or {}).get("webhooks") or () for one in hook.get("matchConditions") or ()]
    for index, hook in enumerate(new.get("webhooks") or ()):
        at, name = f"webhooks[{index}]", hook.get("name") or ""
        if wrong := names.dns_subdomain(name) if name else ():
            yield invalid(f"{at}.name", name, ",".join(wrong))
        elif name and name.count(".") < 2:
            yield invalid(f"{at}.name", name, "should be a domain with at least three segments separated by dots")
        if name in seen:
            yield duplicate(f"{at}.name", name)
        seen.add(name)
        for number, rule in enumerate(hook.get("rules") or ()):
            yield from _rule(rule, f"{at}.rules[{number}]")
        if not 1 <= hook.get("timeoutSeconds", 10) <= 30:
            text = "the timeout value must be between 1 and 30 seconds"
            yield invalid(f"{at}.timeoutSeconds", hook["timeoutSeconds"], text)
        for key in ("namespaceSelector", "objectSelector"):
            yield from label_selector(hook.get(key) or {}, f"{at}.{key}")
        yield from _client(hook.get("clientConfig") or {}, f"{at}.clientConfig")
        versions = hook.get("admissionReviewVersions") or ()
        if versions and not set(versions) & set(REVIEWS):
            text = f"must include at least one of {', '.join(REVIEWS)}"
            yield invalid(f"{at}.admissionReviewVersions", list(versions), text)
        for number, version in enumerate(versions):
            if version in versions[:number]:
                yield invalid(f"{at}.admissionReviewVersions[{number}]", version, "duplicate version")
        named: set[str] = set()
        for number, condition in enumerate(hook.get("matchConditions") or ()):
            here = f"{at}.matchConditions[{number}].name"
            if not condition.get("name"):
                continue  # required by the schema
            yield from names.check(here, condition["name"], names.qualified)
            if condition["name"] in named:
                yield duplicate(here, condition["name"])
            named.add(condition["name"])
        if hook.get("matchConditions"):
            yield from conditions.problems(hook["matchConditions"], f"{at}.matchConditions", known)


def _rule(rule: Mapping[str, Any], at: str) -> Iterator[Cause]:
    for key, what in (("operations", "operations"), ("apiGroups", "API groups"), ("apiVersions", "API versions")):
        found = rule.get(key) or ()
        if not found:
            yield required(f"{at}.{key}")
        elif "*" in found and len(found) > 1:
            yield invalid(f"{at}.{key}", list(found), f"if '*' is present, must not specify other {what}")
    found = rule.get("resources") or ()
    if not found:
        yield required(f"{at}.resources")
    if "*/*" in found and len(found) > 1:
        yield invalid(f"{at}.resources", list(found), "if '*/*' is present, must not specify other resources")
    if "*" in found and any(one != "*" and "/" not in one for one in found):
        text = "if '*' is present, must not specify other resources without subresources"
        yield invalid(f"{at}.resources", list(found), text)


def _client(client: Mapping[str, Any], at: str) -> Iterator[Cause]:
    if ("url" in client) == ("service" in client):
        yield required(at, "exactly one of url or service is required")
    elif "url" in client:
        here, url = f"{at}.url", urlsplit(client["url"])
        if url.scheme != "https":
            form = "; desired format: https://host[/path]"
            yield invalid(here, url.scheme, f"'https' is the only allowed URL scheme{form}")
        if not url.netloc:
            yield invalid(here, "", "host must be specified; desired format: https://host[/path]")
        if "@" in url.netloc:
            yield invalid(here, url.netloc.rpartition("@")[0], "user information is not permitted in the URL")
        if url.fragment:
            yield invalid(here, url.fragment, "fragments are not permitted in the URL")
        if url.query:
            yield invalid(here, url.query, "query parameters are not permitted in the URL")
    else:
        reference = client["service"]
        for key in ("name", "namespace"):  # in upstream's order
            if not reference.get(key):
                yield required(f"{at}.service.{key}")
        yield from _path(reference.get("path") or "/", f"{at}.service.path")
        for text in names.port_number(reference.get("port", 443)):
            yield invalid(f"{at}.service.port", reference["port"], f"port is not valid: {text}")


def _path(path: str, at: str) -> Iterator[Cause]:
    if path in ("/", "//"):
        if path == "//":
            yield invalid(at, path, "segment[0] may not be empty")
        return
    if not path.startswith("/"):
        yield invalid(at, path, "must start with a '/'")
    for number, step in enumerate(path[1:].removesuffix("/").split("/")):
        if not step:
            yield invalid(at, path, f"segment[{number}] may not be empty")
        else:
            for text in names.dns_subdomain(step):
                yield invalid(at, path, f"segment[{number}]: {text}")


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
    "Role": role,
    "ClusterRole": role,
    "RoleBinding": role_binding,
    "ClusterRoleBinding": role_binding,
    "MutatingWebhookConfiguration": webhooks,
    "ValidatingWebhookConfiguration": webhooks,
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
