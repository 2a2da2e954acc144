"""How handlers read the world: every key that was looked at is recorded with its sequence.

The read-set is what `explain` follows and what `admission.decided` holds: deciding again over the same events gives the
same answer, and a reader of the log sees on which facts it stood. A key that was looked for and is absent is recorded
with 0; a list is recorded as `<kind>/<namespace>/*` with the newest sequence in it.

A kind that was never listed is *unknown*: reading it raises `Unlisted`, because absence there means nothing. Who reads
in a live cluster turns it into a `Wait` or a live read.

Rules: design.md section 2 ("kind.listed", "read-set").
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from handlers.outcome import Key, Object, Told, event_name
from handlers.world.state import Applied, Known, Replica, World


class Unlisted(Exception):
    """Nothing is known of this kind yet."""

    def __init__(self, kind: str) -> None:
        super().__init__(f"{kind} has not been listed yet")
        self.kind = kind


class Reader:
    """One reading. `live` are objects read from the API for this reading; they win over the world's, by key, and a
    namespace in `whole` was listed live: what is not in `live` there does not exist."""

    def __init__(
        self,
        world: World,
        *,
        live: Mapping[Key, Known] | None = None,
        whole: frozenset[tuple[str, str]] = frozenset(),
    ) -> None:
        self._world, self._live, self._whole = world, dict(live or {}), whole
        self.reads: dict[str, int] = {}
        #: Where objects were read live: those that were looked at. Without the others it would be decided the same.
        self.touched: set[Key] = set()
        #: Where the world was when this reading began. Who answers later must not say where it has come to since.
        self.position = f"{world.incarnation}:{world.sequence}"

    @property
    def now_ns(self) -> int:
        return self._world.now_ns

    def get(self, kind: str, namespace: str, name: str) -> Known | None:
        """Raises Unlisted where absence would mean nothing."""
        key = Key(kind, namespace, name)
        found = self._live.get(key)
        if found is None and (kind, namespace) not in self._whole:
            found = self._world.find(key)
            if found is None:
                self._require(kind)
        self.reads[str(key)] = 0 if found is None else found.sequence
        if self._live:
            self.touched.add(key)
        return found

    def select(
        self, kind: str, namespace: str | None, keep: Callable[[Known], bool] = lambda known: True
    ) -> list[tuple[Key, Known]]:
        """Objects of a namespace (None: of all) that `keep` accepts, by name: what it does not accept must not matter.
        Raises Unlisted."""
        found = sorted(self._all(kind, namespace), key=lambda pair: pair[0])
        newest = max((known.sequence for _, known in found), default=0)
        self.reads[f"{kind}/{namespace or ''}/*"] = newest
        kept = [(key, known) for key, known in found if keep(known)]
        if self._live:
            self.touched.update(key for key, _ in kept)
        return kept

    def first(self, kind: str, namespace: str | None, keep: Callable[[Key, Known], bool]) -> tuple[Key, Known] | None:
        """The first by name that `keep` accepts, in a namespace (None: any); no other may matter. Raises Unlisted."""
        found, newest = None, 0
        for key, known in self._all(kind, namespace):
            newest = max(newest, known.sequence)
            if (found is None or key < found[0]) and keep(key, known):
                found = (key, known)
        self.reads[f"{kind}/{namespace or ''}/*"] = newest
        if self._live and found is not None:
            self.touched.add(found[0])
        return found

    def _all(self, kind: str, namespace: str | None) -> Iterator[tuple[Key, Known]]:
        if namespace is not None and (kind, namespace) in self._whole:
            yield from ((k, v) for k, v in self._live.items() if k.kind == kind and k.namespace == namespace)
            return
        if namespace is None and (kind, "") in self._whole:  # "" was every namespace
            yield from ((k, v) for k, v in self._live.items() if k.kind == kind)
            return
        self._require(kind)
        spaces = self._world.objects.get(kind, {})
        for space in spaces if namespace is None else [namespace]:
            for name, known in spaces.get(space, {}).items():
                key = Key(kind, space, name)
                yield key, self._live.get(key, known)

    def _require(self, kind: str) -> None:
        if kind not in self._world.listed:
            raise Unlisted(kind)

    def status(self, key: Key, observed: Object) -> Object:
        """The status that an object of ours shows: our own last write where it is newer than what was observed."""
        applied = self._newer(key)
        return observed if applied is None or applied.status is None else applied.status

    def status_position(self, key: Key) -> int:
        """The sequence of the event that `status` comes from: it names a change of that status."""
        applied, known = self._newer(key), self._world.find(key)
        return applied.sequence if applied is not None else known.sequence if known is not None else 0

    def _newer(self, key: Key) -> Applied | None:
        applied = self._world.applied.get(key)
        known = self._world.find(key)
        if applied is None or applied.status is None or known is None or applied.uid != known.uid:
            return None
        return None if _reflects(known, applied) else applied

    def applied(self, key: Key) -> Applied | None:
        """Our last write to an object, for rates and baselines."""
        return self._world.applied.get(key)

    def told(self, key: Key, event: Told) -> bool:
        """Whether this Event was written when `key` was reconciled before."""
        return event_name(event) in self._world.told.get(str(key), {})

    def replicas(self, tenant: str) -> list[Replica]:
        """Engine replicas of a tenant (a namespace), by name."""
        found = sorted((r for r in self._world.replicas.values() if r.tenant == tenant), key=lambda r: r.replica)
        self.reads[f"replicas/{tenant}/*"] = max((one.sequence for one in found), default=0)
        return found

    def entries(self, tenant: str) -> int | None:
        """Distinct keys that a tenant has in the index, over all its parts; None while nobody has counted."""
        found = self._world.summaries
        self.reads["index//*"] = max((one.sequence for one in found.values()), default=0)
        return sum(one.tenants.get(tenant, 0) for one in found.values()) if found else None

    def settings(self, role: str) -> dict[str, Any]:
        self.reads[f"settings//{role}"] = 0 if role not in self._world.settings else 1
        return dict(self._world.settings.get(role, {}))


def _reflects(known: Known, applied: Applied) -> bool:
    """Whether an observation came after our write. The log's order does not tell: what was changed before the write may
    be observed after it. Resource versions do (they are comparable numbers since Kubernetes 1.35, and always were)."""
    if known.resource_version.isdigit() and applied.resource_version.isdigit():
        return int(known.resource_version) >= int(applied.resource_version)
    return known.sequence > applied.sequence
