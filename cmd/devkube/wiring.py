"""Small adapters between modules: who answers what is not stored, the rules of CRDs themselves, and what a cluster
begins with."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from devkube.access import defaults, reviews, tokens
from devkube.access.authn import Authenticator
from devkube.access.objects import Objects
from devkube.access.rbac import Authorizer
from devkube.builtin.catalog import builtin_resources
from devkube.clock import Clock
from devkube.custom import definition
from devkube.deleting import CRDS, delete
from devkube.errors import Cause, bad_request, conflict, invalid
from devkube.kinds import Catalog, FieldValidation, Object, Resource, Rules
from devkube.machinery import Machinery, new_uid
from devkube.requests import Answer, Request, Subresource
from devkube.schema import Schema
from devkube.store import Store, encode

Made = Callable[[Request, Object], Object]


def virtual(
    m: Machinery, authenticator: Authenticator, authorizer: Authorizer, objects: Objects, clock: Clock
) -> Mapping[tuple[str, str], Subresource]:
    authentication, authorization = "authentication.k8s.io", "authorization.k8s.io"

    def token(request: Request, obj: Object) -> Object:
        return tokens.token_request(authenticator, objects, clock, request.namespace, request.name, obj)

    return {
        ("serviceaccounts", "token"): _made(token),
        (f"tokenreviews.{authentication}", ""): _made(lambda request, obj: tokens.token_review(authenticator, obj)),
        (f"selfsubjectreviews.{authentication}", ""): _made(
            lambda request, obj: tokens.self_subject_review(obj, request.user, clock)
        ),
        (f"subjectaccessreviews.{authorization}", ""): _made(
            lambda request, obj: reviews.subject_access_review(authorizer, obj)
        ),
        (f"localsubjectaccessreviews.{authorization}", ""): _made(
            lambda request, obj: reviews.subject_access_review(authorizer, obj, request.namespace)
        ),
        (f"selfsubjectaccessreviews.{authorization}", ""): _made(
            lambda request, obj: reviews.self_subject_access_review(authorizer, obj, request.user)
        ),
        (f"selfsubjectrulesreviews.{authorization}", ""): _made(
            lambda request, obj: reviews.self_subject_rules_review(authorizer, obj, request.user)
        ),
        ("pods", "eviction"): _Eviction(m),
        ("pods", "binding"): _Binding(m),
    }


def _made(make: Made) -> Subresource:
    async def answer(request: Request, obj: Object) -> Answer:
        return Answer(201, make(request, obj))

    return answer


class _Eviction:
    """A deletion with the options inside; disruption budgets are not looked at."""

    def __init__(self, m: Machinery) -> None:
        self._m = m

    async def __call__(self, request: Request, obj: Object) -> Answer:
        if (obj.get("metadata") or {}).get("name") not in (None, request.name):
            raise bad_request(f"name in URL does not match name in Eviction object: {request.name}")
        options = {"kind": "DeleteOptions", "apiVersion": "v1", **(obj.get("deleteOptions") or {})}
        await delete(
            self._m,
            Request(
                verb="delete",
                resource=request.resource,
                namespace=request.namespace,
                name=request.name,
                body=encode(options),
                user=request.user,
                agent=request.agent,
            ),
        )
        return Answer(201, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201})


class _Binding:
    """What a scheduler does: the Pod gets its node, once."""

    def __init__(self, m: Machinery) -> None:
        self._m = m

    async def __call__(self, request: Request, obj: Object) -> Answer:
        m, resource = self._m, request.resource
        stored = m.of(request)
        target = obj.get("target") or {}
        if target.get("kind") not in (None, "", "Node") or not target.get("name"):
            cause = Cause("FieldValueRequired", "Required value: the name of a Node", "target.name")
            raise invalid(resource.about(request.name), [cause])
        pod = m.read(stored, resource)
        if pod["metadata"].get("deletionTimestamp"):
            raise conflict(resource.about(request.name), f"pod {request.name} is being deleted, cannot be assigned")
        if node := pod["spec"].get("nodeName"):
            raise conflict(resource.about(request.name), f'pod {request.name} is already assigned to node "{node}"')
        pod["spec"]["nodeName"] = target["name"]
        conditions = pod.setdefault("status", {}).setdefault("conditions", [])
        conditions[:] = [one for one in conditions if one.get("type") != "PodScheduled"]
        conditions.append({"type": "PodScheduled", "status": "True", "lastTransitionTime": m.clock.timestamp()})
        m.store.replace(resource.key, pod, stored.version)
        return Answer(201, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201})


@dataclass(frozen=True)
class _DefinitionRules:
    """The rules of the CRD kind: the schema's, then `custom.definition`'s."""

    base: Rules

    @property
    def schema(self) -> Schema:
        return self.base.schema

    def decode(self, obj: Object, *, validation: FieldValidation) -> list[str]:
        return self.base.decode(obj, validation=validation) + definition.warnings(obj)

    def default(self, obj: Object) -> None:
        self.base.default(obj)
        definition.default(obj)

    def prepare(self, new: Object, old: Object | None, subresource: str) -> None:
        self.base.prepare(new, old, subresource)
        definition.prepare(new, old, subresource)

    def validate(self, new: Object, old: Object | None, subresource: str) -> list[Cause]:
        # What the schema does not let through, the definition's rules could not walk; a rule without text they can.
        found = [one for one in self.base.validate(new, old, subresource) if not _of_a_rule(one)]
        return found or definition.validate(new, old, subresource)

    def table(self, obj: Object, now: float) -> list[Any]:
        return self.base.table(obj, now)


def _of_a_rule(cause: Cause) -> bool:
    return cause.reason == "FieldValueRequired" and ".x-kubernetes-validations[" in cause.field


def builtins() -> list[Resource]:
    """The built-in resources, CRDs with the rules of their own."""
    return [replace(one, rules=_DefinitionRules(one.rules)) if one.key == CRDS else one for one in builtin_resources()]


NAMESPACES: Final = ("default", "kube-system", "kube-public", "kube-node-lease")


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
