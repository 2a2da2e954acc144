"""delete: answers, preconditions, finalizers, grace, collections, propagation and namespaces."""

import pytest

from tests.support.kubeobjects import configmap, container, crd, custom, owner, pod
from tests.support.kubernetes import Client, Cluster, Space, eventually

OPTIONS = {"kind": "DeleteOptions", "apiVersion": "v1"}
FINALIZER = "example.com/wait"


async def gone(kube: Client, path: str) -> None:
    (await kube.get(path)).refused(404, "NotFound")


async def test_delete_answers_with_success(kube: Client, space: Space) -> None:
    """A Status that names what is gone and its uid."""
    made = await kube.create(space.configmaps, configmap("a"))
    told = (await kube.delete(f"{space.configmaps}/a")).ok(200)
    assert (told["kind"], told["status"]) == ("Status", "Success")
    assert told["details"] == {"name": "a", "kind": "configmaps", "uid": made["metadata"]["uid"]}
    await gone(kube, f"{space.configmaps}/a")


async def test_deleting_what_is_not_there_is_not_found(kube: Client, space: Space) -> None:
    """404, whatever the options."""
    (await kube.delete(f"{space.configmaps}/a", OPTIONS)).refused(404, "NotFound", 'configmaps "a" not found')


async def test_preconditions_are_checked(kube: Client, space: Space) -> None:
    """uid and resourceVersion: 409 that tells both values."""
    made = (await kube.create(space.configmaps, configmap("a")))["metadata"]
    answer = await kube.delete(f"{space.configmaps}/a", {**OPTIONS, "preconditions": {"uid": "another"}})
    answer.refused(
        409, "Conflict", "the UID in the precondition (another) does not match the UID in record", made["uid"]
    )
    answer = await kube.delete(f"{space.configmaps}/a", {**OPTIONS, "preconditions": {"resourceVersion": "1"}})
    answer.refused(
        409, "Conflict", "the ResourceVersion in the precondition (1) does not match the ResourceVersion in record"
    )
    right = {"uid": made["uid"], "resourceVersion": made["resourceVersion"]}
    (await kube.delete(f"{space.configmaps}/a", {**OPTIONS, "preconditions": right})).ok(200)


async def test_a_finalizer_holds_an_object(kube: Client, space: Space) -> None:
    """deletionTimestamp and a grace of 0 at once, gone with the last finalizer."""
    await kube.create(space.configmaps, configmap("a", finalizers=[FINALIZER, "example.com/two"]))
    told = (await kube.delete(f"{space.configmaps}/a")).ok(200)
    assert told["kind"] == "ConfigMap"
    metadata = (await kube.read(f"{space.configmaps}/a"))["metadata"]
    assert metadata["deletionTimestamp"].endswith("Z")
    assert metadata["deletionGracePeriodSeconds"] == 0
    again = await kube.post(space.configmaps, configmap("a"))
    again.refused(409, "AlreadyExists", 'object is being deleted: configmaps "a" already exists')
    (await kube.merge(f"{space.configmaps}/a", {"metadata": {"finalizers": [FINALIZER]}})).ok(200)
    assert (await kube.read(f"{space.configmaps}/a"))["metadata"]["finalizers"] == [FINALIZER]
    (await kube.merge(f"{space.configmaps}/a", {"metadata": {"finalizers": None}})).ok(200)
    await gone(kube, f"{space.configmaps}/a")


async def test_a_second_delete_changes_nothing(kube: Client, space: Space) -> None:
    """The first deletionTimestamp stays."""
    await kube.create(space.configmaps, configmap("a", finalizers=[FINALIZER]))
    (await kube.delete(f"{space.configmaps}/a")).ok(200)
    first = await kube.read(f"{space.configmaps}/a")
    (await kube.delete(f"{space.configmaps}/a")).ok(200)
    assert await kube.read(f"{space.configmaps}/a") == first
    (await kube.merge(f"{space.configmaps}/a", {"metadata": {"finalizers": None}})).ok(200)


