"""update (PUT): optimistic concurrency, names, generation, status and scale. Excluded: patches (test_patches)."""

import asyncio

import pytest

from tests.support.kubeobjects import configmap, crd, custom, deployment, lease, pod, version
from tests.support.kubernetes import Client, Cluster, Space, eventually

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


async def test_put_replaces_the_whole_object(kube: Client, space: Space) -> None:
    """What the body leaves out is gone."""
    await kube.create(space.configmaps, configmap("a", {"k": "v"}, labels={"l": "1"}))
    now = (await kube.put(f"{space.configmaps}/a", configmap("a", {"other": "w"}))).ok(200)
    assert now["data"] == {"other": "w"}
    assert "labels" not in now["metadata"]


async def test_each_change_has_a_new_larger_version(kube: Client, space: Space) -> None:
    """resourceVersion grows over all objects of the server (etcd's revision)."""
    first = await kube.create(space.configmaps, configmap("a"))
    second = (await kube.put(f"{space.configmaps}/a", configmap("a", {"k": "v"}))).ok(200)
    other = await kube.create(space.configmaps, configmap("b"))
    versions = [int(one["metadata"]["resourceVersion"]) for one in (first, second, other)]
    assert versions == sorted(set(versions))


async def test_a_stale_version_is_a_conflict(kube: Client, space: Space) -> None:
    """storage.OptimisticLockErrorMsg in a 409 that names the object."""
    first = await kube.create(space.configmaps, configmap("a"))
    (await kube.put(f"{space.configmaps}/a", {**first, "data": {"k": "1"}})).ok(200)
    answer = await kube.put(f"{space.configmaps}/a", {**first, "data": {"k": "2"}})
    answer.refused(
        409,
        "Conflict",
        'Operation cannot be fulfilled on configmaps "a": the object has been modified; '
        "please apply your changes to the latest version and try again",
    )


async def test_without_a_version_the_last_writer_wins_for_built_in_kinds(kube: Client, space: Space) -> None:
    """AllowUnconditionalUpdate."""
    await kube.create(space.configmaps, configmap("a", {"k": "1"}))
    now = (await kube.put(f"{space.configmaps}/a", configmap("a", {"k": "2"}))).ok(200)
    assert now["data"] == {"k": "2"}


async def test_a_lease_is_never_updated_without_its_version(kube: Client, space: Space) -> None:
    """What leader election stands on: a Lease's update names the version it saw, two with the same cannot both win."""
    path = space.of("coordination.k8s.io/v1", "leases")
    made = await kube.create(path, lease("leader"))
    claims = [{**made, "spec": {**made["spec"], "holderIdentity": who}} for who in "bcde"]
    answers = await asyncio.gather(*(kube.put(f"{path}/leader", claim) for claim in claims))
    assert sorted(answer.status for answer in answers) == [200, 409, 409, 409]
    answer = await kube.put(f"{path}/leader", lease("leader", "x"))
    answer.refused(422, "Invalid", "metadata.resourceVersion: Invalid value", "must be specified for an update")


async def test_a_lease_can_be_created_by_put(kube: Client, space: Space) -> None:
    """AllowCreateOnUpdate: true for Leases, false for most kinds."""
    path = space.of("coordination.k8s.io/v1", "leases")
    (await kube.put(f"{path}/fresh", lease("fresh"))).ok(201)
    answer = await kube.put(f"{space.pods}/fresh", pod("fresh"))
    answer.refused(404, "NotFound", 'pods "fresh" not found')


async def test_lease_times_keep_their_microseconds(kube: Client, space: Space) -> None:
    """metav1.MicroTime: six digits, and nothing else is taken."""
    path = space.of("coordination.k8s.io/v1", "leases")
    body = lease("leader")
    body["spec"]["renewTime"] = "2026-01-02T03:04:05.500000Z"
    assert (await kube.create(path, body))["spec"]["renewTime"] == "2026-01-02T03:04:05.500000Z"
    body["spec"]["renewTime"] = "2026-01-02T03:04:05.5Z"
    (await kube.post(path, body)).refused(400, "BadRequest", "cannot be handled as a Lease", "2026-01-02T03:04:05.5Z")


