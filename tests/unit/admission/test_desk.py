"""The desk that answers reviews: when it reads live, what it does when reading fails, what it records and what not."""

import asyncio
import base64
import copy
import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from crds import kvcache
from crds.cachebackend import CACHE_BACKENDS
from crds.inferencecache import CACHE_POLICIES
from eventstore import envelope, events, store, subjects
from handlers.admission import again, review
from handlers.admission.decision import Question
from handlers.cachebackend.inject import Options
from handlers.effects.cluster import ClusterError
from handlers.outcome import Key
from handlers.world import kinds
from handlers.world.reader import Reader
from handlers.world.state import Known, World
from subscribers.http import admission, recording
from subscribers.kubernetes import narrow
from tests.support import kvpools, reviews
from tests.support.worlds import SECOND, Teller
from warmlog import systems

PODS = "/mutate--v1-pod"
CREATE_POLICY = "/validate-inferencecache-io-v1alpha1-cachepolicy"
BACKEND: dict[str, Any] = {
    "metadata": {"name": "kv", "namespace": "ml", "uid": "uid-kv"},
    "spec": {
        "runtime": "VLLM",
        "engineSelector": {"matchLabels": {"serve": "qwen"}},
        "observation": {"modelID": "m"},
        "integration": {"engineOverrides": {"env": [{"name": "EXTRA", "value": "hunter2"}]}},
    },
}


class House:
    """A desk, and the cluster and log that it thinks it has."""

    def __init__(self, *listed: str, told: bool = True) -> None:
        self.tell = Teller(*listed)
        self.cluster: dict[str, list[dict[str, Any]]] = {CACHE_BACKENDS: [], CACHE_POLICIES: []}
        self.reads: list[tuple[str, str]] = []
        self.trouble: Exception | None = None
        self.gate: asyncio.Event | None = None
        self.log: list[events.Decoded] = []
        self.away: Exception | None = None
        self.now = 0
        self.recorder = recording.Recorder(self.append)
        self.desk = admission.Desk(
            systems.admitters(Options(subscriber_image="sub:1")),
            world=lambda: self.tell.world,
            live=self.live,
            values=self.values,
            recorder=self.recorder,
            identity=admission.Identity("w", "1", "sha256:s"),
            excluded=frozenset(("kube-system",)),
            clock=lambda: self.now,
        )
        self.contact()

    def contact(self) -> None:
        self.tell.tell(subjects.WATCH, events.WatchContact(epoch=1))
        self.now = self.tell.world.contact_ns

    def seen(self, document: dict[str, Any], kind: str = CACHE_BACKENDS) -> None:
        """What the log knows of an object, tokens for its secrets; the API knows it whole."""
        found = narrow.narrow(kind, msgspec.json.encode(document))
        self.tell.seen(kind, found.object)
        self.cluster[kind] = [document]
        self.contact()

    async def live(self, kind: str, namespace: str) -> dict[Key, Known]:
        self.reads.append((kind, namespace))
        if self.gate is not None:
            await self.gate.wait()
        if self.trouble is not None:
            raise self.trouble
        found = {}
        for document in self.cluster[kind]:
            one = narrow.narrow(kind, msgspec.json.encode(document))
            shape = kinds.KINDS[kind].shape
            found[Key(kind, namespace, one.name)] = Known(one.uid, "7", shape, 0, 0, one.value, one.problem)
        return found

    async def values(self, kind: str, namespace: str, wanted: frozenset[str]) -> dict[str, str]:
        known = {t: v for one in self.cluster.get(kind, ()) for t, v in kinds.values(kind, one).items()}
        return {token: known[token] for token in wanted & known.keys()}

    async def append(self, event: envelope.Envelope) -> None:
        if self.away is not None:
            raise self.away
        stored = store.Stored(len(self.log) + 1, self.now, event.subject, msgspec.json.encode(event))
        decoded = events.decode(stored)
        assert isinstance(decoded, events.Decoded)
        self.log.append(decoded)

    async def ask(self, path: str = PODS, document: dict[str, Any] | None = None, **request: Any) -> dict[str, Any]:
        kind = (document or reviews.ENGINE).get("kind")
        plural = "pods" if kind == "Pod" else {CREATE_POLICY: "cachepolicies"}.get(path, "cachebackends")
        body = reviews.of(plural, document or reviews.ENGINE, **request)
        answer: dict[str, Any] = json.loads(await self.desk.answer(path, msgspec.json.encode(body)))
        assert (answer["kind"], answer["apiVersion"]) == ("AdmissionReview", "admission.k8s.io/v1")
        response: dict[str, Any] = answer["response"]
        assert response["uid"] == request.get("uid", "u")
        return response

    @property
    def decided(self) -> list[events.AdmissionDecided]:
        return [one.data for one in self.log if isinstance(one.data, events.AdmissionDecided)]


