"""The three patches that edit what is there: JSON (RFC 6902), merge (RFC 7386), strategic merge. Apply: test_apply."""

import asyncio

import pytest

from tests.support.kubeobjects import configmap, container, crd, custom, deployment, pod
from tests.support.kubernetes import JSON_PATCH, MERGE_PATCH, STRATEGIC, Client, Cluster, Space, eventually

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


async def test_merge_patch_sets_and_null_removes(kube: Client, space: Space) -> None:
    """RFC 7386: maps merge, null deletes."""
    await kube.create(space.configmaps, configmap("a", {"keep": "1", "drop": "2"}))
    now = (await kube.merge(f"{space.configmaps}/a", {"data": {"drop": None, "new": "3"}})).ok(200)
    assert now["data"] == {"keep": "1", "new": "3"}


async def test_merge_patch_replaces_lists(kube: Client, space: Space) -> None:
    """RFC 7386 knows no list keys."""
    await kube.create(space.pods, pod("p", spec={"tolerations": [{"key": "a", "operator": "Exists"}]}))
    now = (await kube.merge(f"{space.pods}/p", {"metadata": {"finalizers": ["example.com/a"]}})).ok(200)
    assert now["metadata"]["finalizers"] == ["example.com/a"]
    now = (await kube.merge(f"{space.pods}/p", {"metadata": {"finalizers": ["example.com/b"]}})).ok(200)
    assert now["metadata"]["finalizers"] == ["example.com/b"]
    (await kube.merge(f"{space.pods}/p", {"metadata": {"finalizers": []}})).ok(200)


@pytest.mark.parametrize(
    ("operations", "wanted"),
    [
        ([{"op": "add", "path": "/data/b", "value": "2"}], {"a": "1", "b": "2"}),
        ([{"op": "replace", "path": "/data/a", "value": "9"}], {"a": "9"}),
        ([{"op": "remove", "path": "/data/a"}, {"op": "add", "path": "/data/c", "value": "3"}], {"c": "3"}),
        ([{"op": "move", "from": "/data/a", "path": "/data/z"}], {"z": "1"}),
        ([{"op": "copy", "from": "/data/a", "path": "/data/z"}], {"a": "1", "z": "1"}),
        (
            [{"op": "test", "path": "/data/a", "value": "1"}, {"op": "add", "path": "/data/ok", "value": "y"}],
            {"a": "1", "ok": "y"},
        ),
        ([{"op": "add", "path": "/data/x~1y", "value": "2"}], None),
        ([{"op": "add", "path": "/data", "value": {"all": "new"}}], {"all": "new"}),
        ([{"op": "replace", "path": "/data/none", "value": "2"}], {"a": "1", "none": "2"}),
        ([{"op": "replace", "path": "", "value": configmap("a", {"b": "2"})}], {"b": "2"}),
    ],
    ids=["add", "replace", "remove", "move", "copy", "test", "escaped", "whole", "replace-nothing", "replace-all"],
)
async def test_json_patch_operations(
    kube: Client, space: Space, operations: list[dict[str, object]], wanted: dict[str, str] | None
) -> None:
    """RFC 6902; ~1 is a slash, which no key of a ConfigMap may have. Upstream's replace makes a member that is missing,
    against the RFC."""
    await kube.create(space.configmaps, configmap("a", {"a": "1"}))
    answer = await kube.json_patch(f"{space.configmaps}/a", *operations)
    if wanted is None:
        answer.refused(422, "Invalid", "data[x/y]")
    else:
        assert answer.ok(200)["data"] == wanted


