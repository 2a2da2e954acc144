"""Configurations -> hooks, in the order in which they are called (configurations by name, hooks as written); does a
request concern one, and in which version of the resource is it to be told?

Order and exemptions are upstream's (`webhook/generic/webhook.go`, `webhook/predicates`): namespaceSelector, then
objectSelector, then rules, then under matchPolicy Equivalent the rules again for every other served version, then
matchConditions. The configurations themselves are never sent to webhooks: nobody shall be locked out of removing them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from devkube import selectors
from devkube.admission import conditions, review
from devkube.admission.conditions import Condition
from devkube.errors import About, StatusError, forbidden, not_found
from devkube.kinds import Catalog, Object, Resource
from devkube.requests import Attributes

MUTATING = "mutatingwebhookconfigurations.admissionregistration.k8s.io"
VALIDATING = "validatingwebhookconfigurations.admissionregistration.k8s.io"
_SECONDS = 10


@dataclass(frozen=True)
class Rule:
    operations: tuple[str, ...]
    groups: tuple[str, ...]
    versions: tuple[str, ...]
    resources: tuple[str, ...]
    scope: str = "*"  # *, Cluster or Namespaced


@dataclass(frozen=True)
class Hook:
    name: str
    configuration: str
    uid: str  # configuration/name/number: tells hooks of the same name apart
    client: Mapping[str, Any]  # clientConfig as written
    rules: tuple[Rule, ...]
    namespaces: Mapping[str, Any] = field(default_factory=dict)  # LabelSelector
    objects: Mapping[str, Any] = field(default_factory=dict)  # LabelSelector
    conditions: tuple[Condition, ...] = ()
    failures: Literal["Fail", "Ignore"] = "Fail"
    equivalent: bool = True  # matchPolicy Equivalent
    reinvoked: bool = False  # reinvocationPolicy IfNeeded
    side_effects: str = ""
    review_versions: tuple[str, ...] = ("v1",)
    timeout: int = _SECONDS  # seconds


def hooks(configurations: Iterable[Object]) -> tuple[Hook, ...]:
    ordered = sorted(configurations, key=lambda one: str(one["metadata"]["name"]))
    return tuple(hook for one in ordered for hook in _hooks(one))


def _hooks(configuration: Object) -> list[Hook]:
    own = configuration["metadata"]["name"]
    met: dict[str, int] = {}
    found = []
    for one in configuration.get("webhooks") or ():
        name = one.get("name") or ""
        number = met[name] = met.get(name, -1) + 1
        found.append(
            Hook(
                name=name,
                configuration=own,
                uid=f"{own}/{name}/{number}",
                client=one.get("clientConfig") or {},
                rules=tuple(map(_rule, one.get("rules") or ())),
                namespaces=one.get("namespaceSelector") or {},
                objects=one.get("objectSelector") or {},
                conditions=tuple(
                    Condition(c.get("name") or "", c.get("expression") or "") for c in one.get("matchConditions") or ()
                ),
                failures="Ignore" if one.get("failurePolicy") == "Ignore" else "Fail",
                equivalent=one.get("matchPolicy") != "Exact",
                reinvoked=one.get("reinvocationPolicy") == "IfNeeded",
                side_effects=one.get("sideEffects") or "",
                review_versions=tuple(one.get("admissionReviewVersions") or ()),
                timeout=one.get("timeoutSeconds") or _SECONDS,
            )
        )
    return found


def _rule(rule: Object) -> Rule:
    return Rule(
        operations=tuple(rule.get("operations") or ()),
        groups=tuple(rule.get("apiGroups") or ()),
        versions=tuple(rule.get("apiVersions") or ()),
        resources=tuple(rule.get("resources") or ()),
        scope=rule.get("scope") or "*",
    )


Labels = Mapping[str, str]
LabelsOf = Callable[[str], Labels | None]  # of a namespace; None when it does not exist
_EXEMPT = ("webhookconfiguration", "admissionpolicy", "admissionpolicybinding")


@dataclass(frozen=True)
class Invocation:
    """A hook to be called, and the version of the resource that its rules name."""

    hook: Hook
    resource: Resource


def exempt(attributes: Attributes) -> bool:
    resource = attributes.resource
    return resource.group == "admissionregistration.k8s.io" and resource.singular.endswith(_EXEMPT)


def invocation(
    hook: Hook, attributes: Attributes, others: Sequence[Resource], labels_of: LabelsOf
) -> Invocation | None:
    """None when the hook is not concerned. StatusError 404 when the namespace to select by is missing, 403 when a
    condition cannot be evaluated and failurePolicy is Fail."""
    if not _selected(hook, attributes):
        return None
    resource = named(hook, attributes, others)
    if resource is None or not _in_namespace(hook, attributes, labels_of):
        return None
    found = Invocation(hook, resource)
    return found if not hook.conditions or _conditions_hold(found, attributes) else None


def named(hook: Hook, attributes: Attributes, others: Sequence[Resource]) -> Resource | None:
    """The version of the resource that a rule of the hook names: the request's own before `others`."""
    if any(applies(rule, attributes, attributes.resource) for rule in hook.rules):
        return attributes.resource
    if hook.equivalent:
        return next((one for rule in hook.rules for one in others if applies(rule, attributes, one)), None)
    return None