def patch_of(response: dict[str, Any]) -> list[dict[str, Any]]:
    return json.loads(base64.b64decode(response["patch"])) if "patch" in response else []


@pytest.fixture
def house() -> House:
    return House(CACHE_BACKENDS)


async def test_a_fresh_world_answers_alone(house: House) -> None:
    house.seen(BACKEND)
    response = await house.ask()
    assert response["allowed"]
    assert response["patchType"] == "JSONPatch"
    assert house.reads == []
    (told,) = house.decided
    assert (told.verdict, told.check, told.live) == ("patched", "injected", {})
    assert told.reads == {f"{CACHE_BACKENDS}/ml/*": 3}
    assert told.owner == "ReplicaSet/qwen-7f9c8d7b6/6f3d2c1b"
    assert house.log[0].stored.subject == "wl.admission.mpod%2Einferencecache%2Eio.ml.qwen-7f9c8d7b6-"


@pytest.mark.parametrize("name", ["a" * 253, "a." * 126 + "a", "é" * 250])
async def test_a_long_name_is_answered_and_told_like_any_other(house: House, name: str) -> None:
    """Subjects are shorter than names may be."""
    house.seen(BACKEND)
    document = {**reviews.ENGINE, "metadata": {**reviews.ENGINE["metadata"], "generateName": name}}
    assert (await house.ask(document=document))["patchType"] == "JSONPatch"
    assert house.decided[0].generate_name == name
    assert house.log[0].stored.subject == subjects.admission_subject("mpod.inferencecache.io", "ml", name)
    assert len(house.log[0].stored.subject) <= 254


async def test_the_second_pod_of_a_template_gets_what_the_first_got(house: House) -> None:
    """Answered from what is remembered: the answer differs in its uid alone, the event in nothing else either."""
    house.seen(BACKEND)
    pods = [copy.deepcopy(reviews.ENGINE) for _ in range(3)]
    for number, pod in enumerate(pods):
        text = json.dumps(pod).replace("kube-api-access-x7k2p", f"kube-api-access-aaaa{number}")
        pods[number] = json.loads(text)
    answers = [await house.ask(document=pod, uid=str(number)) for number, pod in enumerate(pods)]
    first = json.dumps(patch_of(answers[0]))
    assert "kube-api-access-aaaa0" in first
    for number in (1, 2):
        assert json.dumps(patch_of(answers[number])) == first.replace("aaaa0", f"aaaa{number}")
    told = [msgspec.structs.replace(one, review="", digest="") for one in house.decided]
    assert told[0] == told[1] == told[2]


async def test_what_was_remembered_is_forgotten_with_the_backend(house: House) -> None:
    house.seen(BACKEND)
    await house.ask(uid="1")
    changed = copy.deepcopy(BACKEND)
    changed["spec"]["lmCache"] = {"chunkSizeTokens": 8}
    house.seen(changed)
    again = patch_of(await house.ask(uid="2"))
    assert "8" in [
        one["value"] for op in again for one in as_list(op.get("value")) if one.get("name") == "LMCACHE_CHUNK_SIZE"
    ]
    house.tell.gone(CACHE_BACKENDS, "ml", "kv", uid="uid-kv")
    house.cluster[CACHE_BACKENDS] = []
    house.contact()
    assert patch_of(await house.ask(uid="3")) == []


def as_list(value: Any) -> list[dict[str, Any]]:
    return [one for one in (value if isinstance(value, list) else [value]) if isinstance(one, dict)]


async def test_values_behind_tokens_are_put_back_and_told_nowhere(house: House) -> None:
    house.seen(BACKEND)
    response = await house.ask()
    assert "hunter2" in json.dumps(patch_of(response))
    assert b"hunter2" not in house.log[0].stored.body
    assert b"Qwen/Qwen3-32B" not in house.log[0].stored.body


