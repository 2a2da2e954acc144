"""SubjectAccessReview and its relatives: bodies of authorization.k8s.io/v1 answered from an `Authorizer`.

Nothing is stored; each function returns the object sent, completed by its status (a SelfSubjectRulesReview comes back
without its spec, as upstream). Checks and texts are those of `pkg/apis/authorization/validation`.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from devkube.access.rbac import Authorizer
from devkube.access.rules import Question, Rule
from devkube.errors import About, Cause, bad_request, invalid
from devkube.kinds import Object
from devkube.requests import User

GROUP = "authorization.k8s.io"


def subject_access_review(authorizer: Authorizer, obj: Object, namespace: str = "") -> Object:
    """Also the local one, which is about its `namespace` only."""
    spec = obj.get("spec") or {}
    _refuse(_spec_causes(spec, subject=True))
    if namespace and (spec.get("resourceAttributes") or {}).get("namespace") != namespace:
        raise bad_request(f"spec.resourceAttributes.namespace must match namespace: {namespace}")
    return _answered(authorizer, obj, _question(spec, _subject(spec)))


def self_subject_access_review(authorizer: Authorizer, obj: Object, user: User) -> Object:
    spec = obj.get("spec") or {}
    _refuse(_spec_causes(spec, subject=False))
    return _answered(authorizer, obj, _question(spec, user))


def self_subject_rules_review(authorizer: Authorizer, obj: Object, user: User) -> Object:
    """What `kubectl auth can-i --list` prints."""
    namespace = (obj.get("spec") or {}).get("namespace") or ""
    if not namespace:
        raise bad_request("no namespace on request")
    if authorizer.mode == "AlwaysAllow":
        rules: tuple[Rule, ...] = (Rule(("*",), ("*",), ("*",)), Rule(("*",), urls=("*",)))
        errors: list[str] = []
    else:
        rules = authorizer.policy.rules(user, namespace)
        errors = authorizer.policy.errors(user, namespace)
    status: Object = {
        "resourceRules": [_resource_rule(rule) for rule in rules if rule.resources],
        "nonResourceRules": [
            {"verbs": list(rule.verbs), "nonResourceURLs": list(rule.urls)} for rule in rules if rule.urls
        ],
        "incomplete": False,
    }
    if errors:
        status["evaluationError"] = errors[0] if len(errors) == 1 else "[" + ", ".join(errors) + "]"
    return {"kind": obj["kind"], "apiVersion": obj["apiVersion"], "metadata": {}, "spec": {}, "status": status}


def _resource_rule(rule: Rule) -> Object:
    found = {"verbs": rule.verbs, "apiGroups": rule.groups, "resources": rule.resources, "resourceNames": rule.names}
    return {key: list(values) for key, values in found.items() if values}


def _answered(authorizer: Authorizer, obj: Object, question: Question) -> Object:
    decision = authorizer.decide(question)
    status: Object = {"allowed": decision.allowed}
    if decision.reason:
        status["reason"] = decision.reason
    return {**obj, "metadata": obj.get("metadata") or {}, "status": status}


def _subject(spec: Mapping[str, Any]) -> User:
    return User(
        name=spec.get("user") or "",
        uid=spec.get("uid") or "",
        groups=tuple(spec.get("groups") or ()),
        extra=spec.get("extra") or {},
    )


def _question(spec: Mapping[str, Any], user: User) -> Question:
    asked = spec.get("resourceAttributes")
    if asked is None:
        other = spec["nonResourceAttributes"]
        return Question(user, other.get("verb") or "", path=other.get("path") or "")
    return Question(
        user,
        verb=asked.get("verb") or "",
        group=asked.get("group") or "",
        resource=asked.get("resource") or "",
        subresource=asked.get("subresource") or "",
        namespace=asked.get("namespace") or "",
        name=asked.get("name") or "",
    )


def _spec_causes(spec: Mapping[str, Any], *, subject: bool) -> list[Cause]:
    causes: list[Cause] = []
    resource, other = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is not None and other is not None:
        path = "spec.nonResourceAttributes"
        causes.append(_cause(path, other, "cannot be specified in combination with resourceAttributes"))
    if resource is None and other is None:
        text = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        causes.append(_cause("spec.resourceAttributes", None, text))
    if subject and not spec.get("user") and not spec.get("groups"):
        causes.append(_cause("spec.user", "", "at least one of user or group must be specified"))
    return causes


def _cause(path: str, value: object, text: str) -> Cause:
    return Cause("FieldValueInvalid", f"Invalid value: {msgspec.json.encode(value).decode()}: {text}", path)


def _refuse(causes: list[Cause]) -> None:
    if causes:
        raise invalid(About(GROUP, ""), causes)  # upstream forgets the kind here
