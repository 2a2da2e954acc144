"""Webhooks as a client of the whole server sees them: called over TLS by a configuration that was just written."""

import base64
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from devkube.server import DevKube
from devkube.store import load
from tests.integration.devkube.conftest import Asker
from tests.integration.devkube.webhookserver import Server

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1"
CORE = "/api/v1/namespaces/default"


class Hooks:
    """Webhooks by path; each is a function of the AdmissionRequest. `requests` are those it got."""

    def __init__(self, directory: Path, ask: Asker) -> None:
        self.server = Server(directory, self._answer, ("hooks.default.svc",))
        self.answers: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {}
        self.requests: list[dict[str, Any]] = []
        self._ask = ask

    async def _answer(self, request: web.Request) -> web.Response:
        review = json.loads(await request.read())
        self.requests.append(review["request"])
        response = {"uid": review["request"]["uid"], **self.answers[request.path](review["request"])}
        return web.json_response({**review, "request": None, "response": response})

    async def configure(self, kind: str, name: str, answer: Any, *, rules: dict[str, Any], **rest: Any):
        """A configuration of one webhook. The answer of the API server."""
        self.answers[f"/{name}"] = answer if callable(answer) else lambda request: answer
        hook = {
            "name": f"{name}.acme.io",
            "clientConfig": self.server.client(f"/{name}"),
            "rules": [
                {"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], **rules}
            ],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            **rest,
        }
        api = "admissionregistration.k8s.io/v1"
        body = {"apiVersion": api, "kind": kind, "metadata": {"name": name}, "webhooks": [hook]}
        return await self._ask("POST", f"{CONFIGURATIONS}/{kind.lower()}s", body)

    async def mutating(self, name: str, answer: Any, **rest: Any) -> None:
        found = await self.configure("MutatingWebhookConfiguration", name, answer, **{"rules": {}, **rest})
        assert found.status == 201, found.told

    async def validating(self, name: str, answer: Any, **rest: Any) -> None:
        found = await self.configure("ValidatingWebhookConfiguration", name, answer, **{"rules": {}, **rest})
        assert found.status == 201, found.told


@pytest.fixture
async def hooks(tmp_path: Path, ask: Asker) -> AsyncIterator[Hooks]:
    found = Hooks(tmp_path / "hooks", ask)
    async with found.server.running():
        yield found


def patch(*operations: dict[str, Any]) -> dict[str, Any]:
    encoded = base64.b64encode(json.dumps(operations).encode()).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": encoded}


def configmap(name: str = "c", **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "b", **data}}


ADD = {"op": "add", "path": "/data/added", "value": "yes"}


async def test_a_mutation_is_stored(hooks: Hooks, ask: Asker) -> None:
    await hooks.mutating("m", patch(ADD))
    found = await ask("POST", f"{CORE}/configmaps", configmap())
    assert (found.status, found.body["data"]) == (201, {"a": "b", "added": "yes"})
    request = hooks.requests[0]
    assert (request["operation"], request["name"], request["namespace"]) == ("CREATE", "c", "default")
    assert request["userInfo"]["username"] == "kubernetes-admin"
    assert request["options"]["kind"] == "CreateOptions"
    assert (await ask("GET", f"{CORE}/configmaps/c")).body["data"]["added"] == "yes"


async def test_updates_patches_and_deletions_are_told(hooks: Hooks, ask: Asker) -> None:
    await ask("POST", f"{CORE}/configmaps", configmap())
    await hooks.validating("v", {"allowed": True})
    await ask("PUT", f"{CORE}/configmaps/c", configmap(x="1"))
    await ask("PATCH", f"{CORE}/configmaps/c", {"data": {"x": "2"}}, media="application/merge-patch+json")
    await ask("DELETE", f"{CORE}/configmaps/c")
    told = [(one["operation"], one["options"]["kind"]) for one in hooks.requests]
    assert told == [("UPDATE", "UpdateOptions"), ("UPDATE", "UpdateOptions"), ("DELETE", "DeleteOptions")]
    assert [one["oldObject"]["data"].get("x") for one in hooks.requests] == [None, "1", "2"]
    assert hooks.requests[-1]["object"] is None


