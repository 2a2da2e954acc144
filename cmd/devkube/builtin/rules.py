"""Rules of whole structs and of whole objects.

Rule: upstream's `pkg/apis/*/validation`; of Pods those that webhooks which change them run into. `STRUCTS` hold where
the Go struct is, in a Pod or in a template, `KINDS` of whole objects, which may ask for what was before. Left out are
those of affinity, tolerations, spreading, DNS, security contexts and of single kinds of volumes and sources; the schema
and `fields` still hold for all of them. Of CRDs nothing is here: `devkube.custom` checks them.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from devkube import selectors
from devkube.admission import conditions
from devkube.builtin import names
from devkube.builtin.defaults import RBAC
from devkube.builtin.fields import StructRule
from devkube.builtin.metadata import annotations, labels
from devkube.builtin.scalars import quantity_value
from devkube.builtin.types import Json
from devkube.causes import (
    NOT_NEGATIVE,
    absent,
    duplicate,
    forbidden,
    invalid,
    required,
    too_long,
    unchanged,
    unsupported,
)
from devkube.errors import Cause, StatusError
from devkube.kinds import Object

KindRule = Callable[[Object, Object | None, str], Iterable[Cause]]
SIZE_LIMIT = 1024 * 1024  # bytes
_FROZEN = "field is immutable when `immutable` is set"
_FREE = (
    *("replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit"),
    *("persistentVolumeClaimRetentionPolicy", "minReadySeconds"),
)
HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
CHANGEABLE = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` "
    "(only additions to existing tolerations)"
)
_RUNNING = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
_STANDARD = frozenset(("cpu", "memory", "ephemeral-storage"))


def repeated(items: list[Json], at: str, key: str = "name") -> Iterator[Cause]:
    """Values of a key that an earlier item has already; nothing is no value."""
    seen = set()
    for index, one in enumerate(items):
        if (value := one.get(key)) and value in seen:
            yield duplicate(f"{at}[{index}].{key}", value)
        seen.add(value)


def _pod_spec(spec: Json, at: str, root: Object) -> Iterator[Cause]:
    main, first, volumes = (spec.get(key) or [] for key in ("containers", "initContainers", "volumes"))
    # A StatefulSet adds its claims as volumes before Pods are made.
    claims = [one.get("metadata") or {} for one in (root.get("spec") or {}).get("volumeClaimTemplates") or ()]
    known = {one.get("name") for one in (*claims, *volumes)}
    taken = {one.get("name") for one in main}
    yield from repeated(volumes, f"{at}.volumes")
    yield from repeated(main, f"{at}.containers")
    for index, one in enumerate(first):
        here = f"{at}.initContainers[{index}]"
        if one.get("name") in taken:
            yield duplicate(f"{here}.name", one.get("name"))
        taken.add(one.get("name"))
        for key in _RUNNING if one.get("restartPolicy") != "Always" else ():
            if one.get(key) is not None:
                yield forbidden(f"{here}.{key}", "may not be set for init containers without restartPolicy=Always")
    for kind, containers in (("containers", main), ("initContainers", first)):
        for index, one in enumerate(containers):
            for uses in ("volumeMounts", "volumeDevices"):
                for number, use in enumerate(one.get(uses) or ()):
                    if use.get("name") not in known:
                        yield absent(f"{at}.{kind}[{index}].{uses}[{number}].name", use.get("name") or "")


def _container(container: Json, at: str, root: Object) -> Iterator[Cause]:
    yield from repeated(container.get("ports") or [], f"{at}.ports")
    paths = set()
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        path, below = mount.get("mountPath"), mount.get("subPath") or ""
        if path in paths:
            yield invalid(f"{at}.volumeMounts[{index}].mountPath", path, "must be unique")
        paths.add(path)
        if below.startswith("/") or ".." in below.split("/"):  # upstream leaves the index out of its path
            yield invalid(f"{at}.volumeMounts.subPath", below, "must be a relative path and must not contain '..'")


def _variable(one: Json, at: str, root: Object) -> Iterator[Cause]:
    sources = one.get("valueFrom")
    if sources is not None and (one.get("value") or len(sources) != 1):
        yield invalid(f"{at}.valueFrom", "", "must have exactly one source, and none where `value` is not empty")


def _resources(found: Json, at: str, root: Object) -> Iterator[Cause]:
    limits = found.get("limits") or {}
    for kind in ("limits", "requests"):
        for name, amount in (found.get(kind) or {}).items():
            here, limit = f"{at}.{kind}[{name}]", limits.get(name)
            if "/" not in name and name not in _STANDARD and not name.startswith("hugepages-"):
                yield invalid(here, name, "must be a standard resource for containers")
            if amount[:1] == "-":
                yield invalid(here, amount, NOT_NEGATIVE)
            elif limit is not None and quantity_value(amount) > quantity_value(limit):
                yield invalid(f"{at}.requests", amount, f"must be less than or equal to {name} limit of {limit}")


def _handler(found: Json, at: str, root: Object) -> Iterator[Cause]:
    given = [name for name in HANDLERS if name in found]
    if not given:
        yield required(at, "must specify a handler type")
    for name in given[1:]:
        yield forbidden(f"{at}.{name}", "may not specify more than 1 handler type")


def _volume(volume: Json, at: str, root: Object) -> Iterator[Cause]:
    for extra in [key for key in volume if key != "name"][1:]:
        yield forbidden(f"{at}.{extra}", "may not specify more than 1 volume type")
    if root["kind"] == "Pod" and "image" in volume and not volume["image"].get("reference"):
        yield required(f"{at}.image.reference")  # in templates something else may fill it in


def _needs(key: str) -> StructRule:
    """What a Go struct's own rule asks for, where the schema does not."""

    def rule(found: Json, at: str, root: Object) -> Iterator[Cause]:
        if not found.get(key):
            yield required(f"{at}.{key}")

    return rule


