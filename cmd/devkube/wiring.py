"""Small adapters between modules: who answers what is not stored, the rules of CRDs themselves, and what a cluster
begins with."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from devkube import causes
from devkube.access import defaults, reviews
from devkube.access.authn import Authenticator
from devkube.access.rbac import Authorizer
from devkube.builtin.catalog import BuiltinRules, builtin_resources
from devkube.clock import Clock
from devkube.custom import definition
from devkube.deleting import delete
from devkube.errors import Cause, bad_request, conflict, invalid
from devkube.kinds import Catalog, Object, Resource
from devkube.machinery import Machinery, new_uid
from devkube.requests import Answer, Request, Subresource
from devkube.store import Store, encode
from devkube.strategies import CRDS

NAMESPACES: Final = ("default", "kube-system", "kube-public", "kube-node-lease")
_DONE: Final = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def virtual(
    m: Machinery, authenticator: Authenticator, authorizer: Authorizer
) -> Mapping[tuple[str, str], Subresource]:
    """By storage key and subresource."""

    def answered(make: Callable[[Request, Object], Object]) -> Subresource:
        async def answer(request: Request, obj: Object) -> Answer:
            return Answer(201, make(request, obj))

        return answer

    made: dict[str, Callable[[Request, Object], Object]] = {
        "tokenreviews.authentication.k8s.io": lambda r, obj: reviews.token_review(authenticator, obj),
        "selfsubjectreviews.authentication.k8s.io": lambda r, obj: reviews.self_subject_review(obj, r.user, m.clock),
        "subjectaccessreviews.authorization.k8s.io": lambda r, obj: reviews.subject_access_review(authorizer, obj),
        "localsubjectaccessreviews.authorization.k8s.io": lambda r, obj: reviews.subject_access_review(
            authorizer, obj, r.namespace
        ),
        "selfsubjectaccessreviews.authorization.k8s.io": lambda r, obj: reviews.self_subject_access_review(
            authorizer, obj, r.user
        ),
        "selfsubjectrulesreviews.authorization.k8s.io": lambda r, obj: reviews.self_subject_rules_review(
            authorizer, obj, r.user
        ),
    }
    return {
        **{(key, ""): answered(make) for key, make in made.items()},
        ("serviceaccounts", "token"): answered(
            lambda r, obj: reviews.token_request(authenticator, r.namespace, r.name, obj)
        ),
        ("pods", "eviction"): partial(_evict, m),
        ("pods", "binding"): partial(_bind, m),
    }


async def _evict(m: Machinery, request: Request, obj: Object) -> Answer:
    """A deletion with the options inside; disruption budgets are not looked at."""
    if (obj.get("metadata") or {}).get("name") not in (None, request.name):
        raise bad_request(f"name in URL does not match name in Eviction object: {request.name}")
    options = {"kind": "DeleteOptions", "apiVersion": "v1", **(obj.get("deleteOptions") or {})}
    if "dryRun" in request.query:
        options["dryRun"] = [request.query["dryRun"]]
    await delete(m, replace(request, verb="delete", subresource="", body=encode(options)))
    return Answer(201, _DONE)


async def _bind(m: Machinery, request: Request, obj: Object) -> Answer:
    """What a scheduler does: the Pod gets its node, once."""
    resource, stored = request.resource, m.of(request)
    node = (obj.get("target") or {}).get("name")
    if not node:
        raise invalid(resource.about(request.name), [causes.required("target.name", "the name of a Node")])
    pod = m.read(stored, resource)
    if pod["metadata"].get("deletionTimestamp"):
        told = f"pod {request.name} is being deleted, cannot be assigned to a host"
        raise conflict(resource.about(request.name), told)
    if there := pod["spec"].get("nodeName"):
        raise conflict(resource.about(request.name), f'pod {request.name} is already assigned to node "{there}"')
    pod["spec"]["nodeName"] = node
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": m.clock.timestamp()}
    conditions = (pod.get("status") or {}).get("conditions") or ()
    others = [one for one in conditions if one.get("type") != "PodScheduled"]
    pod["status"] = {**(pod.get("status") or {}), "conditions": [*others, scheduled]}
    if not request.query.get("dryRun"):
        m.store.replace(resource.key, pod, stored.version)
    return Answer(201, _DONE)


class _DefinitionRules(BuiltinRules):
    """The rules of the CRD kind: the schema's, then `custom.definition`'s."""

    def default(self, obj: Object) -> None:
        super().default(obj)
        definition.default(obj)

    def prepare(self, new: Object, old: Object | None, subresource: str) -> None:
        super().prepare(new, old, subresource)
        definition.prepare(new, old, subresource)

    def validate(self, new: Object, old: Object | None, subresource: str) -> list[Cause]:
        # What the schema does not let through, the definition's rules could not walk; a rule without text they can.
        found = [one for one in super().validate(new, old, subresource) if "x-kubernetes-validations" not in one.field]
        return found or definition.validate(new, old, subresource)


def builtins() -> list[Resource]:
    """The built-in resources, CRDs with the rules of their own."""
    return [
        replace(one, rules=_DefinitionRules(one.group, one.version, one.kind)) if one.key == CRDS else one
        for one in builtin_resources()
    ]


def seed(store: Store, catalog: Catalog, clock: Clock) -> None:
    """Four namespaces and the default roles. Written past the verbs, for nobody looks yet."""
    objects: list[Object] = []
    for name in NAMESPACES:
        labels = {"kubernetes.io/metadata.name": name}
        obj: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
        objects.append({**obj, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}})
    for obj in (*objects, *defaults.cluster_roles(), *defaults.cluster_role_bindings()):
        resource = catalog.of_kind(obj["apiVersion"], obj["kind"])
        assert resource is not None, f"no built-in {obj['kind']}"
        meta = {**obj["metadata"], "uid": new_uid(), "creationTimestamp": clock.timestamp()}
        store.create(resource.key, {**obj, "metadata": meta})
    store.compact()  # histories begin after this
