"""What the appender makes of each answer of JetStream, without a server. Time is virtual."""

import asyncio
from typing import Any

import msgspec
import pytest

from eventstore import store
from eventstore.jetstream import api, appender, publisher
from tests.support.eventstores import moment
from tests.support.wire import Wire

pytestmark = pytest.mark.looptime


def refusal(code: int, err_code: int, description: str = "words") -> bytes:
    return msgspec.json.encode({"error": {"code": code, "err_code": err_code, "description": description}})


STORED = b'{"stream":"WARMLOG","seq":9}'
DUPLICATE = b'{"stream":"WARMLOG","seq":9,"duplicate":true}'
NOBODY = b""
CONFLICT = refusal(400, 10071, "wrong last sequence: 8")
IN_PROCESS = refusal(400, 10164, "wrong last sequence")


class JetStream:
    """Answers each try with the next of a list, the last one for ever; `lies` is what STREAM.MSG.GET finds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, answers: list[bytes], lies: list[api.Message | None]) -> None:
        self.wire = Wire()
        self.answers = answers
        self.lies = lies
        self.tries = 0
        self.stream_exists = True
        monkeypatch.setattr(api, "message", self.message)
        monkeypatch.setattr(api, "stream_info", self.stream_info)
        write = self.wire.write

        def answering(data: bytes) -> bool:
            write(data)
            self.tries += 1
            asyncio.get_running_loop().call_soon(self.wire.answer, len(self.wire.frames) - 1, self.next())
            return True

        self.wire.write = answering  # type: ignore[method-assign]

    def next(self) -> bytes:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    async def message(self, connection: Any, stream: str, which: dict[str, Any]) -> api.Message | None:
        if "next_by_subj" in which:
            return next((one for one in self.lies if one and one.sequence >= which["seq"]), None)
        if "last_by_subj" in which:
            return self.lies[-1] if self.lies else None
        return next((one for one in self.lies if one and one.sequence == which["seq"]), None)

    async def stream_info(self, connection: Any, stream: str) -> dict[str, Any] | None:
        return {} if self.stream_exists else None

    async def append(self, *, expected: int | None = None) -> store.Appended:
        publish = publisher.Publisher(self.wire)  # type: ignore[arg-type]
        appends = appender.Appender(self.wire, publish, "WARMLOG", deadline=5)  # type: ignore[arg-type]
        try:
            return await appends.append(moment(1, id="mine"), expected=expected)
        finally:
            await publish.stop()


def lying(sequence: int, id: str, *, number: int = 1) -> api.Message:
    headers = b"NATS/1.0\r\nNats-Msg-Id: %b\r\n\r\n" % id.encode()
    return api.Message(sequence, 1, "wl.moment", headers, msgspec.json.encode(moment(number, id=id)))


SUCCESSES: dict[str, tuple[list[bytes], list[api.Message | None], int | None, store.Appended, int]] = {
    "stored": ([STORED], [], None, store.Appended(9, False), 1),
    "seen before": ([DUPLICATE], [lying(9, "mine")], None, store.Appended(9, True), 1),
    "seen before, but retention was faster": ([DUPLICATE], [], None, store.Appended(9, True), 1),
    "own lost ack": ([CONFLICT], [lying(7, "old"), lying(8, "mine")], 7, store.Appended(8, True), 1),
    "own lost ack, others followed": (
        [CONFLICT],
        [lying(7, "old"), lying(8, "mine"), lying(9, "other")],
        7,
        store.Appended(8, True),
        1,
    ),
    "a cluster that is not done with an earlier try": (
        [IN_PROCESS, IN_PROCESS, STORED],
        [lying(7, "old")],
        7,
        store.Appended(9, False),
        3,
    ),
    "the same on a subject without events": ([IN_PROCESS, STORED], [], 0, store.Appended(9, False), 2),
    "nobody listens for a moment": ([NOBODY, NOBODY, STORED], [], None, store.Appended(9, False), 3),
    "too many requests": ([refusal(429, 10167), STORED], [], None, store.Appended(9, False), 2),
    "no leader": ([refusal(503, 10008), STORED], [], None, store.Appended(9, False), 2),
}


@pytest.mark.parametrize(("answers", "lies", "expected", "appended", "tries"), SUCCESSES.values(), ids=SUCCESSES)
async def test_what_ends_well(
    monkeypatch: pytest.MonkeyPatch,
    answers: list[bytes],
    lies: list[api.Message | None],
    expected: int | None,
    appended: store.Appended,
    tries: int,
) -> None:
    jetstream = JetStream(monkeypatch, list(answers), lies)
    assert await jetstream.append(expected=expected) == appended
    assert jetstream.tries == tries
    assert len({frame.partition(b"\r\n")[2] for frame in jetstream.wire.frames}) == 1, "the same id and body each time"


FAILURES: dict[str, tuple[bytes, list[api.Message | None], int | None, type[store.StoreError], str]] = {
    "another event": (CONFLICT, [lying(8, "other")], 7, store.Conflict, "expected last sequence 7, it is 8"),
    "an expectation of what is not there": (CONFLICT, [lying(3, "old")], 7, store.Conflict, "it is 3"),
    "an emptied subject": (CONFLICT, [], 7, store.Conflict, "it is 0"),
    "another fact under our id": (DUPLICATE, [lying(9, "mine", number=2)], None, store.IdentityAlarm, "at sequence 9"),
    "another fact in our place": (CONFLICT, [lying(8, "mine", number=2)], 7, store.IdentityAlarm, "at sequence 8"),
    "a cluster that is never done": (IN_PROCESS, [lying(7, "old")], 7, store.Unavailable, "it may be stored"),
    "nobody listens": (NOBODY, [], None, store.Unavailable, "nobody listens on this subject"),
    "full by bytes": (
        refusal(503, 10077, "maximum bytes exceeded"),
        [],
        None,
        store.StreamFull,
        "maximum bytes exceeded",
    ),
    "no space on the disk": (refusal(500, 10023, "insufficient resources"), [], None, store.StreamFull, "give it room"),
    "no storage left": (refusal(500, 10047, "insufficient storage"), [], None, store.StreamFull, "--max-bytes"),
    "too large for the stream": (refusal(400, 10054, "message size exceeds"), [], None, store.TooLarge, "of this size"),
    "a sealed stream": (
        refusal(400, 10109, "invalid operation on sealed stream"),
        [],
        None,
        store.Misconfigured,
        "sealed",
    ),
}


@pytest.mark.parametrize(("answer", "lies", "expected", "error", "says"), FAILURES.values(), ids=FAILURES)
async def test_what_ends_in_an_error_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
    answer: bytes,
    lies: list[api.Message | None],
    expected: int | None,
    error: type[store.StoreError],
    says: str,
) -> None:
    jetstream = JetStream(monkeypatch, [answer], lies)
    with pytest.raises(error, match=says):
        await jetstream.append(expected=expected)


async def test_trouble_that_passes_is_tried_until_the_deadline_and_no_longer(
    monkeypatch: pytest.MonkeyPatch, looptime: Any
) -> None:
    jetstream = JetStream(monkeypatch, [NOBODY], [])
    with pytest.raises(store.Unavailable):
        await jetstream.append()
    assert 4.5 < looptime <= 5
    assert 10 < jetstream.tries < 20


async def test_a_missing_stream_is_told_from_a_passing_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    jetstream = JetStream(monkeypatch, [NOBODY], [])
    jetstream.stream_exists = False
    with pytest.raises(store.Misconfigured, match="there is no stream WARMLOG"):
        await jetstream.append()
