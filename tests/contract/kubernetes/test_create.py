"""create: what the server fills in, and what it refuses. Excluded: rules of single kinds (test_pods, test_builtins)."""

import gzip
import json
import re

from tests.support.kubeobjects import configmap, custom, deployment, pod
from tests.support.kubernetes import Client, Cluster, Space

RFC3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


async def test_the_server_dates_and_numbers_what_is_created(kube: Client, space: Space) -> None:
    """rest.FillObjectMetaSystemFields and the store: uid, creationTimestamp in whole seconds, resourceVersion."""
    metadata = (await kube.create(space.configmaps, configmap("a")))["metadata"]
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", metadata["uid"])
    assert RFC3339.fullmatch(metadata["creationTimestamp"])
    assert metadata["resourceVersion"].isdigit()
    assert metadata["namespace"] == space.name


async def test_what_only_the_server_says_is_overwritten(kube: Client, space: Space) -> None:
    """A client's uid, creationTimestamp, generation and deletionTimestamp are ignored on create."""
    told = configmap(
        "a", uid="mine", creationTimestamp="2001-01-01T00:00:00Z", deletionTimestamp="2001-01-01T00:00:00Z"
    )
    metadata = (await kube.create(space.configmaps, told))["metadata"]
    assert metadata["uid"] != "mine"
    assert not metadata["creationTimestamp"].startswith("2001")
    assert "deletionTimestamp" not in metadata


async def test_what_was_created_is_what_is_read(kube: Client, space: Space) -> None:
    """The answer to create is the stored object."""
    made = await kube.create(space.configmaps, configmap("a", {"k": "v"}, labels={"l": "1"}))
    assert await kube.read(f"{space.configmaps}/a") == made


async def test_a_namespace_other_than_the_url_s_is_refused(kube: Client, space: Space) -> None:
    """rest.EnsureObjectNamespaceMatchesRequestNamespace."""
    answer = await kube.post(space.configmaps, configmap("a", namespace="other"))
    answer.refused(
        400, "BadRequest", "the namespace of the provided object does not match the namespace sent on the request"
    )


async def test_a_namespace_that_does_not_exist_is_named(kube: Client, space: Space) -> None:
    """The NamespaceLifecycle admission: 404 about the namespace, not about the object."""
    answer = await kube.post("/api/v1/namespaces/not-there/configmaps", configmap("a"))
    told = answer.refused(404, "NotFound", 'namespaces "not-there" not found')
    assert told["details"] == {"name": "not-there", "kind": "namespaces"}


async def test_generate_name_adds_five_characters(kube: Client, space: Space) -> None:
    """names.SimpleNameGenerator: no vowels, nothing that is mistaken for a vowel."""
    body = configmap("")
    body["metadata"] = {"generateName": "g-"}
    one, two = [(await kube.create(space.configmaps, body))["metadata"] for _ in range(2)]
    assert one["name"] != two["name"]
    assert re.fullmatch(r"g-[bcdfghjklmnpqrstvwxz2456789]{5}", one["name"])
    assert one["generateName"] == "g-"


async def test_a_name_wins_over_generate_name(kube: Client, space: Space) -> None:
    """generateName is used only where name is empty."""
    made = await kube.create(space.configmaps, configmap("exact", generateName="g-"))
    assert made["metadata"]["name"] == "exact"


async def test_without_any_name_it_is_required(kube: Client, space: Space) -> None:
    """ValidateObjectMeta: one of name and generateName."""
    body = configmap("")
    body["metadata"] = {}
    answer = await kube.post(space.configmaps, body)
    answer.refused(422, "Invalid", "metadata.name: Required value: name or generateName is required")
    assert answer.causes == [("metadata.name", "FieldValueRequired")]


async def test_the_same_name_twice_already_exists(kube: Client, space: Space) -> None:
    """409 AlreadyExists with name and plural in the details."""
    await kube.create(space.configmaps, configmap("a"))
    answer = await kube.post(space.configmaps, configmap("a"))
    told = answer.refused(409, "AlreadyExists", 'configmaps "a" already exists')
    assert told["details"] == {"name": "a", "kind": "configmaps"}


async def test_a_group_is_part_of_the_name_in_messages(kube: Client, space: Space) -> None:
    """schema.GroupResource prints as plural.group."""
    answer = await kube.get(f"{space.deployments}/a")
    told = answer.refused(404, "NotFound", 'deployments.apps "a" not found')
    assert told["details"] == {"name": "a", "group": "apps", "kind": "deployments"}


async def test_a_name_that_no_dns_takes_is_invalid(kube: Client, space: Space) -> None:
    """IsDNS1123Subdomain, with upstream's whole explanation."""
    answer = await kube.post(space.configmaps, configmap("Not_A_Name"))
    answer.refused(
        422, "Invalid", 'ConfigMap "Not_A_Name" is invalid', "a lowercase RFC 1123 subdomain must consist of"
    )
    assert answer.causes == [("metadata.name", "FieldValueInvalid")]


async def test_bad_labels_and_annotations_are_invalid(kube: Client, space: Space) -> None:
    """Label values have 63 characters of an alphabet; keys of both are qualified names."""
    answer = await kube.post(
        space.configmaps, configmap("a", labels={"ok": "not ok!", "-x": "1", "a.b/": ""}, annotations={"a/b/c": ""})
    )
    answer.refused(422, "Invalid", "name part must be non-empty")
    assert {field for field, _ in answer.causes} == {"metadata.labels", "metadata.annotations"}


async def test_annotations_have_256_kib(kube: Client, space: Space) -> None:
    """TotalAnnotationSizeLimitB."""
    answer = await kube.post(space.configmaps, configmap("a", annotations={"a": "x" * 300_000}))
    answer.refused(422, "Invalid", "metadata.annotations: Too long: may not be more than 262144 bytes")


