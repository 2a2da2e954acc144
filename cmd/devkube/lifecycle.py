"""What upstream's controller-manager does and every client counts on: garbage collection, namespaces, CRDs.

    an owner is gone        its dependents go too, or lose the reference when another owner is left
    foreground, orphan      dependents first, or set free; then the finalizer is taken off
    a namespace             gets ServiceAccount default and ConfigMap kube-root-ca.crt; when it ends, so does all in it
    a CRD                   is served from its first write on; when it ends, its objects end before it
    a ClusterRole           whose aggregationRule selects others holds their rules

It hears every write from the store and acts afterwards through the verbs, as a client would: what a finalizer or a
webhook holds up is tried again.
"""

import asyncio
import logging
from collections.abc import Iterable
from typing import Any, Final, Protocol

from devkube.access import aggregation
from devkube.access.rbac import CLUSTER_ROLES
from devkube.deleting import CRD_CLEANUP, CRDS, FOREGROUND, ORPHAN
from devkube.errors import StatusError
from devkube.kinds import Catalog, Object, Resource
from devkube.requests import Request, User
from devkube.store import Change, Store, Stored, encode, load
from devkube.verbs import Verbs

log = logging.getLogger("devkube")
COLLECTOR: Final = User(
    "system:serviceaccount:kube-system:generic-garbage-collector", groups=("system:masters", "system:authenticated")
)
_RETRY: Final = 0.5  # seconds until what failed is tried again
Task = tuple[str, str]  # what to do; a uid or a name


class Definitions(Protocol):
    """The registry of CRDs: serves what a CRD defines, or no longer."""

    def established(self, crd: Object) -> object: ...
    def removed(self, crd: Object) -> object: ...


