"""Nobody grants what he does not hold."""

import pytest

from devkube.access import escalation
from devkube.errors import StatusError
from devkube.requests import ADMIN, User

JANE = User("jane", groups=("dev", "system:authenticated"))
USER_JANE = {"kind": "User", "name": "jane"}


def check(cluster, plural: str, new, old=None, *, user: User = JANE, namespace: str = "ns") -> None:
    escalation.check(cluster.authorizer, cluster.objects, user, plural, namespace, new, old)


def role(*rules, name: str = "new", **rest):
    return {"metadata": {"name": name}, "rules": list(rules), **rest}


def binding(kind: str, name: str):
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
    return {"metadata": {"name": "new"}, "roleRef": reference, "subjects": [USER_JANE]}


@pytest.fixture
def held(cluster, rule):
    cluster.role("mine", rule("get list", "pods"), namespace="ns")
    cluster.bind("mine", USER_JANE, namespace="ns")
    return cluster


def test_what_is_held_may_be_granted(held, rule) -> None:
    check(held, "roles", role(rule("get", "pods")))
    check(held, "rolebindings", binding("Role", "mine"))


def test_more_may_not(held, rule) -> None:
    with pytest.raises(StatusError) as caught:
        check(held, "roles", role(rule("get delete", "pods"), rule("get", "secrets")))
    assert (caught.value.code, caught.value.reason) == (403, "Forbidden")
    assert caught.value.message == (
        'roles.rbac.authorization.k8s.io "new" is forbidden: user "jane" (groups=["dev" "system:authenticated"]) is '
        "attempting to grant RBAC permissions not currently held:\n"
        '{APIGroups:[""], Resources:["pods"], Verbs:["delete"]}\n'
        '{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}'
    )


def test_not_in_another_namespace(held, rule) -> None:
    with pytest.raises(StatusError, match="not currently held"):
        check(held, "roles", role(rule("get", "pods")), namespace="other")


def test_binding_a_role_is_granting_its_rules(held, rule) -> None:
    held.role("strong", rule("*", "*", groups="*"))
    with pytest.raises(StatusError, match=r'rolebindings.rbac.authorization.k8s.io "new" is forbidden: user "jane"'):
        check(held, "rolebindings", binding("ClusterRole", "strong"))


def test_a_binding_to_nothing_is_told(held) -> None:
    with pytest.raises(StatusError) as caught:
        check(held, "rolebindings", binding("ClusterRole", "nope"))
    assert caught.value.message == 'rolebindings.rbac.authorization.k8s.io "nope" not found'
    assert caught.value.code == 404


@pytest.mark.parametrize(("verb", "plural"), [("escalate", "roles"), ("bind", "rolebindings")])
def test_verbs_that_allow_it(held, rule, verb: str, plural: str) -> None:
    held.role("strong", rule("*", "secrets"), namespace="ns")
    new = role(rule("*", "secrets")) if plural == "roles" else binding("Role", "strong")
    with pytest.raises(StatusError):
        check(held, plural, new)
    held.role("power", rule(verb, "roles", groups="rbac.authorization.k8s.io"), namespace="ns")
    held.bind("power", USER_JANE, namespace="ns")
    check(held, plural, new)


def test_bind_may_be_limited_to_one_role(held, rule) -> None:
    for name in ("a", "b"):
        held.role(name, rule("*", "secrets"))
    held.role("power", rule("bind", "clusterroles", groups="rbac.authorization.k8s.io", names="a"), namespace="ns")
    held.bind("power", USER_JANE, namespace="ns")
    check(held, "rolebindings", binding("ClusterRole", "a"))
    with pytest.raises(StatusError):
        check(held, "rolebindings", binding("ClusterRole", "b"))


def test_masters_are_not_asked(cluster, rule) -> None:
    check(cluster, "clusterroles", role(rule("*", "*", groups="*")), user=ADMIN, namespace="")


def test_finalizers_may_be_taken_off_a_strong_role(held, rule) -> None:
    old = role(rule("*", "*", groups="*"))
    new = {**old, "metadata": {**old["metadata"], "finalizers": ["a/b"], "resourceVersion": "7"}}
    check(held, "roles", new, old)
    with pytest.raises(StatusError):
        check(held, "roles", {**new, "rules": [rule("*", "*")]}, old)


def test_an_aggregation_rule_needs_everything(cluster, rule) -> None:
    cluster.role("half", rule("create get list update", "*", groups="*"))
    cluster.bind("half", USER_JANE)
    new = role(aggregationRule={"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]})
    with pytest.raises(StatusError, match="must have cluster-admin privileges to use the aggregationRule"):
        check(cluster, "clusterroles", new, namespace="")
    cluster.role("rest", rule("*", "*", groups="*"))
    cluster.bind("rest", USER_JANE)
    check(cluster, "clusterroles", new, namespace="")


def test_which_resources_are_checked() -> None:
    group = "rbac.authorization.k8s.io"
    assert escalation.concerns(group, "rolebindings")
    assert not escalation.concerns("", "roles")
    assert not escalation.concerns(group, "pods")
