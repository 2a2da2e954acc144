"""explain: a status or a Pod's wiring, followed back to events. Over a whole machine in memory."""

import copy
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from crds import core
from crds.cachebackend import CACHE_BACKENDS
from eventstore import events, examples, memory, subjects
from handlers.outcome import Key, Object
from tests.support import reviews
from tests.support.house import SECOND, House
from warmlog import explain, facts, rewound, systems, when, whypod, whystatus

KV = Key(CACHE_BACKENDS, "ml", "kv")


def backend(labels: dict[str, str], **spec: Any) -> Object:
    return {
        "apiVersion": "inferencecache.io/v1alpha1",
        "kind": "CacheBackend",
        "metadata": {"name": "kv", "namespace": "ml"},
        "spec": {"runtime": "VLLM", "type": "LMCache", "engineSelector": {"matchLabels": labels}, **spec},
    }


@pytest.fixture
async def house() -> AsyncGenerator[House, None]:
    made = House(webhooks=1)
    await made.lead()
    await made.contact()
    yield made
    await made.webhooks[0].recorder.drain(0.1)


async def settled(house: House) -> None:
    house.now += SECOND
    await house.observe()
    assert await house.work()
    await house.contact()
    house.read(house.webhooks[0].world, house.last)


async def pod(house: House, name: str, *, generated: bool = True, marks: dict[str, str] | None = None) -> None:
    document = copy.deepcopy(reviews.ENGINE)
    document["metadata"]["annotations"] = marks or {}
    document["metadata"]["creationTimestamp"] = ""
    if not generated:
        document["metadata"] |= {"name": name, "generateName": "", "ownerReferences": []}
    await house.create_pod(name, document, house.webhooks[0])


async def engine_speaks(house: House, name: str) -> int:
    data = events.ReplicaObserved(
        tenant="ml", replica=name, model="m", scheme="vllm", uid="u", session="s", edge="first-event",
        kv_sequence=1, kv_incarnation="k", blocks=7,
    )  # fmt: skip
    return await house.append(data, f"edge:{house.last}", subjects.replica_subject("ml", name))


def logs(house: House) -> rewound.Logs:
    return rewound.Logs(house.log, memory.MemoryStore(name="snaps"))


async def of_status(house: House, at: int | None = None) -> whystatus.WhyStatus:
    moment = None if at is None else when.Sequence(at)
    return await whystatus.explain(logs(house), moment, KV, systems.systems())


async def of_pod(house: House, name: str) -> whypod.WhyPod:
    return await whypod.explain(logs(house), None, Key(core.PODS, "ml", name))


async def mpod(house: House, name: str) -> tuple[whypod.WhyPod, whypod.WhyDecision]:
    why = await of_pod(house, name)
    (one,) = why.decisions
    return why, one


async def test_each_condition_names_the_event_that_brought_it(house: House) -> None:
    await house.write_backend("kv", backend({"serve": "qwen"}), house.webhooks[0])
    await settled(house)
    declared = house.last
    await pod(house, "qwen-1")
    await settled(house)
    spoke = await engine_speaks(house, "qwen-1")
    await settled(house)
    why = await of_status(house)
    (ready,) = [one for one in why.conditions if one.type == "Ready"]
    assert (ready.status, ready.reason) == ("True", "KVEventsObserved")
    assert ready.cause is not None
    assert (ready.cause.sequence, ready.cause.type) == (spoke, "replica.observed")
    assert "first-event, 7 blocks" in ready.cause.said
    assert why.again == "the same bytes"
    assert why.write is not None
    assert ready.written == why.write.sequence
    assert "replicas/ml/*" in why.reads
    before = await of_status(house, declared)
    (ready,) = [one for one in before.conditions if one.type == "Ready"]
    assert ready.reason == "AwaitingFirstKVEvent"
    assert ready.cause is not None
    assert ready.cause.about == str(KV)
    said = explain.human(why)
    assert f"because of #{spoke} " in said
    assert "decided again there: the same bytes" in said


async def test_a_deadline_is_a_cause_too(house: House) -> None:
    await house.write_backend("kv", backend({"serve": "qwen"}), house.webhooks[0])
    await settled(house)
    house.now += 400 * SECOND
    await house.contact()
    assert await house.work()
    why = await of_status(house)
    (degraded,) = [one for one in why.conditions if one.type == "Degraded"]
    assert (degraded.status, degraded.reason) == ("True", "NoKVEventsObserved")
    assert degraded.cause is not None
    assert degraded.cause.type == "timer.fired"


async def test_an_object_that_only_is_read_is_shown_elsewhere(house: House) -> None:
    house.cluster.put(Key(core.DEPLOYMENTS, "ml", "d"), {"metadata": {}, "spec": {"replicas": 1}})
    await settled(house)
    why = await whystatus.explain(logs(house), None, Key(core.DEPLOYMENTS, "ml", "d"), systems.systems())
    assert "warmlog replay --about deployments.apps/ml/d" in why.note