async def test_values_are_found_in_whichever_object_they_were_written_into() -> None:
    (hook,) = [one for one in systems.hooks(Options()) if one.admitter.name.startswith("mutate.gpustack")]
    house = House(*kvpools.KINDS.values())
    for one in (kvpools.binding(), kvpools.pool(endpoint="me:hunter2@m:50051"), kvpools.backend()):
        house.seen({**one, "metadata": {**one["metadata"], "uid": one["kind"]}}, kvpools.KINDS[one["kind"]])
    response = await house.ask(hook.path, kvpools.pod(), namespace="team")
    assert response["allowed"]
    assert "me:hunter2@m:50051" in json.dumps(patch_of(response))
    assert b"hunter2" not in house.log[0].stored.body


async def test_a_value_that_changed_since_is_read_with_its_object(house: House) -> None:
    """The world has the token of the old value, which nobody has any more."""
    house.seen(BACKEND)
    changed = copy.deepcopy(BACKEND)
    changed["spec"]["integration"]["engineOverrides"]["env"][0]["value"] = "hunter3"
    house.cluster[CACHE_BACKENDS] = [changed]
    assert "hunter3" in json.dumps(patch_of(await house.ask()))
    assert house.reads == [(CACHE_BACKENDS, "ml")]
    assert f"{CACHE_BACKENDS}/ml/*" in house.decided[0].live


async def test_a_silent_watch_means_one_read_for_all_who_ask(house: House) -> None:
    house.cluster[CACHE_BACKENDS] = [BACKEND]
    house.now += 3 * SECOND + 1
    house.gate = asyncio.Event()
    asking = [asyncio.create_task(house.ask(uid=str(number))) for number in range(20)]
    for _ in range(5):
        await asyncio.sleep(0)
    house.gate.set()
    answers = await asyncio.gather(*asking)
    assert house.reads == [(CACHE_BACKENDS, "ml")]
    assert all(one["patchType"] == "JSONPatch" for one in answers)
    known = house.decided[0].live[f"{CACHE_BACKENDS}/ml/kv"]
    assert known["uid"] == "uid-kv"
    assert "hunter2" not in json.dumps(known)


@pytest.mark.parametrize("matches", [True, False])
async def test_of_thousands_read_live_the_log_gets_those_that_mattered_and_decides_the_same_again(
    house: House, matches: bool
) -> None:
    others = []
    for number in range(3000):
        one = copy.deepcopy(BACKEND)
        one["metadata"] |= {"name": f"other-{number:04}", "uid": f"uid-{number}"}
        one["spec"]["engineSelector"]["matchLabels"] = {"serve": f"other-{number}"}
        others.append(one)
    house.cluster[CACHE_BACKENDS] = [*others, BACKEND] if matches else others
    house.now += 3 * SECOND + 1
    marked = copy.deepcopy(reviews.ENGINE)
    marked["metadata"].setdefault("annotations", {})["inferencecache.io/injected-by"] = "ml/copied"
    response = await house.ask(document=None if matches else marked)
    (decided,) = house.decided
    assert (decided.check == "injected") is matches
    assert len(house.log[0].stored.body) < envelope.MAX_BYTES / 8
    assert [key for key in decided.live if not key.endswith("*")] == ([f"{CACHE_BACKENDS}/ml/kv"] if matches else [])
    found = again.decide(house.desk.admitters[PODS], decided, house.tell.world)
    assert again.differences(decided, found) == []
    assert bool(patch_of(response)) == bool(decided.patch)


async def test_of_a_few_read_live_the_log_gets_all(house: House) -> None:
    other = copy.deepcopy(BACKEND)
    other["metadata"] |= {"name": "other", "uid": "o"}
    other["spec"]["engineSelector"]["matchLabels"] = {"serve": "other"}
    house.cluster[CACHE_BACKENDS] = [BACKEND, other]
    house.now += 3 * SECOND + 1
    await house.ask()
    assert f"{CACHE_BACKENDS}/ml/other" in house.decided[0].live, "explain tells why it did not match"


