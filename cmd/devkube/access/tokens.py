"""TokenRequest, TokenReview and SelfSubjectReview: authentication.k8s.io/v1, nothing of it stored."""

import uuid

from devkube.access.authn import ISSUER, Authenticator, TokenError
from devkube.access.objects import Objects
from devkube.clock import Clock
from devkube.errors import About, Cause, bad_request, invalid, not_found
from devkube.kinds import Object
from devkube.requests import User

_SHORTEST, _LONGEST, _USUAL = 600, 1 << 32, 3600  # seconds


def token_request(
    authenticator: Authenticator, objects: Objects, clock: Clock, namespace: str, name: str, obj: Object
) -> Object:
    """The TokenRequest completed by its status: a token for the audiences asked for, by default this server."""
    spec = obj.get("spec") or {}
    account = objects.get("serviceaccounts", namespace, name)
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
    audiences, uid, now = list(spec.get("audiences") or [ISSUER]), account["metadata"]["uid"], clock.now().timestamp()
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
