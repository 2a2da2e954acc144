"""SubjectAccessReview and relatives: what they ask, what they answer, what they refuse."""

import pytest

from devkube.access import reviews
from devkube.access.rbac import Authorizer
from devkube.clock import Clock
from devkube.errors import StatusError
from devkube.requests import ADMIN, User

JANE = User("jane", groups=("dev",))
GET_PODS = {"verb": "get", "resource": "pods", "namespace": "ns"}


def body(kind: str, spec, **meta):
    return {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "metadata": meta, "spec": spec}


@pytest.fixture
def held(cluster, rule):
    cluster.role("reader", rule("get list", "pods"), rule("get", "secrets", names="a"), namespace="ns")
    cluster.bind("reader", {"kind": "Group", "name": "dev"}, namespace="ns", name="devs")
    return cluster


def test_may_somebody(held) -> None:
    asked = body("SubjectAccessReview", {"user": "x", "groups": ["dev"], "resourceAttributes": GET_PODS})
    found = reviews.subject_access_review(held.authorizer, asked)
    reason = 'RBAC: allowed by RoleBinding "devs/ns" of Role "reader" to Group "dev"'
    assert found == {**asked, "status": {"allowed": True, "reason": reason}}


def test_may_i(held) -> None:
    asked = body("SelfSubjectAccessReview", {"resourceAttributes": {**GET_PODS, "verb": "delete"}})
    assert reviews.self_subject_access_review(held.authorizer, asked, JANE)["status"] == {"allowed": False}
    assert reviews.self_subject_access_review(held.authorizer, asked, ADMIN)["status"] == {"allowed": True}


def test_may_i_a_path(cluster, rule) -> None:
    cluster.role("m", rule("get", urls="/metrics"))
    cluster.bind("m", {"kind": "User", "name": "jane"})
    asked = body("SelfSubjectAccessReview", {"nonResourceAttributes": {"verb": "get", "path": "/metrics"}})
    assert reviews.self_subject_access_review(cluster.authorizer, asked, JANE)["status"]["allowed"] is True


def test_may_somebody_here(held) -> None:
    asked = body("LocalSubjectAccessReview", {"groups": ["dev"], "resourceAttributes": GET_PODS}, namespace="ns")
    assert reviews.subject_access_review(held.authorizer, asked, "ns")["status"]["allowed"] is True
    with pytest.raises(StatusError, match="must match namespace: x"):
        reviews.subject_access_review(held.authorizer, asked, "x")


def test_what_may_i(held) -> None:
    held.bind("gone", {"kind": "Group", "name": "dev"}, namespace="ns")
    found = reviews.self_subject_rules_review(
        held.authorizer, body("SelfSubjectRulesReview", {"namespace": "ns"}), JANE
    )
    assert found["status"] == {
        "resourceRules": [
            {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]},
            {"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a"]},
        ],
        "nonResourceRules": [],
        "incomplete": False,
        "evaluationError": 'role.rbac.authorization.k8s.io "gone" not found',
    }
    with pytest.raises(StatusError, match="no namespace on request"):
        reviews.self_subject_rules_review(held.authorizer, body("SelfSubjectRulesReview", {}), JANE)


def test_what_may_i_where_everything_is_allowed(cluster) -> None:
    everything = Authorizer(cluster.store, "AlwaysAllow")
    asked = body("SelfSubjectRulesReview", {"namespace": "ns"})
    status = reviews.self_subject_rules_review(everything, asked, JANE)["status"]
    assert status["resourceRules"] == [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]
    assert status["nonResourceRules"] == [{"verbs": ["*"], "nonResourceURLs": ["*"]}]


@pytest.mark.parametrize(
    ("spec", "field", "text"),
    [
        ({"user": "x"}, "spec.resourceAttributes", "exactly one of nonResourceAttributes or resourceAttributes"),
        (
            {"user": "x", "resourceAttributes": {}, "nonResourceAttributes": {}},
            "spec.resourceAttributes",
            "exactly one of",
        ),
        ({"resourceAttributes": {}}, "spec.user", "at least one of user or group must be specified"),
    ],
)
def test_questions_nobody_answers(cluster, spec, field: str, text: str) -> None:
    with pytest.raises(StatusError, match=text) as caught:
        reviews.subject_access_review(cluster.authorizer, body("SubjectAccessReview", spec))
    assert (caught.value.code, caught.value.causes[0].field) == (422, field)


def test_who_am_i() -> None:
    user = User("jane", "7", ("dev",), {"a/b": ["c"]})
    found = reviews.self_subject_review({"kind": "SelfSubjectReview"}, user, Clock())
    assert found["status"] == {"userInfo": {"username": "jane", "uid": "7", "groups": ["dev"], "extra": {"a/b": ["c"]}}}
