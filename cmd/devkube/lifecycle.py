"""What upstream's controller-manager does and every client counts on: garbage collection, namespaces, CRDs.

    an owner is gone        so are its dependents (`collecting`)
    a namespace             gets ServiceAccount default and ConfigMap kube-root-ca.crt; when it ends, so does all in it
    a CRD                   is served from its first write on; when it ends, its objects end before it

It hears every write from the store and acts afterwards through the verbs, as a client would: what a finalizer or a
webhook holds up is tried again.
"""

import asyncio
import logging
from typing import Final, Protocol

from devkube.collecting import Collector, Steward
from devkube.deleting import CRD_CLEANUP, CRDS
from devkube.errors import StatusError
from devkube.kinds import Catalog, Object
from devkube.store import Change, Store, Stored, load
from devkube.verbs import Verbs

log = logging.getLogger("devkube")
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
        self._steward = Steward(verbs)
        self._collector = Collector(verbs, self._steward, self._do)
        self._todo: dict[Task, None] = {}  # in order, each once
        self._work = asyncio.Event()
        self.idle = asyncio.Event()  # set while there is nothing to do at once
        self.idle.set()
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
        after = change.after
        self._collector.hear(change)
        if change.type == "DELETED":
            self._gone(after)
        if after.key == CRDS:
            self._defined(change)
        elif after.key == "namespaces":
            if change.type == "ADDED":
                self._do("namespace", after.name)
            elif change.type == "DELETED":
                self._ending.discard(after.name)
            elif after.fields.get("status.phase") == "Terminating":
                self._ending.add(after.name)
                self._do("empty", after.name)

    def _gone(self, after: Stored) -> None:
        if after.namespace in self._ending:
            self._do("empty", after.namespace)
        if after.key in self._closing:
            self._do("close", self._closing[after.key])

    def _defined(self, change: Change) -> None:
        crd = load(change.after)
        key = f"{crd['spec']['names']['plural']}.{crd['spec']['group']}"
        if change.type == "DELETED":
            self._closing.pop(key, None)
            self._verbs.closing.discard(key)
            if self._definitions is not None:
                self._definitions.removed(crd)
            return
        if self._definitions is not None:
            self._definitions.established(crd)
        if crd["metadata"].get("deletionTimestamp"):
            self._closing[key] = change.after.name
            self._verbs.closing.add(key)
            self._do("close", change.after.name)

    def _do(self, what: str, about: str) -> None:
        self._todo[what, about] = None
        self._work.set()
        self.idle.clear()

    # ------------------------------------------------------------------------------------- acting

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        actions = {
            "collect": self._collector.collect,
            "end": self._collector.end,
            "namespace": self._furnish,
            "empty": self._empty,
            "close": self._close,
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
            if not self._todo:
                self.idle.set()

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
                await self._steward.ask("create", resource, namespace, "", obj)
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
            left = await self._steward.delete_all(resource, self._store.select(key, namespace)) or left
        if left:
            return
        resource = self._catalog.find("", "v1", "namespaces")
        obj = load(stored)
        if resource is None or "kubernetes" not in ((obj.get("spec") or {}).get("finalizers") or ()):
            return
        obj["spec"]["finalizers"] = [one for one in obj["spec"]["finalizers"] if one != "kubernetes"]
        await self._steward.ask("update", resource, "", namespace, obj, subresource="finalize")

    async def _close(self, name: str) -> None:
        """Delete the objects of a CRD that ends; when none is left, let it go."""
        stored = self._store.get(CRDS, "", name)
        if stored is None:
            return
        crd = load(stored)
        key = f"{crd['spec']['names']['plural']}.{crd['spec']['group']}"
        resource = self._catalog.stored_as(key)
        if resource is not None and await self._steward.delete_all(resource, self._store.select(key)):
            return
        own = self._catalog.stored_as(CRDS)
        finalizers = crd["metadata"].get("finalizers") or ()
        if own is not None and CRD_CLEANUP in finalizers:
            await self._steward.patch(own, stored, {"finalizers": [one for one in finalizers if one != CRD_CLEANUP]})
