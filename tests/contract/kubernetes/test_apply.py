"""Server-side apply: ownership per manager, conflicts, removal, lists by key, managedFields of other writers."""

import json
from typing import Any

import pytest

from tests.support.kubeobjects import configmap, container, crd, custom, deployment, version
from tests.support.kubernetes import APPLY, Client, Cluster, Space, eventually

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def managers(made: dict[str, Any]) -> dict[tuple[str, str], Any]:
    """(manager, operation) -> fields, of an object."""
    return {(one["manager"], one["operation"]): one["fieldsV1"] for one in made["metadata"]["managedFields"]}


async def test_apply_creates_and_says_who_owns_what(kube: Client, space: Space) -> None:
    """201, and an entry of operation Apply with exactly the fields of the configuration."""
    answer = await kube.apply(f"{space.configmaps}/a", configmap("a", {"k": "v"}, labels={"l": "1"}), "one")
    (entry,) = answer.ok(201)["metadata"]["managedFields"]
    assert entry["fieldsV1"] == {"f:data": {"f:k": {}}, "f:metadata": {"f:labels": {"f:l": {}}}}
    assert (entry["manager"], entry["operation"], entry["apiVersion"], entry["fieldsType"]) == (
        "one",
        "Apply",
        "v1",
        "FieldsV1",
    )
    assert entry["time"].endswith("Z")


async def test_apply_needs_a_manager(kube: Client, space: Space) -> None:
    """ValidatePatchOptions."""
    answer = await kube.call("PATCH", f"{space.configmaps}/a", configmap("a"), media=APPLY)
    answer.refused(422, "Invalid", "fieldManager: Required value: is required for apply patch")


async def test_a_manager_s_name_has_128_characters(kube: Client, space: Space) -> None:
    """FieldManagerMaxLength, and only printable ones."""
    answer = await kube.apply(f"{space.configmaps}/a", configmap("a"), "m" * 129)
    answer.refused(422, "Invalid", "fieldManager")


async def test_another_manager_s_value_is_a_conflict(kube: Client, space: Space) -> None:
    """409 with one cause for each field, naming its owner; the same value is shared instead."""
    path = f"{space.configmaps}/a"
    (await kube.apply(path, configmap("a", {"x": "1", "y": "1"}), "one")).ok(201)
    (await kube.apply(path, configmap("a", {"x": "1"}), "two")).ok(200)
    answer = await kube.apply(path, configmap("a", {"x": "2", "y": "2"}), "two")
    answer.refused(409, "Conflict", 'Apply failed with 2 conflicts: conflicts with "one"', "- .data.x", "- .data.y")
    assert answer.causes == [(".data.x", "FieldManagerConflict"), (".data.y", "FieldManagerConflict")]


async def test_force_takes_the_field(kube: Client, space: Space) -> None:
    """The former owner loses what was forced and keeps the rest."""
    path = f"{space.configmaps}/a"
    (await kube.apply(path, configmap("a", {"x": "1", "y": "1"}), "one")).ok(201)
    now = (await kube.apply(path, configmap("a", {"x": "2"}), "two", force="true")).ok(200)
    assert now["data"] == {"x": "2", "y": "1"}
    found = managers(now)
    assert found["one", "Apply"] == {"f:data": {"f:y": {}}}
    assert found["two", "Apply"] == {"f:data": {"f:x": {}}}


async def test_force_is_for_apply_only(kube: Client, space: Space) -> None:
    """ValidatePatchOptions."""
    await kube.create(space.configmaps, configmap("a"))
    answer = await kube.merge(f"{space.configmaps}/a", {"data": {}}, force="true")
    answer.refused(422, "Invalid", "force: Forbidden: may not be specified for non-apply patch")


async def test_a_field_no_longer_applied_is_removed(kube: Client, space: Space) -> None:
    """Unless another manager owns it too."""
    path = f"{space.configmaps}/a"
    (await kube.apply(path, configmap("a", {"mine": "1", "ours": "1"}), "one")).ok(201)
    (await kube.apply(path, configmap("a", {"ours": "1"}), "two")).ok(200)
    assert (await kube.apply(path, configmap("a"), "one")).ok(200)["data"] == {"ours": "1"}