async def test_what_is_going_takes_no_new_finalizers(kube: Client, space: Space) -> None:
    """ValidateObjectMetaUpdate."""
    await kube.create(space.configmaps, configmap("a", finalizers=[FINALIZER]))
    (await kube.delete(f"{space.configmaps}/a")).ok(200)
    answer = await kube.merge(f"{space.configmaps}/a", {"metadata": {"finalizers": [FINALIZER, "example.com/new"]}})
    answer.refused(422, "Invalid", "no new finalizers can be added if the object is being deleted")
    (await kube.merge(f"{space.configmaps}/a", {"metadata": {"finalizers": None}})).ok(200)


async def test_a_finalizer_s_name_is_qualified(kube: Client, space: Space) -> None:
    """ValidateFinalizerName."""
    answer = await kube.post(space.configmaps, configmap("a", finalizers=["no spaces"]))
    answer.refused(422, "Invalid", "metadata.finalizers")


async def test_a_pod_on_a_node_waits_for_its_kubelet(kube: Client, space: Space) -> None:
    """Graceful deletion: the Pod stays, dated, until somebody deletes it with a grace of 0."""
    await kube.create(space.pods, pod("p", spec={"nodeName": "nowhere", "terminationGracePeriodSeconds": 20}))
    told = (await kube.delete(f"{space.pods}/p")).ok()
    assert told["metadata"]["deletionGracePeriodSeconds"] == 20
    (await kube.read(f"{space.pods}/p"))["metadata"]["deletionTimestamp"]
    assert (await kube.delete(f"{space.pods}/p")).ok()["metadata"] == told["metadata"]
    (await kube.delete(f"{space.pods}/p", {**OPTIONS, "gracePeriodSeconds": 0})).ok()
    await gone(kube, f"{space.pods}/p")


async def test_a_grace_may_be_of_any_length(kube: Client, space: Space) -> None:
    """Longer than calendars are."""
    await kube.create(space.pods, pod("p", spec={"nodeName": "nowhere"}))
    told = (await kube.delete(f"{space.pods}/p", {**OPTIONS, "gracePeriodSeconds": 2**62})).ok()
    assert told["metadata"]["deletionTimestamp"].endswith("Z")
    (await kube.delete(f"{space.pods}/p", {**OPTIONS, "gracePeriodSeconds": 0})).ok()


async def test_a_pod_on_no_node_goes_at_once(kube: Client, space: Space) -> None:
    """CheckGracefulDelete: nothing runs yet."""
    await kube.create(space.pods, pod("p"))
    (await kube.delete(f"{space.pods}/p")).ok()
    await gone(kube, f"{space.pods}/p")


async def test_deletecollection_takes_what_is_selected(kube: Client, space: Space) -> None:
    """A list of what was deleted is the answer; the others stay."""
    for name, label in (("a", "1"), ("b", "1"), ("c", "2")):
        await kube.create(space.configmaps, configmap(name, labels={"l": label}))
    told = (await kube.delete(space.configmaps, labelSelector="l=1")).ok(200)
    assert told["kind"] == "ConfigMapList"
    assert [item["metadata"]["name"] for item in told["items"]] == ["a", "b"]
    assert await kube.names(space.configmaps, labelSelector="l") == ["c"]


async def test_options_may_be_parameters(kube: Client, space: Space) -> None:
    """Without a body the query is read: kubectl and curl use either."""
    await kube.create(space.configmaps, configmap("a"))
    (await kube.delete(f"{space.configmaps}/a", dryRun="All")).ok(200)
    await kube.read(f"{space.configmaps}/a")
    (await kube.delete(f"{space.configmaps}/a", propagationPolicy="Sideways")).refused(422, "Invalid")
    (await kube.delete(f"{space.configmaps}/a", {"gracePeriodSeconds": "soon"})).refused(400, "BadRequest")


async def test_dependents_go_after_their_owner(kube: Client, space: Space) -> None:
    """Background: the owner at once, then what it owned."""
    parent = await kube.create(space.configmaps, configmap("parent"))
    await kube.create(space.configmaps, configmap("child", ownerReferences=[owner(parent)]))
    (await kube.delete(f"{space.configmaps}/parent", {**OPTIONS, "propagationPolicy": "Background"})).ok()
    await gone(kube, f"{space.configmaps}/parent")
    await eventually(lambda: gone(kube, f"{space.configmaps}/child"))


