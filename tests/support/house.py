"""The whole machine in one process and in virtual time: an API of dicts, a log in memory, leaders, webhooks that lag.

What decides is the product's: narrowing, fold, keyframes, reconcile loop, desired, carrying out, the desk that answers
reviews. What moves bytes and waits is replaced by calls in an order that a test chooses.
"""

import base64
import copy
from collections.abc import Mapping
from typing import Any

import msgspec

from eventstore import envelope, events, memory, subjects
from handlers import canonical
from handlers.cachebackend.inject import Options
from handlers.effects import carry
from handlers.effects.cluster import ClusterError
from handlers.outcome import Key, Object
from handlers.reconcile import Loop, Work
from handlers.world import keyframe, kinds
from handlers.world.fold import fold
from handlers.world.state import Known, World
from subscribers.http import recording
from subscribers.http.admission import Desk, Identity
from subscribers.kubernetes import narrow
from tests.support import reviews
from tests.support.fakecluster import FakeCluster
from warmlog import patching, systems

SECOND = 1_000_000_000
START = 1_796_024_000 * SECOND
OPTIONS = Options(subscriber_image="registry.example/subscriber:1")
SETTINGS = {"kvevent-subscriber-image": OPTIONS.subscriber_image, "policy-server-grpc-address": OPTIONS.server}
INCARNATION = memory.MemoryStore().log.extent().incarnation


class Webhook:
    """One replica; its world is as far as it was folded."""

    def __init__(self, house: "House", number: int) -> None:
        self.house, self.world = house, World()
        self.recorder = recording.Recorder(house.log.append)
        self.desk = Desk(
            {hook.path: hook.admitter for hook in systems.hooks(OPTIONS)},
            world=lambda: self.world,
            live=house.live,
            values=house.values,
            recorder=self.recorder,
            identity=Identity(f"w{number}", "1", canonical.digest(SETTINGS)),
            clock=house.clock,
        )


