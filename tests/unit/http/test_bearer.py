"""The authenticator of the admin port in virtual time: what is reviewed, remembered, counted and logged.

Excluded: the decision (unit/handlers/test_access); real tokens and a real server (integration/server).
"""

import asyncio
from typing import Any

import msgspec
import pytest
import structlog

from handlers import access
from handlers.effects.cluster import ClusterError
from subscribers import metrics
from subscribers.http import bearer, identity, meters
from subscribers.kubernetes import client, tokenreviews

ME = "system:serviceaccount:cache:controller"


class Api:
    """Accepts every token for the audience asked for, of `username`; fails with `failure`; takes `seconds`."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.username, self.seconds = ME, 0.0
        self.failure: ClusterError | None = None
        self.now = 0.0
        self.running = self.most = 0

    async def review(self, token: str, audience: str, *, deadline: float) -> access.Review:
        self.asked.append((token, audience))
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await asyncio.sleep(self.seconds)
        finally:
            self.running -= 1
        if self.failure is not None:
            raise self.failure
        return access.Review(True, self.username, (audience,))


class World:
    def __init__(self) -> None:
        self.api, self.registry = Api(), metrics.Registry()
        self.bearer = bearer.Bearer(
            access.Rules(account=ME), self.api, meter=meters.AuthMeter(self.registry), clock=lambda: self.api.now
        )

    async def ask(self, token: str = "tok", purpose: identity.Purpose = "snapshot") -> int:
        found = await self.bearer({"Authorization": f"Bearer {token}"} if token else {}, purpose)
        return found.code if isinstance(found, identity.Refusal) else 200

    def count(self, name: str, result: str) -> int:
        line = f'{name}{{result="{result}"}} '
        return next(
            int(one[len(line) :]) for one in self.registry.render().decode().split("\n") if one.startswith(line)
        )


@pytest.fixture
def world() -> World:
    return World()


async def test_who_is_let_in_has_a_name_and_who_is_not_a_reason(world: World) -> None:
    headers = {"Authorization": "Bearer tok"}
    assert await world.bearer(headers, "snapshot") == identity.Identity(ME)
    refusal = await world.bearer({}, "snapshot")
    assert isinstance(refusal, identity.Refusal)
    assert (refusal.code, world.api.asked) == (401, [("tok", "inferencecache.io/controller")])


async def test_an_accepted_token_is_reviewed_again_after_thirty_seconds(world: World) -> None:
    for world.api.now in (0, 29.9, 30, 31, 60):
        assert await world.ask() == 200
    assert len(world.api.asked) == 3


async def test_thirty_seconds_are_counted_from_the_question_and_not_from_the_answer(world: World) -> None:
    await_review = world.api.review

    async def slow(token: str, audience: str, *, deadline: float) -> access.Review:
        world.api.now += 4
        return await await_review(token, audience, deadline=deadline)

    world.api.review = slow  # type: ignore[method-assign]
    for world.api.now in (0, 29, 31):
        assert await world.ask() == 200
    assert len(world.api.asked) == 2


async def test_a_token_is_remembered_for_its_audience_alone(world: World) -> None:
    assert await world.ask(purpose="snapshot") == 200
    assert await world.ask(purpose="probe") == 200
    assert len(world.api.asked) == 1
    rules = world.bearer.rules
    assert rules.audience("policy") != rules.audience("probe")
    world.bearer._meter = None  # nothing counts what is not served
    assert await world.ask(purpose="policy") == 200
    assert world.api.asked[1:] == [("tok", "inferencecache.io/policy")]


async def test_a_refusal_is_never_remembered(world: World) -> None:
    world.api.username = "system:serviceaccount:x:y"
    assert [await world.ask(), await world.ask()] == [403, 403]
    world.api.failure = ClusterError(0, "NoAnswer", "refused")
    assert [await world.ask(), await world.ask()] == [503, 503]
    world.api.failure, world.api.username = None, ME
    assert await world.ask() == 200
    assert len(world.api.asked) == 5


async def test_an_accepted_token_is_let_in_while_the_api_is_away(world: World) -> None:
    assert await world.ask() == 200
    world.api.failure = ClusterError(0, "NoAnswer", "refused")
    world.api.now = 29
    assert [await world.ask(), await world.ask("other")] == [200, 503]
    world.api.now = 30
    assert await world.ask() == 503


async def test_what_expires_first_makes_room_for_a_new_token(world: World) -> None:
    for world.api.now in range(bearer.MOST):
        assert await world.ask(f"t{world.api.now}") == 200
    world.api.now = 29.5  # nothing has expired yet: the oldest goes
    assert await world.ask("new") == 200
    assert len(world.bearer.accepted._until) == bearer.MOST
    reviewed = len(world.api.asked)
    assert [await world.ask("t1"), await world.ask("new")] == [200, 200]
    assert len(world.api.asked) == reviewed
    assert await world.ask("t0") == 200
    assert len(world.api.asked) == reviewed + 1


async def test_what_has_expired_goes_before_what_has_not(world: World) -> None:
    kept = bearer.Accepted()
    for number in range(bearer.MOST):
        kept.keep(("a", bytes([number])), until=10 if number < 5 else 50 + number, now=0)
    kept.keep(("a", b"new"), until=60, now=20)
    assert len(kept._until) == bearer.MOST - 5 + 1
    assert all(kept.holds(("a", bytes([number])), 20) for number in range(5, bearer.MOST))


async def test_no_token_is_kept_as_itself(world: World) -> None:
    await world.ask("a-secret-token")
    assert "a-secret-token" not in repr(world.bearer.accepted._until)


async def test_what_became_of_requests_is_counted_by_endpoint_and_starts_at_zero(world: World) -> None:
    assert world.count("inferencecache_probe_auth_total", "ok") == 0
    await world.ask(purpose="probe")
    await world.ask("", purpose="probe")
    world.api.username = "x"
    await world.ask("t2", purpose="snapshot")
    world.api.failure = ClusterError(403, "Forbidden", "no right")
    await world.ask("t3", purpose="intake")
    assert world.count("inferencecache_probe_auth_total", "ok") == 1
    assert world.count("inferencecache_probe_auth_total", "unauth") == 1
    assert world.count("inferencecache_snapshot_auth_total", "forbidden") == 1
    assert world.count("warmlog_intake_auth_total", "error") == 1


async def test_an_api_that_is_away_is_a_few_lines_however_many_ask(world: World) -> None:
    world.api.failure = ClusterError(403, "Forbidden", "tokenreviews is forbidden")
    with structlog.testing.capture_logs() as logs:
        for _ in range(100):
            assert await world.ask() == 503
    assert len(logs) == 7
    assert logs[0]["reason"] == "403: tokenreviews is forbidden"


@pytest.mark.looptime
async def test_an_api_that_hangs_is_given_up_in_time(world: World) -> None:
    world.api.seconds = 3600
    assert await world.ask() == 503
    assert asyncio.get_running_loop().time() == bearer.DEADLINE


@pytest.mark.looptime
async def test_a_flood_of_tokens_is_no_flood_of_reviews(world: World) -> None:
    world.api.seconds = 1
    found = await asyncio.gather(*(world.ask(f"t{number}") for number in range(100)))
    assert world.api.most == bearer.REVIEWS
    assert (found.count(200), found.count(503)) == (4 * bearer.REVIEWS, 100 - 4 * bearer.REVIEWS)
    assert world.api.running == 0


# The request to the API -----------------------------------------------------------------------------------------------


class Answering:
    """A client that gives one answer."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.sent: Any = None

    async def request(self, method: str, path: str, *, body: Any, deadline: float) -> client.Answer:
        self.sent = (method, path, body, deadline)
        if isinstance(self.answer, Exception):
            raise self.answer
        return client.Answer(201, self.answer if isinstance(self.answer, bytes) else msgspec.json.encode(self.answer))


