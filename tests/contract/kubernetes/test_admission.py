"""Webhooks: when they are called, with what, in which order, and what becomes of their answers."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.support import kubehook
from tests.support.kubehook import MUTATING, VALIDATING, Hook, allowed, annotated, configuration, denied, patched
from tests.support.kubeobjects import configmap, crd, custom, deployment, owner, pod, version
from tests.support.kubernetes import Client, Cluster, Space, eventually

OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
RULE = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
UNKNOWN = {"key": "a", "operator": "Perhaps"}
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest_asyncio.fixture(loop_scope="session")
async def hook(cluster: Cluster, kube: Client, space: Space) -> AsyncIterator[Hook]:
    if cluster.has & {"controllers", "devkube"}:  # what they put into each namespace is not to be heard
        await eventually(lambda: kube.read(f"{space.configmaps}/kube-root-ca.crt"))
    async with kubehook.serving(cluster.webhook_host) as found:
        yield found


@contextlib.asynccontextmanager
async def configured(kube: Client, space: Space, kind: str, *entries: dict[str, Any]) -> AsyncIterator[None]:
    path = MUTATING if kind == "Mutating" else VALIDATING
    body = configuration(kind, space, *entries)
    await kube.create(path, body)
    try:
        yield
    finally:
        (await kube.delete(f"{path}/{body['metadata']['name']}")).ok()


async def test_a_mutating_webhook_changes_what_is_created(kube: Client, space: Space, hook: Hook) -> None:
    """Its JSON patch is applied, then defaults and validation; the answer and the stored object have it."""
    hook.answer["/m"] = annotated("touched")
    async with configured(kube, space, "Mutating", hook.entry("/m", resources=["configmaps", "pods"])):
        await hook.heard(kube, space, "/m")
        made = await kube.create(space.pods, pod("a"))
    assert made["metadata"]["annotations"] == {"touched": "yes"}
    assert await kube.read(f"{space.pods}/a") == made


async def test_a_review_says_who_does_what(kube: Client, space: Space, hook: Hook) -> None:
    """uid, kind, resource, operation, names, user, object, options and dryRun of a creation."""
    async with configured(kube, space, "Validating", hook.entry("/v")):
        await hook.heard(kube, space, "/v")
        await kube.create(space.configmaps, configmap("a", {"k": "v"}), fieldManager="me", dryRun="All")
    ((_, review),) = hook.calls
    assert review["kind"] == review["requestKind"] == {"group": "", "version": "v1", "kind": "ConfigMap"}
    assert review["resource"] == review["requestResource"] == {"group": "", "version": "v1", "resource": "configmaps"}
    assert (review["operation"], review["namespace"], review["name"]) == ("CREATE", space.name, "a")
    assert review["dryRun"] is True
    assert review["oldObject"] is None
    assert review["object"]["data"] == {"k": "v"}
    assert (review["object"]["kind"], review["object"]["apiVersion"]) == ("ConfigMap", "v1")
    assert review["object"]["metadata"]["uid"]
    assert "system:authenticated" in review["userInfo"]["groups"]
    assert review["options"] == {
        "kind": "CreateOptions",
        "apiVersion": "meta.k8s.io/v1",
        "dryRun": ["All"],
        "fieldManager": "me",
    }


async def test_updates_and_deletions_show_the_old_object(kube: Client, space: Space, hook: Hook) -> None:
    """UPDATE has both, DELETE only the old; a patch is an UPDATE, down to its options."""
    entry = hook.entry("/v", operations=["CREATE", "UPDATE", "DELETE"])
    async with configured(kube, space, "Validating", entry):
        await hook.heard(kube, space, "/v")
        await kube.create(space.configmaps, configmap("a", {"k": "1"}))
        (await kube.merge(f"{space.configmaps}/a", {"data": {"k": "2"}})).ok(200)
        (await kube.delete(f"{space.configmaps}/a")).ok(200)
    _, update, delete = [review for _, review in hook.calls]
    assert (update["operation"], update["oldObject"]["data"], update["object"]["data"]) == (
        "UPDATE",
        {"k": "1"},
        {"k": "2"},
    )
    assert update["options"]["kind"] == "UpdateOptions"
    assert (delete["operation"], delete["oldObject"]["data"], delete["object"]) == ("DELETE", {"k": "2"}, None)
    assert delete["options"]["kind"] == "DeleteOptions"


async def test_a_collection_is_deleted_object_by_object(kube: Client, space: Space, hook: Hook) -> None:
    """One review for each; a denial is told."""
    async with configured(kube, space, "Validating", hook.entry("/v", operations=["CREATE", "DELETE"])):
        await hook.heard(kube, space, "/v")
        for name in "ab":
            await kube.create(space.configmaps, configmap(name, labels={"l": "1"}))
        hook.answer["/v"] = denied("not today")
        answer = await kube.delete(space.configmaps, labelSelector="l=1")
        answer.refused(400, None, "denied the request: not today")
        hook.answer["/v"] = allowed
        hook.calls.clear()
        (await kube.delete(space.configmaps, labelSelector="l=1")).ok(200)
    assert sorted(review["oldObject"]["metadata"]["name"] for _, review in hook.calls) == ["a", "b"]


async def test_of_two_deletions_at_once_one_finds_nothing(kube: Client, space: Space, hook: Hook) -> None:
    """Both are allowed while the object is there."""

    async def slow(review: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(0.3)
        return {"allowed": True}

    hook.answer["/v"] = slow
    async with configured(kube, space, "Validating", hook.entry("/v", operations=["CREATE", "DELETE"])):
        await hook.heard(kube, space, "/v")
        await kube.create(space.configmaps, configmap("a"))
        path = f"{space.configmaps}/a"
        answers = await asyncio.gather(kube.delete(path), kube.delete(path))
        assert sorted(answer.status for answer in answers) == [200, 404]
        await kube.create(space.configmaps, configmap("a", labels={"l": "1"}))
        for answer in await asyncio.gather(*[kube.delete(space.configmaps, labelSelector="l=1") for _ in range(2)]):
            answer.ok(200)


async def test_what_a_webhook_holds_up_is_tried_again(kube: Client, space: Space, hook: Hook) -> None:
    """The garbage collector waits for who forbids it to delete a dependent."""
    hook.answer["/v"] = denied("not yet")
    parent = await kube.create(space.configmaps, configmap("parent"))
    await kube.create(space.configmaps, configmap("child", ownerReferences=[owner(parent)]))
    async with configured(kube, space, "Validating", hook.entry("/v", operations=["CREATE", "DELETE"])):
        await hook.heard(kube, space, "/v")
        hook.answer["/v"] = lambda review: {"allowed": review["name"] == "parent"}
        (await kube.delete(f"{space.configmaps}/parent", propagationPolicy="Background")).ok(200)

        async def held_up() -> None:
            assert [review["name"] for review in hook.reviews("/v")].count("child") >= 2

        await eventually(held_up)
        await kube.read(f"{space.configmaps}/child")
        hook.answer["/v"] = allowed

        async def collected() -> None:
            (await kube.get(f"{space.configmaps}/child")).refused(404)

        await eventually(collected)


async def test_a_denial_is_told(kube: Client, space: Space, hook: Hook) -> None:
    """400 unless the webhook says another code; its name and words; nothing is stored."""
    hook.answer["/v"] = denied("not today")
    async with configured(kube, space, "Validating", hook.entry("/v")):
        await hook.heard(kube, space, "/v")
        answer = await kube.post(space.configmaps, configmap("a"))
    answer.refused(400, None, 'admission webhook "v.example.com" denied the request: not today')
    (await kube.get(f"{space.configmaps}/a")).refused(404)


async def test_a_denial_may_choose_its_code_and_reason(kube: Client, space: Space, hook: Hook) -> None:
    """status.code and status.reason of the response."""
    hook.answer["/v"] = denied("too many", code=429, reason="TooManyRequests")
    async with configured(kube, space, "Validating", hook.entry("/v")):
        await hook.heard(kube, space, "/v")
        answer = await kube.post(space.configmaps, configmap("a"))
    answer.refused(429, "TooManyRequests", 'admission webhook "v.example.com" denied the request: too many')


async def test_a_denial_without_words(kube: Client, space: Space, hook: Hook) -> None:
    """denied the request without explanation."""
    hook.answer["/v"] = lambda review: {"allowed": False}
    async with configured(kube, space, "Validating", hook.entry("/v")):
        await hook.heard(kube, space, "/v")
        answer = await kube.post(space.configmaps, configmap("a"))
    answer.refused(400, None, "denied the request without explanation")


async def test_validating_ones_see_what_mutating_ones_made(kube: Client, space: Space, hook: Hook) -> None:
    """All mutating webhooks come first, in order of their entries; later ones see earlier patches."""
    hook.answer |= {"/m1": annotated("one"), "/m2": annotated("two"), "/v": allowed}
    async with (
        configured(kube, space, "Validating", hook.entry("/v")),
        configured(kube, space, "Mutating", hook.entry("/m1"), hook.entry("/m2")),
    ):
        await hook.heard(kube, space, "/m1", "/m2", "/v")
        await kube.create(space.configmaps, configmap("a"))
    assert [path for path, _ in hook.calls] == ["/m1", "/m2", "/v"]
    seen = [sorted(review["object"]["metadata"].get("annotations") or {}) for _, review in hook.calls]
    assert seen == [[], ["one"], ["one", "two"]]


async def test_configurations_are_called_in_order_of_their_names(kube: Client, space: Space, hook: Hook) -> None:
    """Whichever was created first."""
    for name, path in (("zz", "/z"), ("aa", "/a")):
        body = configuration("Mutating", space, hook.entry(path), name=f"{name}.{space.name}")
        await kube.create(MUTATING, body)
    try:
        await hook.heard(kube, space, "/a", "/z")
        await kube.create(space.configmaps, configmap("a"))
    finally:
        for name in ("zz", "aa"):
            (await kube.delete(f"{MUTATING}/{name}.{space.name}")).ok()
    assert [path for path, _ in hook.calls] == ["/a", "/z"]


async def test_defaults_follow_a_patch(kube: Client, space: Space, hook: Hook) -> None:
    """A container that a webhook injects gets its defaults and is validated like any other."""
    sidecar = {"name": "sidecar", "image": "registry.example/side:1"}
    hook.answer["/m"] = patched({"op": "add", "path": "/spec/containers/-", "value": sidecar})
    async with configured(kube, space, "Mutating", hook.entry("/m", resources=["configmaps", "pods"])):
        await hook.heard(kube, space, "/m")
        made = await kube.create(space.pods, pod("a"))
        injected = made["spec"]["containers"][1]
        assert (injected["imagePullPolicy"], injected["terminationMessagePath"]) == (
            "IfNotPresent",
            "/dev/termination-log",
        )
        hook.answer["/m"] = patched({"op": "add", "path": "/spec/containers/-", "value": {"name": "main"}})
        answer = await kube.post(space.pods, pod("b"))
    answer.refused(
        422, "Invalid", "spec.containers[1].name: Duplicate value", "spec.containers[1].image: Required value"
    )


@pytest.mark.parametrize(
    ("operation", "part"),
    [
        ({"op": "remove", "path": "/metadata/labels/none"}, ""),
        ({"op": "add", "path": "/data/none/deeper", "value": "x"}, ""),
        ({"op": "test", "path": "/metadata/name", "value": "other"}, ""),
        ({"op": "replace", "path": "/kind", "value": "Secret"}, ""),
        ({"op": "replace", "path": "/metadata", "value": "x"}, ""),
    ],
    ids=["remove-nothing", "add-below-nothing", "test", "another-kind", "no-metadata"],
)
async def test_a_patch_that_does_not_fit_fails_the_request(
    kube: Client, space: Space, hook: Hook, operation: dict[str, Any], part: str
) -> None:
    """Strictly: an internal error that says so, nothing half applied."""
    hook.answer["/m"] = patched({"op": "add", "path": "/data", "value": {"k": "v"}}, operation)
    async with configured(kube, space, "Mutating", hook.entry("/m")):
        await hook.heard(kube, space, "/m")
        answer = await kube.post(space.configmaps, configmap("a"))
    answer.refused(500, "InternalError")
    (await kube.get(f"{space.configmaps}/a")).refused(404)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"patch": "W10="}, "webhook returned response.patch but not response.patchType"),
        ({"patchType": "JSONPatch"}, "webhook returned response.patchType but not response.patch"),
        ({"patch": "W3sib3AiOiJhZGQifV0=", "patchType": "MergePatch"}, 'unsupported patch type "MergePatch"'),
        ({"patch": "bm8=", "patchType": "JSONPatch"}, "Internal error occurred"),
    ],
    ids=["no-type", "no-patch", "another-type", "no-json"],
)
async def test_a_patch_needs_its_type(
    kube: Client, space: Space, hook: Hook, fields: dict[str, Any], told: str
) -> None:
    """VerifyAdmissionResponse: patch and patchType JSONPatch belong together."""
    hook.answer["/m"] = lambda review: {"allowed": True, **fields}
    async with configured(kube, space, "Mutating", hook.entry("/m")):
        await hook.heard(kube, space, "/m")
        answer = await kube.post(space.configmaps, configmap("a"))
    answer.refused(500, "InternalError", told)


@pytest.mark.parametrize("patch", ["e30=", "NQ==", "WzVd"], ids=["an-object", "a-number", "a-list-of-numbers"])
async def test_what_is_no_patch_fails_by_the_policy(kube: Client, space: Space, hook: Hook, patch: str) -> None:
    hook.answer["/m"] = lambda review: {"allowed": True, "patchType": "JSONPatch", "patch": patch}
    async with configured(kube, space, "Mutating", hook.entry("/m", failurePolicy="Ignore")):
        await hook.heard(kube, space, "/m")
        await kube.create(space.configmaps, configmap("a"))


async def test_nulls_in_an_answer_say_nothing(kube: Client, space: Space, hook: Hook) -> None:
    data = {"op": "add", "path": "/data", "value": {"k": "v"}}
    patch = patched({"op": "replace", "path": "/kind", "value": None}, data)
    hook.answer["/m"] = lambda review: {**patch(review), "warnings": [None, "w"], "auditAnnotations": {"a": None}}
    async with configured(kube, space, "Mutating", hook.entry("/m")):
        await hook.heard(kube, space, "/m")
        answer = await kube.post(space.configmaps, configmap("a"))
    assert (answer.ok(201)["kind"], answer.body["data"]) == ("ConfigMap", {"k": "v"})
    assert answer.warnings == ["w"]


async def test_a_deletion_is_not_patched(kube: Client, space: Space, hook: Hook) -> None:
    """There is no object to change. An empty list, and Go's null for it, is no patch."""
    await kube.create(space.configmaps, configmap("a"))
    async with configured(kube, space, "Mutating", hook.entry("/m", operations=["CREATE", "DELETE"])):
        await hook.heard(kube, space, "/m")
        hook.answer["/m"] = patched({"op": "add", "path": "/data", "value": {"k": "v"}})
        refused = await kube.delete(f"{space.configmaps}/a")
        refused.refused(500, "InternalError", "attempted to modify the object, which is not supported")
        for empty in ("W10=", "bnVsbA=="):
            hook.answer["/m"] = lambda review, patch=empty: {"allowed": True, "patchType": "JSONPatch", "patch": patch}
            (await kube.delete(f"{space.configmaps}/a", dryRun="All")).ok(200)