async def test_json_patch_indexes_lists(kube: Client, space: Space) -> None:
    """Positions, and - for the end."""
    path = f"{space.configmaps}/a"
    await kube.create(space.configmaps, configmap("a", finalizers=["x.io/1", "x.io/3"]))
    add = {"op": "add", "path": "/metadata/finalizers/1", "value": "x.io/2"}
    end = {"op": "add", "path": "/metadata/finalizers/-", "value": "x.io/4"}
    assert (await kube.json_patch(path, add, end)).ok(200)["metadata"]["finalizers"] == [
        f"x.io/{n}" for n in range(1, 5)
    ]
    for place in ("x", "9"):
        wrong = {"op": "add", "path": f"/metadata/finalizers/{place}", "value": "x.io/5"}
        (await kube.json_patch(path, wrong)).refused(422, "Invalid")
    first, last = ({"op": "remove", "path": f"/metadata/finalizers/{place}"} for place in ("0", "-1"))
    assert (await kube.json_patch(path, first, last)).ok(200)["metadata"]["finalizers"] == ["x.io/2", "x.io/3"]
    (await kube.json_patch(path, {"op": "remove", "path": "/metadata/finalizers"})).ok(200)


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/data/a", "value": "other"},
        {"op": "remove", "path": "/data/none"},
        {"op": "move", "from": "/data/none", "path": "/data/b"},
        {"op": "add", "path": "/data/none/deeper", "value": "1"},
        {"op": "test", "path": "/data/none", "value": "1"},
        {"op": "turn", "path": "/data/a"},
        {"op": "add", "value": "1"},
    ],
    ids=["test", "remove", "move", "add-below-nothing", "test-nothing", "no-operation", "nowhere"],
)
async def test_a_json_patch_that_does_not_fit_is_unprocessable(
    kube: Client, space: Space, operation: dict[str, object]
) -> None:
    """422, and nothing of the patch is applied."""
    made = await kube.create(space.configmaps, configmap("a", {"a": "1"}))
    answer = await kube.json_patch(
        f"{space.configmaps}/a", {"op": "add", "path": "/data/first", "value": "1"}, operation
    )
    answer.refused(422, "Invalid", "the server rejected our request due to an error in our request")
    assert await kube.read(f"{space.configmaps}/a") == made


@pytest.mark.parametrize(
    ("media", "body"),
    [
        (JSON_PATCH, '{"op": "add"}'),
        (JSON_PATCH, "not json"),
        (JSON_PATCH, '[{"op": "add", "path": "/a", "value":'),
        (MERGE_PATCH, "[1]"),
        (MERGE_PATCH, "{"),
        (STRATEGIC, '"text"'),
        (STRATEGIC, "{"),
    ],
)
async def test_a_patch_that_is_none_is_a_bad_request(kube: Client, space: Space, media: str, body: str) -> None:
    """Malformed bodies: 400."""
    await kube.create(space.configmaps, configmap("a", {"a": "1"}))
    answer = await kube.call("PATCH", f"{space.configmaps}/a", body, media=media)
    answer.refused(400, "BadRequest")


async def test_a_patch_of_a_missing_object_is_not_found(kube: Client, space: Space) -> None:
    """Only apply creates."""
    for answer in (
        await kube.merge(f"{space.configmaps}/none", {"data": {}}),
        await kube.strategic(f"{space.configmaps}/none", {"data": {}}),
        await kube.json_patch(f"{space.configmaps}/none", {"op": "remove", "path": "/data"}),
    ):
        answer.refused(404, "NotFound", 'configmaps "none" not found')


async def test_strategic_merge_finds_list_entries_by_key(kube: Client, space: Space) -> None:
    """containers by name, env by name; the rest of the entry stays."""
    main = container("main", env=[{"name": "A", "value": "1"}, {"name": "B", "value": "2"}])
    await kube.create(space.deployments, deployment("d", spec={"template": _template(main, container("other"))}))
    patch = {"containers": [{"name": "main", "image": "registry.example/app:2", "env": [{"name": "B", "value": "9"}]}]}
    now = (await kube.strategic(f"{space.deployments}/d", {"spec": {"template": {"spec": patch}}})).ok(200)
    first, second = now["spec"]["template"]["spec"]["containers"]
    assert first["image"] == "registry.example/app:2"
    assert first["env"] == [{"name": "A", "value": "1"}, {"name": "B", "value": "9"}]
    assert second["name"] == "other"