def _template(found: Json, at: str, root: Object) -> Iterator[Cause]:
    meta = found.get("metadata") or {}
    yield from labels(meta.get("labels") or {}, f"{at}.labels")
    yield from annotations(meta.get("annotations") or {}, f"{at}.annotations")


def _pod(new: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    spec = new.get("spec") or {}
    for index, one in enumerate(spec.get("containers") or ()):
        if (image := one.get("image") or "") != image.strip():
            yield invalid(f"spec.containers[{index}].image", image, "must not have leading or trailing whitespace")
    if old is None:
        if spec.get("ephemeralContainers"):
            yield forbidden("spec.ephemeralContainers", "cannot be set on create")
    elif not subresource:
        yield from _update(spec, old.get("spec") or {})


def _update(new: Json, old: Json) -> Iterator[Cause]:
    for key in ("containers", "initContainers"):
        if len(new.get(key) or ()) != len(old.get(key) or ()):
            yield forbidden(f"spec.{key}", "pod updates may not add or remove containers")
            return
    before, after = old.get("activeDeadlineSeconds"), new.get("activeDeadlineSeconds")
    if before is not None and (after is None or before < after):
        yield invalid("spec.activeDeadlineSeconds", after, "must be less than or equal to previous value")
    kept = [without(one, "tolerationSeconds") for one in new.get("tolerations") or ()]
    if any(without(one, "tolerationSeconds") not in kept for one in old.get("tolerations") or ()):
        yield forbidden("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")
    known = {gate.get("name") for gate in old.get("schedulingGates") or ()}
    for index, gate in enumerate(new.get("schedulingGates") or ()):
        if gate.get("name") not in known:
            text = f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'"
            yield forbidden(f"spec.schedulingGates[{index}].name", text)
    fixed, was = _fixed(new), _fixed(old)
    if changed := [f"spec.{key}" for key in sorted({*fixed, *was}) if fixed.get(key) != was.get(key)]:
        # Upstream prints a diff, this the names.
        yield forbidden("spec", f"pod updates may not change fields other than {CHANGEABLE}\n{', '.join(changed)}")


def without(one: Json, *keys: str) -> dict[str, Any]:
    return {name: value for name, value in one.items() if name not in keys}


def _fixed(spec: Json) -> dict[str, Any]:
    """What of a spec must stay: everything but what may change."""
    fixed = without(spec, "tolerations", "schedulingGates", "activeDeadlineSeconds")
    for key in ("containers", "initContainers"):
        if key in fixed:
            fixed[key] = [without(one, "image") for one in fixed[key]]
    return fixed


def _workload(new: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    """Deployment, ReplicaSet, DaemonSet, StatefulSet."""
    spec, before = new["spec"], (old or {}).get("spec") or {}
    if spec.get("selector") == {}:
        yield invalid("spec.selector", {}, f"empty selector is invalid for {new['kind'].lower()}")
    yield from _matching(spec)
    if (policy := spec["template"]["spec"].get("restartPolicy")) in ("OnFailure", "Never"):
        yield unsupported("spec.template.spec.restartPolicy", policy, ("Always",))
    least, deadline = spec.get("minReadySeconds", 0), spec.get("progressDeadlineSeconds")
    if new["kind"] == "Deployment" and deadline is not None and deadline <= least:
        yield invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")
    if new["kind"] != "StatefulSet" and old is not None:
        yield from unchanged("spec.selector", spec.get("selector"), before.get("selector"))
    elif old is not None and without(spec, *_FREE) != without(before, *_FREE):
        text = f"updates to statefulset spec for fields other than {', '.join(_FREE)} are forbidden"
        yield forbidden("spec", text)


def _matching(spec: Json) -> Iterator[Cause]:
    found = (spec["template"].get("metadata") or {}).get("labels")
    try:
        matches = selectors.matches(spec.get("selector"), found or {})  # no selector selects nothing
    except StatusError:  # an operator that is none is told by the selector's own rules
        return
    if not matches:
        yield invalid("spec.template.metadata.labels", found, "`selector` does not match template `labels`")


def _job(new: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    spec, before = new["spec"], (old or {}).get("spec") or {}
    if spec["template"]["spec"].get("restartPolicy") not in ("OnFailure", "Never"):
        yield required("spec.template.spec.restartPolicy", 'valid values: "OnFailure", "Never"')
    yield from _matching(spec)
    if old is not None:
        fixed = ["selector", "completionMode"] + ["completions"] * (spec.get("completionMode") != "Indexed")
        for key in fixed if before.get("suspend") else [*fixed, "template"]:
            yield from unchanged(f"spec.{key}", spec.get(key), before.get(key))


def _webhooks(new: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    yield from repeated(new.get("webhooks") or [], "webhooks")
    known = [one for hook in (old or {}).get("webhooks") or () for one in hook.get("matchConditions") or ()]
    for index, hook in enumerate(new.get("webhooks") or ()):
        if hook.get("matchConditions"):
            at = f"webhooks[{index}].matchConditions"
            yield from repeated(hook["matchConditions"], at)
            for spot, one in enumerate(hook["matchConditions"]):
                yield from names.check(f"{at}[{spot}].name", one.get("name") or "a", names.qualified)
            yield from conditions.problems(hook["matchConditions"], at, known)


def _webhook(hook: Json, at: str, root: Object) -> Iterator[Cause]:
    name, versions = hook.get("name") or "", hook.get("admissionReviewVersions") or ()
    wrong = names.check(f"{at}.name", name, names.dns_subdomain) if name else []
    yield from wrong
    if name and not wrong and name.count(".") < 2:
        yield invalid(f"{at}.name", name, "should be a domain with at least three segments separated by dots")
    if versions and "v1" not in versions:
        yield invalid(f"{at}.admissionReviewVersions", list(versions), "must include v1")


def _client(client: Json, at: str, root: Object) -> Iterator[Cause]:
    if ("url" in client) == ("service" in client):
        yield required(at, "exactly one of url or service is required")
    elif "url" in client:
        if not _address(client["url"]):
            why = "must be https://host[/path], without a user, a query and a fragment"
            yield invalid(f"{at}.url", client["url"], why)
    elif not (client["service"].get("path") or "/").startswith("/"):
        yield invalid(f"{at}.service.path", client["service"]["path"], "must start with a '/'")


def _address(text: str) -> bool:
    """Whether a webhook can be called there."""
    try:
        url = urlsplit(text)
        host = url.hostname and url.port != 0 and not re.search(r"[\s@]", url.netloc)
    except ValueError:  # half an address of IPv6, a port that is none
        return False
    return bool(url.scheme == "https" and host and not url.query and not url.fragment)


def _operations(rule: Json, at: str, root: Object) -> Iterator[Cause]:
    """Of a webhook's rule: who asks for all names nothing beside it, but subresources."""
    for key in ("operations", "apiGroups", "apiVersions", "resources"):
        found = rule.get(key) or ()
        others = [one for one in found if one != "*" and not (key == "resources" and "/" in one)]
        if ("*" in found and others) or ("*/*" in found and len(found) > 1):
            yield invalid(f"{at}.{key}", list(found), "if '*' is present, must not specify others")


def _data(new: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    """Of ConfigMaps and Secrets."""
    secret, parts = new["kind"] == "Secret", {key: new.get(key) or {} for key in ("data", "binaryData")}
    if old is not None and old.get("immutable"):
        if not new.get("immutable"):
            yield forbidden("immutable", _FROZEN)
        for part, found in parts.items():
            if found != (old.get(part) or {}):
                yield forbidden(part, _FROZEN)
    for part, found in parts.items():
        for key in found:
            yield from names.check(f"{part}[{key}]", key, names.config_key)
    for key in parts["data"].keys() & parts["binaryData"].keys():
        yield invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
    plain, coded = ({}, parts["data"]) if secret else (parts["data"], parts["binaryData"])
    if sum(len(one.encode()) for one in plain.values()) + sum(len(one) * 3 // 4 for one in coded.values()) > SIZE_LIMIT:
        yield too_long("data" if secret else "[]", SIZE_LIMIT)  # the latter is how upstream writes a path of nothing
    if secret and old is not None:
        yield from unchanged("type", new.get("type"), old.get("type"))


def _event(new: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    where = new["metadata"].get("namespace")
    if (of := (new.get("involvedObject") or {}).get("namespace") or "") != where and (of or where != "default"):
        yield invalid("involvedObject.namespace", of, "does not match event.namespace")


def _service(new: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    spec, external = new["spec"], new["spec"].get("type") == "ExternalName"
    ports = spec.get("ports") or []
    if not ports and spec.get("clusterIP") != "None" and not external:
        yield required("spec.ports")
    for index, port in enumerate(ports if len(ports) > 1 else ()):
        if not port.get("name"):
            yield required(f"spec.ports[{index}].name")
    yield from repeated(ports, "spec.ports")
    seen = [(port.get("protocol"), port.get("port")) for port in ports]
    for index in (index for index, one in enumerate(seen) if one in seen[:index]):
        yield duplicate(f"spec.ports[{index}]", ports[index])
    if external and not spec.get("externalName"):
        yield required("spec.externalName")
    if spec.get("sessionAffinity") not in ("None", "ClientIP"):
        yield unsupported("spec.sessionAffinity", spec.get("sessionAffinity"), ("ClientIP", "None"))
    known, addresses = ((old or {}).get("spec") or {}).get("clusterIPs") or (), spec.get("clusterIPs") or ()
    if known and addresses and not external and addresses[0] != known[0]:
        yield invalid("spec.clusterIPs[0]", list(addresses), "may not change once set")


def _role_rule(rule: Json, at: str, root: Object) -> Iterator[Cause]:
    urls = rule.get("nonResourceURLs")
    if urls and (rule.get("resources") or rule.get("apiGroups")):
        yield invalid(
            f"{at}.nonResourceURLs", urls, "rules cannot apply to both regular resources and non-resource URLs"
        )
    if urls and root["kind"] == "Role":
        yield invalid(f"{at}.nonResourceURLs", urls, "namespaced rules cannot apply to non-resource URLs")
    for key in () if urls else ("apiGroups", "resources"):
        if not rule.get(key):
            yield required(f"{at}.{key}", "resource rules must supply it")


def _role_binding(new: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    reference = new.get("roleRef") or {}
    kinds = ("Role", "ClusterRole") if new["kind"] == "RoleBinding" else ("ClusterRole",)
    for key, accepted in (("apiGroup", (RBAC,)), ("kind", kinds)):
        if reference.get(key) and reference[key] not in accepted:
            yield unsupported(f"roleRef.{key}", reference[key], accepted)
    if old is not None and reference != (old.get("roleRef") or {}):
        yield invalid("roleRef", reference, "cannot change roleRef")


def _subject(subject: Json, at: str, root: Object) -> Iterator[Cause]:
    account = subject.get("kind") == "ServiceAccount"
    group = "" if account else RBAC
    if (subject.get("apiGroup") or "") != group:
        yield unsupported(f"{at}.apiGroup", subject.get("apiGroup"), (group,))
    if account and root["kind"] == "ClusterRoleBinding" and not subject.get("namespace"):
        yield required(f"{at}.namespace")


def _requirement(one: Json, at: str, root: Object) -> Iterator[Cause]:
    """Of a label selector."""
    if one.get("operator") in ("In", "NotIn") and not one.get("values"):
        yield required(f"{at}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    if one.get("operator") in ("Exists", "DoesNotExist") and one.get("values"):
        yield forbidden(f"{at}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")


def _strategy(strategy: Json, at: str, root: Object) -> Iterator[Cause]:
    """After defaulting: who applied `rollingUpdate` still owns it when somebody else asks for Recreate."""
    rolling = strategy.get("rollingUpdate")
    if rolling is not None and strategy.get("type") == "Recreate":
        yield forbidden(f"{at}.rollingUpdate", "may not be specified when strategy `type` is 'Recreate'")
    elif rolling is not None and all(
        not str(rolling.get(key, 0)).strip("0%") for key in ("maxUnavailable", "maxSurge")
    ):
        yield invalid(f"{at}.rollingUpdate.maxUnavailable", 0, "may not be 0 when `maxSurge` is 0")


STRUCTS: Mapping[str, StructRule] = {
    "apps.DeploymentStrategy": _strategy,
    "meta.LabelSelectorRequirement": _requirement,
    "core.PodSpec": _pod_spec,
    "core.PodTemplateSpec": _template,
    "core.Container": _container,
    "core.EnvVar": _variable,
    "core.ResourceRequirements": _resources,
    "core.Probe": _handler,
    "core.LifecycleHandler": _handler,
    "core.Volume": _volume,
    "core.ExecAction": _needs("command"),
    "core.ConfigMapVolumeSource": _needs("name"),
    "core.SecretVolumeSource": _needs("secretName"),
    "core.EphemeralVolumeSource": _needs("volumeClaimTemplate"),
    "rbac.PolicyRule": _role_rule,
    "rbac.Subject": _subject,
    "admissionregistration.MutatingWebhook": _webhook,
    "admissionregistration.ValidatingWebhook": _webhook,
    "admissionregistration.WebhookClientConfig": _client,
    "admissionregistration.RuleWithOperations": _operations,
}
KINDS: Mapping[str, KindRule] = {
    "Pod": _pod,
    **dict.fromkeys(("Deployment", "ReplicaSet", "DaemonSet", "StatefulSet"), _workload),
    "Job": _job,
    **dict.fromkeys(("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"), _webhooks),
    **dict.fromkeys(("ConfigMap", "Secret"), _data),
    "Service": _service,
    "Event": _event,
    **dict.fromkeys(("RoleBinding", "ClusterRoleBinding"), _role_binding),
}
