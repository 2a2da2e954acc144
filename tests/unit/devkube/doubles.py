"""A catalog of three small kinds whose rules do next to nothing, and a machinery on it."""

from typing import Any

import msgspec

from devkube.clock import Clock
from devkube.kinds import Catalog, FieldValidation, Object, Resource, Subresource
from devkube.requests import Answer, Attributes, Listing, Request, Stream
from devkube.schema import DEDUCED, Schema
from devkube.selectors import values
from devkube.store import Store, encode
from devkube.tables import View
from devkube.verbs import Verbs


def waiting(store: Store) -> int:
    """How many watch now."""
    return sum(len(kind.watchers) for kind in store._kinds.values())


class Anything:
    """Rules that prune a field named `unknown` and find fault with `spec.bad`."""

    schema: Schema = DEDUCED

    def decode(self, obj: Object, *, validation: FieldValidation) -> list[str]:
        told = ['unknown field "unknown"'] if obj.pop("unknown", None) is not None else []
        return told if validation == "Warn" else []

    def default(self, obj: Object) -> None:
        if isinstance(obj.get("spec"), dict):
            obj["spec"].setdefault("defaulted", True)

    def prepare(self, new: Object, old: Object | None, subresource: str) -> None:
        pass

    def validate(self, new: Object, old: Object | None, subresource: str) -> list[Any]:
        from devkube.errors import Cause

        bad = (new.get("spec") or {}).get("bad")
        return [Cause("FieldValueInvalid", "Invalid value: it is bad", "spec.bad")] if bad else []

    def table(self, obj: Object, now: float) -> list[Any]:
        return []


def _resource(group: str, plural: str, kind: str, **more: Any) -> Resource:
    more = {"namespaced": True, **more}
    version = "v1"
    return Resource(group, version, plural, kind, kind.lower(), rules=Anything(), **more)


_STATUS = {"status": Subresource("status", "", ("get", "patch", "update"))}
_SCALE = {"scale": Subresource("scale", "Scale", ("get", "patch", "update"), "autoscaling", "v1")}
RESOURCES = {
    "namespaces": _resource("", "namespaces", "Namespace", namespaced=False, subresources=_STATUS),
    "configmaps": _resource("", "configmaps", "ConfigMap"),
    "pods": _resource("", "pods", "Pod", subresources=_STATUS),
    "serviceaccounts": _resource("", "serviceaccounts", "ServiceAccount"),
    "widgets": _resource("example.com", "widgets", "Widget", custom=True, subresources={**_STATUS, **_SCALE}),
    "nodes": _resource("", "nodes", "Node", namespaced=False, subresources=_STATUS),
}


class Hooks:
    """Admission that runs functions of a test."""

    def __init__(self) -> None:
        self.seen: list[Attributes] = []
        self.change: Any = lambda attributes: attributes.object
        self.check: Any = lambda attributes: None

    async def mutate(self, attributes: Attributes) -> Object:
        self.seen.append(attributes)
        found: Object = self.change(attributes)
        return found

    async def validate(self, attributes: Attributes) -> None:
        self.check(attributes)


class Api:
    """Verbs over a store, asked in few words; a namespace `ns` is there."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.clock.freeze()
        self.store = Store(self._fields)
        self.verbs = Verbs(self.store, Catalog(RESOURCES.values()), self.clock)
        self.verbs.admission = Hooks()
        self.store.create(
            "namespaces",
            {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {"name": "ns", "uid": "ns-uid"},
                "spec": {"finalizers": ["kubernetes"]},
                "status": {"phase": "Active"},
            },
        )

    @staticmethod
    def _fields(key: str, obj: Object) -> dict[str, str]:
        return values(next(one for one in RESOURCES.values() if one.key == key), obj)

    async def ask(self, verb: str, plural: str, name: str = "", body: Any = None, **more: Any) -> Any:
        """The decoded answer."""
        answer = await self.answer(verb, plural, name, body, **more)
        return msgspec.json.decode(b"".join(View("", "", self.clock).pieces(answer)))

    async def answer(self, verb: str, plural: str, name: str = "", body: Any = None, **more: Any) -> Answer:
        found = await self.verbs.handle(self.request(verb, plural, name, body, **more))
        assert isinstance(found, Answer)
        return found

    async def stream(self, plural: str, name: str = "", **query: str) -> Stream:
        found = await self.verbs.handle(self.request("watch", plural, name, query=query))
        assert not isinstance(found, Answer)
        return found

    async def listing(self, plural: str, **query: str) -> Listing:
        answer = await self.answer("list", plural, query=query)
        assert isinstance(answer.body, Listing)
        return answer.body

    async def create(self, plural: str, name: str, **fields: Any) -> Any:
        meta = {"name": name, **fields.pop("metadata", {})}
        resource = RESOURCES[plural]
        kind = {"apiVersion": resource.group_version, "kind": resource.kind}
        return await self.ask("create", plural, body={**kind, "metadata": meta, **fields})

    @staticmethod
    def request(verb: str, plural: str, name: str = "", body: Any = None, **more: Any) -> Request:
        resource = RESOURCES[plural]
        raw = body if isinstance(body, bytes) else b"" if body is None else encode(body)
        more = {"namespace": "ns" if resource.namespaced else "", **more}
        return Request(verb, resource, name=name, body=raw, **more)
