"""Five hundred operations at random, and then everything decided again: the same templates, the same statuses.

CacheBackends and engines come, change and go; KV events arrive; leaders change, some of them begun from a keyframe;
webhooks lag, the API is away for live reads, time passes. Whatever was decided or written is decided again at its
position. Secrets were planted everywhere: none is in any message of any stream.
"""

import asyncio
import re
from typing import Any

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from crds import core
from crds.cachebackend import CACHE_BACKENDS
from eventstore import events, store, subjects
from handlers.admission import again, patches, review
from handlers.cachebackend import names
from handlers.outcome import Key, Object
from handlers.world import keyframe, kinds
from handlers.world.fold import fold
from handlers.world.state import World
from tests.support import equivalence, reviews
from tests.support.house import INCARNATION, SECOND, House, copied

CANARY = "c4n4ry"
TOKEN = re.compile("⟦[0-9a-f]+⟧")
BACKENDS = st.sampled_from(("kv-a", "kv-b", "kv-c"))
PODS = st.sampled_from(tuple(f"qwen-7f9c8d7b6-{letter}" for letter in "abcd"))
LABELS = st.sampled_from(({"serve": "qwen"}, {"serve": "other"}, {}))
WEBHOOK = st.integers(0, 1)


def engine(labels: dict[str, str], marks: dict[str, str], *, named: bool, name: str) -> Object:
    pod = copied(reviews.ENGINE, labels=labels, annotations={"example.com/token": f"{CANARY}-annotation", **marks})
    if named:
        pod["metadata"]["name"] = name
    container = pod["spec"]["containers"][0]
    container["env"] += [
        {"name": "TOKEN", "value": f"{CANARY}-env"},
        {"name": "LMCACHE_REMOTE_URL", "value": f"lm://user:{CANARY}-userinfo@host:1"},
    ]
    container["args"] += ["--api-key", f"{CANARY}-arg", f"--hf-token={CANARY}-flag"]
    container["livenessProbe"]["httpGet"]["httpHeaders"] = [{"name": "Authorization", "value": f"{CANARY}-header"}]
    container["lifecycle"] = {"preStop": {"exec": {"command": ["sh", "-c", f"curl {CANARY}-hook"]}}}
    pod["spec"]["volumes"].append(
        {"name": "v", "csi": {"driver": "d", "volumeAttributes": {"key": f"{CANARY}-volume"}}}
    )
    return pod


def backend(name: str, labels: dict[str, str], shape: str, requires: bool) -> Object:
    spec: Object = {
        "runtime": "VLLM",
        "type": "LMCache",
        "engineSelector": {"matchLabels": labels},
        "observation": {"firstEventTimeout": "1m", "modelID": "m"},
        "integration": {
            "engineOverrides": {
                "env": [{"name": "SECRET", "value": f"{CANARY}-override"}],
                "args": [f"--override={CANARY}-argument"],
            }
        },
    }
    if shape == "External":
        spec["remoteStorage"] = {
            "provider": "LMCacheServer", "ownership": "External", "endpoint": "lm://cache.example:65432",
        }  # fmt: skip
    if shape == "Managed":
        spec["remoteStorage"] = {"provider": "LMCacheServer", "ownership": "Managed"}
    if shape == "EventsOnly":
        spec["integration"]["mode"] = "EventsOnly"
    marks = {} if requires else {names.REQUIRE_KV_EVENTS: "false"}
    return {
        "apiVersion": "inferencecache.io/v1alpha1",
        "kind": "CacheBackend",
        "metadata": {
            "name": name, "namespace": "ml", "annotations": {"example.com/token": f"{CANARY}-note", **marks},
        },
        "spec": spec,
    }  # fmt: skip


def operation(what: str, times: int = 1, /, **drawn: st.SearchStrategy[Any]) -> list[st.SearchStrategy[dict[str, Any]]]:
    """A method of the machine and what it is called with; `times` as likely as others."""
    return [st.fixed_dictionaries({"operation": st.just(what), **drawn})] * times