@pytest.mark.parametrize(
    "reply",
    [
        {"uid": "another", "allowed": True},
        {"raw": {"status": 500, "text": "broken"}},
        {"raw": {"status": 200, "text": "not json"}},
        {"raw": {"status": 200, "text": "{}"}},
        {"raw": {"status": 200, "text": '{"deep": ' + "[" * 20_000}},
        {"apiVersion": "admission.k8s.io/v2", "allowed": True},
        {"patchType": "JSONPatch", "allowed": True},
    ],
    ids=["other-uid", "500", "no-json", "no-review", "deep", "other-version", "patch"],
)
async def test_an_answer_that_is_none_fails_by_policy(
    kube: Client, space: Space, hook: Hook, reply: dict[str, Any]
) -> None:
    """failurePolicy Fail (the default) is an internal error, Ignore goes on."""
    hook.answer["/v"] = lambda review: reply
    async with configured(kube, space, "Validating", hook.entry("/v")):
        await hook.heard(kube, space, "/v")
        answer = await kube.post(space.configmaps, configmap("a"))
        answer.refused(500, "InternalError", 'failed calling webhook "v.example.com"')
        await change(kube, space, {"failurePolicy": "Ignore"})

        async def ignored() -> None:
            (await kube.post(space.configmaps, configmap("b"))).ok(201)

        await eventually(ignored)