async def test_a_denial(hooks: Hooks, ask: Asker) -> None:
    await hooks.validating("v", {"allowed": False, "status": {"code": 403, "reason": "Forbidden", "message": "no"}})
    found = await ask("POST", f"{CORE}/configmaps", configmap())
    assert (found.status, found.body["reason"]) == (403, "Forbidden")
    assert found.told == 'admission webhook "v.acme.io" denied the request: no'
    assert (await ask("GET", f"{CORE}/configmaps/c")).status == 404


async def test_warnings_reach_the_client(api: DevKube, hooks: Hooks, ask: Asker) -> None:
    notes = {"warnings": ["mind the gap"], "auditAnnotations": {"seen": "yes"}}
    await hooks.validating("v", {"allowed": True, **notes})
    found = await ask("POST", f"{CORE}/configmaps", configmap())
    assert found.warnings == ['299 - "mind the gap"']
    assert api.admission.audited[-1].audit == {"v.acme.io/seen": "yes"}


async def test_a_webhook_that_is_away(api: DevKube, hooks: Hooks, ask: Asker) -> None:
    away = {"clientConfig": {"url": "https://127.0.0.1:1/x"}}
    await hooks.validating("v", {}, **away)
    found = await ask("POST", f"{CORE}/configmaps", configmap())
    assert (found.status, found.body["reason"]) == (500, "InternalError")
    assert found.told == (
        'Internal error occurred: failed calling webhook "v.acme.io": failed to call webhook: '
        'Post "https://127.0.0.1:1/x?timeout=10s": dial tcp 127.0.0.1:1: connect: connection refused'
    )
    await ask("DELETE", f"{CONFIGURATIONS}/validatingwebhookconfigurations/v")
    await hooks.validating("w", {}, failurePolicy="Ignore", **away)
    assert (await ask("POST", f"{CORE}/configmaps", configmap())).status == 201


async def test_dry_run_reaches_it(hooks: Hooks, ask: Asker) -> None:
    await hooks.mutating("m", patch(ADD))
    found = await ask("POST", f"{CORE}/configmaps?dryRun=All", configmap())
    assert (found.status, found.body["data"]["added"]) == (201, "yes")
    assert hooks.requests[0]["dryRun"] is True
    assert (await ask("GET", f"{CORE}/configmaps/c")).status == 404


async def test_what_changes_meanwhile_is_what_counts(api: DevKube, hooks: Hooks, ask: Asker) -> None:
    """Who was overtaken while webhooks were asked begins anew, five times, or ten for a deletion."""
    path, times = f"{CORE}/configmaps/c", 0

    def overtake(request: dict[str, Any]) -> dict[str, Any]:
        nonlocal times
        if times:
            times -= 1
            stored = api.store.get("configmaps", "default", "c")
            assert stored is not None
            obj = load(stored)
            obj["data"]["theirs"] = str(times)
            api.store.replace("configmaps", obj, stored.version)
        return {"allowed": True}

    async def patched(meta: dict[str, Any]) -> Any:
        body = {"metadata": meta, "data": {"mine": "yes"}}
        return await ask("PATCH", path, body, media="application/merge-patch+json")

    made = (await ask("POST", f"{CORE}/configmaps", configmap())).body
    await hooks.validating("v", overtake, rules={"operations": ["UPDATE", "DELETE"]})
    times = 2
    found = await patched({})
    assert (found.status, found.body["data"]) == (200, {"a": "b", "mine": "yes", "theirs": "0"})
    times = 1
    assert (await ask("PUT", path, {**made, "metadata": found.body["metadata"]})).status == 409
    times = 99
    assert "the object has been modified" in (await patched({"labels": {"l": "1"}})).told
    assert "it keeps being modified while it is deleted" in (await ask("DELETE", path)).told
    times = 1
    assert (await ask("DELETE", path)).status == 200


