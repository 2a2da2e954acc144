"""What upstream's controller-manager does and every client counts on: garbage collection, namespaces, CRDs.

    an owner is gone        its dependents go too, or lose the reference when another owner is left
    foreground, orphan      dependents first, or set free; then the finalizer is taken off
    a namespace             gets ServiceAccount default and ConfigMap kube-root-ca.crt; when it ends, so does all in it
    a CRD                   is served from its first write on; when it ends, its objects end before it

It hears every write from the store and acts afterwards through the verbs, as a client would: what a finalizer or a
webhook holds up is tried again.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

from devkube.custom.registry import Registry
from devkube.deleting import CRD_CLEANUP, FOREGROUND, ORPHAN
from devkube.errors import StatusError
from devkube.kinds import Object, Resource
from devkube.requests import Request, User
from devkube.store import Change, Stored, encode, load
from devkube.strategies import CRDS
from devkube.verbs import Verbs

log = logging.getLogger("devkube")
_RETRY: Final = 0.5  # seconds until what failed is tried again
_COLLECTOR: Final = User(
    "system:serviceaccount:kube-system:generic-garbage-collector", groups=("system:masters", "system:authenticated")
)
Action = Callable[[str], Awaitable[None]]  # of a uid or a name


class Lifecycle:
    """`authority` is the PEM that kube-root-ca.crt holds."""

    def __init__(self, verbs: Verbs, definitions: Registry, *, authority: str = "") -> None:
        self._verbs, self._definitions, self._authority = verbs, definitions, authority
        self._store, self._catalog = verbs.store, verbs.catalog
        self._where: dict[str, tuple[str, str, str]] = {}  # uid -> key, namespace, name
        self._dependents: dict[str, set[str]] = {}  # owner's uid -> uids of those that have it or had it once
        self._todo: dict[tuple[Action, str], None] = {}  # in order, each once
        self._work = asyncio.Event()
        self.idle = asyncio.Event()  # set while there is nothing to do at once
        self.idle.set()
        self._running: asyncio.Task[None]
        self._store.listen(self._heard)

    def start(self) -> None:
        self._running = asyncio.create_task(self._run(), name="devkube lifecycle")

    async def stop(self) -> None:
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)

    def _heard(self, change: Change) -> None:
        after = change.after
        self._heard_owners(change)
        if after.key == CRDS:
            self._heard_definition(change)
        elif after.key == "namespaces" and change.type == "ADDED":
            self._do(self._furnish, after.name)
        elif after.key == "namespaces" and _terminating(after):
            self._do(self._empty, after.name)
        elif change.type == "DELETED":
            if after.namespace and _terminating(self._store.get("namespaces", "", after.namespace)):
                self._do(self._empty, after.namespace)
            if after.key in self._verbs.closing:
                self._do(self._close, after.key)

    def _heard_owners(self, change: Change) -> None:
        after, before = change.after, change.before
        owners = after.owners if change.type != "DELETED" else ()
        for owner in before.owners if before else ():
            if owner not in owners:
                self._do(self._collect, owner)
        if change.type == "DELETED":
            self._where.pop(after.uid, None)
            for dependent in self._dependents.pop(after.uid, ()):
                self._do(self._collect, dependent)
            return
        self._where[after.uid] = (after.key, after.namespace, after.name)
        for owner in owners:
            self._dependents.setdefault(owner, set()).add(after.uid)
        if ((before is None or before.owners != owners) and owners) or _marked(after):
            self._do(self._collect, after.uid)

    def _heard_definition(self, change: Change) -> None:
        """A CRD's name is the key under which its objects are stored."""
        crd, name = load(change.after), change.after.name
        if change.type == "DELETED":
            self._verbs.closing.discard(name)
            self._definitions.removed(crd)
            self._store.wake(name)  # its watches end
            return
        self._definitions.established(crd)
        if _marked(change.after):
            self._verbs.closing.add(name)
            self._do(self._close, name)

    def _do(self, action: Action, about: str) -> None:
        self._todo[action, about] = None
        self._work.set()
        self.idle.clear()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._work.wait()
            self._work.clear()
            tasks, self._todo = self._todo, {}
            for action, about in tasks:
                try:
                    await action(about)
                except StatusError as error:
                    if error.code != 404:
                        log.info("%s of %s is held up: %s", action, about, error)
                        loop.call_later(_RETRY if error.code != 409 else 0, self._do, action, about)
                except Exception:
                    log.exception("%s of %s failed", action, about)
            if not self._todo:
                self.idle.set()

    async def _furnish(self, namespace: str) -> None:
        """What every namespace has."""
        for plural, kind, name, rest in (
            ("serviceaccounts", "ServiceAccount", "default", {}),
            ("configmaps", "ConfigMap", "kube-root-ca.crt", {"data": {"ca.crt": self._authority}}),
        ):
            resource = self._catalog.find("", "v1", plural)
            if resource is not None and not self._store.get(plural, namespace, name):
                obj = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, **rest}
                await self._ask("create", resource, namespace, "", obj)

    async def _empty(self, namespace: str) -> None:
        """Delete what is in a namespace that ends; when nothing is left, let it go."""
        stored, own = self._store.get("namespaces", "", namespace), self._catalog.stored_as("namespaces")
        left = False
        for key in self._store.kinds():
            resource = self._catalog.stored_as(key)
            if resource is not None and resource.namespaced:
                left = await self._delete_all(resource, self._store.select(key, namespace)) or left
        if stored is None or own is None or left:
            return
        obj = load(stored)
        finalizers = (obj.get("spec") or {}).get("finalizers") or ()
        if "kubernetes" in finalizers:
            obj["spec"]["finalizers"] = [one for one in finalizers if one != "kubernetes"]
            await self._ask("update", own, "", namespace, obj, subresource="finalize")

    async def _close(self, name: str) -> None:
        """Delete the objects of a CRD that ends; when none is left, let it go."""
        stored, own = self._store.get(CRDS, "", name), self._catalog.stored_as(CRDS)
        resource = self._catalog.stored_as(name)
        if resource is not None and await self._delete_all(resource, self._store.select(name)):
            return
        if stored is not None and own is not None:
            await self._unhold(own, stored, CRD_CLEANUP)

    async def _collect(self, uid: str) -> None:
        """One object whose owners may be gone, or that waits for its dependents."""
        found = self._find(uid)
        if found is None:
            return
        resource, stored = found
        meta = load(stored)["metadata"]
        finalizers, references = meta.get("finalizers") or (), meta.get("ownerReferences") or ()
        if meta.get("deletionTimestamp"):
            if ORPHAN in finalizers:
                await self._orphan(uid)
                await self._unhold(resource, stored, ORPHAN)
            elif FOREGROUND in finalizers:
                if not any(_blocks(dependent, uid) for _, dependent in self._dependents_of(uid)):
                    await self._unhold(resource, stored, FOREGROUND)
                for _, dependent in self._dependents_of(uid):
                    self._do(self._collect, dependent.uid)
            return
        owners = [(one, self._owner(one.get("uid", ""), stored)) for one in references]
        solid = [one for one, owner in owners if owner is not None and not _holds(owner, FOREGROUND)]
        if solid and len(solid) < len(references):
            await self._patch(resource, stored, {"ownerReferences": solid})
        elif references and not solid:
            waiting = any(owner is not None for _, owner in owners)
            policy = "Foreground" if waiting and self._dependents_of(uid) else "Background"
            await self._delete(resource, stored, policy)

    async def _orphan(self, uid: str) -> None:
        for resource, stored in self._dependents_of(uid):
            references = load(stored)["metadata"].get("ownerReferences") or ()
            left = [one for one in references if one.get("uid") != uid]
            await self._patch(resource, stored, {"ownerReferences": left})

    def _owner(self, uid: str, dependent: Stored) -> Stored | None:
        """An owner that is there; one in another namespace is none, but for objects of the cluster, where it is invalid
        and nothing follows."""
        found = self._find(uid)
        fits = found is not None and (not dependent.namespace or found[1].namespace in ("", dependent.namespace))
        return found[1] if found and fits else None

    def _dependents_of(self, uid: str) -> list[tuple[Resource, Stored]]:
        found = [self._find(one) for one in self._dependents.get(uid, ())]
        return [one for one in found if one is not None and uid in one[1].owners]

    def _find(self, uid: str) -> tuple[Resource, Stored] | None:
        stored = self._store.get(*self._where[uid]) if uid in self._where else None
        if stored is None or stored.uid != uid:
            return None
        resource = self._catalog.stored_as(stored.key)
        return (resource, stored) if resource else None

    async def _delete_all(self, resource: Resource, objects: Iterable[Stored]) -> bool:
        """Whether some are left."""
        found = tuple(objects)
        for one in found:
            if not _marked(one):
                await self._delete(resource, one, "Background")
        return any(self._store.get(one.key, one.namespace, one.name) for one in found)

    async def _delete(self, resource: Resource, stored: Stored, policy: str) -> None:
        options = {"propagationPolicy": policy, "preconditions": {"uid": stored.uid}}
        await self._ask("delete", resource, stored.namespace, stored.name, options)

    async def _unhold(self, resource: Resource, stored: Stored, finalizer: str) -> None:
        finalizers = load(stored)["metadata"].get("finalizers") or ()
        if finalizer in finalizers:
            await self._patch(resource, stored, {"finalizers": [one for one in finalizers if one != finalizer]})

    async def _patch(self, resource: Resource, stored: Stored, metadata: dict[str, Any]) -> None:
        """Of the version seen: a conflict means that somebody else was faster, and the task is done again."""
        body = {"metadata": {**metadata, "resourceVersion": str(stored.version)}}
        how = "application/merge-patch+json"
        await self._ask("patch", resource, stored.namespace, stored.name, body, content_type=how)

    async def _ask(self, verb: str, resource: Resource, namespace: str, name: str, body: Object, **more: str) -> None:
        raw = encode(body)
        await self._verbs.handle(
            Request(verb, resource, namespace, name, body=raw, user=_COLLECTOR, agent="devkube", **more)  # type: ignore[arg-type]
        )


def _marked(stored: Stored) -> bool:
    """Whether it is being deleted."""
    return b'"deletionTimestamp":' in stored.raw and bool(load(stored)["metadata"].get("deletionTimestamp"))


def _holds(stored: Stored, finalizer: str) -> bool:
    return _marked(stored) and finalizer in (load(stored)["metadata"].get("finalizers") or ())


def _terminating(namespace: Stored | None) -> bool:
    return namespace is not None and namespace.fields.get("status.phase") == "Terminating"


def _blocks(dependent: Stored, uid: str) -> bool:
    references = load(dependent)["metadata"].get("ownerReferences") or ()
    return any(r.get("uid") == uid and r.get("blockOwnerDeletion") for r in references)