async def change(kube: Client, space: Space, fields: dict[str, Any]) -> None:
    path = f"{VALIDATING}/{space.name}.example.com"
    found = await kube.read(path)
    found["webhooks"][0] |= fields
    (await kube.put(path, found)).ok(200)


async def test_an_unreachable_webhook_is_named(kube: Client, space: Space, hook: Hook) -> None:
    """failed calling webhook, with the address and the reason."""
    nowhere = {"url": "https://127.0.0.1:1/x", "caBundle": hook.entry("/v")["clientConfig"]["caBundle"]}
    async with configured(kube, space, "Validating", hook.entry("/v", clientConfig=nowhere)):

        async def failed() -> None:
            answer = await kube.post(space.configmaps, configmap("a"), dryRun="All")
            answer.refused(
                500, "InternalError", 'failed calling webhook "v.example.com"', "https://127.0.0.1:1/x", "refused"
            )

        await eventually(failed)


async def test_a_certificate_of_others_is_not_trusted(kube: Client, space: Space, hook: Hook, cluster: Cluster) -> None:
    """caBundle is the only root."""
    async with kubehook.serving(cluster.webhook_host) as other:
        entry = hook.entry("/v")
        entry["clientConfig"]["caBundle"] = other.entry("/v")["clientConfig"]["caBundle"]
        async with configured(kube, space, "Validating", entry):

            async def failed() -> None:
                answer = await kube.post(space.configmaps, configmap("a"), dryRun="All")
                answer.refused(500, "InternalError", 'failed calling webhook "v.example.com"', "certificate")

            await eventually(failed)
    assert hook.calls == []