async def test_a_mutated_pod_is_defaulted_and_checked(hooks: Hooks, ask: Asker) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "a", "image": "a"}]},
    }
    sidecar = {"name": "sidecar", "image": "b", "ports": [{"containerPort": 80}]}
    add = {"op": "add", "path": "/spec/containers/-", "value": sidecar}
    await hooks.mutating("m", patch(add), rules={"operations": ["CREATE"], "resources": ["pods"]})
    found = await ask("POST", f"{CORE}/pods", pod)
    assert found.status == 201, found.told
    container = found.body["spec"]["containers"][1]
    assert (container["ports"][0]["protocol"], container["terminationMessagePath"]) == ("TCP", "/dev/termination-log")
    mount = {"op": "add", "path": "/spec/containers/0/volumeMounts", "value": [{"name": "nope", "mountPath": "/x"}]}
    await hooks.mutating("n", patch(mount), rules={"operations": ["CREATE"], "resources": ["pods"]})
    found = await ask("POST", f"{CORE}/pods", {**pod, "metadata": {"name": "q"}})
    assert found.status == 422
    assert 'spec.containers[0].volumeMounts[0].name: Not found: "nope"' in found.told


async def test_scales_and_evictions_are_told(hooks: Hooks, ask: Asker) -> None:
    apps = {"apiGroups": ["apps"], "resources": ["deployments/scale"]}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "a"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}
    path = "/apis/apps/v1/namespaces/default/deployments"
    assert (await ask("POST", path, deployment)).status == 201
    limit = patch({"op": "replace", "path": "/spec/replicas", "value": 3})
    await hooks.mutating("m", limit, rules=apps)
    found = await ask("PATCH", f"{path}/d/scale", {"spec": {"replicas": 9}}, media="application/merge-patch+json")
    assert found.status == 200, found.told
    assert found.body["spec"]["replicas"] == 3
    assert hooks.requests[0]["kind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": template["spec"]}
    assert (await ask("POST", f"{CORE}/pods", pod)).status == 201
    await hooks.validating("v", {"allowed": False}, rules={"resources": ["pods/eviction"]})
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    found = await ask("POST", f"{CORE}/pods/p/eviction", eviction)
    assert found.told == 'admission webhook "v.acme.io" denied the request without explanation'
    assert hooks.requests[-1]["kind"] == {"group": "policy", "version": "v1", "kind": "Eviction"}
    assert (await ask("GET", f"{CORE}/pods/p")).status == 200


async def test_conditions_are_checked_when_written(hooks: Hooks, ask: Asker) -> None:
    def written(expression: str):
        conditions = [{"name": "a", "expression": expression}]
        return hooks.configure(
            "ValidatingWebhookConfiguration", "v", {"allowed": False}, rules={}, matchConditions=conditions
        )

    found = await written("object.data.a ==")
    assert (found.status, found.body["reason"]) == (422, "Invalid")
    assert found.body["details"]["causes"][0]["field"] == "webhooks[0].matchConditions[0].expression"
    found = await written('authorizer.path("/x").check("get").allowed()')
    assert "devkube does not have authorizer" in found.told
    assert (await written('object.metadata.name != "skipped"')).status == 201
    assert (await ask("POST", f"{CORE}/configmaps", configmap("skipped"))).status == 201
    assert (await ask("POST", f"{CORE}/configmaps", configmap("met"))).status == 400


async def test_configurations_cannot_lock_themselves_in(hooks: Hooks, ask: Asker) -> None:
    everything = {"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}
    await hooks.validating("v", {"allowed": False}, rules=everything)
    assert (await ask("POST", f"{CORE}/configmaps", configmap())).status == 400
    assert (await ask("DELETE", f"{CONFIGURATIONS}/validatingwebhookconfigurations/v")).status == 200
    assert (await ask("POST", f"{CORE}/configmaps", configmap())).status == 201