async def test_grandchildren_go_too(kube: Client, space: Space) -> None:
    """The collector follows chains."""
    one = await kube.create(space.configmaps, configmap("one"))
    two = await kube.create(space.configmaps, configmap("two", ownerReferences=[owner(one)]))
    await kube.create(space.pods, pod("three", ownerReferences=[owner(two)]))
    (await kube.delete(f"{space.configmaps}/one")).ok()
    await eventually(lambda: gone(kube, f"{space.pods}/three"))


async def test_foreground_waits_for_dependents_that_block(kube: Client, space: Space) -> None:
    """The owner gets the finalizer foregroundDeletion and goes last."""
    parent = await kube.create(space.configmaps, configmap("parent"))
    child = configmap("child", ownerReferences=[owner(parent, blocks=True)], finalizers=[FINALIZER])
    await kube.create(space.configmaps, child)
    await eventually(lambda: kube.read(f"{space.configmaps}/child"))
    told = (await kube.delete(f"{space.configmaps}/parent", {**OPTIONS, "propagationPolicy": "Foreground"})).ok()
    assert told["metadata"]["finalizers"] == ["foregroundDeletion"]

    async def going() -> None:
        assert "deletionTimestamp" in (await kube.read(f"{space.configmaps}/child"))["metadata"]

    await eventually(going)
    await kube.read(f"{space.configmaps}/parent")
    (await kube.merge(f"{space.configmaps}/child", {"metadata": {"finalizers": None}})).ok()
    await eventually(lambda: gone(kube, f"{space.configmaps}/parent"))


async def test_orphans_lose_their_reference_and_stay(kube: Client, space: Space) -> None:
    """Orphan: the finalizer orphan until no dependent names the owner."""
    parent = await kube.create(space.configmaps, configmap("parent"))
    await kube.create(space.configmaps, configmap("child", ownerReferences=[owner(parent)]))
    (await kube.delete(f"{space.configmaps}/parent", {**OPTIONS, "propagationPolicy": "Orphan"})).ok()
    await eventually(lambda: gone(kube, f"{space.configmaps}/parent"))
    assert "ownerReferences" not in (await kube.read(f"{space.configmaps}/child"))["metadata"]


async def test_with_another_owner_left_it_stays(kube: Client, space: Space) -> None:
    """Only the reference to the owner that is gone is removed."""
    one = await kube.create(space.configmaps, configmap("one"))
    two = await kube.create(space.configmaps, configmap("two"))
    await kube.create(space.configmaps, configmap("child", ownerReferences=[owner(one), owner(two)]))
    (await kube.delete(f"{space.configmaps}/one")).ok()

    async def left() -> None:
        references = (await kube.read(f"{space.configmaps}/child"))["metadata"]["ownerReferences"]
        assert [reference["name"] for reference in references] == ["two"]

    await eventually(left)


async def test_an_owner_that_never_was_is_no_owner(kube: Client, space: Space) -> None:
    """A dependent whose owners do not exist is collected."""
    absent = {"apiVersion": "v1", "kind": "ConfigMap", "name": "absent", "uid": "11111111-2222-3333-4444-555555555555"}
    await kube.create(space.configmaps, configmap("child", ownerReferences=[absent]))
    await eventually(lambda: gone(kube, f"{space.configmaps}/child"))


async def test_there_is_one_controller(kube: Client, space: Space) -> None:
    """ValidateOwnerReferences: one reference with controller true; uid and name are required."""
    one = await kube.create(space.configmaps, configmap("one"))
    two = await kube.create(space.configmaps, configmap("two"))
    both = [owner(one, controller=True), owner(two, controller=True)]
    answer = await kube.post(space.configmaps, configmap("child", ownerReferences=both))
    answer.refused(422, "Invalid", "Only one reference can have Controller set to true")
    answer = await kube.post(space.configmaps, configmap("child", ownerReferences=[{**owner(one), "uid": ""}]))
    answer.refused(422, "Invalid", 'metadata.ownerReferences.uid: Invalid value: "": must not be empty')


