"""What makes a server ready, and what is only said."""

import msgspec
import pytest

from subscribers.http import health

FINE = health.Facts(caught_up=True, policies_listed=True)

NOT_READY = {
    "still reading": (msgspec.structs.replace(FINE, caught_up=False, behind=7), "7 messages behind"),
    "a replica without a keyframe at start": (msgspec.structs.replace(FINE, incomplete=["t/r"]), "1 replicas have no"),
    "draining": (msgspec.structs.replace(FINE, was_ready=True, draining=True), "draining"),
}

READY = {
    "all is well": (FINE, ""),
    "a replica lost the thread later": (
        msgspec.structs.replace(FINE, was_ready=True, incomplete=["t/r"]),
        "1 replicas have no",
    ),
    "no policies": (msgspec.structs.replace(FINE, policies_listed=False), "defaults are in use"),
    "log away": (msgspec.structs.replace(FINE, log_answers=False), "the log does not answer"),
}


@pytest.mark.parametrize(("facts", "says"), NOT_READY.values(), ids=NOT_READY)
def test_a_server_that_would_mislead_is_not_ready_and_says_why(facts: health.Facts, says: str) -> None:
    readiness = health.judge(facts)
    assert health.reply(readiness).code == 503
    assert says in "; ".join(readiness.reasons)


@pytest.mark.parametrize(("facts", "says"), READY.values(), ids=READY)
def test_what_is_no_reason_to_send_lookups_elsewhere_is_a_note(facts: health.Facts, says: str) -> None:
    readiness = health.judge(facts)
    assert health.reply(readiness).code == 200
    assert says in "; ".join(readiness.notes)


def test_many_incomplete_replicas_are_counted_and_some_are_named() -> None:
    names = [f"team/replica-{number}" for number in range(5000)]
    readiness = health.judge(msgspec.structs.replace(FINE, incomplete=names))
    assert readiness.replicas_incomplete.count == 5000
    assert readiness.replicas_incomplete.named == names[: health.NAMED]
    assert len(health.reply(readiness).body) < 1000
