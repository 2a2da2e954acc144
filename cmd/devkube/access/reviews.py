"""Who asks and what he may, as objects: bodies of authentication.k8s.io/v1 and authorization.k8s.io/v1.

Nothing is stored; each function returns the object sent, completed by its status.
"""

import uuid

from devkube.access.authn import ISSUER, Authenticator, TokenError
from devkube.access.rbac import Authorizer, Question, faults
from devkube.clock import Clock
from devkube.errors import About, Cause, bad_request, invalid, not_found
from devkube.kinds import Object
from devkube.requests import User

_SHORTEST, _LONGEST, _USUAL = 600, 1 << 32, 3600  # seconds
_ASKED = ("verb", "group", "resource", "subresource", "namespace", "name", "path")


def token_request(authenticator: Authenticator, namespace: str, name: str, obj: Object) -> Object:
    """The TokenRequest completed by its status: a token for the audiences asked for, by default this server."""
    spec, clock = obj.get("spec") or {}, authenticator.clock
    account = authenticator.store.get("serviceaccounts", namespace, name)
    if account is None:
        raise not_found(About("", "serviceaccounts", name))
    if spec.get("boundObjectRef"):
        raise bad_request("devkube binds tokens to their ServiceAccount only: leave spec.boundObjectRef out")
    seconds = spec.get("expirationSeconds")
    seconds = _USUAL if seconds is None else seconds
    if not _SHORTEST <= seconds <= _LONGEST:
        limit = "less than 10 minutes" if seconds < _SHORTEST else "larger than 2^32 seconds"
        told = f"Invalid value: {seconds}: may not specify a duration {limit}"
        cause = Cause("FieldValueInvalid", told, "spec.expirationSeconds")
        raise invalid(About("authentication.k8s.io", "", "", "TokenRequest"), [cause])
    audiences, uid, now = list(spec.get("audiences") or [ISSUER]), account.uid, clock.now().timestamp()
    claims = {
        "aud": audiences,
        "exp": int(now) + seconds,
        "iat": int(now),
        "jti": str(uuid.uuid4()),
        "kubernetes.io": {"namespace": namespace, "serviceaccount": {"name": name, "uid": uid}},
        "nbf": int(now),
        "sub": f"system:serviceaccount:{namespace}:{name}",
    }
    meta = {"name": name, "namespace": namespace, "uid": uid, "creationTimestamp": clock.timestamp()}
    return {
        **obj,
        "metadata": {**(obj.get("metadata") or {}), **meta},
        "spec": {**spec, "audiences": audiences, "expirationSeconds": seconds},
        "status": {"token": authenticator.issue(claims), "expirationTimestamp": clock.after(seconds)},
    }


def token_review(authenticator: Authenticator, obj: Object) -> Object:
    spec = obj.get("spec") or {}
    if not spec.get("token"):
        raise bad_request("token is required for TokenReview in authentication")
    status: Object
    try:
        user, audiences = authenticator.token(spec["token"], spec.get("audiences") or [ISSUER])
        status = {"authenticated": True, "user": user_info(user), "audiences": audiences}
    except TokenError as wrong:
        status = {"user": {}, "error": str(wrong)}
    return {**obj, "metadata": obj.get("metadata") or {}, "status": status}


def self_subject_review(obj: Object, user: User, clock: Clock) -> Object:
    """`kubectl auth whoami`."""
    meta = {"creationTimestamp": clock.timestamp()}
    return {**obj, "metadata": meta, "status": {"userInfo": user_info(user)}}


def user_info(user: User) -> Object:
    """authentication.k8s.io/v1 UserInfo; admission reviews carry it too."""
    found = {
        "username": user.name,
        "uid": user.uid,
        "groups": list(user.groups),
        "extra": {key: list(values) for key, values in user.extra.items()},
    }
    return {key: value for key, value in found.items() if value}


def subject_access_review(authorizer: Authorizer, obj: Object, namespace: str = "") -> Object:
    """Also the local one, which is about its `namespace` only."""
    spec = obj.get("spec") or {}
    if not spec.get("user") and not spec.get("groups"):
        raise _refused(obj, "spec.user", "at least one of user or group must be specified")
    if namespace and (spec.get("resourceAttributes") or {}).get("namespace") != namespace:
        raise bad_request(f"spec.resourceAttributes.namespace must match namespace: {namespace}")
    user = User(spec.get("user") or "", groups=tuple(spec.get("groups") or ()))
    return self_subject_access_review(authorizer, obj, user)


def self_subject_access_review(authorizer: Authorizer, obj: Object, user: User) -> Object:
    """What `kubectl auth can-i` asks."""
    spec = obj.get("spec") or {}
    given = [spec[key] for key in ("resourceAttributes", "nonResourceAttributes") if spec.get(key) is not None]
    if len(given) != 1:
        text = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        raise _refused(obj, "spec.resourceAttributes", text)
    asked = {key: given[0][key] for key in _ASKED if given[0].get(key)}
    decision = authorizer.decide(Question(user, **{"verb": "", **asked}))
    status = {"allowed": decision.allowed, **({"reason": decision.reason} if decision.reason else {})}
    return {**obj, "metadata": obj.get("metadata") or {}, "status": status}


def self_subject_rules_review(authorizer: Authorizer, obj: Object, user: User) -> Object:
    """What `kubectl auth can-i --list` prints."""
    namespace = (obj.get("spec") or {}).get("namespace") or ""
    if not namespace:
        raise bad_request("no namespace on request")
    grants = authorizer.grants(user, namespace)
    rules = [rule for grant in grants for rule in grant.rules or ()]
    if authorizer.mode == "AlwaysAllow":
        rules = [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}, {"verbs": ["*"], "nonResourceURLs": ["*"]}]
    status: Object = {
        "resourceRules": [rule for rule in rules if rule.get("resources")],
        "nonResourceRules": [rule for rule in rules if rule.get("nonResourceURLs")],
        "incomplete": False,
    }
    if told := faults(grants):
        status["evaluationError"] = told
    return {**obj, "metadata": {}, "spec": {}, "status": status}


def _refused(obj: Object, path: str, text: str) -> Exception:
    return invalid(
        About("authorization.k8s.io", "", "", obj["kind"]), [Cause("FieldValueInvalid", f"Invalid value: {text}", path)]
    )
