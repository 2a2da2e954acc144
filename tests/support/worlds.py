"""Worlds for tests of handlers: made by folding real events, as production's are."""

from typing import Any

import msgspec

from eventstore import events, store, subjects
from handlers import canonical
from handlers.outcome import Key, Outcome, Patch, Status, Told, event_name
from handlers.world.fold import fold
from handlers.world.state import World

SECOND = 1_000_000_000
Object = dict[str, Any]


class Teller:
    """Appends events to a world, one second apart unless told otherwise."""

    def __init__(self, *kinds: str, start: int = 1_000) -> None:
        self.world, self.clock, self.sequence, self.versions = World(), start, 0, 0
        for kind in kinds:
            self.tell(subjects.kind_subject(kind), events.KindListed(list_version="1", shape=1, count=0))

    def tell(self, subject: str, data: events.Event, *, after: int = 1) -> events.Decoded:
        self.sequence += 1
        self.clock += after
        made = events.event(
            data, id=str(self.sequence), source="t", subject=subject, time_ns=self.clock * SECOND, actor="t"
        )
        stored = store.Stored(self.sequence, self.clock * SECOND, subject, msgspec.json.encode(made))
        decoded = fold(self.world, stored, incarnation="i")
        assert decoded is not None, self.world.skipped[-1]
        return decoded

    def seen(self, kind: str, document: Object, *, after: int = 1) -> events.Decoded:
        self.versions += 1
        metadata = document["metadata"]
        subject = subjects.object_subject(kind, metadata.get("namespace", ""), metadata["name"])
        uid = metadata.get("uid", f"uid-{metadata['name']}")
        seen = events.ObjectSeen(uid=uid, resource_version=str(self.versions), shape=1, object=document)
        return self.tell(subject, seen, after=after)

    def gone(self, kind: str, namespace: str, name: str, *, uid: str = "") -> events.Decoded:
        subject = subjects.object_subject(kind, namespace, name)
        return self.tell(subject, events.ObjectGone(uid=uid or f"uid-{name}"))

    def passed(self, seconds: int) -> None:
        """Time goes by, with nothing but contact."""
        self.tell(subjects.WATCH, events.WatchContact(epoch=1), after=seconds)

    def replica(self, tenant: str, name: str, edge: Any, **fields: Any) -> events.Decoded:
        data = events.ReplicaObserved(
            tenant=tenant, replica=name, model="m", scheme="vllm", uid=f"uid-{name}", session="s", edge=edge,
            kv_sequence=self.sequence, kv_incarnation="k", **fields,
        )  # fmt: skip
        return self.tell(subjects.replica_subject(tenant, name), data)

    def carry_out(self, key: Key, outcome: Outcome) -> list[str]:
        """Fold status writes, patches and Events as the leader's effects would; the reasons of new Events."""
        told = []
        for intent in outcome.intents:
            if isinstance(intent, Status):
                self._effect("status", intent.key, key, intent.uid, {"status": intent.status})
            elif isinstance(intent, Patch):
                self._effect("patch", intent.key, key, intent.uid, intent.patch)
            elif isinstance(intent, Told) and event_name(intent) not in self.world.told.get(str(key), {}):
                self._effect("event", Key("events", key.namespace, event_name(intent)), key, "", {})
                told.append(intent.reason)
        return told

    def _effect(self, verb: Any, target: Key, key: Key, uid: str, body: Object) -> None:
        self.versions += 1
        effect = events.EffectApplied(
            resource_version=str(self.versions),
            verb=verb, kind=target.kind, namespace=target.namespace, name=target.name, uid=uid, body=body,
            desired=canonical.digest(body), position="i:1", handler="h", key=str(key), epoch=1,
        )  # fmt: skip
        self.tell(subjects.effect_subject(*target), effect)