class House:
    def __init__(self, webhooks: int = 2) -> None:
        self.now = START
        self.log = memory.MemoryStore(clock=self.clock)
        self.cluster = FakeCluster()
        self.cluster.failing = frozenset()
        self.away = False  # the API, for live reads
        self.kinds = sorted(frozenset(kind for one in systems.systems() for kind in one.kinds))
        self.observed: dict[Key, narrow.Narrow] = {}
        self.world = World()
        self.loop = Loop(systems.systems(), self.world)
        self.epoch = self.uid = 0
        self.asked: dict[str, tuple[str, Object]] = {}  # review -> path, document
        self.secrets: dict[str, str] = {}  # token of the log -> value, of every CacheBackend that ever was
        self.webhooks = [Webhook(self, number) for number in range(webhooks)]

    def clock(self) -> int:
        return self.now

    # The log ------------------------------------------------------------------------------------------------------

    async def append(self, data: events.Event, said: str, subject: str) -> int:
        name = events.name_of(data).removeprefix(envelope.PREFIX).removesuffix(".v1")
        event = events.event(
            data, id=f"{name}:{said}", source="t", subject=subject, time_ns=self.now, actor=f"t/{self.epoch}"
        )
        return (await self.log.append(event)).sequence

    def read(self, world: World, last: int) -> None:
        """Fold a replica's world on up to `last`."""
        for one in self.log.log.messages[world.sequence : last]:
            fold(world, memory._public(one), incarnation=INCARNATION)  # type: ignore[arg-type]

    @property
    def last(self) -> int:
        return len(self.log.log.messages)

    def catch_up(self) -> None:
        """The leader's world and its loop."""
        while self.world.sequence < self.last:
            stored = memory._public(self.log.log.messages[self.world.sequence])
            assert stored is not None
            event = fold(self.world, stored, incarnation=INCARNATION)
            if event is not None:
                self.loop.folded(event)

    # Watching -----------------------------------------------------------------------------------------------------

    async def observe(self, most: int = 1000) -> None:
        """Tell of up to `most` objects that changed."""
        for key in sorted(self.cluster.objects.keys() | self.observed.keys()):
            if most and key.kind in kinds.KINDS and await self._tell(key):
                most -= 1
        self.catch_up()

    async def _tell(self, key: Key) -> bool:
        live, before = self.cluster.objects.get(key), self.observed.get(key)
        subject = subjects.object_subject(*key)
        if live is None:
            if before is None:
                return False
            del self.observed[key]
            await self.append(events.ObjectGone(uid=before.uid), f"{before.uid}:{self.last}", subject)
            return True
        one = narrow.narrow(key.kind, msgspec.json.encode(live))
        self.observed[key] = one
        if before is not None and (before.uid, before.object) == (one.uid, one.object):
            return False
        shape = kinds.KINDS[key.kind].shape
        data = events.ObjectSeen(uid=one.uid, resource_version=one.resource_version, shape=shape, object=one.object)
        await self.append(data, f"{one.uid}:{one.resource_version}:{self.last}", subject)
        return True

    async def contact(self) -> None:
        await self.append(events.WatchContact(epoch=self.epoch), f"{self.now}:{self.last}", subjects.WATCH)
        self.catch_up()

    # Leading ------------------------------------------------------------------------------------------------------

    async def lead(self, *, from_keyframe: World | None = None) -> None:
        """A new leader: a new process, whose world is folded from the beginning or from a keyframe."""
        self.epoch += 1
        self.world = World() if from_keyframe is None else from_keyframe
        self.loop = Loop(systems.systems(), self.world)
        await self.append(
            events.LeaderElected(epoch=self.epoch, instance=f"c{self.epoch}"), str(self.epoch), subjects.LEADER
        )
        await self.append(
            events.SettingsSeen(role="webhook", instance="w", version="0", settings=SETTINGS),
            f"{self.epoch}", subjects.settings_subject("webhook"),
        )  # fmt: skip
        await self.observe()
        for kind in self.kinds:
            listed = events.KindListed(list_version=str(self.now), shape=kinds.KINDS[kind].shape, count=0)
            await self.append(listed, f"{kind}:{self.epoch}", subjects.kind_subject(kind))
        self.catch_up()
        for kind in self.kinds:
            self.loop.listed(kind)

    async def work(self, most: int = 100) -> bool:
        """Look and carry out, as the worker does, until nothing is left (True) or `most` keys were looked at."""
        for timer in self.loop.due(self.now):
            fired = events.TimerFired(handler=timer.handler, key=str(timer.key), due_ns=timer.due_ns, epoch=self.epoch)
            said = f"{timer.handler}:{timer.key}:{timer.due_ns}"
            await self.append(fired, said, subjects.timer_subject(timer.handler))
        self.catch_up()
        while most and (work := self.loop.look()) is not None:
            assert not work.defect, work.defect
            if work.intents:
                self.loop.done(work.entry, await self._carry(work))
            self.catch_up()
            most -= 1
        return most > 0

    async def _carry(self, work: Work) -> int:
        sequence = 0
        for intent in work.intents:
            try:
                target, verb, body, written = await carry.carry_out(
                    self.cluster, intent, now_ns=self.now, source=work.key
                )
            except ClusterError:
                continue  # the watch brings what is there now
            data = carry.recorded(
                target, verb, body, written, work_key=work.key, handler=work.system, position=work.position,
                epoch=self.epoch, attempt=1,
            )  # fmt: skip
            said = f"{target}:{data.uid}:{data.desired}:{work.position}:{self.last}"
            sequence = await self.append(data, said, subjects.effect_subject(*target))
        return sequence

    # Admission ----------------------------------------------------------------------------------------------------

    async def live(self, kind: str, namespace: str) -> Mapping[Key, Known]:
        if self.away:
            raise ClusterError(0, "", "no answer")
        found = {}
        for key, document in self.cluster.objects.items():
            if (key.kind, key.namespace) == (kind, namespace):
                one = narrow.narrow(kind, msgspec.json.encode(document))
                shape = kinds.KINDS[kind].shape
                found[key] = Known(one.uid, one.resource_version, shape, 0, 0, one.value, one.problem)
        return found

    async def values(self, kind: str, namespace: str, wanted: frozenset[str]) -> Mapping[str, str]:
        found: dict[str, str] = {}
        for key, document in self.cluster.objects.items():
            if (key.kind, key.namespace) == (kind, namespace):
                found |= kinds.values(kind, document)
        return {token: found[token] for token in wanted if token in found}

    async def admit(self, path: str, plural: str, document: Object, *, by: Webhook, **asked: Any) -> Object | None:
        """The admitted object, None when it was refused."""
        self.uid += 1
        uid = f"review-{self.uid}"
        name = document["metadata"].get("name", "")
        body = reviews.of(plural, document, uid=uid, namespace="ml", name=name, **asked)
        self.asked[uid] = (path, body)
        response = msgspec.json.decode(await by.desk.answer(path, msgspec.json.encode(body)))["response"]
        if not response["allowed"]:
            return None
        patch = msgspec.json.decode(base64.b64decode(response["patch"])) if response.get("patch") else []
        return dict(patching.apply(document, patch))

    async def create_pod(self, name: str, document: Object, by: Webhook) -> None:
        made = await self.admit("/mutate--v1-pod", "pods", document, by=by)
        assert made is not None  # an engine is never refused
        self.cluster.put(Key("pods", "ml", name), made)

    async def write_backend(self, name: str, document: Object, by: Webhook) -> bool:
        key = Key("cachebackends.inferencecache.io", "ml", name)
        old = self.cluster.objects.get(key)
        asked: dict[str, Any] = {"operation": "UPDATE", "old": old} if old is not None else {}
        kind = "cachebackends"
        made = await self.admit(f"/mutate-inferencecache-io-v1alpha1-{kind[:-1]}", kind, document, by=by, **asked)
        if made is None:
            return False
        made = await self.admit(f"/validate-inferencecache-io-v1alpha1-{kind[:-1]}", kind, made, by=by, **asked)
        if made is None:
            return False
        kept = {"status": old["status"]} if old is not None and "status" in old else {}
        self.secrets |= kinds.values("cachebackends.inferencecache.io", self.cluster.put(key, {**made, **kept}))
        return True

    # Afterwards ---------------------------------------------------------------------------------------------------

    def messages(self) -> list[bytes]:
        """Every message of every stream: the log, and the world as a keyframe would hold it."""
        pieces = [text.encode() for text in keyframe.cut(keyframe.rows(self.world))]
        return [one.body for one in self.log.log.messages] + pieces


def copied(document: Object, **metadata: Any) -> Object:
    made = copy.deepcopy(document)
    made["metadata"].update(metadata)
    return made
