"""Authorization header -> user; ServiceAccount tokens with all they are bound to; impersonation."""

import base64
import json

import pytest

from devkube.access import authn, reviews
from devkube.access.authn import ANONYMOUS, ISSUER, Authenticator, TokenError
from devkube.clock import Clock
from devkube.errors import StatusError
from devkube.requests import ADMIN, User


class Place:
    """A cluster with an account, and who authenticates there."""

    def __init__(self, cluster) -> None:
        self.cluster, self.clock = cluster, Clock()
        self.clock.freeze()
        self.authenticator = Authenticator(cluster.store, self.clock, "s3cret")
        cluster.put("ServiceAccount", "builder", "ns")

    def request(self, name: str = "builder", **spec) -> dict:
        body = {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": spec}
        return reviews.token_request(self.authenticator, "ns", name, body)

    def token(self, **spec) -> str:
        return self.request(**spec)["status"]["token"]

    def user(self, token: str) -> User:
        return self.authenticator.user(f"Bearer {token}")

    def refused(self, token: str) -> str:
        with pytest.raises(StatusError) as caught:
            self.user(token)
        assert (caught.value.code, caught.value.message) == (401, "Unauthorized")
        with pytest.raises(TokenError) as why:
            self.authenticator.token(token, [ISSUER])
        return str(why.value)

    def review(self, token: str, **spec) -> dict:
        body = {"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "spec": {"token": token, **spec}}
        return reviews.token_review(self.authenticator, body)["status"]


@pytest.fixture
def place(cluster) -> Place:
    return Place(cluster)


@pytest.mark.parametrize("header", [None, "", "Basic abc", "Bearer", "Bearer  "])
def test_without_a_bearer_token_one_is_anonymous(place, header) -> None:
    assert place.authenticator.user(header) == ANONYMOUS


def test_known_tokens(place) -> None:
    assert place.user("s3cret") == ADMIN
    assert place.authenticator.user("bearer s3cret") == ADMIN


@pytest.mark.parametrize("token", ["nope", "a.b.c", "ключ", "\udcff", "s3cre", "eyJhbGciOiJub25lIn0.e30."])
def test_any_other_token_is_a_401(place, token: str) -> None:
    with pytest.raises(StatusError) as caught:
        place.user(token)
    assert caught.value.code == 401


def test_an_account_by_its_token(place) -> None:
    user = place.user(place.token())
    assert (user.name, user.uid) == ("system:serviceaccount:ns:builder", "uid-builder")
    assert user.groups == ("system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated")
    assert user.extra["authentication.kubernetes.io/credential-id"][0].startswith("JTI=")


def test_a_token_is_good_until_it_expires(place) -> None:
    token = place.token(expirationSeconds=600)
    place.clock.advance(599)
    place.user(token)
    place.clock.advance(2)
    assert place.refused(token) == "service account token has expired"


def test_a_token_dies_with_its_account(place) -> None:
    token = place.token()
    place.cluster.drop("serviceaccounts", "ns", "builder")
    assert place.refused(token) == 'serviceaccount "builder" of UID uid-builder not found'
    place.cluster.put("ServiceAccount", "builder", "ns", meta={"uid": "another"})
    assert place.refused(token) == 'serviceaccount "builder" of UID uid-builder not found'


def test_a_token_that_was_tampered_with_is_nobodys(place) -> None:
    head, claims, signature = place.token().split(".")
    other = base64.urlsafe_b64encode(json.dumps({"iss": ISSUER, "sub": "root"}).encode()).rstrip(b"=").decode()
    for token in (f"{head}.{other}.{signature}", f"{head}.{claims}.", f"{head}.{claims}"):
        assert place.refused(token) == "invalid bearer token"


def test_a_token_request_comes_back_completed(place) -> None:
    found = place.request(audiences=["prod"], expirationSeconds=601)
    assert found["spec"] == {"audiences": ["prod"], "expirationSeconds": 601}
    assert found["status"]["expirationTimestamp"] == place.clock.after(601)
    assert {k: found["metadata"][k] for k in ("name", "namespace", "uid")} == {
        "name": "builder",
        "namespace": "ns",
        "uid": "uid-builder",
    }
    payload = found["status"]["token"].split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(payload + "=="))
    assert (claims["iss"], claims["aud"], claims["exp"] - claims["iat"]) == (ISSUER, ["prod"], 601)
    assert claims["kubernetes.io"] == {"namespace": "ns", "serviceaccount": {"name": "builder", "uid": "uid-builder"}}


@pytest.mark.parametrize(("seconds", "text"), [(599, "less than 10 minutes"), (2**32 + 1, "larger than 2")])
def test_lifetimes_nobody_gets(place, seconds: int, text: str) -> None:
    with pytest.raises(StatusError, match=text) as caught:
        place.token(expirationSeconds=seconds)
    assert (caught.value.code, caught.value.causes[0].field) == (422, "spec.expirationSeconds")


def test_no_token_for_nobody(place) -> None:
    with pytest.raises(StatusError, match='serviceaccounts "nobody" not found'):
        place.request("nobody")


def test_reviews(place) -> None:
    token = place.token(audiences=["prod"])
    assert "invalid for the target audiences" in place.refused(token)
    assert place.review(token)["error"].startswith("token audiences ['prod'] is invalid")
    found = place.review(token, audiences=["prod", "test"])
    assert (found["authenticated"], found["audiences"]) == (True, ["prod"])
    assert found["user"]["username"] == "system:serviceaccount:ns:builder"
    assert place.review("s3cret")["audiences"] == [ISSUER]
    assert place.review("nope") == {"user": {}, "error": "invalid bearer token"}
    with pytest.raises(StatusError, match="token is required"):
        place.review("")


# ------------------------------------------------------------------------------------------------ kubectl --as


@pytest.mark.parametrize(
    ("headers", "user"),
    [
        ([("Impersonate-User", "ann")], User("ann", "", ("system:authenticated",))),
        (
            [("Impersonate-User", "ann"), ("Impersonate-Group", "a"), ("Impersonate-Group", "b")],
            User("ann", "", ("a", "b", "system:authenticated")),
        ),
        (
            [("impersonate-user", "system:serviceaccount:ns:x")],
            User(
                "system:serviceaccount:ns:x",
                "",
                ("system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"),
            ),
        ),
        ([("Impersonate-User", "system:anonymous")], ANONYMOUS),
        ([("Impersonate-User", "a\udcff")], User("a\ufffd", "", ("system:authenticated",))),
        ([("X-Other", "1")], ADMIN),
    ],
    ids=["user", "groups", "account", "anonymous", "no text", "nobody"],
)
def test_impersonation(cluster, headers, user: User) -> None:
    assert authn.impersonated(ADMIN, headers, cluster.authorizer) == user


def test_impersonation_is_a_permission(cluster, rule) -> None:
    jane = User("jane")
    headers = [("Impersonate-User", "ann"), ("Impersonate-Group", "ops")]
    with pytest.raises(StatusError, match=r'users "ann" is forbidden: User "jane" cannot impersonate resource "users"'):
        authn.impersonated(jane, headers, cluster.authorizer)
    cluster.role("as-ann", rule("impersonate", "users", names="ann"))
    cluster.bind("as-ann", {"kind": "User", "name": "jane"})
    assert authn.impersonated(jane, headers[:1], cluster.authorizer).name == "ann"
    with pytest.raises(StatusError, match='groups "ops" is forbidden'):
        authn.impersonated(jane, headers, cluster.authorizer)


def test_groups_without_a_user(cluster) -> None:
    with pytest.raises(StatusError) as caught:
        authn.impersonated(ADMIN, [("Impersonate-Group", "x")], cluster.authorizer)
    assert caught.value.code == 400
