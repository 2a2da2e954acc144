"""The snapshot, the summary and the counters of an index."""

import msgspec
import pytest

from eventstore import kvwire
from handlers.prefixindex import policies, views
from tests.support import kvspeaker


@pytest.fixture
def stream() -> kvspeaker.Stream:
    stream = kvspeaker.Stream()
    for tenant, name, keys in (("u", "b", [1, 2]), ("t", "b", [1, 2, 3]), ("t", "a", [1, 2, 3, 4]), ("", "z", [5])):
        stream.start(kvspeaker.Speaker(name, tenant=tenant).holds(keys))
    return stream


def document(stream: kvspeaker.Stream) -> dict[str, object]:
    found: dict[str, object] = msgspec.json.decode(msgspec.json.encode(views.snapshot(stream.index)))
    return found


def test_the_snapshot_is_the_references_document_in_a_stable_order(stream: kvspeaker.Stream) -> None:
    shown = views.snapshot(stream.index)
    assert [(one.tenant, one.replica_id, one.prefix_count) for one in shown.replicas] == [
        ("", "z", 1),
        ("t", "a", 4),
        ("t", "b", 3),
        ("u", "b", 2),
    ]
    assert {one.tenant_id: one.index_entries for one in shown.tenants} == {"": 1, "t": 4, "u": 2}
    assert shown.total_prefixes == 7 == sum(one.index_entries for one in shown.tenants)
    first = document(stream)["replicas"][1]  # type: ignore[index]
    assert first == {
        "replicaId": "a",
        "tenant": "t",
        "cacheMemoryBytes": 0,
        "hitRate": 0.0,
        "pressure": 0.0,
        "lastUpdate": views.NEVER,
        "prefixCount": 4,
        "lastEventAt": "2023-11-14T22:13:20.000000Z",
        "state": "complete",
        "reason": "keyframe 0 agreed",
        "model": "m",
        "hashScheme": "vllm",
        "blockSizes": [16],
        "lastHeardAt": "2023-11-14T22:13:20.000000Z",
        "session": "s1",
        "keyframeSequence": 7,
    }


def test_distinct_keys_are_exact_while_a_sweep_is_under_way(stream: kvspeaker.Stream) -> None:
    again = kvspeaker.Speaker("a", "s2", tenant="t").holds([3])
    stream.start(again)
    before = {one.tenant_id: one.index_entries for one in views.snapshot(stream.index).tenants}
    stream.upkeep()
    assert before == {"": 1, "t": 3, "u": 2}
    assert before == {one.tenant_id: one.index_entries for one in views.snapshot(stream.index).tenants}


def test_statistics_are_shown_and_averaged_per_tenant(stream: kvspeaker.Stream) -> None:
    for name, rate in (("a", 0.2), ("b", 0.6)):
        speaker = kvspeaker.Speaker(name, tenant="t").holds([1, 2, 3, 4] if name == "a" else [1, 2, 3])
        speaker.n = 2
        said = kvwire.Stats(0.0, 1024, rate, float("inf"), 5, 10)
        stream.put(speaker, speaker.beat(said))
    shown = views.snapshot(stream.index)
    assert [(one.tenant_id, round(one.hit_rate, 3), one.hit_rate_reported) for one in shown.tenants] == [
        ("", 0.0, False),
        ("t", 0.4, True),
        ("u", 0.0, False),
    ]
    one = shown.replicas[1]
    assert (one.stats_reported, one.cache_memory_bytes, one.pressure, one.t2_hit_tokens, one.t2_query_tokens) == (
        True,
        1024,
        0.0,
        5,
        10,
    )


def test_what_is_gone_or_reserved_is_not_shown_and_what_is_unknown_is(stream: kvspeaker.Stream) -> None:
    probe = kvspeaker.Speaker("p", tenant=policies.RESERVED).holds([1])
    stream.start(probe)
    starting = kvspeaker.Speaker("new", tenant="t").holds([1])
    stream.put(starting, starting.begin())
    leaving = kvspeaker.Speaker("z", tenant="")
    leaving.n = 2
    stream.put(leaving, leaving.bye("gone"))
    shown = views.snapshot(stream.index)
    assert [(one.replica_id, one.state, one.prefix_count) for one in shown.replicas] == [
        ("a", "complete", 4),
        ("b", "complete", 3),
        ("new", "unknown", 0),
        ("b", "complete", 2),
    ]
    assert shown.incomplete == 1
    assert not shown.policies_known


def test_the_summary_is_rounded_and_steady(stream: kvspeaker.Stream) -> None:
    speaker = kvspeaker.Speaker("big", tenant="t").holds(range(100, 1334))
    stream.start(speaker)
    shown = views.summary(stream.index, shard="0", incarnation="x")
    big = next(one for one in shown.replicas if one.replica == "big")
    assert (big.blocks, shown.blocks, big.state, big.last_heard) == (1200, 1200, "complete", "")
    stream.put(speaker, speaker.ops({1: 1}), speaker.beat())
    again = views.summary(stream.index, shard="0", incarnation="x")
    assert again.replicas == shown.replicas
    stream.wait(20)
    quiet = views.summary(stream.index, shard="0", incarnation="x").replicas
    assert {one.state for one in quiet} == {"silent"}
    assert all(one.last_heard for one in quiet)


@pytest.mark.parametrize(("number", "shown"), [(0, 0), (7, 7), (99, 99), (100, 100), (12_345, 12_000)])
def test_two_digits_remain(number: int, shown: int) -> None:
    assert views.two_digits(number) == shown


def test_the_counters_count(stream: kvspeaker.Stream) -> None:
    stream.put(kvspeaker.Speaker("x"), b"junk")
    stream.index.apply(99, stream.now, *stream.stored[0][2:])
    counted = views.counters(stream.index)
    assert (counted.messages, counted.skipped, counted.redelivered, counted.position) == (14, 1, 1, 99)
    assert counted.entries == {"m": 10}
    assert counted.replicas["complete"] == 4
