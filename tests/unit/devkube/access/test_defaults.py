"""The roles that a cluster begins with, and ClusterRoles that gather others."""

import pytest

from devkube.access.authn import ANONYMOUS
from devkube.access.rbac import Question
from devkube.requests import User

ANYBODY = User("x", groups=("system:authenticated",))
VIEWER, EDITOR, ADMINISTRATOR = (User(name, groups=("system:authenticated",)) for name in ("v", "e", "a"))


@pytest.fixture
def full(cluster):
    cluster.bootstrap()
    for role, user in (("view", VIEWER), ("edit", EDITOR), ("admin", ADMINISTRATOR)):
        cluster.bind(role, {"kind": "User", "name": user.name}, namespace="ns", kind="ClusterRole")
    return cluster


@pytest.mark.parametrize(
    ("user", "question", "allowed"),
    [
        pytest.param(ANYBODY, {"verb": "get", "path": "/api"}, True, id="discovery"),
        pytest.param(ANYBODY, {"verb": "get", "path": "/openapi/v3/api/v1"}, True, id="OpenAPI"),
        pytest.param(ANYBODY, {"verb": "get", "path": "/metrics"}, False, id="no metrics"),
        pytest.param(ANONYMOUS, {"verb": "get", "path": "/readyz"}, True, id="anonymous readyz"),
        pytest.param(ANONYMOUS, {"verb": "get", "path": "/version"}, True, id="anonymous version"),
        pytest.param(ANONYMOUS, {"verb": "get", "path": "/api"}, False, id="anonymous discovery"),
        pytest.param(
            ANYBODY,
            {"verb": "create", "group": "authorization.k8s.io", "resource": "selfsubjectaccessreviews"},
            True,
            id="can I",
        ),
        pytest.param(VIEWER, {"verb": "get", "resource": "pods", "subresource": "log"}, True, id="view logs"),
        pytest.param(VIEWER, {"verb": "get", "resource": "secrets"}, False, id="view no secrets"),
        pytest.param(VIEWER, {"verb": "delete", "resource": "pods"}, False, id="view is no edit"),
        pytest.param(EDITOR, {"verb": "get", "resource": "secrets"}, True, id="edit secrets"),
        pytest.param(EDITOR, {"verb": "list", "resource": "configmaps"}, True, id="edit holds view"),
        pytest.param(
            EDITOR, {"verb": "create", "group": "rbac.authorization.k8s.io", "resource": "roles"}, False, id="no roles"
        ),
        pytest.param(
            ADMINISTRATOR,
            {"verb": "create", "group": "rbac.authorization.k8s.io", "resource": "roles"},
            True,
            id="admin roles",
        ),
        pytest.param(ADMINISTRATOR, {"verb": "delete", "resource": "pods"}, True, id="admin holds edit"),
        pytest.param(ADMINISTRATOR, {"verb": "create", "resource": "namespaces"}, False, id="admin of one namespace"),
    ],
)
def test_who_may_what(full, user: User, question: dict[str, str], allowed: bool) -> None:
    space = {} if "path" in question else {"namespace": "ns"}
    assert full.authorizer.decide(Question(user, **question, **space)).allowed is allowed


def held(cluster, name: str) -> list[str]:
    """The verbs that a role's user may in the end."""
    cluster.bind(name, {"kind": "User", "name": name})
    return [verb for grant in cluster.authorizer.grants(User(name), "") for one in grant.rules for verb in one["verbs"]]


def gathers(label: str):
    return {"clusterRoleSelectors": [{"matchLabels": {label: "yes"}}]}


def test_a_new_role_with_the_label_extends_the_old_one(cluster, rule) -> None:
    cluster.role("all", rule("steal"), aggregationRule=gathers("to"))  # what is written into it is no rule
    assert held(cluster, "all") == []
    cluster.role("b", rule("y"), meta={"labels": {"to": "yes"}})
    cluster.role("a", rule("x"), meta={"labels": {"to": "yes"}})
    cluster.role("c", rule("z"))
    assert held(cluster, "all") == ["x", "y"]


def test_roles_that_gather_each_other_end(cluster, rule) -> None:
    cluster.role("a", aggregationRule=gathers("x"), meta={"labels": {"y": "yes"}})
    cluster.role("b", aggregationRule=gathers("y"), meta={"labels": {"x": "yes"}})
    cluster.role("c", rule("v"), meta={"labels": {"x": "yes", "y": "yes"}})
    assert [set(held(cluster, name)) for name in "ab"] == [{"v"}, {"v"}]
