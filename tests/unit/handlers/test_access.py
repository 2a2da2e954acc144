"""Who may ask the admin endpoints, as a table. Excluded: asking the API and remembering (unit/http/test_tokens)."""

import pytest

from handlers import access
from handlers.access import Asked, Review, Rules

ME, OTHER = "system:serviceaccount:cache:controller", "system:serviceaccount:x:y"
AUDIENCE = "inferencecache.io/controller"

TOKENS = {
    "as in a book": ("Bearer tok", "tok"),
    "any case": ("bEaReR tok", "tok"),
    "several blanks": ("  Bearer   tok ", "tok"),
    "a JWT": ("Bearer ey.J-_~+/x.A==", "ey.J-_~+/x.A=="),
    "no header": (None, ""),
    "empty": ("", ""),
    "no token": ("Bearer ", ""),
    "the scheme alone": ("Bearer", ""),
    "another scheme": ("Basic YTpi", ""),
    "the scheme inside a word": ("XBearer tok", ""),
    "two words": ("Bearer tok tok", ""),
    "a tab": ("Bearer\ttok", ""),
    "a line break": ("Bearer tok\nx", ""),
    "another script": ("Bearer tök", ""),
    "a long s": ("Bearer toſ", ""),  # upper case of it is an S
    "filling alone": ("Bearer ==", ""),
}


@pytest.mark.parametrize(("header", "token"), TOKENS.values(), ids=TOKENS)
def test_a_bearer_token_is_taken_from_its_header(header: str | None, token: str) -> None:
    assert access.token_of(header) == token


VERDICTS = {
    "the account": ("tok", Review(True, ME, (AUDIENCE,)), "ok", ""),
    "good for more than was asked": ("tok", Review(True, ME, ("a", AUDIENCE)), "ok", ""),
    "no token": ("", access.NO_ANSWER, "unauth", f"for the audience {AUDIENCE}"),
    "the API is away": ("tok", access.NO_ANSWER, "error", "ask again"),
    "the API says no": ("tok", Review(False), "unauth", "is not accepted"),
    "a no that names somebody": ("tok", Review(False, ME, (AUDIENCE,)), "unauth", "is not accepted"),
    "another audience": ("tok", Review(True, ME, ("inferencecache.io/policy",)), "unauth", AUDIENCE),
    "a reviewer that knows no audiences": ("tok", Review(True, ME), "unauth", AUDIENCE),
    "another account": ("tok", Review(True, OTHER, (AUDIENCE,)), "forbidden", f"{OTHER} may not ask this"),
    "nobody": ("tok", Review(True, "", (AUDIENCE,)), "forbidden", "a user without a name may not"),
    "almost the account": ("tok", Review(True, ME.upper(), (AUDIENCE,)), "forbidden", "--allowed-controller-sa"),
    "another's, of another audience": ("tok", Review(True, OTHER), "unauth", "is not accepted"),
}


@pytest.mark.parametrize(("token", "review", "result", "says"), VERDICTS.values(), ids=VERDICTS)
def test_each_verdict_says_what_to_do(token: str, review: Review, result: str, says: str) -> None:
    verdict = access.decide(Asked(token=token, audience=AUDIENCE, account=ME, review=review))
    assert verdict.result == result
    assert says in verdict.message
    assert bool(verdict.message) == (result != "ok")
    assert "\n" not in verdict.message
    assert ME not in verdict.message, "whose token would do is not for strangers"


def test_tokens_for_policies_are_others() -> None:
    rules = Rules(account=ME, controller_audience="c", policy_audience="p")
    endpoints: list[access.Endpoint] = ["snapshot", "probe", "intake", "policy"]
    assert [rules.audience(one) for one in endpoints] == ["c", "c", "c", "p"]