async def review(answering: Answering) -> access.Review:
    return await tokenreviews.TokenReviews(answering).review("s3cr3t", "a", deadline=2)  # type: ignore[arg-type]


async def test_a_review_asks_for_one_audience_and_reads_what_it_needs() -> None:
    user = {"username": ME, "uid": "1", "groups": ["g"], "extra": {"k": ["v"]}}
    answering = Answering({"kind": "TokenReview", "status": {"authenticated": True, "user": user, "audiences": ["a"]}})
    assert await review(answering) == access.Review(True, ME, ("a",))
    method, path, body, deadline = answering.sent
    assert (method, path, deadline) == ("POST", "/apis/authentication.k8s.io/v1/tokenreviews", 2)
    assert body["spec"] == {"token": "s3cr3t", "audiences": ["a"]}


async def test_a_no_needs_neither_user_nor_audiences() -> None:
    assert await review(Answering({"status": {"user": {}, "error": "expired"}})) == access.Review(False)


@pytest.mark.parametrize(
    "answer", [{}, {"status": None}, {"status": {"authenticated": "yes"}}, b"<html>", b"\xff", b"["]
)
async def test_an_answer_without_a_status_is_none(answer: Any) -> None:
    with pytest.raises(ClusterError, match="no TokenReview with a status"):
        await review(Answering(answer))


async def test_words_of_the_api_do_not_repeat_the_token() -> None:
    with pytest.raises(ClusterError, match=r"^bad token \*\*\* here$") as told:
        await review(Answering(ClusterError(500, "InternalError", "bad token s3cr3t here")))
    assert told.value.__cause__ is None
    assert told.value.code == 500
