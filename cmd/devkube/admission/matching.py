"""Configurations -> hooks, in the order in which they are called (configurations by name, hooks as written); does a
request concern one, and in which version of the resource is it to be told?

Order and exemptions are upstream's (`webhook/generic/webhook.go`, `webhook/predicates`): objectSelector, then rules,
then under matchPolicy Equivalent the rules again for every other served version, then namespaceSelector, then
matchConditions. The configurations themselves are never sent to webhooks: nobody shall be locked out of removing them.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from devkube import selectors
from devkube.admission import conditions, review
from devkube.errors import About, forbidden
from devkube.kinds import Catalog, Object, Resource
from devkube.requests import Attributes

MUTATING: Final = "mutatingwebhookconfigurations.admissionregistration.k8s.io"
VALIDATING: Final = "validatingwebhookconfigurations.admissionregistration.k8s.io"
Hook = Mapping[str, Any]  # an entry of a configuration's `webhooks`, checked and with its defaults
Labels = Mapping[str, str]
LabelsOf = Callable[[str], Labels]  # of a namespace


def hooks(configurations: Iterable[Object]) -> list[Hook]:
    ordered = sorted(configurations, key=lambda one: str(one["metadata"]["name"]))
    return [hook for one in ordered for hook in one.get("webhooks") or ()]


def exempt(attributes: Attributes) -> bool:
    return attributes.resource.key in (MUTATING, VALIDATING)


def told_as(hook: Hook, attributes: Attributes, catalog: Catalog, labels_of: LabelsOf) -> Resource | None:
    """The version of the resource to tell the hook; None when it is not concerned. StatusError 403 when a
    condition cannot be evaluated and failurePolicy is Fail."""
    if not _selected(hook, attributes):
        return None
    resource = _named(hook, attributes, catalog)
    if resource is None or not _in_namespace(hook, attributes, labels_of):
        return None
    return resource if _conditions_hold(hook, attributes, resource) else None


def _named(hook: Hook, attributes: Attributes, catalog: Catalog) -> Resource | None:
    """The version of the resource that a rule of the hook names: the request's own before others of the same objects,
    which differ in name only (conversion None)."""
    rules, own, sub = hook.get("rules") or (), attributes.resource, attributes.subresource
    versions = [own]
    if hook["matchPolicy"] == "Equivalent":
        others = (one for one in catalog if one.key == own.key and one.version != own.version)
        versions += [one for one in others if not sub or sub in one.subresources]
    return next((one for one in versions if any(_applies(rule, attributes, one) for rule in rules)), None)


def _applies(rule: Mapping[str, Any], attributes: Attributes, resource: Resource) -> bool:
    return (
        _is(rule["operations"], attributes.operation)
        and _is(rule["apiGroups"], resource.group)
        and _is(rule["apiVersions"], resource.version)
        and any(_resource(one, resource.plural, attributes.subresource) for one in rule["resources"])
        and rule["scope"] in ("*", "Namespaced" if resource.namespaced else "Cluster")
    )


def _is(allowed: Iterable[str], asked: str) -> bool:
    return any(one in ("*", asked) for one in allowed)


def _resource(rule: str, plural: str, subresource: str) -> bool:
    name, _, sub = rule.partition("/")
    return name in ("*", plural) and sub in ("*", subresource)


def _selected(hook: Hook, attributes: Attributes) -> bool:
    """objectSelector: either state of the object will do."""
    states = (attributes.object, attributes.old)
    return any(state is not None and selectors.matches(hook["objectSelector"], _labels(state)) for state in states)


def _in_namespace(hook: Hook, attributes: Attributes, labels_of: LabelsOf) -> bool:
    selector, resource = hook["namespaceSelector"], attributes.resource
    of_namespaces = resource.key == "namespaces"
    if not selector or not (resource.namespaced or of_namespaces):
        return True
    if of_namespaces and not attributes.subresource and attributes.object is not None:
        return selectors.matches(selector, _labels(attributes.object))
    return selectors.matches(selector, labels_of(attributes.name if of_namespaces else attributes.namespace))


def _labels(obj: Object) -> Labels:
    labels: Labels = (obj.get("metadata") or {}).get("labels") or {}
    return labels


def _conditions_hold(hook: Hook, attributes: Attributes, resource: Resource) -> bool:
    expressions = [one.get("expression") or "" for one in hook.get("matchConditions") or ()]
    if not expressions:
        return True
    variables = {
        "object": review.as_version(attributes.object, attributes, resource),
        "oldObject": review.as_version(attributes.old, attributes, resource),
        "request": review.about(attributes, resource),
    }
    try:
        return conditions.matches(expressions, variables, lenient=hook["failurePolicy"] == "Ignore")
    except conditions.Failed as failed:
        own = attributes.resource
        raise forbidden(About(own.group, own.plural, attributes.name), str(failed)) from None