SHAPES = st.sampled_from(("HostOnly", "External", "Managed", "EventsOnly"))
MARKS = st.sampled_from(({}, {names.SKIP_INJECT: "true"}, {names.INJECTED_BY: "ml/kv-a"}))
EDGES = st.sampled_from(("first-event", "restart", "gap", "silent", "recovered", "gone", "statistics"))
#: One rule draws them all: hypothesis leaves whole rules out of a run, and then little happens.
OPERATIONS = st.one_of(
    *operation("write_backend", 2, name=BACKENDS, labels=LABELS, by=WEBHOOK, requires=st.booleans(), shape=SHAPES),
    *operation("store_before_the_rule", name=BACKENDS, labels=LABELS),
    *operation("delete_backend", name=BACKENDS),
    *operation("create_pod", 4, name=PODS, labels=LABELS, by=WEBHOOK, named=st.booleans(), marks=MARKS),
    *operation("delete_pod", name=PODS),
    *operation("pod_runs", name=PODS, ready=st.booleans()),
    *operation("rollout", name=BACKENDS, available=st.integers(0, 1)),
    *operation("engine_speaks", 2, name=PODS, blocks=st.integers(0, 50), edge=EDGES),
    *operation("watch", most=st.integers(1, 5)),
    *operation("work", most=st.integers(1, 20)),
    *operation("settle", 3),
    *operation("time_passes", 2, seconds=st.sampled_from((1, 2, 10, 70, 7 * 3600))),
    *operation("contact", 2),
    *operation("webhook_reads", 3, by=WEBHOOK, lag=st.integers(0, 10)),
    *operation("webhook_restarts", by=WEBHOOK),
    *operation("api_is_away", away=st.booleans()),
    *operation("keyframe"),
    *operation("leader_changes", from_keyframe=st.booleans()),
)