async def test_a_refusal_over_what_cannot_be_read_live_is_decided_the_same_again(house: House) -> None:
    """Its reason says which field; the log must know it as well."""
    (pools,) = [one for one in systems.hooks(Options()) if one.admitter.name.startswith("mutate.gpustack")]
    bad = kvpools.changed(kvpools.binding(), spec__domain="x")
    one = narrow.narrow(kvcache.BINDINGS, msgspec.json.encode(bad))
    live = {Key(kvcache.BINDINGS, "team", one.name): Known(one.uid, "7", 1, 0, 0, one.value, one.problem, one.rest)}
    whole = frozenset(((kvcache.BINDINGS, "team"), (kvcache.POOLS, ""), (kvcache.BACKENDS, "")))
    shown = pools.admitter.see(kvpools.pod()).object
    question = Question(uid="u", operation="CREATE", kind="pods", namespace="team", view=shown)
    reader = Reader(house.tell.world, live=live, whole=whole)
    decision = pools.admitter.decide(question, reader)
    assert (decision.check, "spec.domain: expected" in decision.reason) == ("unreadable", True)
    asked = recording.asked(question, shown, shown["metadata"])
    decided = recording.decided(
        pools.admitter.name, asked, decision, reader, live, whole, b"", owned="", logic="1", settings="s"
    )
    read_back = msgspec.json.decode(msgspec.json.encode(decided), type=events.AdmissionDecided)
    found = again.decide(pools.admitter, read_back, house.tell.world)
    assert again.differences(read_back, found) == []


async def test_a_kind_that_was_never_listed_is_read(house: House) -> None:
    house = House()
    house.cluster[CACHE_BACKENDS] = [BACKEND]
    assert patch_of(await house.ask())
    assert house.reads == [(CACHE_BACKENDS, "ml")]


async def test_a_backend_that_the_log_has_not_seen_yet_is_found(house: House) -> None:
    """`kubectl apply` of a CacheBackend and its engines in one go."""
    house.cluster[CACHE_BACKENDS] = [BACKEND]
    assert patch_of(await house.ask())
    assert house.reads == [(CACHE_BACKENDS, "ml")]


async def test_a_pod_that_nothing_selects_is_counted_and_not_told(house: House) -> None:
    assert await house.ask() == {"uid": "u", "allowed": True}
    assert (house.desk.unconcerned, house.log) == (1, [])


async def test_nothing_is_read_for_pods_that_could_never_be_ours(house: House) -> None:
    bare = {"metadata": {"name": "a", "namespace": "ml"}, "spec": {"containers": [{"name": "a", "image": "i"}]}}
    house.now += 10 * SECOND
    house.cluster[CACHE_BACKENDS] = [BACKEND]
    assert await house.ask(document=bare) == {"uid": "u", "allowed": True}
    assert await house.ask(uid="2", namespace="kube-system") == {"uid": "2", "allowed": True}
    assert house.log == []


async def test_forged_marks_come_off(house: House) -> None:
    forged = copy.deepcopy(reviews.ENGINE)
    forged["metadata"]["annotations"] = {"inferencecache.io/injected-by": "ml/kv"}
    assert patch_of(await house.ask(document=forged)) == [{"op": "remove", "path": "/metadata/annotations"}]
    assert house.decided[0].verdict == "patched"


@pytest.mark.parametrize("trouble", [ClusterError(0, "NoAnswer", "refused"), ClusterError(403, "Forbidden", "may not")])
async def test_a_failed_read_admits_the_pod_and_says_why(house: House, trouble: ClusterError) -> None:
    house.now += 10 * SECOND
    house.trouble = trouble
    response = await house.ask()
    assert response["allowed"]
    assert "patch" not in response
    assert str(trouble) in response["warnings"][0]
    assert (house.decided[0].check, house.decided[0].verdict) == ("failed-open", "allowed")
    assert house.decided[0].view["metadata"]["labels"]["serve"] == "qwen"


async def test_a_slow_read_admits_the_pod_and_says_why(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "READ", 0.01)
    house.now += 10 * SECOND
    house.gate = asyncio.Event()
    response = await house.ask()
    assert "cannot be read within" in response["warnings"][0]
    house.gate.set()


async def test_the_deadline_is_the_systems_rule(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "DEADLINE", 0.01)
    house.now += 10 * SECOND
    house.gate = asyncio.Event()
    response = await house.ask()
    assert response["allowed"]
    assert "no answer within" in response["warnings"][0]
    house.gate.set()


async def test_a_failed_look_for_what_is_missing_is_no_failure(house: House) -> None:
    """The world is fresh and knows of no backend; the read was only to be sure."""
    house.trouble = ClusterError(0, "NoAnswer", "refused")
    assert await house.ask() == {"uid": "u", "allowed": True}
    await asyncio.sleep(0)
    assert house.desk.judge.reads.failed == 1