async def test_a_namespace_takes_its_content_along(kube: Client, space: Space) -> None:
    """Terminating, emptied, gone; custom resources too."""
    name = f"{space.name}-2"
    path = f"/api/v1/namespaces/{name}"
    await kube.create("/api/v1/namespaces", {"metadata": {"name": name}})
    await kube.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd(space.group))
    inner = f"/apis/{space.group}/v1/namespaces/{name}/widgets"
    await eventually(lambda: kube.create(inner, custom(space.group, "a", {"size": 1})))
    await kube.create(f"{path}/pods", pod("p"))
    told = (await kube.delete(path)).ok()
    assert told["status"]["phase"] == "Terminating"
    await eventually(lambda: gone(kube, path))
    await gone(kube, f"{path}/pods/p")
    assert await kube.names(f"/apis/{space.group}/v1/widgets") == []


async def test_a_terminating_namespace_takes_nothing_new(kube: Client, space: Space) -> None:
    """403 with the cause NamespaceTerminating, until the last finalizer of its content is gone."""
    name = f"{space.name}-2"
    path = f"/api/v1/namespaces/{name}"
    await kube.create("/api/v1/namespaces", {"metadata": {"name": name}})
    await kube.create(f"{path}/configmaps", configmap("held", finalizers=[FINALIZER]))
    (await kube.delete(path)).ok()
    answer = await kube.post(f"{path}/configmaps", configmap("late"))
    answer.refused(403, "Forbidden", f"unable to create new content in namespace {name} because it is being terminated")
    assert ("metadata.namespace", "NamespaceTerminating") in answer.causes
    (await kube.merge(f"{path}/configmaps/held", {"metadata": {"finalizers": None}})).ok()
    await eventually(lambda: gone(kube, path))


async def test_a_namespace_waits_for_finalizers_of_others(kube: Client, space: Space) -> None:
    """Emptied, its own finalizer is taken off; whoever has another one takes it off at /finalize."""
    path = f"/api/v1/namespaces/{space.name}-2"
    body = {"metadata": {"name": f"{space.name}-2"}, "spec": {"finalizers": [FINALIZER]}}
    assert sorted((await kube.create("/api/v1/namespaces", body))["spec"]["finalizers"]) == [FINALIZER, "kubernetes"]
    (await kube.delete(path)).ok()

    async def emptied() -> None:
        assert (await kube.read(path))["spec"]["finalizers"] == [FINALIZER]

    await eventually(emptied)
    (await kube.put(f"{path}/finalize", {**await kube.read(path), "spec": {}})).ok(200)
    await eventually(lambda: gone(kube, path))


async def test_a_definition_waits_for_its_objects(kube: Client, space: Space) -> None:
    """They are deleted and nothing new is made; then its own finalizer is taken off, and others hold it on."""
    crds, path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", space.of(f"{space.group}/v1", "widgets")
    definition = crd(space.group)
    definition["metadata"]["finalizers"] = [FINALIZER]
    held = f"{crds}/{(await kube.create(crds, definition))['metadata']['name']}"
    one = custom(space.group, "a", {"size": 1}, metadata={"finalizers": [FINALIZER]})
    await eventually(lambda: kube.create(path, one))
    (await kube.delete(held)).ok()

    async def ending() -> None:
        answer = await kube.post(path, custom(space.group, "b", {"size": 1}))
        answer.refused(403, "Forbidden", "create not allowed while custom resource definition is terminating")
        assert "deletionTimestamp" in (await kube.read(f"{path}/a"))["metadata"]

    async def cleaned() -> None:
        assert (await kube.read(held))["metadata"]["finalizers"] == [FINALIZER]

    await eventually(ending)
    (await kube.merge(f"{path}/a", {"metadata": {"finalizers": None}})).ok(200)
    await eventually(cleaned)
    (await kube.merge(held, {"metadata": {"finalizers": None}})).ok(200)
    await eventually(lambda: gone(kube, held))


async def test_a_namespace_begins_with_what_everybody_expects(kube: Client, space: Space) -> None:
    """Its name as a label, the finalizer kubernetes, a default ServiceAccount and the cluster's CA."""
    found = await kube.read(f"/api/v1/namespaces/{space.name}")
    assert found["metadata"]["labels"]["kubernetes.io/metadata.name"] == space.name
    assert found["spec"]["finalizers"] == ["kubernetes"]
    assert found["status"]["phase"] == "Active"
    await eventually(lambda: kube.read(f"{space.of('v1', 'serviceaccounts')}/default"))
    published = await eventually(lambda: kube.read(f"{space.configmaps}/kube-root-ca.crt"))
    assert "BEGIN CERTIFICATE" in published["data"]["ca.crt"]