async def test_applying_the_same_again_writes_nothing(kube: Client, space: Space) -> None:
    """Same resourceVersion, same time in managedFields."""
    path = f"{space.configmaps}/a"
    made = (await kube.apply(path, configmap("a", {"k": "v"}), "one")).ok(201)
    assert (await kube.apply(path, configmap("a", {"k": "v"}), "one")).ok(200) == made


async def test_lists_merge_by_their_keys(kube: Client, space: Space) -> None:
    """containers by name, ports by containerPort and protocol (its default is part of the key)."""
    path = f"{space.deployments}/d"
    first = container("main", ports=[{"containerPort": 80}])
    (await kube.apply(path, _deployment(first), "one")).ok(201)
    second = container("side", ports=[{"containerPort": 80, "protocol": "UDP"}])
    now = (await kube.apply(path, _deployment(second), "two")).ok(200)
    containers = now["spec"]["template"]["spec"]["containers"]
    assert [one["name"] for one in containers] == ["main", "side"]
    owned = managers(now)["two", "Apply"]["f:spec"]["f:template"]["f:spec"]["f:containers"]
    assert list(owned) == ['k:{"name":"side"}']
    assert 'k:{"containerPort":80,"protocol":"UDP"}' in owned['k:{"name":"side"}']["f:ports"]
    now = (await kube.apply(path, _deployment(container("other")), "two")).ok(200)
    assert [one["name"] for one in now["spec"]["template"]["spec"]["containers"]] == ["main", "other"]
    now = (await kube.apply(path, _deployment(container("other"), container("main")), "two")).ok(200)
    assert [one["name"] for one in now["spec"]["template"]["spec"]["containers"]] == ["other", "main"]


async def test_sets_and_atomic_lists(kube: Client, space: Space) -> None:
    """finalizers are a set of several owners; args belong to one manager as a whole."""
    path = f"{space.configmaps}/a"
    (await kube.apply(path, configmap("a", finalizers=["x.io/1"]), "one")).ok(201)
    now = (await kube.apply(path, configmap("a", finalizers=["x.io/2"]), "two")).ok(200)
    assert sorted(now["metadata"]["finalizers"]) == ["x.io/1", "x.io/2"]
    assert managers(now)["two", "Apply"] == {"f:metadata": {"f:finalizers": {'v:"x.io/2"': {}}}}
    (await kube.merge(path, {"metadata": {"finalizers": None}})).ok(200)
    path = f"{space.deployments}/d"
    (await kube.apply(path, _deployment(container("main", args=["a"])), "one")).ok(201)
    answer = await kube.apply(path, _deployment(container("main", args=["a", "b"])), "two")
    answer.refused(409, "Conflict", '.spec.template.spec.containers[name="main"].args')


async def test_a_key_twice_is_refused(kube: Client, cluster: Cluster, space: Space) -> None:
    """The typed converter finds duplicates before anything is merged."""
    answer = await kube.apply(f"{space.deployments}/d", _deployment(container("main"), container("main")), "one")
    cluster.blames_the_client(answer)
    assert "duplicate" in answer.told.lower()
    answer = await kube.apply(f"{space.configmaps}/a", configmap("a", finalizers=["x.io/1", "x.io/1"]), "one")
    cluster.blames_the_client(answer)
    assert 'duplicate entries for key [="x.io/1"]' in answer.told


async def test_an_update_takes_ownership_of_what_it_changes(kube: Client, space: Space) -> None:
    """PUT and patches never conflict; the applier loses the changed field and may conflict afterwards."""
    path = f"{space.configmaps}/a"
    (await kube.apply(path, configmap("a", {"x": "1", "y": "1"}), "one")).ok(201)
    now = (await kube.merge(path, {"data": {"x": "2"}}, fieldManager="editor")).ok(200)
    assert managers(now) == {
        ("one", "Apply"): {"f:data": {"f:y": {}}},
        ("editor", "Update"): {"f:data": {"f:x": {}}},
    }
    answer = await kube.apply(path, configmap("a", {"x": "1", "y": "1"}), "one")
    answer.refused(409, "Conflict", 'conflict with "editor" using v1', ".data.x")