class Lifecycle:
    """`authority` is the PEM that kube-root-ca.crt holds."""

    def __init__(self, verbs: Verbs, definitions: Definitions | None = None, *, authority: str = "") -> None:
        self._verbs, self._definitions, self._authority = verbs, definitions, authority
        self._store: Store = verbs.store
        self._catalog: Catalog = verbs.catalog
        self._where: dict[str, tuple[str, str, str]] = {}  # uid -> key, namespace, name
        self._dependents: dict[str, set[str]] = {}  # owner's uid -> uids
        self._todo: dict[Task, None] = {}  # in order, each once
        self._work = asyncio.Event()
        self._ending: set[str] = set()  # namespaces that end
        self._closing: dict[str, str] = {}  # storage key -> name of the CRD that ends
        self._running: asyncio.Task[None] | None = None
        self._store.listen(self._heard)

    def start(self) -> None:
        self._running = asyncio.create_task(self._run(), name="devkube lifecycle")

    async def stop(self) -> None:
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)

    # ------------------------------------------------------------------------------------- hearing

    def _heard(self, change: Change) -> None:
        after, before = change.after, change.before
        if change.type == "DELETED":
            self._gone(after)
        else:
            self._where[after.uid] = (after.key, after.namespace, after.name)
            if after.owners or (before is not None and before.owners):
                self._owned(after, before)
            if b'"deletionTimestamp":' in after.raw:
                self._do("end", after.uid)
        if after.key == CRDS:
            self._defined(change)
        elif after.key == CLUSTER_ROLES:
            self._do("gather", CLUSTER_ROLES)
        elif after.key == "namespaces":
            if change.type == "ADDED":
                self._do("namespace", after.name)
            elif change.type == "DELETED":
                self._ending.discard(after.name)
            elif after.fields.get("status.phase") == "Terminating":
                self._ending.add(after.name)
                self._do("empty", after.name)

    def _gone(self, after: Stored) -> None:
        self._where.pop(after.uid, None)
        for dependent in self._dependents.pop(after.uid, ()):
            self._do("collect", dependent)
        for owner in after.owners:
            self._dependents.get(owner, set()).discard(after.uid)
            self._do("end", owner)
        if after.namespace in self._ending:
            self._do("empty", after.namespace)
        if after.key in self._closing:
            self._do("close", self._closing[after.key])

    def _owned(self, after: Stored, before: Stored | None) -> None:
        for owner in before.owners if before else ():
            if owner not in after.owners:
                self._dependents.get(owner, set()).discard(after.uid)
                self._do("end", owner)
        for owner in after.owners:
            self._dependents.setdefault(owner, set()).add(after.uid)
            found = self._where.get(owner)
            if found is None or found[1] not in ("", after.namespace):
                self._do("collect", after.uid)

    def _defined(self, change: Change) -> None:
        crd = load(change.after)
        key = f"{crd['spec']['names']['plural']}.{crd['spec']['group']}"
        if change.type == "DELETED":
            self._closing.pop(key, None)
            if self._definitions is not None:
                self._definitions.removed(crd)
            return
        if self._definitions is not None:
            self._definitions.established(crd)
        if crd["metadata"].get("deletionTimestamp"):
            self._closing[key] = change.after.name
            self._do("close", change.after.name)

    def _do(self, what: str, about: str) -> None:
        self._todo[what, about] = None
        self._work.set()

    # ------------------------------------------------------------------------------------- acting

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        actions = {
            "collect": self._collect,
            "end": self._end,
            "namespace": self._furnish,
            "empty": self._empty,
            "close": self._close,
            "gather": self._gather,
        }
        while True:
            await self._work.wait()
            self._work.clear()
            tasks, self._todo = self._todo, {}
            for what, about in tasks:
                try:
                    await actions[what](about)
                except StatusError as error:
                    if error.code != 404:
                        if error.code != 409:
                            log.info("%s of %s is held up: %s", what, about, error)
                        loop.call_later(_RETRY if error.code != 409 else 0, self._do, what, about)
                except Exception:
                    log.exception("%s of %s failed", what, about)

    async def _collect(self, uid: str) -> None:
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
                await self._patch(resource, stored, {"ownerReferences": solid})
        elif waiting and self._dependents.get(uid):
            await self._delete(resource, stored, "Foreground")
        elif not meta.get("ownerReferences") or (rest and not waiting):
            return
        else:
            policy = "Orphan" if ORPHAN in finalizers else "Foreground" if FOREGROUND in finalizers else "Background"
            await self._delete(resource, stored, policy)

    def _is_waiting(self, owner: tuple[str, str, str]) -> bool:
        stored = self._store.get(*owner)
        if stored is None or b'"deletionTimestamp":' not in stored.raw:
            return False
        meta = load(stored)["metadata"]
        return bool(meta.get("deletionTimestamp")) and FOREGROUND in (meta.get("finalizers") or ())

    async def _end(self, uid: str) -> None:
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
                await self._patch(its, dependent, {"ownerReferences": [r for r in references if r.get("uid") != uid]})
            await self._patch(resource, stored, {"finalizers": [one for one in finalizers if one != ORPHAN]})
            return
        if not any(_blocks(dependent, uid) for _, dependent in dependents):
            await self._patch(resource, stored, {"finalizers": [one for one in finalizers if one != FOREGROUND]})
        for _, dependent in dependents:
            self._do("collect", dependent.uid)

    async def _furnish(self, namespace: str) -> None:
        """What every namespace has."""
        for plural, obj in (
            ("serviceaccounts", {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}),
            (
                "configmaps",
                {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "metadata": {"name": "kube-root-ca.crt"},
                    "data": {"ca.crt": self._authority},
                },
            ),
        ):
            resource = self._catalog.find("", "v1", plural)
            if resource is None or self._store.get(plural, namespace, str(obj["metadata"]["name"])):  # type: ignore[index]
                continue
            try:
                await self._ask("create", resource, namespace, "", obj)
            except StatusError as error:
                if error.code not in (403, 404, 409):  # the namespace may be on its way out
                    raise

    async def _empty(self, namespace: str) -> None:
        """Delete what is in a namespace that ends; when nothing is left, let it go."""
        stored = self._store.get("namespaces", "", namespace)
        if stored is None:
            return
        left = False
        for key in self._store.kinds():
            resource = self._catalog.stored_as(key)
            if resource is None or not resource.namespaced:
                continue
            left = await self._delete_all(resource, self._store.select(key, namespace)) or left
        if left:
            return
        resource = self._catalog.find("", "v1", "namespaces")
        obj = load(stored)
        if resource is None or "kubernetes" not in ((obj.get("spec") or {}).get("finalizers") or ()):
            return
        obj["spec"]["finalizers"] = [one for one in obj["spec"]["finalizers"] if one != "kubernetes"]
        await self._ask("update", resource, "", namespace, obj, subresource="finalize")

    async def _close(self, name: str) -> None:
        """Delete the objects of a CRD that ends; when none is left, let it go."""
        stored = self._store.get(CRDS, "", name)
        if stored is None:
            return
        crd = load(stored)
        key = f"{crd['spec']['names']['plural']}.{crd['spec']['group']}"
        resource = self._catalog.stored_as(key)
        if resource is not None and await self._delete_all(resource, self._store.select(key)):
            return
        own = self._catalog.stored_as(CRDS)
        finalizers = crd["metadata"].get("finalizers") or ()
        if own is not None and CRD_CLEANUP in finalizers:
            await self._patch(own, stored, {"finalizers": [one for one in finalizers if one != CRD_CLEANUP]})

    async def _gather(self, key: str) -> None:
        """Aggregated ClusterRoles hold the rules of those they select."""
        resource = self._catalog.stored_as(key)
        if resource is not None:
            for role in aggregation.changes(map(load, self._store.select(key))):
                await self._ask("update", resource, "", role["metadata"]["name"], role)

    async def _delete_all(self, resource: Resource, objects: Iterable[Stored]) -> bool:
        """Whether some are left."""
        found = tuple(objects)
        for one in found:
            if b'"deletionTimestamp":' not in one.raw or not load(one)["metadata"].get("deletionTimestamp"):
                await self._delete(resource, one, "Background")
        return any(self._store.get(one.key, one.namespace, one.name) for one in found)

    # ------------------------------------------------------------------------------------- asking

    def _find(self, uid: str) -> tuple[Resource, Stored] | None:
        where = self._where.get(uid)
        stored = self._store.get(*where) if where else None
        if stored is None or stored.uid != uid:
            return None
        resource = self._catalog.stored_as(stored.key)
        return (resource, stored) if resource else None

    async def _delete(self, resource: Resource, stored: Stored, policy: str) -> None:
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": policy,
            "preconditions": {"uid": stored.uid},
        }
        try:
            await self._ask("delete", resource, stored.namespace, stored.name, options)
        except StatusError as error:
            if error.code != 404:
                raise

    async def _patch(self, resource: Resource, stored: Stored, metadata: dict[str, Any]) -> None:
        """Of the version seen: a conflict means that somebody else was faster, and the task is done again."""
        metadata = {**metadata, "resourceVersion": str(stored.version)}
        body, how = {"metadata": metadata}, "application/merge-patch+json"
        await self._ask("patch", resource, stored.namespace, stored.name, body, content_type=how)

    async def _ask(
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


def _blocks(dependent: Stored, uid: str) -> bool:
    references = load(dependent)["metadata"].get("ownerReferences") or ()
    return any(r.get("uid") == uid and r.get("blockOwnerDeletion") for r in references)
