"""A chain whose webhooks are functions, and short ways to write configurations and requests down."""

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from devkube.admission.call import Caller
from devkube.admission.chain import Chain
from devkube.kinds import Catalog, Resource, Subresource
from devkube.requests import Attributes, User
from devkube.schema import DEDUCED
from devkube.store import Store

# What a configuration that says nothing else is stored with.
DEFAULTS = {
    "failurePolicy": "Fail",
    "matchPolicy": "Equivalent",
    "timeoutSeconds": 10,
    "reinvocationPolicy": "Never",
    "namespaceSelector": {},
    "objectSelector": {},
}
# AdmissionRequest -> AdmissionResponse without its uid, the bytes of an answer, or an exception to raise
Webhook = Callable[[dict[str, Any]], Any]


class PlainRules:
    """Rules of a type that knows `spec.known` only, and defaults `spec.level`."""

    schema = DEDUCED

    def decode(self, obj: dict[str, Any], *, validation: str) -> list[str]:
        spec = obj.get("spec", {})
        for key in [key for key in spec if key.startswith("unknown")]:
            del spec[key]
        return []

    def default(self, obj: dict[str, Any]) -> None:
        obj.setdefault("spec", {}).setdefault("level", "low")


def resource(group: str, version: str, plural: str, kind: str, *, namespaced: bool = True) -> Resource:
    subs = {"status": Subresource("status", kind, ("get", "patch", "update"))}
    return Resource(
        group,
        version,
        plural,
        kind,
        kind.lower(),
        namespaced,
        PlainRules(),
        subresources=subs,  # type: ignore[arg-type]
    )


PODS = resource("", "v1", "pods", "Pod")
FOOS1, FOOS2 = resource("a.io", "v1", "foos", "Foo"), resource("a.io", "v2", "foos", "Foo")
SPACES = resource("", "v1", "namespaces", "Namespace", namespaced=False)
NODES = resource("", "v1", "nodes", "Node", namespaced=False)
CONFIGURATIONS = {
    kind: resource("admissionregistration.k8s.io", "v1", kind.lower() + "s", kind, namespaced=False)
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
}
BY_NAME = {"pods": PODS, "foos": FOOS1, "foos2": FOOS2, "namespaces": SPACES, "nodes": NODES}


class FakeCaller(Caller):
    """Answers with functions instead of connections: by the path of the url."""

    def __init__(self) -> None:
        super().__init__()
        self.webhooks: dict[str, Webhook] = {}
        self.seen: list[tuple[str, dict[str, Any]]] = []  # path, review

    async def post(self, client: Mapping[str, Any], body: bytes, seconds: int) -> bytes:
        path = client["url"].rsplit("/", 1)[1]
        review = json.loads(body)
        self.seen.append((path, review))
        answer = self.webhooks[path](review["request"])
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, bytes):
            return answer
        response = {"uid": review["request"]["uid"], **answer}
        return json.dumps(
            {"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response}
        ).encode()


class Bench:
    def __init__(self) -> None:
        self.store = Store()
        self.caller = FakeCaller()
        self.chain = Chain(self.store, Catalog([*BY_NAME.values(), *CONFIGURATIONS.values()]), self.caller)

    @property
    def called(self) -> list[str]:
        return [path for path, _ in self.caller.seen]

    def configure(self, name: str, *hooks: dict[str, Any], validating: bool = False) -> None:
        kind = "ValidatingWebhookConfiguration" if validating else "MutatingWebhookConfiguration"
        key = f"{kind.lower()}s.admissionregistration.k8s.io"
        obj = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}}
        self.store.create(key, {**obj, "webhooks": list(hooks)})

    def space(self, name: str, **labels: str) -> None:
        meta = {"name": name, "labels": labels}
        self.store.create("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": meta})


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.fixture
def hook(bench: Bench) -> Callable[..., dict[str, Any]]:
    """hook("a", answer, …) -> a webhook of a configuration, whose calls are answered by `answer`."""

    def make(path: str, answer: Any = None, **rest: Any) -> dict[str, Any]:
        given = {"allowed": True} if answer is None else answer
        bench.caller.webhooks[path] = given if callable(given) else lambda request: given
        everything = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"], "scope": "*"}
        return {
            "name": f"{path}.acme.io",
            "clientConfig": {"url": f"https://acme.io/{path}"},
            "rules": [everything],
            **DEFAULTS,
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            **rest,
        }

    return make


@pytest.fixture
def patch() -> Callable[..., dict[str, Any]]:
    """patch(op, …) -> a response that allows and patches."""

    def make(*operations: dict[str, Any]) -> dict[str, Any]:
        encoded = base64.b64encode(json.dumps(operations).encode()).decode()
        return {"allowed": True, "patchType": "JSONPatch", "patch": encoded}

    return make


@pytest.fixture
def attributes() -> Callable[..., Attributes]:
    """attributes("pods", spec={…}, operation="UPDATE", …) -> what admission decides about."""

    def make(plural: str = "pods", operation: str = "CREATE", *, name: str = "x", **rest: Any) -> Attributes:
        found = BY_NAME[plural]
        namespace = rest.pop("namespace", "ns" if found.namespaced else "")
        meta = {"name": name, **({"namespace": namespace} if namespace else {})}
        if labels := rest.pop("labels", None):
            meta["labels"] = labels
        obj = {"apiVersion": found.group_version, "kind": found.kind, "metadata": meta, "spec": rest.pop("spec", {})}
        old = rest.pop("old", {**obj, "metadata": dict(meta)} if operation in ("UPDATE", "DELETE") else None)
        return Attributes(
            operation=operation,  # type: ignore[arg-type]
            resource=rest.pop("resource", found),
            namespace=namespace,
            name=name,
            object=None if operation == "DELETE" else obj,
            old=old,
            user=User("jane", "7", ("dev",), {"a/b": ["c"]}),
            **rest,
        )

    return make
