"""One example of every event: shown in docs/asyncapi.yaml, and read back by tests.

The ids are made as the roles make them.
"""

from typing import Final

from eventstore import events, subjects

_KV: Final = "20261130T071727.123456789.0"

#: Struct -> id, subject, data.
EXAMPLES: Final[dict[type[events.Event], tuple[str, str, events.Event]]] = {
    events.SettingsSeen: (
        "settings.seen:server:warmlog-0:1796024000000000000",
        subjects.settings_subject("server"),
        events.SettingsSeen(role="server", instance="warmlog-0", version="0.1.0", settings={"max-holds": "10000000"}),
    ),
    events.ObjectSeen: (
        "object.seen:4e1c:77:1:0",
        subjects.object_subject("cachepolicies.inferencecache.io", "team-a", "eager"),
        events.ObjectSeen(
            uid="4e1c",
            resource_version="77",
            shape=1,
            object={"metadata": {"name": "eager", "namespace": "team-a"}, "spec": {"minimumMatchedTokens": 16}},
        ),
    ),
    events.ObjectGone: (
        "object.gone:4e1c:78:1:12",
        subjects.object_subject("cachepolicies.inferencecache.io", "team-a", "eager"),
        events.ObjectGone(uid="4e1c", resource_version="78"),
    ),
    events.KindListed: (
        "kind.listed:cachepolicies.inferencecache.io:9f86d081:0",
        subjects.kind_subject("cachepolicies.inferencecache.io"),
        events.KindListed(list_version="9f86d081", shape=1, count=1),
    ),
    events.ReplicaObserved: (
        f"replica.observed:{_KV}:48213:team-a/engine-0:gap:51bbd1a2c3d4e5f6",
        subjects.replica_subject("team-a", "engine-0"),
        events.ReplicaObserved(
            tenant="team-a",
            replica="engine-0",
            model="demo-model",
            scheme="vllm",
            uid="8f0c",
            session="s-1",
            edge="gap",
            reason="1 messages before n 7 are missing",
            kv_sequence=48213,
            kv_incarnation=_KV,
            blocks=1200,
        ),
    ),
    events.IndexSummarised: (
        f"index.summarised:{_KV}:48213:0:0c7e8a9b1d2f3041",
        subjects.index_subject("0"),
        events.IndexSummarised(
            shard="0",
            kv_sequence=48213,
            kv_incarnation=_KV,
            blocks=1200,
            replicas=[events.ReplicaSummary("team-a", "engine-0", "demo-model", "complete", 1200, "", 0.5, 48000)],
            tenants={"team-a": 1200},
        ),
    ),
    events.Moment: (
        f"moment:{_KV}:48213:1796024000000000000",
        subjects.MOMENT,
        events.Moment(kv_sequence=48213, kv_incarnation=_KV),
    ),
    events.WatchContact: ("watch.contact:3:1796024000000000000", subjects.WATCH, events.WatchContact(epoch=3)),
    events.LeaderElected: (
        "leader.elected:3",
        subjects.LEADER,
        events.LeaderElected(epoch=3, instance="warmlog-controller-7d9f-x2x4p"),
    ),
    events.AdmissionDecided: (
        "admission.decided:705ab4f5-6393-11e8-b7cc-42010a800002:1f0c5d8e",
        subjects.admission_subject("mpod.inferencecache.io", "team-a", "engine-"),
        events.AdmissionDecided(
            review="705ab4f5-6393-11e8-b7cc-42010a800002",
            webhook="mpod.inferencecache.io",
            operation="CREATE",
            kind="pods",
            namespace="team-a",
            generate_name="engine-",
            owner="ReplicaSet/engine/9c1d",
            position=f"{_KV}:48213",
            logic="1",
            settings="sha256:5b1d",
            view={"metadata": {"labels": {"serve": "qwen"}}},
            reads={"cachebackends.inferencecache.io/team-a/kv-main": 48100},
            verdict="patched",
            check="injected",
            patch=[{"op": "add", "path": "/metadata/annotations/inferencecache.io~1injected-by", "value": "kv-main"}],
            digest="sha256:aa01",
            owned="sha256:bb02",
        ),
    ),
    events.EffectApplied: (
        "effect.applied:4e1c:2c26b46b:48213:1",
        subjects.effect_subject("cachebackends.inferencecache.io", "team-a", "kv-main"),
        events.EffectApplied(
            verb="status",
            kind="cachebackends.inferencecache.io",
            namespace="team-a",
            name="kv-main",
            uid="4e1c",
            resource_version="91",
            body={"status": {"matchedEnginePods": 2}},
            desired="sha256:2c26b46b",
            position=f"{_KV}:48213",
            handler="cachebackend",
            key="cachebackends.inferencecache.io/team-a/kv-main",
            epoch=3,
        ),
    ),
    events.EffectFailed: (
        "effect.failed:4e1c:2c26b46b:48213:1",
        subjects.effect_subject("deployments.apps", "team-a", "kv-main"),
        events.EffectFailed(
            verb="apply",
            kind="deployments.apps",
            namespace="team-a",
            name="kv-main",
            desired="sha256:2c26b46b",
            position=f"{_KV}:48213",
            handler="cachebackend",
            key="cachebackends.inferencecache.io/team-a/kv-main",
            epoch=3,
            code=403,
            reason="Forbidden",
            message="exceeded quota",
        ),
    ),
    events.TimerFired: (
        "timer.fired:cachebackend:cachebackends.inferencecache.io/team-a/kv-main:1796024000000000000",
        subjects.timer_subject("cachebackend"),
        events.TimerFired(
            handler="cachebackend",
            key="cachebackends.inferencecache.io/team-a/kv-main",
            due_ns=1_796_024_000_000_000_000,
            epoch=3,
        ),
    ),
}