async def test_status_is_dropped_where_it_is_a_subresource(kube: Client, space: Space) -> None:
    """PrepareForCreate of a strategy with a status subresource."""
    made = await kube.create(space.deployments, {**deployment("d"), "status": {"replicas": 9}})
    assert "replicas" not in made["status"]
    made = await kube.create(space.pods, {**pod("p"), "status": {"phase": "Succeeded"}})
    assert made["status"]["phase"] == "Pending"


async def test_generation_starts_at_one(kube: Client, space: Space) -> None:
    """Kinds with a spec and a status count the changes of what is wanted."""
    made = await kube.create(space.deployments, deployment("d"))
    assert made["metadata"]["generation"] == 1


async def test_another_kind_than_the_url_s_is_refused(kube: Client, space: Space) -> None:
    """The decoder compares the body's kind with the endpoint's."""
    answer = await kube.post(space.configmaps, {**configmap("a"), "kind": "Secret"})
    answer.refused(400, "BadRequest", 'Secret in version "v1" cannot be handled as a ConfigMap')


async def test_another_version_than_the_url_s_is_refused(kube: Client, space: Space) -> None:
    """apiVersion of the body and of the URL must agree."""
    answer = await kube.post(space.deployments, {**deployment("d"), "apiVersion": "apps/v1beta1"})
    answer.refused(400, "BadRequest")


async def test_kind_and_version_may_be_left_out_for_built_in_kinds(kube: Client, space: Space) -> None:
    """The endpoint supplies defaults for an empty apiVersion and kind."""
    made = await kube.create(space.configmaps, {"metadata": {"name": "a"}, "data": {"k": "v"}})
    assert (made["apiVersion"], made["kind"]) == ("v1", "ConfigMap")


async def test_a_resource_version_cannot_be_chosen(kube: Client, cluster: Cluster, space: Space) -> None:
    """storage.ErrResourceVersionSetOnCreate."""
    answer = await kube.post(space.configmaps, configmap("a", resourceVersion="5"))
    cluster.blames_the_client(answer)
    assert "resourceVersion should not be set on objects to be created" in answer.body["message"]


async def test_a_kind_that_is_not_served_is_a_plain_404(kube: Client, space: Space) -> None:
    """Unknown groups and resources answer before anything is decoded."""
    for path in (space.of("nowhere.example.com/v1", "things"), space.of("v1", "things")):
        answer = await kube.post(path, custom("nowhere.example.com", "a"))
        assert answer.status == 404


async def test_managed_fields_say_who_created(kube: Client, space: Space) -> None:
    """The manager is the fieldManager parameter, else the first part of the User-Agent."""
    made = await kube.create(space.configmaps, configmap("a", {"k": "v"}), fieldManager="me")
    (entry,) = made["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"], entry["apiVersion"]) == ("me", "Update", "v1")
    assert entry["fieldsV1"] == {"f:data": {".": {}, "f:k": {}}}
    headers = {"User-Agent": "robot/1.0 (linux)"}
    made = (await kube.call("POST", space.configmaps, configmap("b", {"k": "v"}), headers=headers)).ok(201)
    assert made["metadata"]["managedFields"][0]["manager"] == "robot"


async def test_finalizers_of_built_in_kinds_have_a_domain(kube: Client, space: Space) -> None:
    refused = await kube.post(space.configmaps, configmap("a", finalizers=["mine"]))
    refused.refused(422, "Invalid", "name is neither a standard finalizer name nor is it fully qualified")
    assert refused.causes == [("metadata.finalizers[0]", "FieldValueInvalid")]
    (await kube.post(space.configmaps, configmap("a", finalizers=["kubernetes", "a.b/c"]), dryRun="All")).ok(201)
    both = await kube.post(space.configmaps, configmap("a", finalizers=["orphan", "foregroundDeletion"]))
    both.refused(422, "Invalid", "metadata.finalizers", "cannot be both set")


async def test_owners_have_a_version_and_are_no_events(kube: Client, space: Space) -> None:
    event = {"apiVersion": "v1", "kind": "Event", "name": "e", "uid": "u"}
    refused = await kube.post(space.configmaps, configmap("a", ownerReferences=[event]))
    refused.refused(422, "Invalid", "Kind=Event is disallowed from being an owner")
    wrong = await kube.post(space.configmaps, configmap("a", ownerReferences=[{**event, "apiVersion": "a/b/c"}]))
    wrong.refused(422, "Invalid", "metadata.ownerReferences.apiVersion", "version must not be empty")


async def test_the_beginning_of_a_name_is_checked_like_a_name(kube: Client, space: Space) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "Upper-"}}
    refused = await kube.post(space.configmaps, body)
    refused.refused(422, "Invalid", "must start and end with an alphanumeric character (e.g. 'example.com', regex used")
    assert refused.causes == [("metadata.generateName", "FieldValueInvalid"), ("metadata.name", "FieldValueInvalid")]
    body["metadata"] = {"generateName": "lower-"}
    (await kube.post(space.configmaps, body, dryRun="All")).ok(201)


async def test_an_empty_dry_run_is_none_at_all(kube: Client, space: Space) -> None:
    (await kube.post(space.configmaps, configmap("a"), dryRun="")).refused(422, "Invalid", "dryRun")


async def test_a_compressed_body_is_not_read(kube: Client, space: Space) -> None:
    body = gzip.compress(json.dumps(configmap("a")).encode())
    answer = await kube.call("POST", space.configmaps, body, headers={"Content-Encoding": "gzip"})
    answer.refused(400, "BadRequest")
