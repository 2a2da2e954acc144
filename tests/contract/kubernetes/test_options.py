"""Dry run and field validation: options of every write."""

from tests.support.kubeobjects import configmap, crd, custom, deployment, pod
from tests.support.kubernetes import Client, Cluster, Space, eventually

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


async def test_a_dry_create_is_complete_and_not_kept(kube: Client, space: Space) -> None:
    """Defaults, uid and name are there, the object is not."""
    made = await kube.create(space.pods, pod("a"), dryRun="All")
    assert made["spec"]["restartPolicy"] == "Always"
    assert made["metadata"]["uid"]
    (await kube.get(f"{space.pods}/a")).refused(404)


async def test_many_warnings_are_cut(kube: Client, space: Space) -> None:
    """Beyond 4096 characters only the beginnings of 16."""
    body = pod("a")
    body["spec"] |= {f"{number:02}" * 150: 1 for number in range(30)}
    warnings = (await kube.post(space.pods, body, dryRun="All")).warnings
    assert [len(text) for text in warnings] == [256] * 16


async def test_dry_updates_patches_and_deletes_change_nothing(kube: Client, space: Space) -> None:
    """And are validated like real ones."""
    path = f"{space.configmaps}/a"
    made = await kube.create(space.configmaps, configmap("a", {"k": "1"}))
    assert (await kube.put(path, configmap("a", {"k": "2"}), dryRun="All")).ok(200)["data"] == {"k": "2"}
    assert (await kube.merge(path, {"data": {"k": "3"}}, dryRun="All")).ok(200)["data"] == {"k": "3"}
    (await kube.merge(path, {"data": {"a/b": "3"}}, dryRun="All")).refused(422, "Invalid")
    (await kube.delete(path, dryRun="All")).ok(200)
    (await kube.delete(space.configmaps, dryRun="All")).ok(200)
    assert await kube.read(path) == made


async def test_a_dry_create_finds_what_exists(kube: Client, space: Space) -> None:
    """409, as the real one."""
    await kube.create(space.configmaps, configmap("a"))
    (await kube.post(space.configmaps, configmap("a"), dryRun="All")).refused(409, "AlreadyExists")


async def test_dry_run_has_one_value(kube: Client, space: Space) -> None:
    """ValidateDryRun."""
    answer = await kube.post(space.configmaps, configmap("a"), dryRun="Some")
    answer.refused(422, "Invalid", "dryRun: Unsupported value: ", '"Some"', 'supported values: "All"')


async def test_strict_refuses_unknown_fields(kube: Client, space: Space) -> None:
    """400 that names each with its path."""
    body = pod("a")
    body["spec"]["containers"][0]["imagee"] = "x"
    body["spec"]["nope"] = 1
    answer = await kube.post(space.pods, body, fieldValidation="Strict")
    answer.refused(400, "BadRequest", 'unknown field "spec.containers[0].imagee"', 'unknown field "spec.nope"')


async def test_warn_takes_them_and_tells(kube: Client, space: Space) -> None:
    """The default of the API: a Warning header for each, the field is dropped."""
    body = pod("a")
    body["spec"]["nope"] = 1
    answer = await kube.post(space.pods, body, fieldValidation="Warn")
    assert answer.warnings == ['unknown field "spec.nope"']
    assert "nope" not in answer.ok(201)["spec"]
    answer = await kube.put(f"{space.pods}/a", {**answer.body, "extra": 1})
    assert answer.warnings == ['unknown field "extra"']


async def test_ignore_is_silent(kube: Client, space: Space) -> None:
    """No header, dropped all the same."""
    body = pod("a")
    body["spec"]["nope"] = 1
    answer = await kube.post(space.pods, body, fieldValidation="Ignore")
    assert "nope" not in answer.ok(201)["spec"]
    assert answer.warnings == []


async def test_a_field_twice_is_a_duplicate(kube: Client, space: Space) -> None:
    """JSON takes the last; Strict refuses, Warn tells."""
    text = (
        '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "1"}, "data": {"k": "2"}}'
    )
    answer = await kube.call("POST", space.configmaps, text, query={"fieldValidation": "Strict"})
    answer.refused(400, "BadRequest", 'duplicate field "data"')
    answer = await kube.call("POST", space.configmaps, text)
    assert answer.ok(201)["data"] == {"k": "2"}
    assert answer.warnings == ['duplicate field "data"']


async def test_another_validation_is_unknown(kube: Client, space: Space) -> None:
    """ValidateFieldValidation."""
    answer = await kube.post(space.configmaps, configmap("a"), fieldValidation="Perhaps")
    answer.refused(422, "Invalid", 'fieldValidation: Unsupported value: "Perhaps"')


async def test_patches_are_validated_too(kube: Client, space: Space) -> None:
    """Merge, JSON and apply under Strict."""
    path = f"{space.deployments}/d"
    await kube.create(space.deployments, deployment("d"))
    answer = await kube.merge(path, {"spec": {"nope": 1}}, fieldValidation="Strict")
    answer.refused(422, "Invalid", 'strict decoding error: unknown field "spec.nope"')
    add = {"op": "add", "path": "/spec/nope", "value": 1}
    answer = await kube.json_patch(path, add, fieldValidation="Strict")
    answer.refused(422, "Invalid", 'strict decoding error: unknown field "spec.nope"')
    answer = await kube.merge(path, {"spec": {"nope": 1}})
    assert answer.ok(200)["metadata"]["generation"] == 1
    assert answer.warnings == ['unknown field "spec.nope"']


async def test_apply_knows_its_types(kube: Client, cluster: Cluster, space: Space) -> None:
    """Server-side apply refuses unknown fields whatever the validation."""
    body = configmap("a", {"k": "v"})
    answer = await kube.apply(f"{space.configmaps}/a", {**body, "nope": 1}, fieldValidation="Strict")
    cluster.blames_the_client(answer)
    assert "nope" in answer.told


async def test_custom_resources_are_validated_alike(kube: Client, space: Space) -> None:
    """Unknown fields of a CRD's schema: pruned, told, or refused."""
    await kube.create(CRDS, crd(space.group))
    path = space.of(f"{space.group}/v1", "widgets")
    await eventually(lambda: kube.create(path, custom(space.group, "first", {"size": 1})))
    body = custom(space.group, "a", {"size": 1, "nope": 2})
    (await kube.post(path, body, fieldValidation="Strict")).refused(400, "BadRequest", 'unknown field "spec.nope"')
    answer = await kube.post(path, body)
    assert answer.ok(201)["spec"] == {"size": 1}
    assert answer.warnings == ['unknown field "spec.nope"']