async def test_what_an_update_removes_nobody_owns(kube: Client, space: Space) -> None:
    """An entry without fields is dropped."""
    path = f"{space.configmaps}/a"
    (await kube.apply(path, configmap("a", {"x": "1"}), "one")).ok(201)
    now = (await kube.merge(path, {"data": None}, fieldManager="editor")).ok(200)
    assert ("one", "Apply") not in managers({"metadata": {"managedFields": [], **now["metadata"]}})


async def test_status_has_entries_of_its_own(kube: Client, space: Space) -> None:
    """subresource: status, and apply works there too."""
    (await kube.apply(f"{space.deployments}/d", _deployment(container("main")), "one")).ok(201)
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "status": {"replicas": 3}}
    now = (await kube.apply(f"{space.deployments}/d/status", body, "controller")).ok(200)
    assert now["status"]["replicas"] == 3
    none = {**body, "metadata": {"name": "none"}}
    (await kube.apply(f"{space.deployments}/none/status", none, "controller")).refused(404, "NotFound")
    (entry,) = [one for one in now["metadata"]["managedFields"] if one["manager"] == "controller"]
    assert (entry["manager"], entry["subresource"], entry["fieldsV1"]) == (
        "controller",
        "status",
        {"f:status": {"f:replicas": {}}},
    )


async def test_managed_fields_cannot_be_applied(kube: Client, space: Space) -> None:
    """A configuration that was read from the server by mistake is told."""
    body = configmap("a", managedFields=[{"manager": "x", "operation": "Apply", "apiVersion": "v1"}])
    answer = await kube.apply(f"{space.configmaps}/a", body)
    answer.refused(400, "BadRequest", "metadata.managedFields must be nil")


async def test_managed_fields_can_be_cleared(kube: Client, space: Space) -> None:
    """One empty entry resets them (the writer's own follows with the next change)."""
    path = f"{space.configmaps}/a"
    (await kube.apply(path, configmap("a", {"k": "v"}), "one")).ok(201)
    now = (await kube.merge(path, {"metadata": {"managedFields": [{}]}})).ok(200)
    assert now["metadata"].get("managedFields", []) == []
    (await kube.apply(path, configmap("a", {"k": "w"}), "two")).refused(409, "Conflict", '"before-first-apply"')


async def test_the_namespace_is_the_urls(kube: Client, space: Space) -> None:
    """Of who applies again too: what a configuration says of it where there is none, or leaves empty, is nothing."""
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "rules": []}
    path = f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{space.name}"
    for label, code in (("1", 201), ("2", 200)):
        meta = {"name": space.name, "namespace": "foo", "labels": {"l": label}}
        made = (await kube.apply(path, {**role, "metadata": meta})).ok(code)
        assert "namespace" not in made["metadata"]
        config = configmap("a", {"k": label}, namespace="")
        made = (await kube.apply(f"{space.configmaps}/a", config)).ok(code)
        assert made["metadata"]["namespace"] == space.name
    (await kube.delete(path)).ok()


