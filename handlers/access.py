"""Who may ask the server's admin endpoints: the decision about one request, from its header and a review of its token.

    Authorization header ── token_of ──► token ── TokenReview (not here) ──► Review ── decide ──► Verdict

    result      status   when
    unauth      401      no bearer token came, or the API does not accept it for this endpoint's audience
    error       503      the API did not say
    forbidden   403      the token is good and somebody else's
    ok                   it is the configured account's

Not here: asking the API, deadlines, what is remembered (subscribers.http.bearer). Nothing raises, and no message
repeats a token.

Rules: spec/inferencecache.md section 1.10; RFC 6750 section 2.1 (what a bearer token is made of); the TokenReview API
(a yes that names no audience means the API server's own, which every Pod has a token for).
"""

import re
from collections.abc import Callable, Sequence
from typing import Final, Literal

import msgspec

Endpoint = Literal["snapshot", "probe", "policy", "intake"]
Result = Literal["ok", "unauth", "forbidden", "error"]

_BEARER: Final = re.compile(r"bearer +([A-Za-z0-9._~+/-]+=*)", re.IGNORECASE | re.ASCII)


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """What an operator configured. `account` is a user's whole name, system:serviceaccount:<namespace>:<name>."""

    account: str
    controller_audience: str = "inferencecache.io/controller"
    policy_audience: str = "inferencecache.io/policy"

    def audience(self, endpoint: Endpoint) -> str:
        """A token for one audience is of no use at the other's endpoints. The intake, which is ours, has the first."""
        return self.policy_audience if endpoint == "policy" else self.controller_audience


class Review(msgspec.Struct, frozen=True):
    """What the API says of a token. `audiences`: those asked for that it is good for."""

    authenticated: bool
    username: str = ""
    audiences: tuple[str, ...] = ()


#: The API did not say, or was not asked for want of a token.
NO_ANSWER: Final = Review(False)


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """One request as it is judged."""

    token: str  # empty when none came
    audience: str
    account: str  # who may
    review: Review


class Verdict(msgspec.Struct, frozen=True):
    """`message` is one line for who asked: what is wrong and what to do. Empty when all is well."""

    result: Result
    message: str = ""


Check = Callable[[Asked], Verdict | None]


def token_of(authorization: str | None) -> str:
    """The bearer token of an Authorization header's value; empty when there is none that could be one."""
    found = _BEARER.fullmatch((authorization or "").strip(" "))
    return found[1] if found else ""


def a_token_came(asked: Asked) -> Verdict | None:
    if not asked.token:
        said = f'send "Authorization: Bearer <token>" with a ServiceAccount\'s token for the audience {asked.audience}'
        return Verdict("unauth", said)
    return None


def the_api_said(asked: Asked) -> Verdict | None:
    if asked.review is NO_ANSWER:
        return Verdict("error", "the Kubernetes API did not review the token; ask again, the server's log says why")
    return None


def the_token_is_good(asked: Asked) -> Verdict | None:
    """Of this cluster, not expired, its account still there, and for the audience of this endpoint."""
    if not asked.review.authenticated or asked.audience not in asked.review.audiences:
        said = f"the token is not accepted; make one of this cluster for the audience {asked.audience}"
        return Verdict("unauth", said)
    return None


def it_is_the_account(asked: Asked) -> Verdict | None:
    if asked.review.username != asked.account:
        who = asked.review.username or "a user without a name"
        return Verdict("forbidden", f"{who} may not ask this; only the account of --allowed-controller-sa may")
    return None


#: A token is judged before who holds it: to nobody in particular the answer is 401.
CHECKS: Final[Sequence[Check]] = (a_token_came, the_api_said, the_token_is_good, it_is_the_account)


def decide(asked: Asked) -> Verdict:
    """The first thing that is wrong, or ok."""
    return next((verdict for check in CHECKS if (verdict := check(asked)) is not None), Verdict("ok"))
