"""SubjectAccessReview and its relatives: bodies of authorization.k8s.io/v1 answered from an `Authorizer`.

Nothing is stored; each function returns the object sent, completed by its status.
"""

from typing import Any

from devkube.access.rbac import Authorizer, Question, faults
from devkube.errors import About, Cause, bad_request, invalid
from devkube.kinds import Object
from devkube.requests import User

GROUP = "authorization.k8s.io"
_ASKED = ("verb", "group", "resource", "subresource", "namespace", "name", "path")


def subject_access_review(authorizer: Authorizer, obj: Object, namespace: str = "") -> Object:
    """Also the local one, which is about its `namespace` only."""
    spec = obj.get("spec") or {}
    if not spec.get("user") and not spec.get("groups"):
        raise _refused(obj, "spec.user", "at least one of user or group must be specified")
    if namespace and (spec.get("resourceAttributes") or {}).get("namespace") != namespace:
        raise bad_request(f"spec.resourceAttributes.namespace must match namespace: {namespace}")
    return _answered(authorizer, obj, User(spec.get("user") or "", groups=tuple(spec.get("groups") or ())))


def self_subject_access_review(authorizer: Authorizer, obj: Object, user: User) -> Object:
    return _answered(authorizer, obj, user)


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


def _answered(authorizer: Authorizer, obj: Object, user: User) -> Object:
    spec = obj.get("spec") or {}
    given: list[Any] = [spec.get(key) for key in ("resourceAttributes", "nonResourceAttributes")]
    if sum(one is not None for one in given) != 1:
        text = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        raise _refused(obj, "spec.resourceAttributes", text)
    asked = given[0] if given[0] is not None else given[1]
    decision = authorizer.decide(Question(user, **{"verb": "", **{k: asked[k] for k in _ASKED if asked.get(k)}}))
    status = {"allowed": decision.allowed, **({"reason": decision.reason} if decision.reason else {})}
    return {**obj, "metadata": obj.get("metadata") or {}, "status": status}


def _refused(obj: Object, path: str, text: str) -> Exception:
    return invalid(About(GROUP, "", "", obj["kind"]), [Cause("FieldValueInvalid", f"Invalid value: {text}", path)])