async def test_names_of_items_are_json(kube: Client, space: Space) -> None:
    """1.0 is 1; what is no JSON is no element."""
    entry = {"manager": "two", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"}
    for name, (said, kept) in {"a": ("v:1.0", "v:1"), "b": ('k:{"a":1.0}', 'k:{"a":1}'), "c": ("v:NaN", "")}.items():
        sent = [{**entry, "fieldsV1": {said: {}}}]
        made = await kube.create(space.configmaps, configmap(name, managedFields=sent), fieldManager="one")
        assert not made["metadata"].get("managedFields") if not kept else managers(made)["two", "Update"] == {kept: {}}


@pytest.mark.parametrize("fields", [{"f:data": 5}, {"f:data": {"k:5": {}}}, {"f:data": {"v:{": {}}}])
async def test_malformed_managed_fields_are_not_taken(kube: Client, space: Space, fields: dict[str, Any]) -> None:
    """Those that are there stay. What is well formed and says nothing, or nothing that the server knows, clears."""
    path = f"{space.configmaps}/a"
    (await kube.apply(path, configmap("a", {"k": "v"}), "one")).ok(201)
    entry = {"manager": "two", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields}
    now = (await kube.merge(path, {"metadata": {"managedFields": [entry]}})).ok(200)
    assert managers(now) == {("one", "Apply"): {"f:data": {"f:k": {}}}}
    now = (await kube.merge(path, {"metadata": {"managedFields": [{**entry, "fieldsV1": {"x:y": {}}}]}})).ok(200)
    assert "managedFields" not in now["metadata"]


async def test_kubectl_goes_on_from_its_client_side_applies(kube: Client, space: Space) -> None:
    """What the annotation of kubectl apply says and nobody changed since is no conflict for kubectl, and the annotation
    follows: kubectl may go back. One that says nothing of this version is no help."""
    path, note = f"{space.configmaps}/a", "kubectl.kubernetes.io/last-applied-configuration"
    last = configmap("a", {"k": "1"}, finalizers=["x.io/1"])
    for said, code in (
        (json.dumps(last), 200),
        ("{", 409),
        (json.dumps({**last, "apiVersion": "v2"}), 409),
        (json.dumps({**last, "metadata": {"finalizers": [None]}}), 409),
    ):
        sent = {**last, "metadata": {**last["metadata"], "annotations": {note: said}}}
        await kube.create(space.configmaps, sent, fieldManager="kubectl-client-side-apply")
        config = configmap("a", {"k": "2"}, annotations={"x": "y"}, finalizers=["x.io/1"])
        (await kube.apply(path, config, "other")).refused(409, "Conflict", ".data.k")
        answer = await kube.apply(path, config, "kubectl")
        assert answer.status == code, answer.told
        if code == 200:
            assert json.loads(answer.body["metadata"]["annotations"][note]) == config
        (await kube.merge(path, {"metadata": {"finalizers": None}})).ok(200)
        (await kube.delete(path)).ok(200)


async def test_a_configuration_may_be_yaml(kube: Client, space: Space) -> None:
    """application/apply-patch+yaml is YAML, of which JSON is a part."""
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  k: v\n"
    assert (await kube.apply(f"{space.configmaps}/a", text)).ok(201)["data"] == {"k": "v"}


@pytest.mark.parametrize("text", ["a: [", "- 1", "text", "", "metadata: {name: a}"])
async def test_a_configuration_that_is_none_is_refused(kube: Client, space: Space, text: str) -> None:
    """Bad YAML, or YAML that is no object of a kind: 400."""
    (await kube.apply(f"{space.configmaps}/a", text)).refused(400, "BadRequest")


async def test_a_configuration_for_another_object_is_refused(kube: Client, space: Space) -> None:
    """Name, kind and version of the body are the URL's."""
    assert (await kube.apply(f"{space.configmaps}/a", configmap("b"))).status in (400, 409)
    assert (await kube.apply(f"{space.configmaps}/a", {**configmap("a"), "kind": "Secret"})).status == 400
    assert (await kube.apply(f"{space.deployments}/a", {**deployment("a"), "apiVersion": "v1"})).status == 400


async def test_apply_with_a_version_is_conditional(kube: Client, space: Space) -> None:
    """metadata.resourceVersion is compared, not owned."""
    path = f"{space.configmaps}/a"
    made = (await kube.apply(path, configmap("a", {"k": "1"}), "one")).ok(201)
    seen = made["metadata"]["resourceVersion"]
    (await kube.apply(path, configmap("a", {"k": "2"}, resourceVersion=seen), "one")).ok(200)
    (await kube.apply(path, configmap("a", {"k": "3"}, resourceVersion=seen), "one")).refused(409, "Conflict")


async def test_custom_resources_apply_by_their_schema(kube: Client, cluster: Cluster, space: Space) -> None:
    """x-kubernetes-list-type map and set, x-kubernetes-map-type atomic."""
    item = {"type": "object", "properties": {"id": {"type": "string"}, "n": {"type": "integer"}}, "required": ["id"]}
    properties = {
        "items": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["id"],
            "items": item,
        },
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "whole": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": {"type": "string"}},
    }
    schema = {"spec": {"type": "object", "properties": properties}}
    await kube.create(CRDS, crd(space.group, version(schema=schema)))
    path = f"{space.of(f'{space.group}/v1', 'widgets')}/a"

    def body(**spec: Any) -> dict[str, Any]:
        return custom(space.group, "a", spec)

    first = body(items=[{"id": "x", "n": 1}], tags=["t1"], whole={"k": "v"})
    await eventually(lambda: _created(kube, path, first))
    now = (await kube.apply(path, body(items=[{"id": "y", "n": 2}], tags=["t2"]), "two")).ok(200)
    assert now["spec"]["items"] == [{"id": "x", "n": 1}, {"id": "y", "n": 2}]
    assert now["spec"]["tags"] == ["t1", "t2"]
    (await kube.apply(path, body(whole={"k": "v", "l": "w"}), "two")).refused(409, "Conflict", ".spec.whole")
    (await kube.apply(path, body(items=[{"id": "x", "n": 5}]), "two")).refused(409, "Conflict", '.spec.items[id="x"].n')
    now = (await kube.apply(path, body(tags=["t1"]), "one")).ok(200)
    assert now["spec"] == {"items": [{"id": "y", "n": 2}], "tags": ["t1", "t2"]}
    for nameless in ({"tags": [None]}, {"tags": [{}]}, {"items": ["x"]}, {"items": [{}]}):
        cluster.blames_the_client(await kube.apply(path, body(**nameless), "two"))


