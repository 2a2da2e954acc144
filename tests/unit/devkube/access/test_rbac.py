"""Decisions from Role, ClusterRole and binding objects: who is meant, where, by which rule, and what a 403 says."""

import pytest

from devkube.access.rbac import Authorizer, Question
from devkube.errors import StatusError
from devkube.requests import ADMIN, User

JANE = User("jane", groups=("dev", "system:authenticated"))
BUILDER = User("system:serviceaccount:ns:builder", groups=("system:serviceaccounts", "system:serviceaccounts:ns"))
USER_JANE = {"kind": "User", "name": "jane"}


def pods(user: User, verb: str = "get", namespace: str = "ns", **more: str) -> Question:
    return Question(user, verb, resource="pods", namespace=namespace, **more)


def test_nobody_may_anything_at_first(cluster) -> None:
    decision = cluster.authorizer.decide(pods(JANE))
    assert (decision.allowed, decision.reason) == (False, "")


@pytest.mark.parametrize(
    ("subject", "user", "allowed"),
    [
        pytest.param(USER_JANE, JANE, True, id="user"),
        pytest.param({"kind": "User", "name": "john"}, JANE, False, id="another user"),
        pytest.param({"kind": "Group", "name": "dev"}, JANE, True, id="group"),
        pytest.param({"kind": "Group", "name": "jane"}, JANE, False, id="a group of the user's name"),
        pytest.param({"kind": "ServiceAccount", "name": "builder", "namespace": "ns"}, BUILDER, True, id="account"),
        pytest.param({"kind": "ServiceAccount", "name": "builder", "namespace": "x"}, BUILDER, False, id="elsewhere"),
        pytest.param({"kind": "ServiceAccount", "name": "builder"}, BUILDER, True, id="account of the binding's own"),
        pytest.param({"kind": "Group", "name": "system:serviceaccounts:ns"}, BUILDER, True, id="all accounts of ns"),
        pytest.param({"kind": "Robot", "name": "jane"}, JANE, False, id="no kind of subject"),
    ],
)
def test_subjects(cluster, rule, subject: dict[str, str], user: User, allowed: bool) -> None:
    cluster.role("reader", rule("get", "pods"), namespace="ns")
    cluster.bind("reader", subject, namespace="ns")
    assert cluster.authorizer.decide(pods(user)).allowed is allowed


def test_a_role_binding_reaches_into_its_namespace_only(cluster, rule) -> None:
    cluster.role("reader", rule("get", "pods"))
    cluster.bind("reader", USER_JANE, namespace="ns", kind="ClusterRole")
    asked = [pods(JANE), pods(JANE, namespace="other"), pods(JANE, namespace="")]
    assert [cluster.authorizer.decide(one).allowed for one in asked] == [True, False, False]


def test_a_cluster_role_binding_reaches_everywhere(cluster, rule) -> None:
    cluster.role("reader", rule("get", "pods"), rule("get", urls="/metrics"))
    cluster.bind("reader", USER_JANE)
    asked = [pods(JANE), pods(JANE, namespace=""), Question(JANE, "get", path="/metrics"), pods(JANE, "delete")]
    assert [cluster.authorizer.decide(one).allowed for one in asked] == [True, True, True, False]


def test_an_account_without_a_namespace_is_nobody_in_a_cluster_role_binding(cluster, rule) -> None:
    cluster.role("reader", rule("get", "pods"))
    cluster.bind("reader", {"kind": "ServiceAccount", "name": "builder"})
    assert not cluster.authorizer.decide(pods(BUILDER)).allowed


def test_reasons_name_binding_role_and_subject(cluster, rule) -> None:
    cluster.role("reader", rule("get", "pods"))
    cluster.bind("reader", USER_JANE, name="all")
    assert cluster.authorizer.decide(pods(JANE)).reason == (
        'RBAC: allowed by ClusterRoleBinding "all" of ClusterRole "reader" to User "jane"'
    )
    cluster.role("local", rule("list", "pods"), namespace="ns")
    cluster.bind("local", {"kind": "ServiceAccount", "name": "builder"}, namespace="ns", name="one")
    assert cluster.authorizer.decide(pods(BUILDER, "list")).reason == (
        'RBAC: allowed by RoleBinding "one/ns" of Role "local" to ServiceAccount "builder/ns"'
    )


def test_a_binding_without_its_role_is_told(cluster) -> None:
    cluster.bind("nope", USER_JANE)
    cluster.bind("gone", USER_JANE, namespace="ns")
    told = 'clusterrole.rbac.authorization.k8s.io "nope" not found', 'role.rbac.authorization.k8s.io "gone" not found'
    assert cluster.authorizer.decide(pods(JANE)).reason == f"RBAC: {told[0]}, {told[1]}"
    assert cluster.authorizer.decide(pods(JANE, namespace="")).reason == f"RBAC: {told[0]}"


def test_a_decision_follows_the_objects(cluster, rule) -> None:
    cluster.role("reader", rule("list", "pods"), namespace="ns")
    cluster.bind("reader", USER_JANE, namespace="ns")
    assert not cluster.authorizer.decide(pods(JANE)).allowed
    cluster.role("reader", rule("get", "pods"), namespace="ns")
    assert cluster.authorizer.decide(pods(JANE)).allowed
    cluster.drop("rolebindings.rbac.authorization.k8s.io", "ns", "reader-binding")
    assert not cluster.authorizer.decide(pods(JANE)).allowed


def test_masters_and_always_allow_need_no_objects(cluster) -> None:
    assert cluster.authorizer.decide(pods(ADMIN, "destroy")).allowed
    assert Authorizer(cluster.store, "AlwaysAllow").decide(pods(JANE)).allowed


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (
            pods(JANE, "list"),
            'pods is forbidden: User "jane" cannot list resource "pods" in API group "" in the namespace "ns"',
        ),
        (
            Question(JANE, "patch", "apps", "deployments", "scale", "ns", "web"),
            'deployments.apps "web" is forbidden: User "jane" cannot patch resource "deployments/scale" in API group '
            '"apps" in the namespace "ns"',
        ),
        (
            Question(JANE, "list", resource="nodes"),
            'nodes is forbidden: User "jane" cannot list resource "nodes" in API group "" at the cluster scope',
        ),
        (Question(JANE, "get", path="/metrics"), 'forbidden: User "jane" cannot get path "/metrics"'),
    ],
    ids=["list", "subresource", "cluster", "path"],
)
def test_what_a_403_says(cluster, question: Question, message: str) -> None:
    with pytest.raises(StatusError) as caught:
        cluster.authorizer.require(question)
    assert (caught.value.code, caught.value.reason, caught.value.message) == (403, "Forbidden", message)