async def test_a_bundle_without_certificates_trusts_nobody(kube: Client, space: Space, hook: Hook) -> None:
    """Told when the webhook is to be called, not when it is configured."""
    entry = hook.entry("/v")
    entry["clientConfig"]["caBundle"] = "Z2FyYmFnZQ=="
    async with configured(kube, space, "Validating", entry):

        async def failed() -> None:
            answer = await kube.post(space.configmaps, configmap("a"), dryRun="All")
            answer.refused(500, "InternalError", 'failed calling webhook "v.example.com"', "root certificates")

        await eventually(failed)


async def test_a_slow_webhook_is_given_up(kube: Client, space: Space, hook: Hook) -> None:
    """timeoutSeconds, then the failure policy."""
    hook.answer["/v"] = kubehook.never
    async with configured(kube, space, "Validating", hook.entry("/v", timeoutSeconds=1)):
        await hook.heard(kube, space, "/v")
        answer = await kube.post(space.configmaps, configmap("a"))
    answer.refused(500, "InternalError", 'failed calling webhook "v.example.com"', "context deadline exceeded")


async def test_rules_choose_resources_and_operations(kube: Client, space: Space, hook: Hook) -> None:
    """Groups, versions, resources with * and subresources with /: nothing else is sent."""
    only = {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["deployments"]}
    status = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["pods/status"]}
    probe = {"apiGroups": [""], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["configmaps"]}
    async with configured(kube, space, "Validating", hook.entry("/v", rules=[only, status, probe])):
        await hook.heard(kube, space, "/v")
        await kube.create(space.deployments, deployment("d", replicas=0))
        (await kube.merge(f"{space.deployments}/d", {"metadata": {"labels": {"l": "1"}}})).ok()
        await kube.create(space.pods, pod("p"))
        (await kube.merge(f"{space.pods}/p", {"metadata": {"labels": {"l": "1"}}})).ok()
        (await kube.merge(f"{space.pods}/p/status", {"status": {"phase": "Running"}})).ok()
    seen = [(one["resource"]["resource"], one.get("subResource", ""), one["operation"]) for _, one in hook.calls]
    assert seen == [("deployments", "", "CREATE"), ("pods", "status", "UPDATE")]