async def test_null_is_nothing_and_raw_values_are_whole(kube: Client, space: Space) -> None:
    """A configuration takes the place of a null; what has no type in Go (RawExtension) has one owner."""
    await kube.create(space.configmaps, {**configmap("a"), "data": None})
    assert (await kube.apply(f"{space.configmaps}/a", configmap("a", {"k": "v"}))).ok(200)["data"] == {"k": "v"}
    revision = {"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {"name": "r"}, "revision": 1}
    path = f"{space.of('apps/v1', 'controllerrevisions')}/r"
    made = (await kube.apply(path, {**revision, "data": {"a": {"b": 1}}}, "one")).ok(201)
    assert managers(made) == {("one", "Apply"): {"f:data": {}, "f:revision": {}}}


async def test_a_dry_apply_changes_nothing(kube: Client, space: Space) -> None:
    """kubectl diff --server-side stands on it."""
    path = f"{space.configmaps}/a"
    assert (await kube.apply(path, configmap("a", {"k": "v"}), dryRun="All")).ok(201)["data"] == {"k": "v"}
    (await kube.get(path)).refused(404)


async def _created(kube: Client, path: str, body: dict[str, Any]) -> None:
    (await kube.apply(path, body, "one")).ok(201)


def _deployment(*containers: dict[str, Any]) -> dict[str, Any]:
    made = deployment("d")
    made["spec"]["template"]["spec"]["containers"] = list(containers)
    del made["spec"]["replicas"]
    return made


async def test_what_an_endpoint_cannot_write_is_nobodys_conflict(kube: Client, space: Space) -> None:
    """The spec at /status is ignored before owners are asked, as the status is elsewhere."""
    path = f"{space.deployments}/d"
    (await kube.apply(path, deployment("d", replicas=2), "owner")).ok(201)
    applied = {**deployment("d", replicas=7), "status": {"replicas": 3}}
    written = (await kube.apply(f"{path}/status", applied, "reporter")).ok(200)
    assert (written["spec"]["replicas"], written["status"]["replicas"]) == (2, 3)
    entry = next(one for one in written["metadata"]["managedFields"] if one["manager"] == "reporter")
    assert entry["fieldsV1"] == {"f:status": {"f:replicas": {}}}


async def test_an_apply_of_a_version_makes_an_object_all_the_same(kube: Client, space: Space) -> None:
    (await kube.apply(f"{space.configmaps}/a", configmap("a", {"k": "v"}, resourceVersion="1"))).ok(201)
    answer = await kube.apply(f"{space.configmaps}/b", configmap("b", uid="11111111-2222-3333-4444-555555555555"))
    answer.refused(409, "Conflict", "uid mismatch", "and no existing object was found")


async def test_an_apply_that_changes_nothing_has_no_time(kube: Client, space: Space) -> None:
    path = f"{space.configmaps}/a"
    (await kube.apply(path, configmap("a", {"k": "v"}), "first")).ok(201)
    second = (await kube.apply(path, configmap("a", {"k": "v"}), "second")).ok(200)
    times = {one["manager"]: "time" in one for one in second["metadata"]["managedFields"]}
    assert times == {"first": True, "second": False}
