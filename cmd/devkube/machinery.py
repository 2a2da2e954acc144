"""What all verbs share: the parts they work on, and how an object is read for a client.

`Machinery` is what the other modules are wired to; `verbs.Verbs` is one that answers requests.
"""

import random
import uuid
from collections.abc import Callable

from devkube.clock import Clock
from devkube.errors import Cause, StatusError, forbidden, not_found
from devkube.kinds import Catalog, Object, Resource
from devkube.requests import Admission, Request, Subresource, User
from devkube.store import Store, Stored, beginning, encode, load

# May this user do this with the object? StatusError 403 if not: for steps that the request's own verb does not tell
# (an apply that creates).
Authorize = Callable[[User, str, Resource, str, str], None]
# Called with what is about to be stored, to fill in what controllers would: a CRD's conditions.
Complete = Callable[[Resource, Object], None]
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # of generated names; no vowels, so that no words appear


class Machinery:
    def __init__(self, store: Store, catalog: Catalog, clock: Clock) -> None:
        self.store, self.catalog, self.clock = store, catalog, clock
        self.admission: Admission
        # (storage key, subresource) -> who answers there instead of the store: TokenRequest, reviews, eviction, …
        self.virtual: dict[tuple[str, str], Subresource] = {}
        self.authorize: Authorize = lambda user, verb, resource, namespace, name: None
        self.complete: Complete = lambda resource, obj: None
        self.closing: set[str] = set()  # storage keys of kinds whose CRD is being deleted: nothing new is made
        self.bookmark_seconds = 60.0

    def of(self, request: Request) -> Stored:
        stored = self.store.get(request.resource.key, request.namespace, request.name)
        if stored is None:
            raise not_found(request.resource.about(request.name))
        return stored

    def read(self, stored: Stored, resource: Resource) -> Object:
        """A fresh copy in the shape of this resource's version. A custom object that is not in it is pruned and
        defaulted as it is read, as upstream does with every one."""
        obj = load(stored)
        obj["apiVersion"], obj["kind"] = resource.group_version, resource.kind
        if resource.custom and not _current(stored, resource):
            resource.rules.decode(obj, validation="Ignore")
            resource.rules.default(obj)
        return obj

    def view(self, stored: Stored, resource: Resource) -> bytes:
        """The same as JSON: the bytes of the store if they are."""
        return stored.raw if _current(stored, resource) else encode(self.read(stored, resource))

    def unused_name(self, resource: Resource, namespace: str, prefix: str) -> str:
        """As upstream: 58 characters of the prefix and five random ones."""
        while True:
            name = prefix[:58] + "".join(random.choices(_LETTERS, k=5))
            if self.store.get(resource.key, namespace, name) is None:
                return name

    def check_namespace(self, resource: Resource, namespace: str, name: str) -> None:
        """Creating needs a namespace that is there and is not going (NamespaceLifecycle)."""
        found = self.store.get("namespaces", "", namespace)
        if found is None:
            raise StatusError(404, "NotFound", f'namespaces "{namespace}" not found', name=namespace, kind="namespaces")
        if found.fields.get("status.phase") == "Terminating":
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            refused = forbidden(resource.about(name), why)
            told = f"namespace {namespace} is being terminated"
            refused.causes = (Cause("NamespaceTerminating", told, "metadata.namespace"),)
            raise refused


def new_uid() -> str:
    return str(uuid.uuid4())


def _current(stored: Stored, resource: Resource) -> bool:
    """Whether it was written in this version, and since its schema changed."""
    head = beginning(resource.group_version, resource.kind)
    return stored.version > resource.since and stored.raw.startswith(head + b",")