async def test_strategic_merge_adds_entries_in_front(kube: Client, space: Space) -> None:
    """A new key is a new entry; without $setElementOrder what the patch brings comes first."""
    await kube.create(space.deployments, deployment("d", spec={"template": _template(container("main"))}))
    patch = {"spec": {"template": {"spec": {"containers": [container("new")]}}}}
    now = (await kube.strategic(f"{space.deployments}/d", patch)).ok(200)
    assert [one["name"] for one in now["spec"]["template"]["spec"]["containers"]] == ["new", "main"]


async def test_strategic_merge_deletes_an_entry(kube: Client, space: Space) -> None:
    """$patch: delete inside a keyed list."""
    await kube.create(space.deployments, deployment("d", spec={"template": _template(container("a"), container("b"))}))
    patch = {"spec": {"template": {"spec": {"containers": [{"$patch": "delete", "name": "b"}]}}}}
    now = (await kube.strategic(f"{space.deployments}/d", patch)).ok(200)
    assert [one["name"] for one in now["spec"]["template"]["spec"]["containers"]] == ["a"]


async def test_strategic_merge_replaces_a_list_or_a_map(kube: Client, space: Space) -> None:
    """$patch: replace, as an entry of a list and as a key of a map."""
    await kube.create(space.deployments, deployment("d", spec={"template": _template(container("a"), container("b"))}))
    patch = {"spec": {"template": {"spec": {"containers": [container("c"), {"$patch": "replace"}]}}}}
    now = (await kube.strategic(f"{space.deployments}/d", patch)).ok(200)
    assert [one["name"] for one in now["spec"]["template"]["spec"]["containers"]] == ["c"]
    await kube.create(space.configmaps, configmap("a", {"x": "1", "y": "2"}))
    now = (await kube.strategic(f"{space.configmaps}/a", {"data": {"$patch": "replace", "z": "3"}})).ok(200)
    assert now["data"] == {"z": "3"}


async def test_strategic_merge_orders_a_list(kube: Client, space: Space) -> None:
    """$setElementOrder, as kubectl sends it with every list."""
    await kube.create(space.deployments, deployment("d", spec={"template": _template(container("a"), container("b"))}))
    patch = {
        "$setElementOrder/containers": [{"name": "c"}, {"name": "b"}, {"name": "a"}],
        "containers": [container("c")],
    }
    now = (await kube.strategic(f"{space.deployments}/d", {"spec": {"template": {"spec": patch}}})).ok(200)
    assert [one["name"] for one in now["spec"]["template"]["spec"]["containers"]] == ["c", "b", "a"]


async def test_strategic_merge_retains_only_some_keys(kube: Client, space: Space) -> None:
    """$retainKeys: a union changes its member (emptyDir to configMap)."""
    template = _template(container("a"))
    template["spec"]["volumes"] = [{"name": "v", "emptyDir": {}}]
    await kube.create(space.deployments, deployment("d", spec={"template": template}))
    volume = {"name": "v", "configMap": {"name": "c"}, "$retainKeys": ["name", "configMap"]}
    now = (await kube.strategic(f"{space.deployments}/d", {"spec": {"template": {"spec": {"volumes": [volume]}}}})).ok(
        200
    )
    (volume,) = now["spec"]["template"]["spec"]["volumes"]
    assert sorted(volume) == ["configMap", "name"]


async def test_strategic_merge_edits_lists_of_words(kube: Client, space: Space) -> None:
    """finalizers merge as a set; $deleteFromPrimitiveList takes some away."""
    path = f"{space.configmaps}/a"
    await kube.create(space.configmaps, configmap("a", finalizers=["x.io/1", "x.io/2"]))
    now = (await kube.strategic(path, {"metadata": {"finalizers": ["x.io/3"]}})).ok(200)
    assert sorted(now["metadata"]["finalizers"]) == ["x.io/1", "x.io/2", "x.io/3"]
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x.io/1", "x.io/2", "x.io/3"]}}
    (await kube.strategic(path, patch)).ok(200)
    assert "finalizers" not in (await kube.read(path))["metadata"]


