"""The roles that a cluster begins with, and ClusterRoles that gather others."""

import pytest

from devkube.access import rules
from devkube.access.authn import ANONYMOUS
from devkube.access.rules import Question
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


def test_masters_hold_everything_by_their_binding_too(full) -> None:
    assert full.authorizer.policy.decide(Question(User("x", groups=("system:masters",)), "x", "y", "z")).allowed


def role(name: str, rules: list[str], gathers: str = "", **labels: str):
    found = {"metadata": {"name": name, "labels": labels}, "rules": [{"verbs": [verb]} for verb in rules]}
    if gathers:
        found["aggregationRule"] = {"clusterRoleSelectors": [{"matchLabels": {gathers: "yes"}}]}
    return found


def test_a_new_role_with_the_label_extends_the_old_one() -> None:
    roles = [role("all", [], gathers="to"), role("b", ["y"], to="yes"), role("a", ["x"], to="yes"), role("c", ["z"])]
    assert rules.resolve(roles)["all"] == [{"verbs": ["x"]}, {"verbs": ["y"]}]


def test_what_was_written_into_an_aggregated_role_is_no_rule() -> None:
    assert rules.resolve([role("all", ["steal"], gathers="to")]) == {"all": []}


def test_roles_that_gather_each_other_end() -> None:
    roles = [
        role("a", [], gathers="x", y="yes"),
        role("b", [], gathers="y", x="yes"),
        role("c", ["v"], x="yes", y="yes"),
    ]
    assert rules.resolve(roles) == {name: [{"verbs": ["v"]}] for name in "abc"}


def test_each_rule_is_gathered_once() -> None:
    roles = [role("all", [], gathers="to"), role("a", ["x"], to="yes"), role("b", ["x"], to="yes")]
    assert rules.resolve(roles)["all"] == [{"verbs": ["x"]}]