class Machine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.house = House()
        self.frames: list[list[str]] = []

    def do(self, coroutine: Any) -> Any:
        return self.runner.run(coroutine)

    @initialize()
    def begin(self) -> None:
        secret = {"metadata": {}, "data": {"password": f"{CANARY}-secret"}}
        self.house.cluster.put(Key("secrets", "ml", "s"), secret)
        self.do(self.house.lead())
        self.do(self.house.contact())

    @rule(drawn=OPERATIONS)
    def happens(self, drawn: dict[str, Any]) -> None:
        given = dict(drawn)
        getattr(self, given.pop("operation"))(**given)

    def write_backend(self, name: str, labels: dict[str, str], by: int, requires: bool, shape: str) -> None:
        self.do(self.house.write_backend(name, backend(name, labels, shape, requires), self.house.webhooks[by]))

    def store_before_the_rule(self, name: str, labels: dict[str, str]) -> None:
        """As from a time when no webhook refused it."""
        document = backend(name, labels, "External", True)
        document["spec"]["remoteStorage"]["endpoint"] = f"lm://user:{CANARY}-password@cache.example:65432"
        put = self.house.cluster.put(Key(CACHE_BACKENDS, "ml", name), document)
        self.house.secrets |= kinds.values(CACHE_BACKENDS, put)

    def delete_backend(self, name: str) -> None:
        self.house.cluster.objects.pop(Key(CACHE_BACKENDS, "ml", name), None)

    def create_pod(self, name: str, labels: dict[str, str], by: int, named: bool, marks: dict[str, str]) -> None:
        document = engine(labels, marks, named=named, name=name)
        self.do(self.house.create_pod(name, document, self.house.webhooks[by]))

    def delete_pod(self, name: str) -> None:
        self.house.cluster.objects.pop(Key(core.PODS, "ml", name), None)

    def pod_runs(self, name: str, ready: bool) -> None:
        key = Key(core.PODS, "ml", name)
        if (pod := self.house.cluster.objects.get(key)) is not None:
            conditions = [{"type": "Ready", "status": str(ready)}]
            self.house.cluster.put(key, {**pod, "status": {"phase": "Running", "conditions": conditions}})

    def rollout(self, name: str, available: int) -> None:
        key = Key(core.DEPLOYMENTS, "ml", name)
        if (live := self.house.cluster.objects.get(key)) is not None:
            generation = live["metadata"]["generation"] + 1
            status = {"observedGeneration": generation, "updatedReplicas": 1, "availableReplicas": available}
            self.house.cluster.put(key, {**live, "status": status})

    def engine_speaks(self, name: str, edge: Any, blocks: int) -> None:
        data = events.ReplicaObserved(
            tenant="ml", replica=name, model="m", scheme="vllm", uid=f"uid-{name}", session="s", edge=edge,
            kv_sequence=self.house.last, kv_incarnation="k", blocks=blocks,
            statistics={"t2_query_tokens": 10.0, "t2_hit_tokens": float(blocks % 10)} if edge == "statistics" else {},
        )  # fmt: skip
        self.do(self.house.append(data, f"{self.house.last}", subjects.replica_subject("ml", name)))

    def watch(self, most: int) -> None:
        self.do(self.house.observe(most))

    def work(self, most: int) -> None:
        self.do(self.house.work(most))

    def settle(self) -> None:
        self.do(self.house.observe())
        assert self.do(self.house.work(1000)), "it writes for ever: what was written is not seen to be so"

    def time_passes(self, seconds: int) -> None:
        self.house.now += seconds * SECOND

    def contact(self) -> None:
        self.do(self.house.contact())

    def webhook_reads(self, by: int, lag: int) -> None:
        self.house.read(self.house.webhooks[by].world, max(0, self.house.last - lag))

    def webhook_restarts(self, by: int) -> None:
        self.house.webhooks[by].world = World()

    def api_is_away(self, away: bool) -> None:
        self.house.away = away

    def keyframe(self) -> None:
        self.house.catch_up()
        self.frames.append(list(keyframe.cut(keyframe.rows(self.house.world))))

    def leader_changes(self, from_keyframe: bool) -> None:
        world = None
        if from_keyframe and self.frames:
            world, _ = keyframe.load(self.frames[-1], incarnation=INCARNATION)
        self.do(self.house.lead(from_keyframe=world))

    def teardown(self) -> None:
        try:
            self.house.catch_up()
            self.check()
        finally:
            for webhook in self.house.webhooks:
                self.do(webhook.recorder.drain(0.1))
            self.runner.close()

    def check(self) -> None:
        log = [store.Stored(m.sequence, m.time_ns, m.subject, m.body) for m in self.house.log.log.messages]
        result = equivalence.judge(log, incarnation=INCARNATION, more=self.same_answer)
        assert result.differences == []
        assert not result.world.skipped
        last = keyframe.digest(result.world)
        assert keyframe.digest(self.house.world) == last
        for frame in self.frames:
            world, _ = keyframe.load(frame, incarnation=INCARNATION)
            for one in log[world.sequence :]:
                fold(world, one, incarnation=INCARNATION)
            assert keyframe.digest(world) == last
        for body in self.house.messages():
            assert CANARY.encode() not in body
        TOTAL.append(result)

    def same_answer(self, world: World, stored: store.Stored, decided: events.AdmissionDecided) -> list[str]:
        """The hash of the whole response, with real values, comes out again."""
        path, asked = self.house.asked[decided.review]
        request = review.read(msgspec.json.encode(asked))
        current = review.document(request.object)
        desk = self.house.webhooks[0].desk
        admitter = desk.admitters[path]
        decision = again.decide(admitter, decided, world)
        patch = b""
        if current is not None and decision.patch:
            values = {**admitter.see(current).values, **self.house.secrets}
            patch = effective(msgspec.json.encode(real(list(decision.patch), values)), current)
        if review.digest(review.answer(request, decision, patch)) != decided.digest:
            return [f"#{stored.sequence} {decided.webhook}: another answer"]
        return []


def real(part: Any, values: dict[str, str]) -> Any:
    """With the values that tokens stand for."""
    if isinstance(part, str):
        return TOKEN.sub(lambda found: values.get(found[0], found[0]), part)
    if isinstance(part, dict):
        return {key: real(value, values) for key, value in part.items()}
    return [real(one, values) for one in part] if isinstance(part, list) else part


def effective(patch: bytes, current: Object) -> bytes:
    """As the desk sends it: without what changes nothing."""
    operations = msgspec.json.decode(patch)
    if not any(op["op"] == "replace" for op in operations):
        return patch
    kept = patches.effective(operations, current)
    return patch if len(kept) == len(operations) else msgspec.json.encode(kept) if kept else b""


TOTAL: list[equivalence.Result] = []


def test_five_hundred_operations_are_decided_again_to_the_byte() -> None:
    TOTAL.clear()
    Machine.TestCase.settings = settings(
        max_examples=10, stateful_step_count=500, deadline=None, suppress_health_check=list(HealthCheck)
    )
    Machine.TestCase().runTest()
    assert sum(one.decisions for one in TOTAL) > 50, "the runs decided nothing worth the name"
    assert sum(one.statuses for one in TOTAL) > 50
