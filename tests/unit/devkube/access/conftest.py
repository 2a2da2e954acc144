"""A store with objects in it, and short ways to write RBAC down."""

from collections.abc import Callable
from typing import Any

import pytest

from devkube.access import defaults
from devkube.access.rbac import Authorizer
from devkube.store import Store

GROUP = "rbac.authorization.k8s.io"
PLURALS = {"ClusterRoleBinding": "clusterrolebindings", "RoleBinding": "rolebindings", "Role": "roles"}


class Cluster:
    """Objects by kind and name. Each `put` is a write, as verbs would do it."""

    def __init__(self) -> None:
        self.store = Store()
        self.authorizer = Authorizer(self.store)

    def put(self, kind: str, name: str, namespace: str = "", key: str = "", **rest: Any) -> dict[str, Any]:
        api = f"{GROUP}/v1" if kind in (*PLURALS, "ClusterRole") else "v1"
        meta = {"name": name, "uid": f"uid-{name}", **({"namespace": namespace} if namespace else {})}
        obj = {"apiVersion": api, "kind": kind, "metadata": {**meta, **rest.pop("meta", {})}, **rest}
        if not key:
            key = f"{PLURALS.get(kind, kind.lower() + 's')}.{GROUP}" if api != "v1" else kind.lower() + "s"
        old = self.store.get(key, namespace, name)
        self.store.replace(key, obj, old.version) if old else self.store.create(key, obj)
        return obj

    def drop(self, key: str, namespace: str, name: str) -> None:
        old = self.store.get(key, namespace, name)
        assert old is not None
        self.store.remove(key, namespace, name, old.version)

    def role(self, name: str, *rules: dict[str, Any], namespace: str = "", **rest: Any) -> None:
        self.put("Role" if namespace else "ClusterRole", name, namespace, rules=list(rules), **rest)

    def bind(self, role: str, *subjects: dict[str, str], namespace: str = "", kind: str = "", name: str = "") -> None:
        kind = kind or ("Role" if namespace else "ClusterRole")
        self.put(
            "RoleBinding" if namespace else "ClusterRoleBinding",
            name or f"{role}-binding",
            namespace,
            roleRef={"apiGroup": GROUP, "kind": kind, "name": role},
            subjects=list(subjects),
        )

    def bootstrap(self) -> None:
        for one in (*defaults.cluster_roles(), *defaults.cluster_role_bindings()):
            key = f"{'clusterroles' if one['kind'] == 'ClusterRole' else 'clusterrolebindings'}.{GROUP}"
            self.store.create(key, one)


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def rule() -> Callable[..., dict[str, Any]]:
    """rule("get list", "pods", groups="") -> a PolicyRule; several values are separated by blanks."""

    def make(verbs: str, resources: str = "", *, groups: str = "", names: str = "", urls: str = "") -> dict[str, Any]:
        if urls:
            return {"verbs": verbs.split(), "nonResourceURLs": urls.split()}
        found = {"verbs": verbs.split(), "apiGroups": groups.split() or [""], "resources": resources.split()}
        return {**found, **({"resourceNames": names.split()} if names else {})}

    return make