async def test_the_name_of_the_body_must_be_the_url_s(kube: Client, space: Space) -> None:
    """rest.EnsureNameMatches."""
    await kube.create(space.configmaps, configmap("a"))
    answer = await kube.put(f"{space.configmaps}/a", configmap("b"))
    answer.refused(400, "BadRequest", "the name of the object (b) does not match the name on the URL (a)")
    answer = await kube.put(f"{space.configmaps}/a", {"metadata": {}})
    answer.refused(
        400, "BadRequest", "the name of the object (a based on URL) was undeterminable: name must be provided"
    )


async def test_a_uid_in_the_body_is_a_precondition(kube: Client, space: Space) -> None:
    """An update meant for an object of the same name that is gone: 409."""
    await kube.create(space.configmaps, configmap("a"))
    answer = await kube.put(f"{space.configmaps}/a", configmap("a", uid="11111111-2222-3333-4444-555555555555"))
    answer.refused(409, "Conflict", "Precondition failed: UID in precondition: 11111111")


async def test_creation_time_survives_an_update(kube: Client, space: Space) -> None:
    """BeforeUpdate restores what clients may not change."""
    made = await kube.create(space.configmaps, configmap("a"))
    now = (await kube.put(f"{space.configmaps}/a", configmap("a", {"k": "v"}))).ok(200)
    for key in ("uid", "creationTimestamp"):
        assert now["metadata"][key] == made["metadata"][key]


