"""Authenticates by bearer token: header, review, verdict; and remembers for a while whom it let in.

A token that was accepted is let in again for 30 seconds without a review, also while the API is away; it is remembered
by audience and SHA-256, never as itself. Nothing else is remembered: a refusal is judged anew each time. At most
`REVIEWS` reviews run at once, so that a flood of bad tokens does not become one of the API server; who waits for longer
than the deadline gets 503.

Not here: the decision (handlers.access), the request to the API (subscribers.kubernetes.tokenreviews).

Rules: spec/inferencecache.md section 1.10: 30 s, 32 entries, "evict expired, then earliest expiry".
"""

import asyncio
import hashlib
import time
from collections.abc import Callable, Mapping
from typing import Final, Protocol

import structlog

from handlers import access
from handlers.effects.cluster import ClusterError
from subscribers.http import identity

log = structlog.get_logger(__name__)

KEPT: Final = 30.0  # seconds
MOST: Final = 32  # entries
DEADLINE: Final = 5.0  # seconds from the request's head to the verdict
REVIEWS: Final = 8

CODES: Final[Mapping[access.Result, identity.Code]] = {"unauth": 401, "forbidden": 403, "error": 503}

Key = tuple[str, bytes]  # audience, SHA-256 of the token


class Reviews(Protocol):
    async def review(self, token: str, audience: str, *, deadline: float) -> access.Review:
        """Raises ClusterError."""
        ...


class Meter(Protocol):
    """Told of every verdict."""

    def judged(self, endpoint: access.Endpoint, result: access.Result) -> None: ...


class Accepted:
    """Tokens that were let in, each until a moment of the caller's clock, in seconds."""

    def __init__(self) -> None:
        self._until: dict[Key, float] = {}

    def holds(self, key: Key, now: float) -> bool:
        return now < self._until.get(key, now)

    def keep(self, key: Key, until: float, now: float) -> None:
        """Where there is no room, what has expired makes room, then what expires first."""
        if key not in self._until and len(self._until) >= MOST:
            self._until = {one: end for one, end in self._until.items() if now < end}
            if len(self._until) >= MOST:
                del self._until[min(self._until, key=self._until.__getitem__)]
        self._until[key] = until


class Bearer:
    """An identity.Authenticate for one account."""

    def __init__(
        self,
        rules: access.Rules,
        reviews: Reviews,
        *,
        meter: Meter | None = None,
        clock: Callable[[], float] = time.monotonic,
        deadline: float = DEADLINE,
    ) -> None:
        """`clock` in seconds; `deadline` in seconds, waiting for a free review included."""
        self.rules, self.accepted = rules, Accepted()
        self._reviews, self._meter, self._clock, self._deadline = reviews, meter, clock, deadline
        self._free = asyncio.Semaphore(REVIEWS)
        self._failed = 0  # reviews, since one came back

    async def __call__(
        self, headers: Mapping[str, str], purpose: identity.Purpose
    ) -> identity.Identity | identity.Refusal:
        verdict = await self._judge(access.token_of(headers.get("Authorization")), self.rules.audience(purpose))
        if self._meter is not None:
            self._meter.judged(purpose, verdict.result)
        if verdict.result == "ok":
            return identity.Identity(self.rules.account)
        return identity.Refusal(CODES[verdict.result], verdict.message)

    async def _judge(self, token: str, audience: str) -> access.Verdict:
        key = (audience, hashlib.sha256(token.encode()).digest())
        asked_at = self._clock()  # counted from here on: what was revoked meanwhile does not live longer
        if self.accepted.holds(key, asked_at):
            return access.Verdict("ok")
        review = await self._review(token, audience) if token else access.NO_ANSWER
        verdict = access.decide(access.Asked(token=token, audience=audience, account=self.rules.account, review=review))
        if verdict.result == "ok":
            self.accepted.keep(key, asked_at + KEPT, self._clock())
        return verdict

    async def _review(self, token: str, audience: str) -> access.Review:
        """What the API says; NO_ANSWER, and a line in the log, when it does not in time."""
        try:
            async with asyncio.timeout(self._deadline), self._free:
                review = await self._reviews.review(token, audience, deadline=self._deadline)
        except TimeoutError:
            why = f"no answer within {self._deadline:g} s"
        except ClusterError as error:
            why = f"{error.code or 'no answer'}: {error.message}"
        else:
            self._failed = 0
            return review
        self._failed += 1
        if self._failed.bit_count() == 1:  # 1, 2, 4, 8 …: a flood of requests is no flood of lines
            log.warning("a token cannot be reviewed", reason=why, failed=self._failed)
        return access.NO_ANSWER