async def test_a_subresource_of_a_custom_resource(kube: Client, space: Space, hook: Hook) -> None:
    """*/* takes all, also custom resources, their status and scale."""
    schema = {"spec": {"type": "object"}, "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    await kube.create(CRDS, crd(space.group, version(schema=schema, subresources={"status": {}})))
    path = space.of(f"{space.group}/v1", "widgets")
    await eventually(lambda: kube.create(path, custom(space.group, "a", {})))
    entry = hook.entry("/v", resources=["*/*"], operations=["*"])
    async with configured(kube, space, "Validating", entry):
        await hook.heard(kube, space, "/v")
        (await kube.merge(f"{path}/a/status", {"status": {"x": 1}})).ok(200)
    reviews = [one for one in hook.reviews("/v") if one["kind"]["kind"] == "Widget"]
    assert [(one["operation"], one["subResource"]) for one in reviews] == [("UPDATE", "status")]


async def test_objects_are_selected_by_their_labels(kube: Client, space: Space, hook: Hook) -> None:
    """objectSelector: the new or the old object matches."""
    selector = {"matchExpressions": [{"key": "hook", "operator": "In", "values": ["yes"]}]}
    entry = hook.entry("/v", operations=["CREATE", "UPDATE"], objectSelector=selector)
    async with configured(kube, space, "Validating", hook.entry("/probe"), entry):
        await hook.heard(kube, space, "/probe")
        await kube.create(space.configmaps, configmap("a"))
        await kube.create(space.configmaps, configmap("b", labels={"hook": "yes"}))
        (await kube.merge(f"{space.configmaps}/b", {"metadata": {"labels": {"hook": "no"}}})).ok()
        (await kube.merge(f"{space.configmaps}/b", {"data": {"k": "v"}})).ok()
    assert [(one["name"], one["operation"]) for one in hook.reviews("/v")] == [("b", "CREATE"), ("b", "UPDATE")]


async def test_namespaces_are_selected_by_their_labels(kube: Client, space: Space, hook: Hook) -> None:
    """namespaceSelector reads the Namespace as it is."""
    entry = hook.entry("/v", namespaceSelector={"matchLabels": {"team": space.name}})
    async with configured(kube, space, "Validating", hook.entry("/probe"), entry):
        await hook.heard(kube, space, "/probe")
        await kube.create(space.configmaps, configmap("before"))
        (await kube.merge(f"/api/v1/namespaces/{space.name}", {"metadata": {"labels": {"team": space.name}}})).ok()

        async def called() -> None:
            await kube.create(space.configmaps, {"metadata": {"generateName": "after-"}})
            assert hook.reviews("/v")

        await eventually(called)
    assert "before" not in {one["name"] for one in hook.reviews("/v")}


async def test_a_namespace_is_selected_by_its_own_labels(kube: Client, space: Space, hook: Hook) -> None:
    """By those it is to have, which nothing has stored yet."""
    entry = hook.entry("/v", resources=["namespaces"], namespaceSelector={"matchLabels": {"team": space.name}})
    async with configured(kube, space, "Validating", hook.entry("/probe"), entry):
        await hook.heard(kube, space, "/probe")
        for name, labels in (("one", {"team": space.name}), ("two", {})):
            body = {"metadata": {"name": f"{space.name}-{name}", "labels": labels}}
            await kube.create("/api/v1/namespaces", body, dryRun="All")
    assert [(one["name"], one["namespace"]) for one in hook.reviews("/v")] == [(f"{space.name}-one",) * 2]


async def test_match_conditions_are_asked_first(kube: Client, space: Space, hook: Hook) -> None:
    """CEL over object, oldObject, request: all must be true, an error is the failure policy's."""
    conditions = [
        {"name": "not-by-us", "expression": "!(request.userInfo.username in ['somebody'])"},
        {"name": "has-k", "expression": "has(object.data) && 'k' in object.data && object.data.k != 'skip'"},
    ]
    async with configured(
        kube, space, "Validating", hook.entry("/probe"), hook.entry("/v", matchConditions=conditions)
    ):
        await hook.heard(kube, space, "/probe")
        await kube.create(space.configmaps, configmap("a"))
        await kube.create(space.configmaps, configmap("b", {"k": "skip"}))
        await kube.create(space.configmaps, configmap("c", {"k": "v"}))
    assert [one["name"] for one in hook.reviews("/v")] == ["c"]


async def test_a_match_condition_that_fails_is_the_policy_s(kube: Client, space: Space, hook: Hook) -> None:
    """Fail refuses the request, Ignore leaves the webhook out; a false condition decides before either."""
    fails = {"name": "none", "expression": "object.data.none == 'x'"}
    never = {"name": "never", "expression": "object.metadata.name == 'other'"}
    entries = (
        hook.entry("/probe"),
        hook.entry("/f", matchConditions=[fails], objectSelector={"matchLabels": {"to": "fail"}}),
        hook.entry("/i", matchConditions=[fails], failurePolicy="Ignore"),
        hook.entry("/n", matchConditions=[fails, never]),
    )
    async with configured(kube, space, "Validating", *entries):
        await hook.heard(kube, space, "/probe")
        await kube.create(space.configmaps, configmap("a", {"k": "v"}))
        answer = await kube.post(space.configmaps, configmap("b", {"k": "v"}, labels={"to": "fail"}))
    answer.refused(403, "Forbidden", 'configmaps "b" is forbidden', "object.data.none == 'x'", "resulted in error")
    assert [called for called, _ in hook.calls if called != "/probe"] == []


@pytest.mark.parametrize(("expression", "told"), [("object.", "Invalid value"), (" ", "Required value")])
async def test_a_broken_match_condition_is_refused(
    kube: Client, space: Space, hook: Hook, expression: str, told: str
) -> None:
    """Compiled with the configuration."""
    entry = hook.entry("/v", matchConditions=[{"name": "x", "expression": expression}])
    answer = await kube.post(VALIDATING, configuration("Validating", space, entry))
    answer.refused(422, "Invalid", f"webhooks[0].matchConditions[0].expression: {told}")


async def test_warnings_reach_the_client(kube: Client, space: Space, hook: Hook) -> None:
    """response.warnings as Warning headers, of allowed and denied requests."""
    hook.answer["/v"] = lambda review: {"allowed": review["name"] != "b", "warnings": ["mind the gap", 'and "this"']}
    async with configured(kube, space, "Validating", hook.entry("/v")):
        await hook.heard(kube, space, "/v")
        answer = await kube.post(space.configmaps, configmap("a"))
        answer.ok(201)
        assert answer.warnings == ["mind the gap", 'and "this"']
        answer = await kube.post(space.configmaps, configmap("b"))
        assert answer.status == 400
        assert "mind the gap" in answer.warnings


async def test_audit_annotations_are_taken(kube: Client, space: Space, hook: Hook) -> None:
    """They are for the audit log: accepted, and not part of the object."""
    hook.answer["/v"] = lambda review: {"allowed": True, "auditAnnotations": {"why": "because"}}
    async with configured(kube, space, "Validating", hook.entry("/v")):
        await hook.heard(kube, space, "/v")
        made = await kube.create(space.configmaps, configmap("a"))
    assert "annotations" not in made["metadata"]


async def test_reinvocation_after_a_later_change(kube: Client, space: Space, hook: Hook) -> None:
    """IfNeeded: called once more when a webhook behind it changed the object; Never is not."""
    hook.answer |= {"/m1": allowed, "/m2": allowed, "/m3": annotated("late")}
    entries = (hook.entry("/m1", reinvocationPolicy="IfNeeded"), hook.entry("/m2"), hook.entry("/m3"))
    async with configured(kube, space, "Mutating", *entries):
        await hook.heard(kube, space, "/m1", "/m2", "/m3")
        await kube.create(space.configmaps, configmap("a"))
    assert [path for path, _ in hook.calls] == ["/m1", "/m2", "/m3", "/m1"]
    assert hook.calls[-1][1]["object"]["metadata"]["annotations"] == {"late": "yes"}


async def test_side_effects_and_dry_runs(kube: Client, space: Space, hook: Hook) -> None:
    """A webhook has none in a dry run, or cannot be configured."""
    entry = hook.entry("/v", sideEffects="NoneOnDryRun")
    async with configured(kube, space, "Validating", entry):
        await hook.heard(kube, space, "/v")
    answer = await kube.post(VALIDATING, configuration("Validating", space, hook.entry("/v", sideEffects="Some")))
    answer.refused(422, "Invalid", 'webhooks[0].sideEffects: Unsupported value: "Some"')


async def test_no_webhook_guards_the_webhooks(kube: Client, space: Space, hook: Hook) -> None:
    """Configurations themselves are exempt, so that a broken one can be removed."""
    hook.answer["/v"] = denied("no")
    entry = hook.entry("/v", resources=["*/*"], operations=["*"], namespaceSelector={})
    entry["objectSelector"] = {"matchLabels": {"only": space.name}}
    labels = {"only": space.name}
    async with configured(kube, space, "Validating", entry, hook.entry("/probe")):
        await hook.heard(kube, space, "/probe")
        (await kube.post(space.configmaps, configmap("a", labels=labels))).refused(400)
        other = configuration("Validating", space, hook.entry("/x"), name=f"other.{space.name}")
        other["metadata"]["labels"] = labels
        await kube.create(VALIDATING, other)
        (await kube.delete(f"{VALIDATING}/other.{space.name}")).ok()


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"name": "short"}, "webhooks[0].name"),
        ({"clientConfig": {"url": "http://127.0.0.1/x"}}, "webhooks[0].clientConfig.url"),
        ({"clientConfig": {"url": "https://[::1/x"}}, "webhooks[0].clientConfig.url"),
        ({"clientConfig": {"url": "https://h:port/x"}}, "webhooks[0].clientConfig.url"),
        ({"clientConfig": {"url": "https://h\\x/"}}, "webhooks[0].clientConfig.url"),
        ({"clientConfig": {"service": {"name": "a", "namespace": "b", "path": "x"}}}, "webhooks[0].clientConfig"),
        ({"clientConfig": {}}, "webhooks[0].clientConfig"),
        ({"sideEffects": None}, "webhooks[0].sideEffects"),
        ({"admissionReviewVersions": []}, "webhooks[0].admissionReviewVersions"),
        ({"admissionReviewVersions": ["v9"]}, "webhooks[0].admissionReviewVersions"),
        ({"timeoutSeconds": 31}, "webhooks[0].timeoutSeconds"),
        ({"failurePolicy": "Perhaps"}, "webhooks[0].failurePolicy"),
        ({"rules": [{**RULE, "operations": ["READ"]}]}, "webhooks[0].rules[0].operations[0]"),
        ({"rules": [{**RULE, "apiGroups": ["*", "apps"]}]}, "webhooks[0].rules[0].apiGroups"),
        ({"rules": [{**RULE, "resources": ["*", "pods"]}]}, "webhooks[0].rules[0].resources"),
        ({"rules": [{**RULE, "resources": ["*/*", "pods"]}]}, "webhooks[0].rules[0].resources"),
        ({"namespaceSelector": {"matchExpressions": [UNKNOWN]}}, "webhooks[0].namespaceSelector"),
        (
            {"objectSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
            "webhooks[0].objectSelector.matchExpressions[0].values",
        ),
        (
            {"objectSelector": {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}},
            "webhooks[0].objectSelector.matchExpressions[0].values",
        ),
    ],
)
async def test_a_configuration_is_validated(
    kube: Client, space: Space, hook: Hook, fields: dict[str, Any], field: str
) -> None:
    """ValidateValidatingWebhookConfiguration."""
    answer = await kube.post(VALIDATING, configuration("Validating", space, {**hook.entry("/v"), **fields}))
    answer.refused(422, "Invalid")
    assert any(where.startswith(field) for where, _ in answer.causes), answer.causes


