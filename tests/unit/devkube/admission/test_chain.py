"""All webhooks of one request: order, policies, second rounds, warnings, annotations, patches."""

import asyncio
import base64
import json

import pytest

from devkube.admission.call import CallFailed
from devkube.errors import StatusError


def label(key: str, value: str = "yes"):
    return {"op": "add", "path": f"/metadata/labels/{key}", "value": value}


async def denied(bench, asked, *, mutating: bool = True) -> StatusError:
    with pytest.raises(StatusError) as caught:
        await (bench.chain.mutate(asked) if mutating else bench.chain.validate(asked))
    return caught.value


async def test_nothing_is_configured(bench, attributes) -> None:
    asked = attributes()
    assert await bench.chain.mutate(asked) is asked.object
    await bench.chain.validate(asked)
    assert await bench.chain.mutate(attributes(operation="DELETE")) == {}


async def test_each_sees_what_the_one_before_made(bench, hook, patch, attributes) -> None:
    bench.configure("b", hook("second", patch(label("b"))))
    bench.configure("a", hook("first", patch(label("a"))), hook("middle"))
    found = await bench.chain.mutate(attributes(labels={"app": "x"}))
    assert bench.called == ["first", "middle", "second"]
    assert bench.caller.seen[2][1]["request"]["object"]["metadata"]["labels"] == {"app": "x", "a": "yes"}
    assert found["metadata"]["labels"] == {"app": "x", "a": "yes", "b": "yes"}


async def test_what_a_patch_adds_is_pruned_and_defaulted(bench, hook, patch, attributes) -> None:
    add = {"op": "add", "path": "/spec", "value": {"unknownField": 1, "known": 2}}
    bench.configure("a", hook("first", patch(add)))
    assert (await bench.chain.mutate(attributes()))["spec"] == {"known": 2, "level": "low"}


async def test_a_second_round_for_those_who_ask_for_it(bench, hook, patch, attributes) -> None:
    add = [{"op": "add", "path": "/spec/containers", "value": ["sidecar"]}]
    again = {"reinvocationPolicy": "IfNeeded"}
    bench.configure(
        "a", hook("asks", **again), hook("never"), hook("changes", patch(*add), **again), hook("late", **again)
    )
    await bench.chain.mutate(attributes())
    # `changes` is not called for its own change, `late` saw it already.
    assert bench.called == ["asks", "never", "changes", "late", "asks"]
    assert bench.caller.seen[-1][1]["request"]["object"]["spec"]["containers"] == ["sidecar"]


async def test_a_change_in_the_second_round_reaches_those_after_it_and_there_is_no_third(
    bench, hook, patch, attributes
) -> None:
    def counts(request):
        number = request["object"]["spec"].get("n", 0) + 1
        return patch({"op": "add", "path": "/spec/n", "value": number})

    again = {"reinvocationPolicy": "IfNeeded"}
    bench.configure("a", hook("one", counts, **again), hook("two", counts, **again))
    found = await bench.chain.mutate(attributes())
    assert bench.called == ["one", "two", "one", "two"]
    assert found["spec"]["n"] == 4


async def test_a_patch_that_changes_nothing_calls_nobody_again(bench, hook, patch, attributes) -> None:
    same = {"op": "replace", "path": "/metadata/name", "value": "x"}
    bench.configure("a", hook("asks", reinvocationPolicy="IfNeeded"), hook("same", patch(same)))
    await bench.chain.mutate(attributes())
    assert bench.called == ["asks", "same"]


async def test_a_denial_ends_it(bench, hook, attributes) -> None:
    no = {"allowed": False, "status": {"code": 403, "message": "not on a Friday"}}
    bench.configure("a", hook("no", no), hook("later"))
    error = await denied(bench, attributes())
    assert (error.code, error.message) == (403, 'admission webhook "no.acme.io" denied the request: not on a Friday')
    assert bench.called == ["no"]


async def test_a_call_that_fails_fails_the_request(bench, hook, attributes) -> None:
    bench.configure("a", hook("gone", CallFailed("failed to call webhook: no")))
    error = await denied(bench, attributes())
    assert (error.code, error.reason) == (500, "InternalError")
    assert error.message == (
        'Internal error occurred: failed calling webhook "gone.acme.io": failed to call webhook: no'
    )


