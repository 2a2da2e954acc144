"""The Authorization header -> User, or 401; and the headers by which a user asks as somebody else.

Three kinds of bearer tokens: the admin's, those of a file (kube-apiserver's CSV: token,user,uid,"group1,group2"), and
ServiceAccount tokens signed here. A request without a bearer token is system:anonymous and meets RBAC as such, as with
upstream's defaults; where everything is allowed there is nobody anonymous, also as upstream. A token that is none of
ours is a 401 and never anonymous.

From upstream: `apiserver/pkg/authentication`, `pkg/serviceaccount/claims.go`, `endpoints/filters/impersonation`.
"""

import csv
import hmac
from collections.abc import Iterable, Mapping, Sequence

from devkube.access import rules
from devkube.access.objects import Objects
from devkube.access.rbac import Authorizer
from devkube.access.rules import Question
from devkube.access.signing import BadSignature, Claims, NotOurs, Signer
from devkube.clock import Clock
from devkube.errors import bad_request, unauthorized
from devkube.requests import ADMIN, User

AUTHENTICATED, UNAUTHENTICATED = "system:authenticated", "system:unauthenticated"
ANONYMOUS = User("system:anonymous", groups=(UNAUTHENTICATED,))
_PREFIX = "system:serviceaccount:"
_LEEWAY = 60.0  # seconds by which clocks may differ


class TokenError(Exception):
    """Why a token is refused, in upstream's words; TokenReview tells it, a 401 does not."""


def read_token_file(lines: Iterable[str]) -> dict[str, User]:
    """ValueError names the line that has fewer than three columns or no token."""
    found: dict[str, User] = {}
    for number, row in enumerate(csv.reader(lines, skipinitialspace=True), 1):
        if not row or row[0].startswith("#"):
            continue
        if len(row) < 3 or not row[0] or not row[1]:
            raise ValueError(f'line {number} of the token file needs token,user,uid and may have "group1,group2"')
        groups = tuple(filter(None, row[3].split(","))) if len(row) > 3 else ()
        found[row[0]] = User(row[1], row[2], (*groups, AUTHENTICATED))
    return found


class Authenticator:
    def __init__(
        self,
        objects: Objects,
        signer: Signer,
        clock: Clock,
        admin_token: str,
        *,
        tokens: Mapping[str, User] | None = None,
        anonymous: bool = True,
    ) -> None:
        self._objects, self.signer, self._clock = objects, signer, clock
        self._admin, self._tokens, self._anonymous = admin_token.encode(), tokens or {}, anonymous

    @property
    def audiences(self) -> tuple[str, ...]:
        """For whom tokens are meant that are to be used at this server."""
        return (self.signer.issuer,)

    def user(self, authorization: str | None) -> User:
        """Of the header's value; StatusError 401 for a token that is not good here."""
        scheme, _, token = (authorization or "").strip().partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            if self._anonymous:
                return ANONYMOUS
            raise unauthorized()
        try:
            return self.token(token, self.audiences)[0]
        except (TokenError, NotOurs):
            raise unauthorized() from None

    def token(self, token: str, audiences: Sequence[str]) -> tuple[User, list[str]]:
        """Whose token it is, and for which of the `audiences` it is good. Raises NotOurs or TokenError."""
        if hmac.compare_digest(token.encode(errors="surrogateescape"), self._admin):
            return ADMIN, list(audiences)
        if (known := self._tokens.get(token)) is not None:
            return known, list(audiences)
        try:
            claims = self.signer.claims(token)
        except BadSignature as bad:
            raise TokenError(str(bad)) from None
        meant = list(claims.get("aud") or ())
        good = [one for one in meant if one in audiences]
        if not good:
            told = (
                f"token audiences {rules.quoted(meant)} is invalid for the target audiences {rules.quoted(audiences)}"
            )
            raise TokenError(told)
        return self._service_account(claims), good

    def _service_account(self, claims: Claims) -> User:
        now = self._clock.now().timestamp()
        if now > claims["exp"] + _LEEWAY:
            raise TokenError("service account token has expired")
        if now < claims["nbf"] - _LEEWAY:
            raise TokenError("service account token is not valid yet")
        own = claims["kubernetes.io"]
        namespace, account = own["namespace"], own["serviceaccount"]
        self._still_there(namespace, account)
        extra = {"authentication.kubernetes.io/credential-id": [f"JTI={claims['jti']}"]}
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED)
        return User(f"{_PREFIX}{namespace}:{account['name']}", account["uid"], groups, extra)

    def _still_there(self, namespace: str, account: Mapping[str, str]) -> None:
        """A token dies with its account; one of the same name with another uid is another."""
        found = self._objects.get("serviceaccounts", namespace, account["name"])
        if found is None:
            raise TokenError(f'serviceaccount "{account["name"]}" not found')
        meta = found["metadata"]
        if meta.get("uid") != account.get("uid"):
            raise TokenError(f"service account UID ({meta.get('uid')}) does not match claim ({account.get('uid')})")


def impersonated(user: User, headers: Iterable[tuple[str, str]], authorizer: Authorizer) -> User:
    """Who asks, after the Impersonate-* headers (`kubectl --as`). StatusError 403 when not allowed, 400 without."""
    asked = [(name.lower(), _text(value)) for name, value in headers if name.lower().startswith("impersonate-")]
    if not asked:
        return user
    name = next((value for key, value in asked if key == "impersonate-user"), "")
    groups = [value for key, value in asked if key == "impersonate-group"]
    if not name or any(key not in ("impersonate-user", "impersonate-group") for key, _ in asked):
        raise bad_request("devkube impersonates by Impersonate-User, with Impersonate-Group beside it, and no further")
    parts = name.removeprefix(_PREFIX).split(":")
    account = name.startswith(_PREFIX) and len(parts) == 2
    if account:
        authorizer.require(Question(user, "impersonate", resource="serviceaccounts", namespace=parts[0], name=parts[1]))
    else:
        authorizer.require(Question(user, "impersonate", resource="users", name=name))
    for group in groups:
        authorizer.require(Question(user, "impersonate", resource="groups", name=group))
    if account and not groups:
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{parts[0]}"]
    if name == ANONYMOUS.name:
        groups += [UNAUTHENTICATED] if UNAUTHENTICATED not in groups else []
    elif not {AUTHENTICATED, UNAUTHENTICATED} & set(groups):
        groups.append(AUTHENTICATED)
    return User(name, groups=tuple(groups))


def _text(header: str) -> str:
    """Bytes that are no UTF-8 arrive as lone surrogates, which no answer could carry."""
    return header.encode(errors="surrogateescape").decode(errors="replace")
