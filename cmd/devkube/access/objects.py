"""How admission and access read what is stored.

`version_of` is what makes caches possible: whatever was computed of a kind is good until its version moves.
"""

from collections.abc import Iterable

from devkube.kinds import Object
from devkube.store import Store, load


class Objects:
    def __init__(self, store: Store) -> None:
        self._store = store

    def list(self, key: str) -> Iterable[Object]:
        """All objects stored under a key (`pods`, `roles.rbac.authorization.k8s.io`), by namespace and name."""
        return map(load, self._store.select(key))

    def get(self, key: str, namespace: str, name: str) -> Object | None:
        stored = self._store.get(key, namespace, name)
        return load(stored) if stored else None

    def version_of(self, key: str) -> int:
        """The version of the last change under this key."""
        return self._store.version_of(key)
