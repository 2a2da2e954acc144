"""Random histories of a control log, as hypothesis strategies: what watchers, leaders and servers say, and junk."""

from typing import Any

import msgspec
from hypothesis import strategies as st

from crds import cachebackend, core, inferencecache
from eventstore import events, store, subjects
from handlers.outcome import Key

SECOND = 1_000_000_000
START = 1_796_024_000 * SECOND
KINDS = (
    cachebackend.CACHE_BACKENDS, core.PODS, core.DEPLOYMENTS, core.CONFIG_MAPS, inferencecache.CACHE_POLICIES,
    "unknown.example",
)  # fmt: skip
Said = tuple[str, events.Event]

words = st.text(max_size=12)
names = st.sampled_from(("a", "b", "kv-main", "engine_0", "c.d"))
spaces = st.sampled_from(("team-a", "team-b", ""))
uids = st.sampled_from(("u1", "u2"))
versions = st.integers(1, 99).map(str)
keys = st.builds(Key, st.sampled_from(KINDS), spaces, names)
json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)
labels = st.dictionaries(st.sampled_from(("app", "é", "role")), words, max_size=2)

statuses = st.fixed_dictionaries(
    {},
    optional={
        "matchedEnginePods": st.integers(0, 9),
        "failOpen": st.booleans(),
        "conditions": st.just([{"type": "Ready", "status": "True", "reason": "R", "lastTransitionTime": "t"}]),
        "indexParticipation": st.fixed_dictionaries({"prefixCount": st.integers(0, 2**62)}),
    },
)
specs: dict[str, st.SearchStrategy[Any]] = {
    cachebackend.CACHE_BACKENDS: st.fixed_dictionaries(
        {"runtime": st.sampled_from(("VLLM", "SGLang"))},
        optional={
            "replicas": st.integers(-1, 3) | words,
            "engineSelector": st.builds(lambda found: {"matchLabels": found}, labels),
            "template": st.fixed_dictionaries({}, optional={"affinity": st.dictionaries(words, json, max_size=3)}),
        },
    ),
    core.PODS: st.just({"containers": [{"name": "vllm", "image": "x"}]}) | st.just({"containers": 5}),
    core.DEPLOYMENTS: st.fixed_dictionaries({}, optional={"replicas": st.integers(0, 3)}),
}


EDGES: st.SearchStrategy[Any] = st.sampled_from(("first-event", "restart", "gap", "silent", "gone", "statistics"))
VERBS: st.SearchStrategy[Any] = st.sampled_from(("apply", "status", "patch", "create", "delete", "event"))


@st.composite
def seen(draw: st.DrawFn) -> Said:
    key, uid = draw(keys), draw(uids)
    document = {
        "metadata": {"name": key.name, "namespace": key.namespace, "uid": uid, "labels": draw(labels)},
        "spec": draw(specs.get(key.kind, st.just({}))),
    }
    if key.kind == core.CONFIG_MAPS:
        document["data"] = draw(st.just({"kernelcache": "{}"}) | st.just({"kernelcache": "{"}) | st.just(5))
    if key.kind == cachebackend.CACHE_BACKENDS and draw(st.booleans()):
        document["status"] = draw(statuses)
    data = events.ObjectSeen(uid=uid, resource_version=draw(versions), shape=1, object=document)
    return subjects.object_subject(*key), data


@st.composite
def effects(draw: st.DrawFn) -> Said:
    key = draw(keys)
    verb = draw(VERBS)
    target = Key("events", key.namespace, draw(names)) if verb == "event" else key
    data = events.EffectApplied(
        verb=verb, kind=target.kind, namespace=target.namespace, name=target.name, uid=draw(uids),
        resource_version=draw(versions), body={"status": draw(statuses)} if verb == "status" else {}, desired="d",
        position="i:1", handler="h", key=str(key), epoch=1,
    )  # fmt: skip
    return subjects.effect_subject(*target), data


@st.composite
def observed(draw: st.DrawFn) -> Said:
    tenant, name = draw(spaces), draw(names)
    data = events.ReplicaObserved(
        tenant=tenant, replica=name, model="m", scheme="vllm", uid=draw(uids), session="s", kv_sequence=1,
        kv_incarnation="k", edge=draw(EDGES),
        blocks=draw(st.integers(0, 9)), statistics=draw(st.just({}) | st.just({"gpu": 0.1})),
    )  # fmt: skip
    return subjects.replica_subject(tenant, name), data


summaries = st.builds(
    lambda tenant, name, blocks, rate, told: (
        subjects.index_subject("0"),
        events.IndexSummarised(
            shard="0", kv_sequence=1, kv_incarnation="k", blocks=blocks,
            replicas=[events.ReplicaSummary(tenant, name, "m", "complete", blocks, "", rate)],
            tenants={tenant: blocks} if told else None,
        ),
    ),
    spaces, names, st.integers(0, 99), st.floats(0, 1), st.booleans(),
)  # fmt: skip

SAID: st.SearchStrategy[Said] = st.one_of(
    seen(),
    effects(),
    observed(),
    summaries,
    st.builds(lambda key, uid: (subjects.object_subject(*key), events.ObjectGone(uid=uid)), keys, uids),
    st.builds(
        lambda kind: (subjects.kind_subject(kind), events.KindListed(list_version="1", shape=1, count=0)),
        st.sampled_from(KINDS),
    ),
    st.builds(lambda epoch: (subjects.LEADER, events.LeaderElected(epoch=epoch, instance="i")), st.integers(0, 5)),
    st.just((subjects.WATCH, events.WatchContact(epoch=1))),
    st.builds(
        lambda role, flags: (
            subjects.settings_subject(role),
            events.SettingsSeen(role=role, instance="i", version="1", settings=flags),
        ),
        st.sampled_from(("server", "webhook")),
        st.dictionaries(words, words, max_size=2),
    ),
)
#: Bytes that are no event of ours, or one on a subject that it does not name.
JUNK = st.binary(max_size=40) | st.just(b'{"specversion":"1.0","id":"1","source":"s","type":"x","time":"t","data":{}}')
#: Seconds between two events; six hours bring a mark, a week makes replicas forgotten.
PAUSES = st.sampled_from((0, 1, 30, 3 * 3600, 7 * 3600, 8 * 86400))


@st.composite
def histories(draw: st.DrawFn, max_size: int = 60) -> list[store.Stored]:
    found, now = [], START
    for sequence, (said, pause) in enumerate(draw(st.lists(st.tuples(SAID | JUNK, PAUSES), max_size=max_size)), 1):
        now += pause * SECOND
        found.append(stored(sequence, now, said))
    return found


def stored(sequence: int, time_ns: int, said: Said | bytes) -> store.Stored:
    if isinstance(said, bytes):
        return store.Stored(sequence, time_ns, "wl.object.x.y.z", said)
    subject, data = said
    made = events.event(data, id=str(sequence), source="t", subject=subject, time_ns=time_ns, actor="t")
    return store.Stored(sequence, time_ns, subject, msgspec.json.encode(made))
