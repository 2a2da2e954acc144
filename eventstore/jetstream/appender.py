"""Appending an event to the control log exactly once.

The event's id travels as `Nats-Msg-Id`, the expectation as `Nats-Expected-Last-Subject-Sequence`; both are resent
unchanged until an answer comes or the deadline passes. What an answer means:

    stored                      done
    duplicate                   the id was seen in the window: the stored event is read and compared
    wrong last sequence         unknown: a retry after a lost ack looks the same. Read what lies on the subject:
                                our id = our own lost ack; another = Conflict; what we expected = a cluster
                                that is not done with an earlier try: again, until the deadline
    full, no resources          StreamFull
    nobody listens, no leader   again, until the deadline; then the stream's absence is told from a passing trouble

What is compared is the fact (eventstore/facts). The same id with another fact is an IdentityAlarm.

Rules: design.md section 2, "Identity"; spec/eventstore-nats.md measurements 1, 8 and section 3; JS-04 to JS-08.
"""

import asyncio
from typing import Final

from eventstore import envelope, facts, store
from eventstore.jetstream import api, connect, publisher

DEADLINE: Final = 5.0
_PAUSES: Final = (0.05, 0.1, 0.2, 0.4)


class Appender:
    """Appends to one stream over one publisher. Safe for any number of tasks."""

    def __init__(
        self, connection: connect.Connection, publish: publisher.Publisher, stream: str, *, deadline: float = DEADLINE
    ) -> None:
        self._connection = connection
        self._publisher = publish
        self._stream = stream
        self._deadline = deadline
        self._loop = asyncio.get_running_loop()

    async def append(self, event: envelope.Envelope, *, expected: int | None = None) -> store.Appended:
        body = facts.encode(event)
        facts.check(event, len(body))
        headers = header_block(event.id, expected)
        until = self._loop.time() + self._deadline
        tries = 0
        while True:
            if self._publisher.crowded:
                await self._publisher.room(until)
            ack = await self._publisher.send(event.subject, body, headers=headers, deadline=until, resend=True)
            tries += ack.tries
            if ack.error is None:
                if not ack.duplicate:
                    return store.Appended(ack.seq, False)
                return await self._verified(event, ack.seq)
            error = publisher.as_api_error(ack.error)
            if error.err_code in api.WRONG_LAST_SEQUENCE and expected is not None:
                found = await self._look(event, expected)
                if isinstance(found, store.Appended):
                    return found
                if found != expected:
                    raise store.Conflict(event.subject, expected, found) from error
                # Nobody took the place: a cluster that lost its leader still counts a try that it may store or drop.
                await self._pause(event, error, until, tries)
            else:
                await self._pause_or_raise(event, error, until, tries)

    def offer(self, event: envelope.Envelope, waiter: publisher.Waiter) -> bool:
        """Send an event without an expectation, once, when there is room for it; `waiter` gets JetStream's answer."""
        if self._publisher.crowded:
            return False
        body = facts.encode(event)
        facts.check(event, len(body))
        self._publisher.send_for(
            waiter, event.subject, body, headers=header_block(event.id, None),
            deadline=self._loop.time() + self._deadline, resend=True,
        )  # fmt: skip
        return True

    async def _pause_or_raise(self, event: envelope.Envelope, error: api.ApiError, until: float, tries: int) -> None:
        """Wait a little when trying again makes sense; else say what is wrong."""
        if error.err_code == api.MESSAGE_TOO_LARGE:
            raise store.TooLarge(f"{event.subject}: stream {self._stream} takes no message of this size: {error}")
        verdict = api.as_store_error(error, self._stream)
        if not isinstance(verdict, store.Unavailable):
            raise verdict from error
        await self._pause(event, error, until, tries)

    async def _pause(self, event: envelope.Envelope, error: api.ApiError, until: float, tries: int) -> None:
        pause = _PAUSES[min(tries, len(_PAUSES)) - 1]
        if self._loop.time() + pause < until:
            await asyncio.sleep(pause)
            return
        if error.err_code == 0 and await api.stream_info(self._connection, self._stream) is None:
            raise api.missing(self._stream) from error
        raise store.Unavailable(f"{event.subject}: {error} after {tries} tries; it may be stored") from error

    async def _verified(self, event: envelope.Envelope, sequence: int) -> store.Appended:
        found = await api.message(self._connection, self._stream, {"seq": sequence})
        if found is not None and not facts.same(event, found.payload):
            raise facts.alarm(event, sequence)
        return store.Appended(sequence, True)

    async def _look(self, event: envelope.Envelope, expected: int) -> store.Appended | int:
        """Our own event, when it lies where we wanted it; else the subject's last sequence (0 = none)."""
        last = 0
        # First what took the place that we wanted, which need not be what is last by now.
        for which in ({"seq": expected + 1, "next_by_subj": event.subject}, {"last_by_subj": event.subject}):
            found = await api.message(self._connection, self._stream, which)
            if found is None:
                continue
            last = found.sequence
            if api.header(found.headers, b"Nats-Msg-Id") == event.id.encode():
                if not facts.same(event, found.payload):
                    raise facts.alarm(event, found.sequence)
                return store.Appended(found.sequence, True)
        return last


def header_block(event_id: str, expected: int | None) -> bytes:
    if expected is None:
        return b"NATS/1.0\r\nNats-Msg-Id: %b\r\n\r\n" % event_id.encode()
    return b"NATS/1.0\r\nNats-Msg-Id: %b\r\nNats-Expected-Last-Subject-Sequence: %d\r\n\r\n" % (
        event_id.encode(),
        expected,
    )
