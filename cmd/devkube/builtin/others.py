"""Rules of all kinds but Pods: workloads, webhook configurations, ConfigMaps, Secrets, Services, roles and bindings.

Rule: upstream's `pkg/apis/*/validation`. `STRUCTS` hold wherever the Go struct is, `KINDS` of whole objects, which may
ask for what was before. Of CRDs nothing is here: `devkube.custom` checks them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from urllib.parse import urlsplit

from devkube import selectors
from devkube.admission import conditions
from devkube.builtin import names, pods
from devkube.builtin.defaults import RBAC
from devkube.builtin.fields import StructRule
from devkube.builtin.pods import repeated, without
from devkube.builtin.types import Json
from devkube.causes import forbidden, invalid, required, too_long, unchanged, unsupported
from devkube.errors import Cause, StatusError
from devkube.kinds import Object

KindRule = Callable[[Object, Object | None, str], Iterable[Cause]]
SIZE_LIMIT = 1024 * 1024  # bytes
_FROZEN = "field is immutable when `immutable` is set"
_FREE = (
    *("replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit"),
    *("persistentVolumeClaimRetentionPolicy", "minReadySeconds"),
)


def _workload(new: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    """Deployment, ReplicaSet, DaemonSet, StatefulSet."""
    spec, before = new["spec"], (old or {}).get("spec") or {}
    if spec.get("selector") == {}:
        yield invalid("spec.selector", {}, f"empty selector is invalid for {new['kind'].lower()}")
    yield from _matching(spec)
    if (policy := spec["template"]["spec"].get("restartPolicy")) in ("OnFailure", "Never"):
        yield unsupported("spec.template.spec.restartPolicy", policy, ("Always",))
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
        url = urlsplit(client["url"])
        if url.scheme != "https" or not url.netloc or "@" in url.netloc or url.query or url.fragment:
            why = "must be https://host[/path], without a user, a query and a fragment"
            yield invalid(f"{at}.url", client["url"], why)
    elif not (client["service"].get("path") or "/").startswith("/"):
        yield invalid(f"{at}.service.path", client["service"]["path"], "must start with a '/'")


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


def _service(new: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    spec, external = new["spec"], new["spec"].get("type") == "ExternalName"
    ports = spec.get("ports") or []
    if not ports and spec.get("clusterIP") != "None" and not external:
        yield required("spec.ports")
    for index, port in enumerate(ports if len(ports) > 1 else ()):
        if not port.get("name"):
            yield required(f"spec.ports[{index}].name")
    yield from repeated(ports, "spec.ports")
    known, addresses = ((old or {}).get("spec") or {}).get("clusterIPs") or (), spec.get("clusterIPs") or ()
    if known and addresses and not external and addresses[0] != known[0]:
        yield invalid("spec.clusterIPs[0]", list(addresses), "may not change once set")


def _role_rule(rule: Json, at: str, root: Object) -> Iterator[Cause]:
    urls = rule.get("nonResourceURLs")
    if urls and root["kind"] == "Role":
        yield invalid(f"{at}.nonResourceURLs", urls, "namespaced rules cannot apply to non-resource URLs")
    for key in () if urls else ("apiGroups", "resources"):
        if not rule.get(key):
            yield required(f"{at}.{key}")


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
    if account and root["kind"] == "ClusterRoleBinding" and not subject.get("namespace"):
        yield required(f"{at}.namespace")


STRUCTS: Mapping[str, StructRule] = {
    **pods.STRUCTS,
    "rbac.PolicyRule": _role_rule,
    "rbac.Subject": _subject,
    "admissionregistration.MutatingWebhook": _webhook,
    "admissionregistration.ValidatingWebhook": _webhook,
    "admissionregistration.WebhookClientConfig": _client,
}
KINDS: Mapping[str, KindRule] = {
    "Pod": pods.pod,
    **dict.fromkeys(("Deployment", "ReplicaSet", "DaemonSet", "StatefulSet"), _workload),
    "Job": _job,
    **dict.fromkeys(("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"), _webhooks),
    **dict.fromkeys(("ConfigMap", "Secret"), _data),
    "Service": _service,
    **dict.fromkeys(("RoleBinding", "ClusterRoleBinding"), _role_binding),
}