@pytest.mark.parametrize("name", ["default", "kube-system"])
async def test_some_namespaces_are_immortal(kube: Client, name: str) -> None:
    """The NamespaceLifecycle admission."""
    answer = await kube.delete(f"/api/v1/namespaces/{name}")
    answer.refused(403, "Forbidden", f'namespaces "{name}" is forbidden: this namespace may not be deleted')


async def test_a_pod_that_ends_gets_no_node(kube: Client, space: Space) -> None:
    await kube.create(space.pods, pod("p", finalizers=[FINALIZER]))
    (await kube.delete(f"{space.pods}/p", {**OPTIONS, "gracePeriodSeconds": 0})).ok()
    target = {"apiVersion": "v1", "kind": "Node", "name": "nowhere"}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": target}
    answer = await kube.post(f"{space.pods}/p/binding", binding)
    answer.refused(409, "Conflict", "is being deleted, cannot be assigned to a host")
    (await kube.merge(f"{space.pods}/p", {"metadata": {"finalizers": None}})).ok()


async def test_a_dry_eviction_and_a_dry_binding_change_nothing(kube: Client, cluster: Cluster, space: Space) -> None:
    """Their options are those of other creates."""
    made = await kube.create(space.pods, pod("p"))
    target = {"apiVersion": "v1", "kind": "Node", "name": "nowhere"}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": target}
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    (await kube.post(f"{space.pods}/p/binding", binding, dryRun="All")).ok(201)
    cluster.blames_the_client(await kube.post(f"{space.pods}/p/binding", {**binding, "target": {}}))
    (await kube.post(f"{space.pods}/p/eviction", eviction, dryRun="All")).ok(201)
    assert await kube.read(f"{space.pods}/p") == made


async def test_an_eviction_is_a_deletion(kube: Client, space: Space) -> None:
    """pods/eviction, without a budget that speaks against it."""
    await kube.create(space.pods, pod("p", container("main")))
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    other = {**body, "metadata": {"name": "q"}}
    (await kube.post(f"{space.pods}/p/eviction", other)).refused(400, "BadRequest", "name in URL does not match")
    told = (await kube.post(f"{space.pods}/p/eviction", body)).ok(201)
    assert told["status"] == "Success"
    await gone(kube, f"{space.pods}/p")


async def test_options_in_the_body_leave_the_query_unread(kube: Client, space: Space) -> None:
    """Also dryRun: who sends options says it there."""
    await kube.create(space.configmaps, configmap("a"))
    (await kube.delete(f"{space.configmaps}/a", {"propagationPolicy": "Background"}, dryRun="All")).ok(200)
    (await kube.get(f"{space.configmaps}/a")).refused(404)
    (await kube.delete(f"{space.configmaps}/a", dryRun="Some")).refused(422, "Invalid", "dryRun")  # looked at first


async def test_the_pods_of_a_job_are_orphans_unless_somebody_asks_otherwise(kube: Client, space: Space) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [container()]}}
    jobs = space.of("batch/v1", "jobs")
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": template}}
    await kube.create(jobs, job)
    assert (await kube.delete(f"{jobs}/j", dryRun="All")).ok(200)["metadata"]["finalizers"] == ["orphan"]
    told = (await kube.delete(f"{jobs}/j", {"propagationPolicy": "Background"})).ok(200)
    assert told["kind"] == "Status"


async def test_the_last_event_of_an_object_still_has_its_finalizer(kube: Client, space: Space) -> None:
    """It tells what was stored, not what the write that removed the finalizer said."""
    made = await kube.create(space.configmaps, configmap("a", {"k": "v"}, finalizers=["example.com/f"]))
    (await kube.delete(f"{space.configmaps}/a")).ok(200)
    async with kube.watch(space.configmaps, resourceVersion=made["metadata"]["resourceVersion"]) as watch:
        last = (await kube.merge(f"{space.configmaps}/a", {"metadata": {"finalizers": None}, "data": {"k": "w"}})).ok(
            200
        )
        assert "finalizers" not in last["metadata"]
        *_, event = await watch.until(lambda event: event.type == "DELETED")
    assert (event.object["metadata"]["finalizers"], event.object["data"]) == (["example.com/f"], {"k": "v"})