async def test_strategic_merge_is_not_for_custom_resources(kube: Client, space: Space) -> None:
    """415 that says which media types there are."""
    await kube.create(CRDS, crd(space.group))
    path = space.of(f"{space.group}/v1", "widgets")
    await eventually(lambda: kube.create(path, custom(space.group, "a", {"size": 1})))
    answer = await kube.strategic(f"{path}/a", {"spec": {"size": 2}})
    answer.refused(415, "UnsupportedMediaType", "application/json-patch+json", "application/merge-patch+json")
    assert (await kube.merge(f"{path}/a", {"spec": {"size": 2}})).ok(200)["spec"] == {"size": 2}


async def test_another_media_type_is_unsupported(kube: Client, space: Space) -> None:
    """application/json says nothing about how to patch."""
    await kube.create(space.configmaps, configmap("a"))
    answer = await kube.call("PATCH", f"{space.configmaps}/a", {"data": {}}, media="application/json")
    assert answer.status == 415


async def test_a_patch_may_insist_on_a_version(kube: Client, space: Space) -> None:
    """metadata.resourceVersion in a patch is a precondition."""
    made = await kube.create(space.configmaps, configmap("a", {"k": "1"}))
    seen = {"resourceVersion": made["metadata"]["resourceVersion"]}
    (await kube.merge(f"{space.configmaps}/a", {"metadata": seen, "data": {"k": "2"}})).ok(200)
    answer = await kube.merge(f"{space.configmaps}/a", {"metadata": seen, "data": {"k": "3"}})
    answer.refused(409, "Conflict", "the object has been modified")


async def test_patches_at_the_same_time_all_arrive(kube: Client, space: Space) -> None:
    """A lost race is retried by the server, not by the client."""
    await kube.create(space.configmaps, configmap("a", {}))
    patches = [kube.merge(f"{space.configmaps}/a", {"data": {f"k{n}": "v"}}) for n in range(5)]
    for answer in await asyncio.gather(*patches):
        answer.ok(200)
    assert sorted((await kube.read(f"{space.configmaps}/a"))["data"]) == [f"k{n}" for n in range(5)]


