"""A Kubernetes API in a dict, as `handlers.effects.cluster.Cluster` sees one: versions, uids, generations, conflicts.
What goes wrong is put into `faults`: the next calls raise them."""

import asyncio
import copy
import itertools
from typing import Any

from handlers.effects.cluster import ClusterError, Written
from handlers.outcome import Key, Object


def conflict() -> ClusterError:
    return ClusterError(409, "Conflict", "the object has been modified")


class FakeCluster:
    """`calls` is every call in order, as (verb, key). `hold`, when set, is waited for before each write."""

    def __init__(self) -> None:
        self.objects: dict[Key, Object] = {}
        self.calls: list[tuple[str, Key]] = []
        self.bodies: list[Object] = []
        self.faults: list[Exception | None] = []  # one per call of `failing` verbs
        self.failing: frozenset[str] = frozenset(("apply", "status", "patch", "create", "delete", "replace"))
        self.hold: asyncio.Event | None = None
        self.stored: Any = staticmethod(lambda verb, body: body)  # what the server makes of a body
        self._versions = itertools.count(100)
        self._uids = itertools.count(1)

    def writes(self, *verbs: str) -> list[tuple[str, Key]]:
        return [one for one in self.calls if one[0] != "get" and (not verbs or one[0] in verbs)]

    def put(self, key: Key, body: Object, *, uid: str = "") -> Object:
        """As somebody else would."""
        before = self.objects.get(key, {}).get("metadata", {})
        metadata = {**body.get("metadata", {}), "name": key.name, "namespace": key.namespace}
        metadata["uid"] = uid or before.get("uid") or f"uid-{next(self._uids)}"
        metadata["resourceVersion"] = str(next(self._versions))
        metadata["generation"] = before.get("generation", 0) + 1
        self.objects[key] = {**copy.deepcopy(body), "metadata": metadata}
        return self.objects[key]

    async def get(self, key: Key) -> Object | None:
        self.calls.append(("get", key))
        if "get" in self.failing:
            self._fail()
        await asyncio.sleep(0)
        return copy.deepcopy(self.objects.get(key))

    async def apply(self, key: Key, body: Object, *, force: bool = True) -> Written:
        live = await self._write("apply", key, body)
        wanted = body["metadata"].get("uid")
        if wanted and (live is None or live["metadata"]["uid"] != wanted):
            raise conflict()
        return _written(self.put(key, self.stored("apply", body)))

    async def status(self, key: Key, body: Object) -> Written:
        live = await self._write("status", key, body)
        self._same(live, body)
        assert live is not None
        made = self.put(key, {**live, "status": self.stored("status", body["status"])})
        made["metadata"]["generation"] -= 1
        return _written(made)

    async def patch(self, key: Key, body: Object) -> Written:
        live = await self._write("patch", key, body)
        self._same(live, body)
        assert live is not None
        return _written(self.put(key, {**live, **{k: v for k, v in body.items() if k != "metadata"}}))

    async def replace(self, key: Key, body: Object) -> Written:
        self._same(await self._write("replace", key, body), body)
        return _written(self.put(key, body))

    async def create(self, key: Key, body: Object) -> Written:
        if await self._write("create", key, body) is not None:
            raise ClusterError(409, "AlreadyExists", f"{key} already exists")
        return _written(self.put(key, body))

    async def delete(self, key: Key, *, uid: str, resource_version: str = "") -> None:
        live = await self._write("delete", key, {})
        if live is not None and live["metadata"]["uid"] != uid:
            raise conflict()
        self.objects.pop(key, None)

    async def _write(self, verb: str, key: Key, body: Object) -> Object | None:
        self.calls.append((verb, key))
        self.bodies.append(body)
        if self.hold is not None:
            await self.hold.wait()
        await asyncio.sleep(0)
        if verb in self.failing:
            self._fail()
        return self.objects.get(key)

    def _fail(self) -> None:
        if self.faults and (fault := self.faults.pop(0)) is not None:
            raise fault

    def _same(self, live: Object | None, body: Object) -> None:
        if live is None:
            raise ClusterError(404, "NotFound", "it is not there")
        sent = body.get("metadata", {})
        if sent.get("uid", live["metadata"]["uid"]) != live["metadata"]["uid"]:
            raise conflict()
        if sent.get("resourceVersion", live["metadata"]["resourceVersion"]) != live["metadata"]["resourceVersion"]:
            raise conflict()


def _written(live: Object) -> Written:
    metadata = live["metadata"]
    return Written(metadata["uid"], metadata["resourceVersion"], metadata["generation"])