async def test_an_update_that_changes_nothing_keeps_the_version(kube: Client, space: Space) -> None:
    """The store writes nothing when the bytes are the same; no watcher is told."""
    made = await kube.create(space.configmaps, configmap("a", {"k": "v"}))
    now = (await kube.put(f"{space.configmaps}/a", made)).ok(200)
    assert now["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


async def test_generation_counts_specs_only(kube: Client, space: Space) -> None:
    """Labels and status leave it alone."""
    path = f"{space.deployments}/d"
    await kube.create(space.deployments, deployment("d"))

    async def generation() -> int:
        return int((await kube.read(path))["metadata"]["generation"])

    (await kube.merge(path, {"metadata": {"labels": {"l": "1"}}})).ok()
    assert await generation() == 1
    (await kube.merge(path, {"spec": {"paused": True}})).ok()
    assert await generation() == 2
    (await kube.merge(f"{path}/status", {"status": {"observedGeneration": 2}})).ok()
    assert await generation() == 2


async def test_the_main_endpoint_ignores_status(kube: Client, space: Space) -> None:
    """PrepareForUpdate takes the old status."""
    made = await kube.create(space.pods, pod("p"))
    now = (await kube.put(f"{space.pods}/p", {**made, "status": {"phase": "Failed"}})).ok(200)
    assert now["status"]["phase"] == "Pending"


async def test_the_status_endpoint_changes_only_status(kube: Client, space: Space) -> None:
    """The other half: spec of the body is ignored."""
    made = await kube.create(space.pods, pod("p"))
    body = {**made, "status": {"phase": "Running", "message": "hello"}, "spec": {**made["spec"], "priority": 7}}
    now = (await kube.put(f"{space.pods}/p/status", body)).ok(200)
    assert (now["status"]["phase"], now["status"]["message"]) == ("Running", "hello")
    assert now["spec"] == made["spec"]
    assert (await kube.read(f"{space.pods}/p/status"))["status"] == now["status"]


async def test_status_of_a_missing_object_is_not_found(kube: Client, space: Space) -> None:
    """A status endpoint never creates."""
    (await kube.merge(f"{space.pods}/none/status", {"status": {}})).refused(404, "NotFound")


async def test_a_custom_resource_s_update_needs_its_version(kube: Client, space: Space) -> None:
    """AllowUnconditionalUpdate is false for custom resources."""
    path = space.of(f"{space.group}/v1", "widgets")
    await kube.create(CRDS, crd(space.group, version(subresources={"status": {}})))
    made = await eventually(lambda: kube.create(path, custom(space.group, "a", {"size": 1})))
    answer = await kube.put(f"{path}/a", custom(space.group, "a", {"size": 2}))
    answer.refused(422, "Invalid", "metadata.resourceVersion: Invalid value", "must be specified for an update")
    (await kube.put(f"{path}/none", custom(space.group, "none"))).refused(404, "NotFound")
    made["spec"]["size"] = 2
    assert (await kube.put(f"{path}/a", made)).ok(200)["metadata"]["generation"] == 2


async def test_scale_shows_and_sets_replicas(kube: Client, space: Space) -> None:
    """autoscaling/v1 Scale of a Deployment: selector as text, replicas of spec and status."""
    await kube.create(space.deployments, deployment("d", replicas=2))
    path = f"{space.deployments}/d/scale"
    scale = await kube.read(path)
    assert (scale["apiVersion"], scale["kind"]) == ("autoscaling/v1", "Scale")
    assert (scale["spec"]["replicas"], scale["status"]["selector"]) == (2, "app=d")
    scale["spec"]["replicas"] = 5
    now = (await kube.call("PUT", path, {**scale, "metadata": {"name": "d"}})).ok(200)
    assert now["spec"]["replicas"] == 5
    deployed = await kube.read(f"{space.deployments}/d")
    assert (deployed["spec"]["replicas"], deployed["metadata"]["generation"]) == (5, 2)


async def test_the_selector_of_a_scale_is_a_query(kube: Client, space: Space) -> None:
    """matchLabels and matchExpressions in the order of their keys, for who looks for the Pods."""
    among = {"key": "tier", "operator": "In", "values": ["b", "a"]}
    others = [{"key": "x", "operator": "DoesNotExist"}, among, {"key": "app", "operator": "Exists"}]
    made = deployment("d", spec={"selector": {"matchLabels": {"app": "d"}, "matchExpressions": others}})
    made["spec"]["template"]["metadata"]["labels"] = {"app": "d", "tier": "a"}
    await kube.create(space.deployments, made)
    scale = await kube.read(f"{space.deployments}/d/scale")
    assert scale["status"]["selector"] == "app=d,app,tier in (a,b),!x"


async def test_scale_takes_patches_and_versions(kube: Client, space: Space) -> None:
    """PATCH as kubectl scale sends it; a stale version is a conflict, less than nothing is invalid."""
    made = await kube.create(space.deployments, deployment("d", replicas=2))
    path = f"{space.deployments}/d/scale"
    assert (await kube.merge(path, {"spec": {"replicas": 0}})).ok(200)["spec"].get("replicas", 0) == 0
    stale = {"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}, "spec": {"replicas": 1}}
    (await kube.merge(path, stale)).refused(409, "Conflict")
    (await kube.merge(path, {"spec": {"replicas": -1}})).refused(422, "Invalid", "spec.replicas")
    (await kube.get(f"{space.deployments}/none/scale")).refused(404, "NotFound")


async def test_a_scale_is_of_its_object_and_holds_32_bits(kube: Client, cluster: Cluster, space: Space) -> None:
    """What is refused changes nothing: the object can be written as before. null is none."""
    await kube.create(space.deployments, deployment("d", replicas=2))
    path = f"{space.deployments}/d/scale"
    for replicas in (2**31, 10**30, "", False):
        cluster.blames_the_client(await kube.merge(path, {"spec": {"replicas": replicas}}))
    other = {"metadata": {"uid": "11111111-2222-3333-4444-555555555555"}, "spec": {"replicas": 1}}
    (await kube.merge(path, other)).refused(409, "Conflict")
    now = (await kube.merge(f"{space.deployments}/d", {"metadata": {"labels": {"l": "1"}}})).ok(200)
    assert now["spec"]["replicas"] == 2
    shown = await kube.read(path)
    now = (await kube.put(path, {**shown, "spec": {"replicas": None}})).ok(200)
    assert now["spec"].get("replicas", 0) == 0


async def test_a_custom_resource_scales_by_its_paths(kube: Client, space: Space) -> None:
    """subresources.scale of a CRD: JSONPaths say where the numbers are."""
    schema = {
        "spec": {"type": "object", "properties": {"count": {"type": "integer"}}},
        "status": {"type": "object", "properties": {"count": {"type": "integer"}, "selector": {"type": "string"}}},
    }
    scale = {
        "specReplicasPath": ".spec.count",
        "statusReplicasPath": ".status.count",
        "labelSelectorPath": ".status.selector",
    }
    await kube.create(CRDS, crd(space.group, version(schema=schema, subresources={"status": {}, "scale": scale})))
    path = space.of(f"{space.group}/v1", "widgets")
    await eventually(lambda: kube.create(path, custom(space.group, "a", {"count": 3})))
    (await kube.merge(f"{path}/a/status", {"status": {"count": 2, "selector": "x=y"}})).ok()
    shown = await kube.read(f"{path}/a/scale")
    assert shown["spec"] == {"replicas": 3}
    assert shown["status"] == {"replicas": 2, "selector": "x=y"}
    (await kube.merge(f"{path}/a/scale", {"spec": {"replicas": 8}})).ok()
    assert (await kube.read(f"{path}/a"))["spec"] == {"count": 8}
    await kube.create(path, custom(space.group, "b"))
    (await kube.merge(f"{path}/b/scale", {"spec": {"replicas": 1}})).ok()
    assert (await kube.read(f"{path}/b"))["spec"] == {"count": 1}


@pytest.mark.needs("devkube")
async def test_a_scale_is_patched_and_not_applied(kube: Client, space: Space) -> None:
    """A real server applies those of built-in kinds, and fails to convert those of custom resources."""
    await kube.create(space.deployments, deployment("d"))
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d"}, "spec": {"replicas": 5}}
    answer = await kube.apply(f"{space.deployments}/d/scale", scale)
    answer.refused(415, "UnsupportedMediaType", "application/merge-patch+json")


async def test_version_0_is_no_version(kube: Client, space: Space) -> None:
    await kube.create(space.configmaps, configmap("a", resourceVersion="0"))
    (await kube.put(f"{space.configmaps}/a", configmap("a", {"k": "v"}, resourceVersion="0"))).ok(200)
    (await kube.merge(f"{space.configmaps}/a", {"metadata": {"resourceVersion": "0"}})).ok(200)
    await kube.create(space.of("coordination.k8s.io/v1", "leases"), lease("l"))
    unversioned = {**lease("l"), "metadata": {"name": "l", "resourceVersion": "0"}}
    (await kube.put(f"{space.of('coordination.k8s.io/v1', 'leases')}/l", unversioned)).refused(
        422, "Invalid", "must be specified for an update"
    )


async def test_a_deletion_is_not_begun_by_an_update(kube: Client, space: Space) -> None:
    await kube.create(space.configmaps, configmap("a"))
    now = {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
    refused = await kube.merge(f"{space.configmaps}/a", now)
    refused.refused(422, "Invalid", "metadata.deletionTimestamp", "field is immutable")


async def test_status_of_built_in_kinds_takes_metadata_along(kube: Client, space: Space) -> None:
    """Their strategies reset the spec only; of Deployments the labels too, of Pods the owners."""
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "u"}
    meta = {
        "labels": {"a": "b"},
        "annotations": {"x": "y"},
        "finalizers": ["example.com/f"],
        "ownerReferences": [reference],
    }
    await kube.create(space.deployments, deployment("d"))
    await kube.create(space.pods, pod("p"))
    await kube.create(space.of("v1", "services"), {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}})
    for path, kept in (
        (f"{space.deployments}/d", "labels"),
        (f"{space.pods}/p", "ownerReferences"),
        (f"{space.of('v1', 'services')}/s", None),
    ):
        written = (await kube.merge(f"{path}/status", {"metadata": meta})).ok(200)["metadata"]
        written["annotations"].pop("deployment.kubernetes.io/revision", None)  # a controller's
        assert {key: written[key] for key in meta if key in written} == {k: v for k, v in meta.items() if k != kept}
        (await kube.merge(path, {"metadata": {"finalizers": None}})).ok(200)