async def test_a_patch_that_changes_nothing_keeps_the_version(kube: Client, space: Space) -> None:
    """As for updates; the entry of another manager is no reason to write either."""
    made = await kube.create(space.configmaps, configmap("a", {"k": "v"}))
    now = (await kube.merge(f"{space.configmaps}/a", {"data": {"k": "v"}}, fieldManager="other")).ok(200)
    assert now["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


async def test_a_patch_cannot_rename(kube: Client, space: Space) -> None:
    """The name of what comes out must be the URL's."""
    await kube.create(space.configmaps, configmap("a"))
    answer = await kube.merge(f"{space.configmaps}/a", {"metadata": {"name": "b"}})
    assert answer.status in (400, 422), answer.told


async def test_what_a_patch_makes_is_validated(kube: Client, space: Space) -> None:
    """The rules of updates hold for the result."""
    await kube.create(space.pods, pod("p"))
    (await kube.merge(f"{space.pods}/p", {"spec": {"hostname": "UPPER"}})).refused(422, "Invalid")
    answer = await kube.merge(f"{space.pods}/p", {"spec": {"containers": "text"}})
    answer.refused(422, "Invalid", "patch: Invalid value", "json: cannot unmarshal string into")


async def test_a_patch_of_status_leaves_the_rest(kube: Client, space: Space) -> None:
    """metadata and spec in a patch of /status are ignored, but for what a kind allows."""
    made = await kube.create(space.pods, pod("p"))
    patch = {"status": {"phase": "Running"}, "spec": {"nodeName": "n"}}
    now = (await kube.strategic(f"{space.pods}/p/status", patch)).ok(200)
    assert (now["status"]["phase"], now["spec"]) == ("Running", made["spec"])


async def test_conditions_merge_by_type(kube: Client, space: Space) -> None:
    """status.conditions of a Pod under strategic merge."""
    await kube.create(space.pods, pod("p"))
    for kind, status in (("Ready", "False"), ("ContainersReady", "False"), ("Ready", "True")):
        patch = {"status": {"conditions": [{"type": kind, "status": status}]}}
        now = (await kube.strategic(f"{space.pods}/p/status", patch)).ok(200)
    found = {one["type"]: one["status"] for one in now["status"]["conditions"]}
    assert found == {"Ready": "True", "ContainersReady": "False"}


async def test_a_json_patch_has_an_end(kube: Client, space: Space) -> None:
    """At most 10,000 operations: 413."""
    await kube.create(space.configmaps, configmap("a", {"a": "1"}))
    operations = [{"op": "test", "path": "/data/a", "value": "1"}] * 10_001
    answer = await kube.json_patch(f"{space.configmaps}/a", *operations)
    answer.refused(413, "RequestEntityTooLarge", "The allowed maximum operations in a JSON patch is 10000, got 10001")


@pytest.mark.parametrize(
    "operations",
    [
        [{"op": "copy", "from": "/data", "path": "/data/a"}] * 8,
        [{"op": "copy", "from": "/data", "path": "/data/a"}] * 12,
        [{"op": "copy", "from": "/data/a", "path": f"/data/b{n}"} for n in range(20)],
        [{"op": "replace", "path": "", "value": [1]}],
    ],
    ids=["deep", "deeper", "large", "no-object"],
)
async def test_what_a_json_patch_may_not_make(kube: Client, space: Space, operations: list[dict[str, object]]) -> None:
    """Copies of copies, each twice as deep; three mebibytes of them; something else than an object."""
    await kube.create(space.configmaps, configmap("a", {"a": "x" * 200_000}))
    (await kube.json_patch(f"{space.configmaps}/a", *operations)).refused(422, "Invalid")


@pytest.mark.parametrize(
    "patch",
    [
        {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate", "rollingUpdate": {"maxSurge": 1}}}},
        {"spec": {"$patch": "turn"}},
        {"$setElementOrder/none": []},
        {"metadata": {"finalizers": [{"a": "b"}]}},
        {"metadata": {"$setElementOrder/finalizers": "x.io/2", "finalizers": ["x.io/2"]}},
        {"spec": {"template": {"spec": {"containers": [{"image": "i"}]}}}},
    ],
    ids=["retained", "directive", "field", "words", "list", "key"],
)
async def test_a_strategic_patch_that_makes_no_sense(
    kube: Client, cluster: Cluster, space: Space, patch: dict[str, object]
) -> None:
    """A real server fails at some of them; nothing is changed."""
    made = await kube.create(space.deployments, deployment("d", finalizers=["x.io/1"]))
    cluster.blames_the_client(await kube.strategic(f"{space.deployments}/d", patch))
    assert (await kube.read(f"{space.deployments}/d"))["spec"] == made["spec"]
    (await kube.merge(f"{space.deployments}/d", {"metadata": {"finalizers": None}})).ok(200)


async def test_a_directive_about_what_is_not_there_adds_nothing(kube: Client, space: Space) -> None:
    await kube.create(space.configmaps, configmap("a"))
    for directive in ("delete", "replace"):
        patch = {"metadata": {"annotations": {"$patch": directive, "a": "b"}}}
        now = (await kube.strategic(f"{space.configmaps}/a", patch)).ok(200)
        assert "annotations" not in now["metadata"]


def _template(*containers: dict[str, object]) -> dict[str, dict[str, object]]:
    return {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": list(containers)}}
