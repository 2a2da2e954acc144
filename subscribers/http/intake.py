"""The intake of KV messages over HTTP: for subscribers in tenant Pods, which hold no NATS credential.

One POST carries one `WARMLOG_KV` message. The server checks that it is one, publishes its bytes unchanged under the
subject that the URL names, and answers with the stream sequence and the orders that wait for that session. Tenant and
replica come from the URL, where the authenticator can compare them with the caller; the model is a query parameter,
because only `begin` carries it and the partition depends on it.

Not here: the order of a replica's messages and resending (the subscriber's), what a reader makes of them.

    what                                     answer
    not a WARMLOG_KV message                 400 with one line
    begin names another model than the URL   400
    another model than this session's begin  400
    the log does not answer, or is full      503 with Retry-After; the message may be stored all the same
    the log refuses it                       422

Rules: design.md section 3, "The sink is a seam" and "Return channel".
"""

import collections
from typing import Final, NamedTuple, Protocol

import msgspec

from eventstore import kvwire, store, subjects
from subscribers.http import orders, replies

#: A keyframe chunk is 37 kB a group; a begin carries settings. NATS itself takes 1 MiB.
BODY_LIMIT: Final = 1024 * 1024
_SESSIONS: Final = 10_000
_PUBLISH_SECONDS: Final = 2.0


class Publish(Protocol):
    """store.KVLog.publish."""

    async def __call__(self, subject: str, payload: bytes, *, deadline: float = ...) -> int: ...


class Accepted(msgspec.Struct, frozen=True):
    """The answer to one message. `orders` are for the session that sent it."""

    sequence: int
    orders: list[kvwire.Control] = []


class _Spoken(NamedTuple):
    session: str
    model: str


class Intake:
    """Publishes what subscribers post."""

    def __init__(self, publish: Publish, box: orders.OrderBox) -> None:
        self._publish = publish
        self._box = box
        #: What each replica's begin said, to hold later messages against. Soft: a reader checks the partition too.
        self._begun: collections.OrderedDict[tuple[str, str], _Spoken] = collections.OrderedDict()

    async def accept(self, tenant: str, replica: str, model: str, payload: bytes) -> replies.Reply:
        try:
            message = kvwire.decode(payload)
            subject = subjects.kv_subject(tenant, model, replica)
        except (kvwire.WireError, subjects.SubjectError) as error:
            return replies.error(400, str(error))
        if (problem := self._model_problem(tenant, replica, model, message)) is not None:
            return replies.error(400, problem)
        try:
            sequence = await self._publish(subject, payload, deadline=_PUBLISH_SECONDS)
        except store.Unavailable as error:
            return replies.error(503, f"the log does not answer: {error}", extra=b"retry-after: 1\r\n")
        except store.StreamFull as error:
            return replies.error(503, f"the log is full: {error}", extra=b"retry-after: 10\r\n")
        except store.StoreError as error:
            return replies.error(422, f"the log refuses this message: {error}")
        return replies.json(200, Accepted(sequence, self._box.take(message.session)))

    def _model_problem(self, tenant: str, replica: str, model: str, message: kvwire.AnyMessage) -> str | None:
        key = (tenant, replica)
        if isinstance(message, kvwire.Begin):
            if message.model != model:
                return f"begin says model {message.model!r}, the request's query says {model!r}"
            self._begun[key] = _Spoken(message.session, model)
            self._begun.move_to_end(key)
            if len(self._begun) > _SESSIONS:
                self._begun.popitem(last=False)
            return None
        begun = self._begun.get(key)
        if begun is not None and begun.session == message.session and begun.model != model:
            return f"this session began with model {begun.model!r}, the request's query says {model!r}"
        return None