async def test_or_is_ignored(bench, hook, attributes) -> None:
    bench.configure("a", hook("gone", CallFailed("no"), failurePolicy="Ignore"), hook("next"))
    asked = attributes()
    await bench.chain.mutate(asked)
    assert bench.called == ["gone", "next"]


async def test_an_answer_nobody_believes_counts_as_a_failed_call(bench, hook, attributes) -> None:
    bench.configure("a", hook("odd", {"uid": "other", "allowed": True}))
    error = await denied(bench, attributes())
    assert 'failed calling webhook "odd.acme.io": received invalid webhook response: expected response.uid=' in (
        error.message
    )


async def test_a_patch_is_applied_strictly_whatever_the_policy(bench, hook, patch, attributes) -> None:
    bad = {"op": "remove", "path": "/spec/nope"}
    bench.configure("a", hook("bad", patch(bad), failurePolicy="Ignore"))
    error = await denied(bench, attributes())
    assert error.code == 500
    assert "nope" in error.message


@pytest.mark.parametrize("patch_text", [b"{}", b"[1]", b"nope"], ids=["object", "numbers", "words"])
async def test_an_undecodable_patch_fails_the_request(bench, hook, attributes, patch_text: bytes) -> None:
    encoded = base64.b64encode(patch_text).decode()
    bench.configure("a", hook("bad", {"allowed": True, "patchType": "JSONPatch", "patch": encoded}))
    error = await denied(bench, attributes())
    assert (error.code, "patch" in error.message) == (500, True)


async def test_a_deletion_cannot_be_patched(bench, hook, patch, attributes) -> None:
    bench.configure("a", hook("bad", patch(label("x"))))
    error = await denied(bench, attributes(operation="DELETE"))
    assert error.message == (
        'Internal error occurred: admission webhook "bad.acme.io" attempted to modify the object, which is not '
        "supported for this operation"
    )


async def test_a_patch_that_makes_something_else_of_it(bench, hook, patch, attributes) -> None:
    bench.configure("a", hook("bad", patch({"op": "replace", "path": "/kind", "value": "Node"})))
    assert "changed kind" in (await denied(bench, attributes())).message


async def test_a_patch_of_another_type(bench, hook, patch, attributes) -> None:
    bench.configure("a", hook("empty", {**patch(), "patchType": "MergePatch"}))
    bench.configure("b", hook("bad", {**patch(label("x")), "patchType": "MergePatch"}))
    error = await denied(bench, attributes())
    assert 'failed calling webhook "bad.acme.io": unsupported patch type "MergePatch"' in error.message


async def test_what_a_patch_takes_away_is_as_it_was(bench, hook, patch, attributes) -> None:
    bench.configure("a", hook("all", patch({"op": "replace", "path": "", "value": {}})))
    found = await bench.chain.mutate(attributes())
    assert (found["apiVersion"], found["kind"], found["metadata"]) == ("v1", "Pod", {})


async def test_warnings_and_annotations_are_kept(bench, hook, patch, attributes) -> None:
    notes = {"warnings": ["old field"], "auditAnnotations": {"seen": "yes"}}
    bench.configure("a", hook("m", {**patch(label("a")), **notes}))
    bench.configure("v", hook("v", {"allowed": True, **notes}), validating=True)
    asked = attributes(labels={})
    asked.object["metadata"]["labels"] = {}
    await bench.chain.mutate(asked)
    await bench.chain.validate(asked)
    assert asked.warnings == ["old field", "old field"]
    assert asked.audit["m.acme.io/seen"] == asked.audit["v.acme.io/seen"] == "yes"
    assert list(bench.chain.audited) == [asked]
    same = attributes(labels={})
    same.object["metadata"]["labels"] = {}
    await bench.chain.mutate(same)
    await bench.chain.validate(same)
    assert list(bench.chain.audited) == [asked, same], "an equal request is another one"