def equivalents(resource: Resource, subresource: str, catalog: Catalog) -> list[Resource]:
    """Other served versions of the same objects: those of a CRD differ in name only (conversion None)."""
    return [
        one
        for one in catalog
        if one.key == resource.key
        and one.version != resource.version
        and (not subresource or subresource in one.subresources)
    ]


def applies(rule: Rule, attributes: Attributes, resource: Resource) -> bool:
    return (
        _is(rule.operations, attributes.operation)
        and _is(rule.groups, resource.group)
        and _is(rule.versions, resource.version)
        and any(_resource(one, resource.plural, attributes.subresource) for one in rule.resources)
        and rule.scope in ("*", "Namespaced" if resource.namespaced else "Cluster")
    )


def _is(allowed: Iterable[str], asked: str) -> bool:
    return any(one in ("*", asked) for one in allowed)


def _resource(rule: str, plural: str, subresource: str) -> bool:
    name, _, sub = rule.partition("/")
    return name in ("*", plural) and sub in ("*", subresource)


def _selected(hook: Hook, attributes: Attributes) -> bool:
    """objectSelector: either state of the object will do."""
    if not hook.objects:
        return True
    states = (attributes.object, attributes.old)
    return any(state is not None and selectors.matches(hook.objects, _labels(state)) for state in states)


def _in_namespace(hook: Hook, attributes: Attributes, labels_of: LabelsOf) -> bool:
    resource = attributes.resource
    of_namespaces = resource.key == "namespaces"
    if not hook.namespaces or not (resource.namespaced or of_namespaces):
        return True
    if of_namespaces and not attributes.subresource and attributes.operation in ("CREATE", "UPDATE"):
        return selectors.matches(hook.namespaces, _labels(attributes.object or {}))
    name = attributes.name if of_namespaces else attributes.namespace
    found = labels_of(name)
    if found is None:
        raise not_found(About("", "namespaces", name))
    return selectors.matches(hook.namespaces, found)


def _labels(obj: Object) -> Labels:
    labels: Labels = (obj.get("metadata") or {}).get("labels") or {}
    return labels


def _conditions_hold(found: Invocation, attributes: Attributes) -> bool:
    hook, resource = found.hook, attributes.resource
    variables = {
        "object": review.as_version(attributes.object, attributes, found.resource),
        "oldObject": review.as_version(attributes.old, attributes, found.resource),
        "request": review.about(attributes, found.resource),
    }
    try:
        return conditions.matches(hook.conditions, variables, lenient=hook.failures == "Ignore")
    except conditions.Failed as failed:
        error: StatusError = forbidden(About(resource.group, resource.plural, attributes.name), str(failed))
        raise error from None
