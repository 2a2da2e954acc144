"""Does this request concern that hook, and in which version of the resource is it to be told?

Order and exemptions are upstream's (`webhook/generic/webhook.go`, `webhook/predicates`): namespaceSelector, then
objectSelector, then rules, then under matchPolicy Equivalent the rules again for every other served version, then
matchConditions. The configurations themselves are never sent to webhooks: nobody shall be locked out of removing them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from devkube import selectors
from devkube.admission import conditions, review
from devkube.admission.hooks import Hook, Rule
from devkube.errors import About, StatusError, forbidden, not_found
from devkube.kinds import Catalog, Object, Resource
from devkube.requests import Attributes

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
