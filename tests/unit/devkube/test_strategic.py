"""Strategic merge patch on the built-in schemas. Orders of lists are upstream's, checked against it when written."""

import copy

import pytest

from devkube.builtin.document import schema_of
from devkube.errors import StatusError
from devkube.strategic import strategic_merge

POD = schema_of("", "v1", "Pod")
DEPLOYMENT = schema_of("apps", "v1", "Deployment")


def pod(*containers, **spec):
    return {
        "kind": "Pod",
        "metadata": {"name": "p", "finalizers": ["a", "b"]},
        "spec": {"containers": [*containers], **spec},
    }


def names(found):
    return [one["name"] for one in found["spec"]["containers"]]


A, B, C = ({"name": name, "image": f"{name}:1"} for name in "abc")


def merged(doc, spec, schema=POD):
    before = copy.deepcopy((doc, spec))
    found = strategic_merge(doc, {"spec": spec}, schema)
    assert (doc, spec) == before
    return found


def test_lists_are_merged_by_their_key():
    found = merged(pod(A, B), {"containers": [{"name": "b", "image": "b:2"}, {"name": "c", "env": [{"name": "X"}]}]})
    assert found["spec"]["containers"] == [A, {"name": "b", "image": "b:2"}, {"name": "c", "env": [{"name": "X"}]}]


def test_the_order_of_the_patch_wins_and_the_servers_items_keep_their_place():
    assert names(merged(pod(A, B, C), {"containers": [{"name": "c"}, {"name": "a"}]})) == ["b", "c", "a"]
    order = {"$setElementOrder/containers": [{"name": "c"}, {"name": "a"}]}
    assert names(merged(pod(A, B, C), order)) == ["b", "c", "a"]


def test_kubectl_renames_a_container():
    spec = {
        "$setElementOrder/containers": [{"name": "c"}],
        "containers": [{"$patch": "delete", "name": "b"}, C],
    }
    assert names(merged(pod(A, B), spec)) == ["a", "c"]


def test_directives():
    assert merged(pod(A, B), {"containers": [{"$patch": "replace"}, C]})["spec"]["containers"] == [C]
    assert merged(pod(A, B), {"$patch": "replace", "hostname": "h"})["spec"] == {"hostname": "h"}
    assert merged(pod(A), {"$patch": "delete"})["spec"] == {}
    assert names(merged(pod(A, B), {"containers": [{"name": "a", "$patch": "delete"}]})) == ["b"]
    assert merged(pod(A), {"nodeSelector": {"$patch": "delete"}}) == pod(A)


def test_a_volume_keeps_only_its_new_source():
    spec = {"volumes": [{"name": "v", "secret": {"secretName": "s"}, "$retainKeys": ["name", "secret"]}]}
    doc = pod(A, volumes=[{"name": "v", "emptyDir": {"medium": "Memory"}}])
    assert merged(doc, spec)["spec"]["volumes"] == [{"name": "v", "secret": {"secretName": "s"}}]


def test_lists_of_scalars():
    doc = pod(A)
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"], "finalizers": ["c"]}}
    assert strategic_merge(doc, patch, POD)["metadata"]["finalizers"] == ["c", "b"]
    order = {"metadata": {"$setElementOrder/finalizers": ["b", "a"]}}
    assert strategic_merge(doc, order, POD)["metadata"]["finalizers"] == ["b", "a"]


def test_lists_without_a_strategy_and_maps_that_say_replace_are_replaced():
    doc = pod({**A, "args": ["x"]}, tolerations=[{"key": "a"}])
    found = merged(doc, {"tolerations": [{"key": "b"}], "containers": [{"name": "a", "args": ["y"]}]})
    assert (found["spec"]["tolerations"], found["spec"]["containers"][0]["args"]) == ([{"key": "b"}], ["y"])
    budget = {"spec": {"selector": {"matchLabels": {"a": "1"}}}}
    patch = {"spec": {"selector": {"matchLabels": {"b": "1"}}}}
    assert strategic_merge(budget, patch, schema_of("policy", "v1", "PodDisruptionBudget")) == patch


def test_nulls_delete_and_vanish_from_what_is_new():
    found = merged(pod(A, hostname="h"), {"hostname": None, "securityContext": {"runAsUser": None, "fsGroup": 1}})
    assert found["spec"] == {"containers": [A], "securityContext": {"fsGroup": 1}}


def test_the_strategy_of_a_deployment():
    doc = {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}}
    spec = {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}
    assert merged(doc, spec, DEPLOYMENT) == {"spec": {"strategy": {"type": "Recreate"}}}


@pytest.mark.parametrize(
    ("spec", "code", "why"),
    [
        ({"containers": [{"image": "x"}]}, 400, '{"image":"x"} does not contain declared merge key: name'),
        ({"containers": [{"name": "a"}, "x"]}, 400, '"x" does not contain declared merge key: name'),
        ({"containers": [None]}, 400, "null does not contain declared merge key: name"),
        ({"containers": [{"name": "a", "$patch": "turn"}]}, 400, 'unknown patch type: "turn" in {"name":"a"}'),
        ({"containers": [{"name": "a", "$patch": "merge"}]}, 400, 'unknown patch type: "merge"'),
        ({"$patch": "turn"}, 400, 'unknown patch type: "turn"'),
        ({"$retainKeys": "x"}, 400, "the patch has string where a list is expected"),
        ({"$retainKeys": ["x"], "hostname": "h"}, 400, "the patch sets what its $retainKeys does not name"),
        ({"$setElementOrder/containers": {}}, 400, "the patch has object where a list is expected"),
        ({"$setElementOrder/nothing": []}, 400, 'unable to find api field in struct for the json field "nothing"'),
        ({"$deleteFromPrimitiveList/volumes": 1}, 400, "the patch has number where a list is expected"),
    ],
)
def test_malformed_patches(spec, code, why):
    with pytest.raises(StatusError) as refused:
        merged(pod(A, volumes=[{"name": "v"}]), spec)
    assert refused.value.code == code
    assert why in refused.value.message


def test_a_patch_is_an_object_and_null_is_an_empty_one():
    assert strategic_merge(pod(A), None, POD) == pod(A)
    with pytest.raises(StatusError, match="not array"):
        strategic_merge(pod(A), [], POD)


def test_long_lists_do_not_cost_the_square_of_their_length():
    doc = {"metadata": {"finalizers": [f"a{n}" for n in range(20_000)]}}
    patch = {"metadata": {"finalizers": [f"b{n}" for n in range(20_000)]}}
    assert len(strategic_merge(doc, patch, POD)["metadata"]["finalizers"]) == 40_000