async def test_a_defect_of_ours_never_stops_a_pod(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    house.seen(BACKEND)
    broken: Callable[..., Any] = lambda *asked: 1 / 0  # noqa: E731
    monkeypatch.setattr(type(house.desk.admitters[PODS]), "decide", broken)
    response = await house.ask()
    assert response["allowed"]
    assert "ZeroDivisionError" in response["warnings"][0]


async def test_a_world_that_cannot_be_had_leaves_nobody_waiting(house: House) -> None:
    def broken() -> World:
        raise RuntimeError("a bug")

    house.seen(BACKEND)
    house.desk.judge.world = broken
    body = msgspec.json.encode(reviews.of_pod())
    for _ in range(2):
        with pytest.raises(RuntimeError, match="a bug"):
            await asyncio.wait_for(house.desk.answer(PODS, body), 1.0)


async def test_a_policy_is_refused_where_its_siblings_cannot_be_read(house: House) -> None:
    house = House(CACHE_POLICIES)
    policy = {"metadata": {"name": "p", "namespace": "ml"}, "spec": {}}
    house.trouble = ClusterError(0, "NoAnswer", "refused")
    response = await house.ask(CREATE_POLICY, policy, name="p")
    assert not response["allowed"]
    assert response["status"]["code"] == 403
    assert "try again" in response["status"]["message"]
    house.trouble = None
    assert (await house.ask(CREATE_POLICY, policy, name="p", uid="2"))["allowed"]
    house.cluster[CACHE_POLICIES] = [{"metadata": {"name": "alpha", "namespace": "ml"}, "spec": {}}]
    response = await house.ask(CREATE_POLICY, policy, name="p", uid="3")
    assert "CachePolicy alpha is the policy of this namespace" in response["status"]["message"]


async def test_a_retry_gets_the_same_bytes(house: House) -> None:
    house.seen(BACKEND)
    body = msgspec.json.encode(reviews.of_pod())
    first = await house.desk.answer(PODS, body)
    house.tell.gone(CACHE_BACKENDS, "ml", "kv", uid="uid-kv")
    house.cluster[CACHE_BACKENDS] = []
    assert await house.desk.answer(PODS, body) == first
    assert (len(house.log), house.desk.repeated) == (1, 1)


async def test_a_retry_of_what_is_still_being_answered_waits_for_it(house: House) -> None:
    house.now += 10 * SECOND
    house.cluster[CACHE_BACKENDS] = [BACKEND]
    house.gate = asyncio.Event()
    body = msgspec.json.encode(reviews.of_pod())
    asking = [asyncio.create_task(house.desk.answer(PODS, body)) for _ in range(2)]
    await asyncio.sleep(0)
    house.gate.set()
    first, second = await asyncio.gather(*asking)
    assert first == second
    assert len(house.log) == 1


async def test_what_is_no_object_is_said_to_all_who_ask(house: House) -> None:
    house.seen(BACKEND)
    body = msgspec.json.encode(reviews.of_pod()).replace(b'"object":{', b'"object":1,"x":{', 1)
    asking = [asyncio.create_task(house.desk.answer(PODS, body)) for _ in range(3)]
    found = await asyncio.gather(*asking, return_exceptions=True)
    assert ["is no object" in str(one) for one in found] == [True] * 3
    with pytest.raises(review.Malformed):
        await house.desk.answer(PODS, body)


async def test_an_answer_given_again_needs_no_task_and_is_told_with_the_acknowledgement(house: House) -> None:
    house.seen(BACKEND | {"spec": {**BACKEND["spec"], "integration": {}}})  # with nothing to be read from the API
    first = await house.ask()
    offered: list[tuple[envelope.Envelope, Callable[[bool], None]]] = []
    told: list[bytes | Exception] = []

    def offer(event: envelope.Envelope, acknowledged: Callable[[bool], None]) -> bool:
        offered.append((event, acknowledged))
        return True

    house.desk.recorder = recording.Recorder(house.append, offer)
    before = asyncio.all_tasks()
    house.desk.begin(PODS, msgspec.json.encode(reviews.of_pod(uid="2")), told.append)
    ((event, acknowledged),) = offered
    assert (told, asyncio.all_tasks()) == ([], before)
    acknowledged(True)
    (answer,) = told
    assert isinstance(answer, bytes)
    assert json.loads(answer)["response"] == {**first, "uid": "2"}
    assert msgspec.json.decode(event.data, type=events.AdmissionDecided).check == "injected"
    assert house.desk.decided["mpod.inferencecache.io", "patched", "injected"] == 2


async def test_a_dry_run_is_decided_and_not_recorded(house: House) -> None:
    house.seen(BACKEND)
    assert patch_of(await house.ask(dryRun=True))
    assert patch_of(await house.ask(uid="2", dryRun=True))
    assert house.log == []


async def test_nats_away_answers_all_the_same_and_tells_later(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "AGAIN", 0.01)
    house.seen(BACKEND)
    house.away = store.Unavailable("no NATS")
    for number in range(3):
        assert patch_of(await house.ask(uid=str(number)))
    assert (house.log, house.recorder.queued) == ([], 3)
    house.away = None
    assert await house.recorder.drain(1.0) == 0
    assert sorted(one.review for one in house.decided) == ["0", "1", "2"]
    assert (house.recorder.stored, house.recorder.queued_bytes) == (3, 0)


async def test_what_waits_is_bounded_and_what_is_dropped_is_counted(house: House, monkeypatch: Any) -> None:
    monkeypatch.setattr(recording, "MOST", 2)
    house.seen(BACKEND)
    house.away = store.Unavailable("no NATS")
    for number in range(5):
        assert patch_of(await house.ask(uid=str(number)))
    assert (house.recorder.queued, house.recorder.dropped) == (2, 3)
    assert await house.recorder.drain(0.0) == 2


async def test_what_the_log_refuses_for_good_is_counted(house: House) -> None:
    house.seen(BACKEND)
    house.away = store.TooLarge("257 KiB")
    assert patch_of(await house.ask())
    await asyncio.sleep(0)
    assert (house.recorder.refused, house.recorder.queued) == (1, 0)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"", "no AdmissionReview"),
        (b"[]", "no AdmissionReview"),
        (b"{}", "no AdmissionReview"),
        (b'{"apiVersion":"admission.k8s.io/v1beta1","request":{"uid":"u","operation":"CREATE"}}', "v1beta1"),
        (b'{"apiVersion":"admission.k8s.io/v1","request":{"uid":"u","operation":"CREATE","object":[]}}', "no object"),
        (b'{"apiVersion":"admission.k8s.io/v1","request":{"operation":"CREATE"}}', "uid"),
        (b"[" * 100_000, "no AdmissionReview"),
        (b"\xff\xfe", "no AdmissionReview"),
    ],
)
async def test_what_is_no_review_is_said_in_one_line(house: House, body: bytes, told: str) -> None:
    with pytest.raises(review.Malformed, match=told) as caught:
        await house.desk.answer(PODS, body)
    assert "\n" not in str(caught.value)
    assert (house.desk.malformed, house.log) == (1, [])