async def test_a_configuration_has_defaults(kube: Client, space: Space, hook: Hook) -> None:
    """failurePolicy Fail, matchPolicy Equivalent, ten seconds, scope *, reinvocation Never, empty selectors."""
    entry = hook.entry("/v")
    del entry["timeoutSeconds"]
    body = configuration("Mutating", space, entry)
    try:
        made = await kube.create(MUTATING, body)
    finally:
        await kube.delete(f"{MUTATING}/{body['metadata']['name']}")
    found = made["webhooks"][0]
    assert {key: found[key] for key in ("failurePolicy", "matchPolicy", "timeoutSeconds", "reinvocationPolicy")} == {
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "timeoutSeconds": 10,
        "reinvocationPolicy": "Never",
    }
    assert found["objectSelector"] == {}
    assert found["rules"][0]["scope"] == "*"


async def test_equivalent_rules_match_other_versions(kube: Client, space: Space, hook: Hook) -> None:
    """matchPolicy Equivalent: a rule of v1 is called for v2 with the object as v1; Exact is not."""
    schema = {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    await kube.create(CRDS, crd(space.group, version(schema=schema), version("v2", storage=False, schema=schema)))
    path = space.of(f"{space.group}/v2", "widgets")
    await eventually(lambda: kube.read(path))
    rule = {"apiGroups": [space.group], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["widgets"]}
    equivalent = hook.entry("/e", rules=[rule])
    exact = hook.entry("/x", rules=[rule], matchPolicy="Exact")
    async with configured(kube, space, "Validating", hook.entry("/probe"), equivalent, exact):
        await hook.heard(kube, space, "/probe")
        await eventually(lambda: kube.create(path, custom(space.group, "a", {}, version="v2")))
    ((called, review),) = hook.calls
    assert called == "/e"
    assert (review["kind"]["version"], review["requestKind"]["version"]) == ("v1", "v2")
    assert review["object"]["apiVersion"] == f"{space.group}/v1"


@pytest.mark.needs("devkube")
async def test_a_service_that_was_not_mapped_is_named(kube: Client, space: Space, hook: Hook) -> None:
    """devkube has no Services that lead anywhere: the message names the flag that maps one."""
    reference = {"service": {"namespace": space.name, "name": "hook", "path": "/v"}}
    async with configured(kube, space, "Validating", hook.entry("/v", clientConfig=reference)):
        answer = await kube.post(space.configmaps, configmap("a"))
    answer.refused(
        500, "InternalError", 'failed calling webhook "v.example.com"', f"{space.name}/hook", "--webhook-service"
    )


async def test_a_webhook_writes_no_more_than_its_client_could(kube: Client, space: Space, hook: Hook) -> None:
    """At /status the status, in a new object none."""
    schema = {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}, "status": OPEN}
    await kube.create(CRDS, crd(space.group, version(schema=schema, subresources={"status": {}})))
    path = space.of(f"{space.group}/v1", "widgets")
    await eventually(lambda: kube.read(path))
    hook.answer["/m"] = patched(
        {"op": "add", "path": "/spec/size", "value": 9}, {"op": "add", "path": "/status", "value": {"by": "hook"}}
    )
    rule = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["widgets", "widgets/status"]}
    probe = {"apiGroups": [""], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["configmaps"]}
    async with configured(kube, space, "Mutating", hook.entry("/m", rules=[rule, probe])):
        await hook.heard(kube, space, "/m")
        made = (await kube.post(path, custom(space.group, "a", {"size": 1}))).ok(201)
        assert (made["spec"], "status" in made) == ({"size": 9}, False)
        (await kube.json_patch(f"{path}/a", {"op": "replace", "path": "/spec/size", "value": 2})).ok(200)
        hook.answer["/m"] = patched({"op": "add", "path": "/spec/size", "value": 7})
        told = (await kube.merge(f"{path}/a/status", {"status": {"by": "client"}})).ok(200)
    assert (told["spec"], told["status"]) == ({"size": 9}, {"by": "client"})


async def test_conditions_have_names_and_no_two_the_same(kube: Client, space: Space, hook: Hook) -> None:
    for given, told in ((["a", "a"], 'Duplicate value: "a"'), (["a b"], "name part must consist of")):
        entry = hook.entry("/v", matchConditions=[{"name": name, "expression": "true"} for name in given])
        refused = await kube.post(VALIDATING, configuration("Validating", space, entry), dryRun="All")
        refused.refused(422, "Invalid", f"webhooks[0].matchConditions[{len(given) - 1}].name", told)
