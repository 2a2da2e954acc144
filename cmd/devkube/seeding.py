"""What a cluster begins with: four namespaces and the default roles. Written past the verbs, for nobody looks yet."""

from typing import Final

from devkube.access import defaults
from devkube.clock import Clock
from devkube.kinds import Catalog, Object
from devkube.machinery import new_uid
from devkube.store import Store

NAMESPACES: Final = ("default", "kube-system", "kube-public", "kube-node-lease")


def seed(store: Store, catalog: Catalog, clock: Clock) -> None:
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