async def test_a_path_that_is_nobodys(house: House) -> None:
    with pytest.raises(KeyError):
        await house.desk.answer("/mutate", b"{}")


async def test_an_update_tells_what_it_was_before(house: House) -> None:
    """Deciding again needs the old object: an update refuses only what it introduces."""
    path = "/validate-inferencecache-io-v1alpha1-cachebackend"
    old = {**BACKEND, "spec": {**BACKEND["spec"], "replicas": 0, "autoscaling": {"maxReplicas": 1}}}
    assert not (await house.ask(path, old, name="kv"))["allowed"]
    response = await house.ask(path, old, name="kv", uid="2", operation="UPDATE", old=old)
    assert response["allowed"]
    assert house.decided[1].old["spec"]["replicas"] == 0
    assert "hunter2" not in json.dumps(msgspec.to_builtins(house.decided))


@pytest.mark.parametrize(
    "spec", ["x", [], {"integration": "x"}, {"observation": []}, {"autoscaling": 1}, {"replicas": "1"}, None]
)
@pytest.mark.parametrize("verb", ["mutate", "validate"])
async def test_what_no_schema_lets_through_is_answered(house: House, verb: str, spec: Any) -> None:
    """Mutating webhooks are asked before the schema is applied: its own words are the better ones."""
    document = {"metadata": {"name": "kv", "namespace": "ml"}, "spec": spec}
    response = await house.ask(f"/{verb}-inferencecache-io-v1alpha1-cachebackend", document, name="kv")
    if verb == "mutate":
        assert response["allowed"]