async def test_another_version_is_sent_and_comes_back(bench, hook, patch, attributes) -> None:
    rules = [{"operations": ["*"], "apiGroups": ["a.io"], "apiVersions": ["v2"], "resources": ["foos"], "scope": "*"}]
    bench.configure("a", hook("v2", patch({"op": "add", "path": "/spec/known", "value": 1}), rules=rules))
    found = await bench.chain.mutate(attributes("foos"))
    assert bench.caller.seen[0][1]["request"]["object"]["apiVersion"] == "a.io/v2"
    assert (found["apiVersion"], found["spec"]["known"]) == ("a.io/v1", 1)


async def test_conditions_decide_too(bench, hook, attributes) -> None:
    conditions = [{"name": "not-me", "expression": 'request.userInfo.username != "jane"'}]
    broken = [{"name": "odd", "expression": "object.nope.x == 1"}]
    bench.configure("a", hook("skipped", matchConditions=conditions))
    await bench.chain.mutate(attributes())
    bench.configure("b", hook("broken", matchConditions=broken))
    error = await denied(bench, attributes())
    assert (error.code, error.message.split(":")[0]) == (403, 'pods "x" is forbidden')
    assert bench.called == []


async def test_namespaces_are_looked_up(bench, hook, attributes) -> None:
    bench.space("ns", env="prod")
    bench.configure("a", hook("prod", namespaceSelector={"matchLabels": {"env": "prod"}}))
    bench.configure("b", hook("test", namespaceSelector={"matchLabels": {"env": "test"}}))
    await bench.chain.mutate(attributes())
    assert bench.called == ["prod"]


async def test_configurations_are_never_sent(bench, hook, attributes) -> None:
    bench.configure("a", hook("m", {"allowed": False}))
    bench.configure("b", hook("v", {"allowed": False}), validating=True)
    asked = attributes(
        resource=bench.chain._catalog.find("admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations")
    )
    await bench.chain.mutate(asked)
    await bench.chain.validate(asked)
    assert bench.called == []


async def test_configurations_that_come_and_go_are_noticed(bench, hook, attributes) -> None:
    await bench.chain.mutate(attributes())
    bench.configure("a", hook("m"))
    await bench.chain.mutate(attributes())
    stored = bench.store.get("mutatingwebhookconfigurations.admissionregistration.k8s.io", "", "a")
    bench.store.remove(stored.key, "", "a", stored.version)
    await bench.chain.mutate(attributes())
    assert bench.called == ["m"]


# ---------------------------------------------------------------------------------------------------- validating


async def test_validating_ones_are_called_at_once(bench, hook, attributes) -> None:
    started, everyone = [], asyncio.Event()

    async def post(client, body, seconds):
        started.append(client["url"])
        if len(started) == 2:
            everyone.set()
        await everyone.wait()  # would never return if they were called one by one
        review = json.loads(body)
        response = {"uid": review["request"]["uid"], "allowed": True}
        return json.dumps({**review, "response": response}).encode()

    bench.caller.post = post
    bench.configure("a", hook("a"), hook("b"), validating=True)
    async with asyncio.timeout(5):
        await bench.chain.validate(attributes())
    assert len(started) == 2


async def test_the_first_denial_is_told_and_all_are_asked(bench, hook, attributes) -> None:
    refuse = [{"allowed": False, "status": {"message": text}} for text in ("first", "second")]
    bench.configure("a", hook("ok"), hook("a", refuse[0]), hook("b", refuse[1]), validating=True)
    error = await denied(bench, attributes(), mutating=False)
    assert error.message == 'admission webhook "a.acme.io" denied the request: first'
    assert sorted(bench.called) == ["a", "b", "ok"]


async def test_a_validating_call_that_fails(bench, hook, attributes) -> None:
    bench.configure("a", hook("gone", CallFailed("no"), failurePolicy="Ignore"), validating=True)
    asked = attributes()
    await bench.chain.validate(asked)
    bench.configure("b", hook("strict", CallFailed("no")), validating=True)
    error = await denied(bench, attributes(), mutating=False)
    assert error.message == 'Internal error occurred: failed calling webhook "strict.acme.io": no'


async def test_a_validating_webhook_does_not_patch(bench, hook, patch, attributes) -> None:
    bench.configure("a", hook("bad", patch(label("x"))), validating=True)
    error = await denied(bench, attributes(), mutating=False)
    assert "validating webhook may not return response.patch" in error.message
