"""Rules of whole structs and of whole objects.

Rule: upstream's `pkg/apis/*/validation`. `STRUCTS` hold where the Go struct is, in an object or in a template, `KINDS`
of whole objects, which may ask for what was before. Those of Pods are in podrules. Of CRDs nothing is here:
`devkube.custom` checks them.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from urllib.parse import urlsplit

from yarl import URL

from devkube import selectors
from devkube.admission import conditions
from devkube.builtin import names, podrules
from devkube.builtin.defaults import RBAC
from devkube.builtin.fields import StructRule
from devkube.builtin.metadata import annotations, labels
from devkube.builtin.types import Json
from devkube.causes import duplicate, forbidden, invalid, required, too_long, unchanged, unsupported
from devkube.errors import Cause, StatusError
from devkube.kinds import Object

KindRule = Callable[[Object, Object | None, str], Iterable[Cause]]
SIZE_LIMIT = 1024 * 1024  # bytes
_FROZEN = "field is immutable when `immutable` is set"
_FREE = (
    *("replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit"),
    *("persistentVolumeClaimRetentionPolicy", "minReadySeconds"),
)


def _template(found: Json, at: str, root: Object) -> Iterator[Cause]:
    meta = found.get("metadata") or {}
    yield from labels(meta.get("labels") or {}, f"{at}.labels")
    yield from annotations(meta.get("annotations") or {}, f"{at}.annotations")


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
    elif old is not None and podrules.without(spec, *_FREE) != podrules.without(before, *_FREE):
        yield forbidden("spec", f"updates to statefulset spec for fields other than {', '.join(_FREE)} are forbidden")


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
    yield from podrules.repeated(new.get("webhooks") or [], "webhooks")
    for index, hook in enumerate(new.get("webhooks") or ()):
        if hook.get("matchConditions"):
            at = f"webhooks[{index}].matchConditions"
            yield from podrules.repeated(hook["matchConditions"], at)
            for spot, one in enumerate(hook["matchConditions"]):
                yield from names.check(f"{at}[{spot}].name", one.get("name") or "a", names.qualified)
            yield from conditions.problems(hook["matchConditions"], at)


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
        URL(text)  # what calls it reads it so
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
    yield from podrules.repeated(ports, "spec.ports")
    seen = [(port.get("protocol"), port.get("port")) for port in ports]
    for index in (index for index, one in enumerate(seen) if one in seen[:index]):
        yield duplicate(f"spec.ports[{index}]", ports[index])
    if external and not spec.get("externalName"):
        yield required("spec.externalName")
    known, addresses = ((old or {}).get("spec") or {}).get("clusterIPs") or (), spec.get("clusterIPs") or ()
    if known and addresses and not external and addresses[0] != known[0]:
        yield invalid("spec.clusterIPs[0]", list(addresses), "may not change once set")


def _role_rule(rule: Json, at: str, root: Object) -> Iterator[Cause]:
    urls = rule.get("nonResourceURLs")
    if urls and (rule.get("resources") or rule.get("apiGroups")):
        why = "rules cannot apply to both regular resources and non-resource URLs"
        yield invalid(f"{at}.nonResourceURLs", urls, why)
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
    operator, values = one.get("operator", ""), one.get("values")
    if operator in ("In", "NotIn"):
        if not values:
            yield required(f"{at}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            yield forbidden(f"{at}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
    else:
        yield invalid(f"{at}.operator", operator, "not a valid selector operator")


def _strategy(strategy: Json, at: str, root: Object) -> Iterator[Cause]:
    """After defaulting: who applied `rollingUpdate` still owns it when somebody else asks for Recreate."""
    rolling = strategy.get("rollingUpdate")
    if rolling is not None and strategy.get("type") == "Recreate":
        yield forbidden(f"{at}.rollingUpdate", "may not be specified when strategy `type` is 'Recreate'")
    elif rolling is not None and not any(str(count).strip("0%") for count in rolling.values()):
        yield invalid(f"{at}.rollingUpdate.maxUnavailable", 0, "may not be 0 when `maxSurge` is 0")


STRUCTS: Mapping[str, StructRule] = {
    **podrules.STRUCTS,
    "apps.DeploymentStrategy": _strategy,
    "meta.LabelSelectorRequirement": _requirement,
    "core.PodTemplateSpec": _template,
    "rbac.PolicyRule": _role_rule,
    "rbac.Subject": _subject,
    "admissionregistration.MutatingWebhook": _webhook,
    "admissionregistration.ValidatingWebhook": _webhook,
    "admissionregistration.WebhookClientConfig": _client,
    "admissionregistration.RuleWithOperations": _operations,
}
KINDS: Mapping[str, KindRule] = {
    "Pod": podrules.pod,
    **dict.fromkeys(("Deployment", "ReplicaSet", "DaemonSet", "StatefulSet"), _workload),
    "Job": _job,
    **dict.fromkeys(("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"), _webhooks),
    **dict.fromkeys(("ConfigMap", "Secret"), _data),
    "Service": _service,
    "Event": _event,
    **dict.fromkeys(("RoleBinding", "ClusterRoleBinding"), _role_binding),
}
