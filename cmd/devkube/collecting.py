"""Garbage collection by ownerReferences, as upstream's garbagecollector does it; and how devkube's own controllers ask.

an owner is gone        its dependents go too, or lose the reference when another owner is left
foreground, orphan      dependents first, or set free; then the finalizer is taken off
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

from devkube.deleting import FOREGROUND, ORPHAN
from devkube.errors import StatusError
from devkube.kinds import Object, Resource
from devkube.requests import Request, User
from devkube.store import Change, Stored, encode, load
from devkube.verbs import Verbs

COLLECTOR: Final = User(
    "system:serviceaccount:kube-system:generic-garbage-collector", groups=("system:masters", "system:authenticated")
)


class Steward:
    """Asks through the verbs, as a client that may do anything."""

    def __init__(self, verbs: Verbs) -> None:
        self._verbs, self._store = verbs, verbs.store

    async def delete_all(self, resource: Resource, objects: Iterable[Stored]) -> bool:
        """Whether some are left."""
        found = tuple(objects)
        for one in found:
            if b'"deletionTimestamp":' not in one.raw or not load(one)["metadata"].get("deletionTimestamp"):
                await self.delete(resource, one, "Background")
        return any(self._store.get(one.key, one.namespace, one.name) for one in found)

    async def delete(self, resource: Resource, stored: Stored, policy: str) -> None:
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": policy,
            "preconditions": {"uid": stored.uid},
        }
        try:
            await self.ask("delete", resource, stored.namespace, stored.name, options)
        except StatusError as error:
            if error.code != 404:
                raise

    async def patch(self, resource: Resource, stored: Stored, metadata: dict[str, Any]) -> None:
        """Of the version seen: a conflict means that somebody else was faster, and the task is done again."""
        metadata = {**metadata, "resourceVersion": str(stored.version)}
        body, how = {"metadata": metadata}, "application/merge-patch+json"
        await self.ask("patch", resource, stored.namespace, stored.name, body, content_type=how)

    async def ask(
        self,
        verb: str,
        resource: Resource,
        namespace: str,
        name: str,
        body: Object,
        *,
        subresource: str = "",
        content_type: str = "application/json",
    ) -> None:
        await self._verbs.handle(
            Request(
                verb=verb,
                resource=resource,
                namespace=namespace,
                name=name,
                subresource=subresource,
                body=encode(body),
                content_type=content_type,
                user=COLLECTOR,
                agent="devkube",
            )
        )


class Collector:
    """`hear` every change; `due(what, uid)` is then called for what is to be done: `collect` or `end` of that uid."""

    def __init__(self, verbs: Verbs, steward: Steward, due: Callable[[str, str], None]) -> None:
        self._store, self._catalog, self._steward, self._do = verbs.store, verbs.catalog, steward, due
        self._where: dict[str, tuple[str, str, str]] = {}  # uid -> key, namespace, name
        self._dependents: dict[str, set[str]] = {}  # owner's uid -> uids

    def hear(self, change: Change) -> None:
        after, before = change.after, change.before
        if change.type == "DELETED":
            self._where.pop(after.uid, None)
            for dependent in self._dependents.pop(after.uid, ()):
                self._do("collect", dependent)
            for owner in after.owners:
                self._released(owner, after.uid)
            return
        self._where[after.uid] = (after.key, after.namespace, after.name)
        if after.owners or (before is not None and before.owners):
            self._owned(after, before)
        if b'"deletionTimestamp":' in after.raw:
            self._do("end", after.uid)

    def _released(self, owner: str, uid: str) -> None:
        dependents = self._dependents.get(owner, set())
        dependents.discard(uid)
        if not dependents:
            self._dependents.pop(owner, None)
        self._do("end", owner)

    def _owned(self, after: Stored, before: Stored | None) -> None:
        for owner in before.owners if before else ():
            if owner not in after.owners:
                self._released(owner, after.uid)
        for owner in after.owners:
            self._dependents.setdefault(owner, set()).add(after.uid)
            found = self._where.get(owner)
            if found is None or found[1] not in ("", after.namespace):
                self._do("collect", after.uid)

    async def collect(self, uid: str) -> None:
        """One object whose owners may be gone (garbagecollector.attemptToDeleteItem)."""
        found = self._find(uid)
        if found is None:
            return
        resource, stored = found
        meta = load(stored)["metadata"]
        finalizers = meta.get("finalizers") or []
        if meta.get("deletionTimestamp") and FOREGROUND not in finalizers:
            return
        solid, rest, waiting = [], [], False
        for reference in meta.get("ownerReferences") or ():
            owner = self._where.get(reference.get("uid", ""))
            if owner is None or owner[1] not in ("", stored.namespace):
                if owner is not None and not stored.namespace:
                    solid.append(reference)  # a namespaced owner of a cluster's object is invalid, nothing follows
                continue
            if self._is_waiting(owner):
                waiting = True
                rest.append(reference)
            else:
                solid.append(reference)
        if solid:
            if len(solid) != len(meta.get("ownerReferences") or ()):
                await self._steward.patch(resource, stored, {"ownerReferences": solid})
        elif waiting and self._dependents.get(uid):
            await self._steward.delete(resource, stored, "Foreground")
        elif not meta.get("ownerReferences") or (rest and not waiting):
            return
        else:
            policy = "Orphan" if ORPHAN in finalizers else "Foreground" if FOREGROUND in finalizers else "Background"
            await self._steward.delete(resource, stored, policy)

    def _is_waiting(self, owner: tuple[str, str, str]) -> bool:
        stored = self._store.get(*owner)
        if stored is None or b'"deletionTimestamp":' not in stored.raw:
            return False
        meta = load(stored)["metadata"]
        return bool(meta.get("deletionTimestamp")) and FOREGROUND in (meta.get("finalizers") or ())

    async def end(self, uid: str) -> None:
        """One object that is being deleted: see to its dependents if it waits for that."""
        found = self._find(uid)
        if found is None:
            return
        resource, stored = found
        meta = load(stored)["metadata"]
        finalizers = meta.get("finalizers") or []
        if not meta.get("deletionTimestamp") or not {ORPHAN, FOREGROUND} & set(finalizers):
            return
        dependents = [one for one in map(self._find, tuple(self._dependents.get(uid, ()))) if one is not None]
        if ORPHAN in finalizers:
            for its, dependent in dependents:
                references = load(dependent)["metadata"].get("ownerReferences") or ()
                await self._steward.patch(
                    its, dependent, {"ownerReferences": [r for r in references if r.get("uid") != uid]}
                )
            await self._steward.patch(resource, stored, {"finalizers": [one for one in finalizers if one != ORPHAN]})
            return
        if not any(_blocks(dependent, uid) for _, dependent in dependents):
            await self._steward.patch(
                resource, stored, {"finalizers": [one for one in finalizers if one != FOREGROUND]}
            )
        for _, dependent in dependents:
            self._do("collect", dependent.uid)

    def _find(self, uid: str) -> tuple[Resource, Stored] | None:
        where = self._where.get(uid)
        stored = self._store.get(*where) if where else None
        if stored is None or stored.uid != uid:
            return None
        resource = self._catalog.stored_as(stored.key)
        return (resource, stored) if resource else None


def _blocks(dependent: Stored, uid: str) -> bool:
    references = load(dependent)["metadata"].get("ownerReferences") or ()
    return any(r.get("uid") == uid and r.get("blockOwnerDeletion") for r in references)
