"""TokenRequest, TokenReview and SelfSubjectReview: authentication.k8s.io/v1, nothing of it stored.

A ServiceAccount's token is for the audiences asked for, by default this server; it dies with the account. Bound to
Pods, Secrets or Nodes are none. Texts are those of upstream's `serviceaccount/storage/token.go`. Secrets of type
kubernetes.io/service-account-token are not filled.
"""

import uuid
from typing import Any

from devkube.access.authn import Authenticator, TokenError
from devkube.access.objects import Objects
from devkube.access.signing import NotOurs
from devkube.clock import Clock
from devkube.errors import About, Cause, bad_request, conflict, invalid, not_found
from devkube.kinds import Object
from devkube.requests import User

GROUP = "authentication.k8s.io"
_SHORTEST, _LONGEST, _USUAL = 600, 1 << 32, 3600  # seconds


def token_request(
    authenticator: Authenticator, objects: Objects, clock: Clock, namespace: str, name: str, obj: Object
) -> Object:
    """The TokenRequest completed by its status."""
    meta, spec = obj.get("metadata") or {}, obj.get("spec") or {}
    about = About(GROUP, "tokenrequests", name, "TokenRequest")
    for key, want in (("name", name), ("namespace", namespace)):
        if meta.get(key) and meta[key] != want:
            text = f"must match the service account {key} if specified"
            raise invalid(about, [_wrong(f"metadata.{key}", meta[key], text)])
    account = objects.get("serviceaccounts", namespace, name)
    if account is None:
        raise not_found(About("", "serviceaccounts", name))
    uid = account["metadata"]["uid"]
    if meta.get("uid") not in (None, "", uid):
        told = f"the UID in the token request ({meta['uid']}) does not match the UID of the service account ({uid})"
        raise conflict(About(GROUP, "TokenRequest", name), told)
    if spec.get("boundObjectRef"):
        raise bad_request("devkube binds tokens to their ServiceAccount only: leave spec.boundObjectRef out")
    seconds = spec.get("expirationSeconds")
    seconds = _USUAL if seconds is None else seconds
    if not _SHORTEST <= seconds <= _LONGEST:
        text = "may not specify a duration less than 10 minutes"
        if seconds > _LONGEST:
            text = "may not specify a duration larger than 2^32 seconds"
        about = About(GROUP, "", "", "TokenRequest")
        raise invalid(about, [_wrong("spec.expirationSeconds", seconds, text)])
    audiences = list(spec.get("audiences") or authenticator.audiences)
    now = clock.now().timestamp()
    own: dict[str, Any] = {"namespace": namespace, "serviceaccount": {"name": name, "uid": uid}}
    token = authenticator.signer.sign(
        {
            "aud": audiences,
            "exp": int(now) + seconds,
            "iat": int(now),
            "jti": str(uuid.uuid4()),
            "kubernetes.io": own,
            "nbf": int(now),
            "sub": f"system:serviceaccount:{namespace}:{name}",
        }
    )
    return {
        **obj,
        "metadata": {**meta, "name": name, "namespace": namespace, "uid": uid, "creationTimestamp": clock.timestamp()},
        "spec": {"boundObjectRef": None, **spec, "audiences": audiences, "expirationSeconds": seconds},
        "status": {"token": token, "expirationTimestamp": clock.after(seconds)},
    }


def token_review(authenticator: Authenticator, obj: Object) -> Object:
    spec = obj.get("spec") or {}
    if not spec.get("token"):
        raise bad_request("token is required for TokenReview in authentication")
    status: Object
    try:
        user, audiences = authenticator.token(spec["token"], spec.get("audiences") or authenticator.audiences)
    except NotOurs:
        status = {"user": {}, "error": "invalid bearer token"}
    except TokenError as wrong:
        status = {"user": {}, "error": f"[invalid bearer token, {wrong}]"}
    else:
        status = {"authenticated": True, "user": user_info(user), "audiences": audiences}
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


def _wrong(path: str, value: object, text: str) -> Cause:
    shown = f'"{value}"' if isinstance(value, str) else str(value)
    return Cause("FieldValueInvalid", f"Invalid value: {shown}: {text}", path)
