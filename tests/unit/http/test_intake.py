"""What the intake takes, publishes and answers; the box of orders. Excluded: HTTP (tests/integration/http)."""

import msgspec
import pytest

from eventstore import kvwire, memory, store
from subscribers.http import intake, orders


def begin(*, session: str = "s1", model: str = "m", n: int = 0) -> bytes:
    return kvwire.encode(kvwire.Begin(kvwire.VERSION, "uid", session, n, 0, 0, model, "vllm", "complete", "start"))


def beat(*, session: str = "s1", n: int = 1) -> bytes:
    return kvwire.encode(kvwire.Beat(kvwire.VERSION, "uid", session, n, "complete", 0, 0))


def keyframe(session: str) -> kvwire.Control:
    return kvwire.Control("keyframe", session, "gap")


def fenced(session: str) -> kvwire.Control:
    return kvwire.Control("fenced", session, "a newer session began")


async def test_a_message_is_published_unchanged_under_its_replicas_subject() -> None:
    kv = memory.MemoryKV()
    taken = await intake.Intake(kv.publish, orders.OrderBox()).accept(
        "team.a", "engine-0@1", "org/model", begin(model="org/model")
    )
    assert (taken.code, msgspec.json.decode(taken.body)) == (200, {"sequence": 1, "orders": []})
    ((message,),) = [batch async for batch in kv.read()]
    assert message.subject.startswith("wlkv.")
    assert message.subject.endswith(".team%2Ea.engine-0%401")
    assert message.payload == begin(model="org/model")


async def test_orders_for_a_session_come_with_the_answer_to_its_message() -> None:
    box = orders.OrderBox()
    taker = intake.Intake(memory.MemoryKV().publish, box)
    box.hear(msgspec.json.encode(keyframe("s1")))
    box.hear(msgspec.json.encode(keyframe("another")))
    taken = await taker.accept("t", "r", "m", beat())
    assert msgspec.json.decode(taken.body, type=intake.Accepted).orders == [keyframe("s1")]
    taken = await taker.accept("t", "r", "m", beat(n=2))
    assert msgspec.json.decode(taken.body, type=intake.Accepted).orders == []


def test_fenced_is_repeated_and_keyframe_is_not() -> None:
    box = orders.OrderBox()
    for _ in range(3):
        box.put(keyframe("s"))
        box.put(fenced("s"))
    assert box.take("s") == [keyframe("s"), fenced("s")]
    assert box.take("s") == [fenced("s")]
    assert box.take("s") == [fenced("s")]


def test_the_box_forgets_the_sessions_unheard_for_longest() -> None:
    box = orders.OrderBox(sessions=2)
    for session in ("a", "b", "c"):
        box.put(keyframe(session))
    assert [box.take(session) for session in ("a", "b", "c")] == [[], [keyframe("b")], [keyframe("c")]]


def test_an_order_that_is_not_ours_is_said_and_ignored() -> None:
    box = orders.OrderBox()
    box.hear(b'{"order":"dance","session":"s"}')
    box.hear(b"\xff")
    assert box.take("s") == []


REFUSED = {
    "not MessagePack": ("t", "m", b"hello", "not a WARMLOG_KV message"),
    "empty": ("t", "m", b"", "not a WARMLOG_KV message"),
    "a newer wire version": ("t", "m", kvwire.encode(kvwire.Bye(9, "u", "s", 0, "stopped")), "wire version 9"),
    "begin of another model": ("t", "other", begin(), "begin says model 'm'"),
    "names too long for a subject": ("t" * 300, "m", begin(), "exceeds 254"),
}


@pytest.mark.parametrize(("tenant", "model", "payload", "says"), REFUSED.values(), ids=REFUSED)
async def test_what_is_no_message_of_this_replica_is_refused_and_not_published(
    tenant: str, model: str, payload: bytes, says: str
) -> None:
    kv = memory.MemoryKV()
    refused = await intake.Intake(kv.publish, orders.OrderBox()).accept(tenant, "r", model, payload)
    assert refused.code == 400
    assert says in msgspec.json.decode(refused.body)["error"]
    assert (await kv.extent()).last == 0


async def test_a_session_keeps_the_model_it_began_with() -> None:
    taker = intake.Intake(memory.MemoryKV().publish, orders.OrderBox())
    await taker.accept("t", "r", "m", begin())
    assert (await taker.accept("t", "r", "other", beat())).code == 400
    assert (await taker.accept("t", "r", "m", beat())).code == 200
    unknown = await taker.accept("t", "r", "other", beat(session="begun elsewhere"))
    assert unknown.code == 200, "another server may have seen its begin; the reader checks the partition"


FAULTS = {
    "away": (store.Unavailable("no ack"), 503, b"retry-after: 1\r\n"),
    "full": (store.StreamFull("max bytes"), 503, b"retry-after: 10\r\n"),
    "refused": (store.Misconfigured("no permission"), 422, b""),
}


@pytest.mark.parametrize(("error", "code", "extra"), FAULTS.values(), ids=FAULTS)
async def test_what_the_log_could_not_do_is_told_apart(error: store.StoreError, code: int, extra: bytes) -> None:
    async def publish(subject: str, payload: bytes, *, deadline: float = 2.0) -> int:
        raise error

    box = orders.OrderBox()
    box.put(keyframe("s1"))
    answer = await intake.Intake(publish, box).accept("t", "r", "m", begin())
    assert (answer.code, answer.extra) == (code, extra)
    assert str(error) in msgspec.json.decode(answer.body)["error"]
    assert box.take("s1") == [keyframe("s1")], "an order is not spent on a message that failed"
