"""Which hook is concerned by which request. A row per rule of upstream's predicates."""

import pytest

from devkube.admission import matching
from devkube.admission.matching import hooks
from devkube.kinds import Catalog
from tests.unit.devkube.admission.conftest import DEFAULTS

EVERYTHING = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"], "scope": "*"}


def one(**rest):
    webhook = {**DEFAULTS, "name": "a", "rules": [EVERYTHING], **rest}
    return hooks([{"metadata": {"name": "c"}, "webhooks": [webhook]}])[0]


def rule(operations="*", groups="*", versions="*", resources="*", scope="*"):
    return {
        "operations": operations.split(),
        "apiGroups": [g.replace("core", "") for g in groups.split()],
        "apiVersions": versions.split(),
        "resources": resources.split(),
        "scope": scope,
    }


@pytest.mark.parametrize(
    ("rules", "asked", "concerned"),
    [
        pytest.param([rule()], {}, True, id="everything"),
        pytest.param([], {}, False, id="no rule"),
        pytest.param([rule("CREATE UPDATE")], {}, True, id="operation"),
        pytest.param([rule("DELETE")], {}, False, id="another operation"),
        pytest.param([rule(groups="core")], {}, True, id="core group"),
        pytest.param([rule(groups="apps")], {}, False, id="another group"),
        pytest.param([rule(versions="v1")], {}, True, id="version"),
        pytest.param([rule(versions="v1beta1")], {}, False, id="another version"),
        pytest.param([rule(resources="nodes pods")], {}, True, id="resource"),
        pytest.param([rule(resources="pods/status")], {}, False, id="a subresource is another"),
        pytest.param([rule(resources="pods")], {"subresource": "status"}, False, id="the resource only"),
        pytest.param([rule(resources="pods/status")], {"subresource": "status"}, True, id="subresource"),
        pytest.param([rule(resources="pods/*")], {"subresource": "status"}, True, id="all subresources"),
        pytest.param([rule(resources="pods/*")], {}, True, id="all subresources and itself"),
        pytest.param([rule(resources="*/status")], {"subresource": "status"}, True, id="all statuses"),
        pytest.param([rule(resources="*")], {"subresource": "status"}, False, id="a star holds no subresource"),
        pytest.param([rule("DELETE"), rule("CREATE")], {}, True, id="any rule will do"),
        pytest.param([rule(scope="Namespaced")], {}, True, id="namespaced"),
        pytest.param([rule(scope="Cluster")], {}, False, id="not the cluster's"),
        pytest.param([rule(scope="Cluster")], {"plural": "nodes"}, True, id="the cluster's"),
        pytest.param([rule(scope="Namespaced")], {"plural": "nodes"}, False, id="not namespaced"),
        pytest.param([rule(scope="Cluster")], {"plural": "namespaces"}, True, id="namespaces are the cluster's"),
        pytest.param([rule(scope="*")], {"plural": "nodes"}, True, id="any scope"),
    ],
)
def test_rules(attributes, rules, asked, concerned: bool) -> None:
    found = matching.told_as(one(rules=rules), attributes(**asked), Catalog(), lambda name: {})
    assert (found is not None) is concerned


@pytest.mark.parametrize(
    ("selector", "asked", "concerned"),
    [
        pytest.param({}, {}, True, id="empty selects all"),
        pytest.param({"matchLabels": {"env": "prod"}}, {}, True, id="label"),
        pytest.param({"matchLabels": {"env": "test"}}, {}, False, id="another label"),
        pytest.param({"matchExpressions": [{"key": "env", "operator": "Exists"}]}, {}, True, id="expression"),
        pytest.param({"matchLabels": {"env": "test"}}, {"plural": "nodes"}, True, id="nodes are never exempt"),
        pytest.param(
            {"matchLabels": {"env": "test"}},
            {"plural": "namespaces", "labels": {"env": "test"}},
            True,
            id="its own labels",
        ),
        pytest.param({"matchLabels": {"env": "prod"}}, {"plural": "namespaces"}, False, id="its new labels"),
        pytest.param(
            {"matchLabels": {"env": "prod"}},
            {"plural": "namespaces", "operation": "DELETE"},
            True,
            id="as it is stored",
        ),
    ],
)
def test_namespace_selector(attributes, selector, asked, concerned: bool) -> None:
    found = matching.told_as(
        one(namespaceSelector=selector), attributes(**asked), Catalog(), lambda name: {"env": "prod"}
    )
    assert (found is not None) is concerned


def test_object_selector_asks_both_states(attributes) -> None:
    hook = one(objectSelector={"matchLabels": {"app": "web"}})
    new, old = {"metadata": {"labels": {"app": "web"}}}, {"metadata": {}}

    def concerned(obj, before) -> bool:
        asked = attributes(operation="UPDATE", old=before)
        asked.object = obj
        return matching.told_as(hook, asked, Catalog(), lambda name: {}) is not None

    assert [concerned(*states) for states in ((new, old), (old, new), (old, old), (None, new))] == [
        True,
        True,
        False,
        True,
    ]


def test_another_version_of_the_same_objects(attributes, bench) -> None:
    asked = attributes("foos")
    catalog = bench.chain._catalog
    equivalent, exact = one(rules=[rule(versions="v2")]), one(rules=[rule(versions="v2")], matchPolicy="Exact")
    found = matching.told_as(equivalent, asked, catalog, lambda name: {})
    assert found is not None
    assert found.version == "v2"
    assert matching.told_as(exact, asked, catalog, lambda name: {}) is None
    own = one(rules=[rule(versions="v2"), rule(versions="v1")])
    found = matching.told_as(own, asked, catalog, lambda name: {})
    assert found is not None
    assert found.version == "v1"  # the request's own is preferred, whatever the order of rules


def test_a_version_without_the_subresource_is_no_equivalent(attributes, bench) -> None:
    hook = one(rules=[rule(versions="v2", resources="foos/scale")])
    asked = attributes("foos", subresource="scale")
    assert matching.told_as(hook, asked, bench.chain._catalog, lambda name: {}) is None


def test_order_of_hooks() -> None:
    configurations = [
        {"metadata": {"name": "b"}, "webhooks": [{"name": "x"}, {"name": "w"}]},
        {"metadata": {"name": "a"}, "webhooks": [{"name": "z"}, {"name": "y"}]},
        {"metadata": {"name": "c"}},
    ]
    assert [one["name"] for one in hooks(configurations)] == ["z", "y", "x", "w"]