async def test_what_is_not_there_says_what_is_known(house: House) -> None:
    assert (await of_status(house)).note == "it does not exist"
    why = await of_status(house, 1)
    assert "not known" in why.note
    assert "nothing of its kind was listed" in explain.human(why)


async def test_a_pod_names_its_decision_its_candidates_and_the_facts(house: House) -> None:
    await house.write_backend("kv", backend({"serve": "qwen"}), house.webhooks[0])
    other = backend({"serve": "qwen"})
    other["metadata"]["name"] = "zz"
    await house.write_backend("zz", other, house.webhooks[0])
    third = backend({"serve": "llama"})
    third["metadata"]["name"] = "aa"
    await house.write_backend("aa", third, house.webhooks[0])
    await settled(house)
    await pod(house, "qwen-1")
    await settled(house)
    whole, why = await mpod(house, "qwen-1")
    assert (why.verdict, why.check) == ("patched", "injected")
    assert why.tied_by == ["generateName", "owner", "what the patch added", "time"]
    assert why.again == "the same verdict, reason, warnings and patch"
    told = {one.name: (one.chosen, one.why) for one in why.candidates}
    assert told == {
        "aa": (False, "the Pod lacks serve=llama"),
        "kv": (True, "the first by name whose labels the Pod all has"),
        "zz": (False, "it matches too, but kv comes first by name"),
    }
    assert all(one.seen is not None and one.seen.about.endswith(one.name) for one in why.candidates)
    said = explain.human(whole)
    assert "-> CacheBackend kv: the first by name" in said
    assert "patch: add /metadata/annotations/inferencecache.io~1injected-by" in said


async def test_pods_of_one_owner_each_name_a_decision_that_fits(house: House) -> None:
    await house.write_backend("kv", backend({"serve": "qwen"}), house.webhooks[0])
    await settled(house)
    await pod(house, "qwen-7f9c8d7b6-a")
    await pod(house, "qwen-7f9c8d7b6-b", marks={"inferencecache.io/skip-inject": "true"})
    await pod(house, "qwen-7f9c8d7b6-c")
    await settled(house)
    _, skipped = await mpod(house, "qwen-7f9c8d7b6-b")
    assert (skipped.check, skipped.alike) == ("skip-inject", [])
    whole, wired = await mpod(house, "qwen-7f9c8d7b6-a")
    assert wired.check == "injected"
    assert len(wired.alike) == 1
    assert "as well could be #" in explain.human(whole)


async def test_a_named_pod_is_tied_by_its_name(house: House) -> None:
    await house.write_backend("kv", backend({"serve": "qwen"}), house.webhooks[0])
    await settled(house)
    await pod(house, "engine", generated=False)
    await settled(house)
    _, why = await mpod(house, "engine")
    assert why.tied_by[0] == "name"
    assert why.check == "injected"


async def test_a_decision_over_live_reads_says_so(house: House) -> None:
    await house.write_backend("kv", backend({"serve": "qwen"}), house.webhooks[0])
    house.now += 60 * SECOND  # the webhook has heard nothing for a minute
    await pod(house, "qwen-1")
    await settled(house)
    whole, why = await mpod(house, "qwen-1")
    assert (why.check, why.again) == ("injected", "the same verdict, reason, warnings and patch")
    (kv,) = why.candidates
    assert kv.chosen
    assert kv.seen is None
    assert "(read live)" in explain.human(whole)


async def test_a_pod_that_nobody_decided_of_says_why(house: House) -> None:
    await settled(house)
    await pod(house, "qwen-1")
    await settled(house)
    why = await of_pod(house, "qwen-1")
    assert why.decisions == []
    assert "no CacheBackend in its namespace" in why.note
    gone = await of_pod(house, "nobody")
    assert "there is no such Pod" in gone.note


async def test_a_forged_history_is_seen(house: House) -> None:
    """A status that the logic would not have written is told as such."""
    await house.write_backend("kv", backend({"serve": "qwen"}), house.webhooks[0])
    await settled(house)
    known = house.world.find(KV)
    assert known is not None
    body = {"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Forged"}]}}
    data = events.EffectApplied(
        verb="status", kind=KV.kind, namespace="ml", name="kv", uid=known.uid, resource_version="9999", body=body,
        desired="d", position=f"{house.world.incarnation}:{house.world.sequence}", handler="cachebackend",
        key=str(KV), epoch=1,
    )  # fmt: skip
    await house.append(data, "forged", subjects.effect_subject(*KV))
    house.catch_up()
    why = await of_status(house)
    assert "not the one that wrote it" in why.again
    (ready,) = why.conditions
    assert ready.cause is None


def test_every_kind_of_event_says_something() -> None:
    silent = {events.WatchContact, events.Moment}
    for struct, (_, _, data) in examples.EXAMPLES.items():
        assert struct in silent or facts.said(data), struct.__name__
