"""The Authorization header -> User, or 401; and the headers by which a user asks as somebody else.

There are the admin's bearer token and those of ServiceAccounts: JWTs of which this process remembers that it issued
them, so that no signature has to be verified. A request without a bearer token is system:anonymous and meets RBAC as
such. A token that is none of ours is a 401 and never anonymous.
"""

import base64
import hmac
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from devkube.access.rbac import Authorizer, Question
from devkube.clock import Clock
from devkube.errors import bad_request, unauthorized
from devkube.requests import ADMIN, User
from devkube.store import Store

AUTHENTICATED, UNAUTHENTICATED = "system:authenticated", "system:unauthenticated"
ANONYMOUS = User("system:anonymous", groups=(UNAUTHENTICATED,))
ISSUER = "https://kubernetes.default.svc.cluster.local"  # also the audience of tokens that are to be used here
_ACCOUNT = "system:serviceaccount:"


class TokenError(Exception):
    """Why a token is refused; TokenReview tells it, a 401 does not."""


class Authenticator:
    def __init__(self, store: Store, clock: Clock, admin_token: str) -> None:
        self.store, self.clock, self._admin = store, clock, admin_token.encode()
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._issued: dict[str, dict[str, Any]] = {}  # token -> its claims

    def issue(self, claims: dict[str, Any]) -> str:
        """A JWT, signed with ES256, which clients may look into."""
        parts = ({"alg": "ES256", "typ": "JWT"}, {**claims, "iss": ISSUER})
        content = ".".join(_base64(msgspec.json.encode(part)) for part in parts)
        numbers = decode_dss_signature(self._key.sign(content.encode(), ec.ECDSA(hashes.SHA256())))
        token = f"{content}.{_base64(b''.join(number.to_bytes(32, 'big') for number in numbers))}"
        self._issued[token] = claims
        return token

    def user(self, authorization: str | None) -> User:
        """Of the header's value; StatusError 401 for a token that is not good here."""
        scheme, _, token = (authorization or "").strip().partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            return ANONYMOUS
        try:
            return self.token(token.strip(), [ISSUER])[0]
        except TokenError:
            raise unauthorized() from None

    def token(self, token: str, audiences: Sequence[str]) -> tuple[User, list[str]]:
        """Whose token it is, and for which of the `audiences` it is good. A token dies with its account, also when
        another of the same name takes its place."""
        if hmac.compare_digest(token.encode(errors="surrogateescape"), self._admin):
            return ADMIN, list(audiences)
        claims = self._issued.get(token)
        if claims is None:
            raise TokenError("invalid bearer token")
        good = [one for one in claims["aud"] if one in audiences]
        if not good:
            raise TokenError(f"token audiences {claims['aud']} is invalid for the target audiences {list(audiences)}")
        if self.clock.now().timestamp() > claims["exp"]:
            raise TokenError("service account token has expired")
        namespace, account = (claims["kubernetes.io"][key] for key in ("namespace", "serviceaccount"))
        found = self.store.get("serviceaccounts", namespace, account["name"])
        if found is None or found.uid != account["uid"]:
            raise TokenError(f'serviceaccount "{account["name"]}" of UID {account["uid"]} not found')
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED)
        extra = {"authentication.kubernetes.io/credential-id": [f"JTI={claims['jti']}"]}
        return User(f"{_ACCOUNT}{namespace}:{account['name']}", account["uid"], groups, extra), good


def _base64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def impersonated(user: User, headers: Iterable[tuple[str, str]], authorizer: Authorizer) -> User:
    """Who asks, after the Impersonate-* headers (`kubectl --as`). StatusError 403 when not allowed, 400 without."""
    asked: dict[str, list[str]] = {}
    for key, value in headers:
        if key.lower().startswith("impersonate-"):
            # Bytes that are no UTF-8 arrive as lone surrogates, which no answer could carry.
            text = value.encode(errors="surrogateescape").decode(errors="replace")
            asked.setdefault(key.lower(), []).append(text)
    if not asked:
        return user
    name, groups = asked.pop("impersonate-user", [""])[0], asked.pop("impersonate-group", [])
    if not name or asked:
        raise bad_request("devkube impersonates by Impersonate-User, with Impersonate-Group beside it, and no further")
    home, _, account = name.removeprefix(_ACCOUNT).partition(":")
    if name.startswith(_ACCOUNT) and account:
        who = Question(user, "impersonate", resource="serviceaccounts", namespace=home, name=account)
        usual = ["system:serviceaccounts", f"system:serviceaccounts:{home}"]
    else:
        who, usual = Question(user, "impersonate", resource="users", name=name), []
    for question in (who, *(Question(user, "impersonate", resource="groups", name=group) for group in groups)):
        authorizer.require(question)
    state = UNAUTHENTICATED if name == ANONYMOUS.name else AUTHENTICATED
    return User(name, groups=tuple(dict.fromkeys([*(groups or usual), state])))
