"""A webhook that a test serves: TLS on a free port, each call recorded, each answer the test's own.

async with kubehook.serving(cluster.webhook_host) as hook:
    hook.answer["/a"] = kubehook.patched({"op": "add", …})
    await kube.create(MUTATING, kubehook.configuration("Mutating", space, hook.entry("/a", resources=["pods"])))
    await hook.heard(kube, space, "/a")         # a real server's informers need a moment
"""

import asyncio
import base64
import contextlib
import json
import ssl
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.support import pki
from tests.support.kubeobjects import configmap
from tests.support.kubernetes import Client, Space, eventually

Object = dict[str, Any]
Review = Object  # the request half of an AdmissionReview
# The response half, without its uid; `raw` instead: what aiohttp is to answer, `apiVersion`: another of the review.
Reply = Callable[[Review], Object | Awaitable[Object]]
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
MUTATING, VALIDATING = f"{ADMISSION}/mutatingwebhookconfigurations", f"{ADMISSION}/validatingwebhookconfigurations"
PUBLISHED = "kube-root-ca.crt"  # what a controller writes into each namespace is nobody's call
PROBE = "hook-probe"  # name of the object by which a hook is found to be active; calls about it are not recorded


def allowed(review: Review) -> Object:
    return {"allowed": True}


def denied(message: str, **status: Any) -> Reply:
    return lambda review: {"allowed": False, "status": {"message": message, **status}}


def patched(*operations: Object) -> Reply:
    encoded = base64.b64encode(json.dumps(list(operations)).encode()).decode()
    return lambda review: {"allowed": True, "patchType": "JSONPatch", "patch": encoded}


def annotated(name: str, value: str = "yes") -> Reply:
    """An annotation, whether or not there are any yet."""

    def reply(review: Review) -> Object:
        add = {"op": "add", "path": f"/metadata/annotations/{name}", "value": value}
        if not review["object"]["metadata"].get("annotations"):
            add = {"op": "add", "path": "/metadata/annotations", "value": {name: value}}
        found = patched(add)(review)
        assert isinstance(found, dict)
        return found

    return reply


class Hook:
    def __init__(self, url: str, authority: bytes) -> None:
        self.url, self.authority = url, authority
        self.answer: dict[str, Reply] = {}
        self.calls: list[tuple[str, Review]] = []  # path and request, in order of arrival
        self._probed: set[str] = set()

    async def handle(self, request: web.Request) -> web.Response:
        body = await request.json()
        assert (body["kind"], body["apiVersion"]) == ("AdmissionReview", "admission.k8s.io/v1")
        review = body["request"]
        if review.get("name") == PROBE:
            self._probed.add(request.path)
            response: Object = {"allowed": True}
        elif review.get("name") == PUBLISHED:
            response = {"allowed": True}
        else:
            self.calls.append((request.path, review))
            made = self.answer.get(request.path, allowed)(review)
            response = made if isinstance(made, dict) else await made
        if "raw" in response:
            return web.Response(**response["raw"])
        return web.json_response(
            {
                "kind": "AdmissionReview",
                "apiVersion": response.pop("apiVersion", "admission.k8s.io/v1"),
                "response": {"uid": review["uid"], **response},
            }
        )

    def entry(
        self, path: str, *, resources: list[str] | None = None, operations: list[str] | None = None, **fields: Any
    ) -> Object:
        """One webhook of a configuration; its name comes from the path. `fields` replace what is here."""
        rule = {
            "apiGroups": ["*"],
            "apiVersions": ["*"],
            "operations": operations or ["CREATE"],
            "resources": resources or ["configmaps"],
        }
        return {
            "name": f"{path.strip('/')}.example.com",
            "clientConfig": {"url": self.url + path, "caBundle": base64.b64encode(self.authority).decode()},
            "rules": [rule],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "timeoutSeconds": 5,
            **fields,
        }

    async def heard(self, kube: Client, space: Space, *paths: str) -> None:
        """Once each of these was called for a dry creation: their configuration is in force."""

        async def all_heard() -> None:
            (await kube.post(space.configmaps, configmap(PROBE), dryRun="All")).ok(201)
            assert set(paths) <= self._probed, f"not called: {set(paths) - self._probed}"

        await eventually(all_heard)

    def reviews(self, path: str) -> list[Review]:
        return [review for called, review in self.calls if called == path]


def configuration(kind: str, space: Space, *entries: Object, name: str = "") -> Object:
    """For the objects of this namespace only, whatever the entries say otherwise."""
    only = {"matchLabels": {"kubernetes.io/metadata.name": space.name}}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{kind}WebhookConfiguration",
        "metadata": {"name": name or f"{space.name}.example.com"},
        "webhooks": [{"namespaceSelector": only, **entry} for entry in entries],
    }


@contextlib.asynccontextmanager
async def serving(host: str = "127.0.0.1", *, names: tuple[str, ...] = ()) -> AsyncIterator[Hook]:
    """`host`: by which name the API server reaches this process; `names` are further ones of the certificate."""
    with tempfile.TemporaryDirectory() as folder:
        authority = pki.Authority()
        files = authority.issue(Path(folder), "hook", hosts=("127.0.0.1", "localhost", host, *names))
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(files.certificate, files.key)
    hook = Hook("", authority.pem)
    application = web.Application()
    application.router.add_post("/{path:.*}", hook.handle)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1" if host == "127.0.0.1" else "0.0.0.0", 0, ssl_context=context)
    await site.start()
    hook.url = f"https://{host}:{runner.addresses[0][1]}"
    try:
        yield hook
    finally:
        await runner.cleanup()


async def never(review: Review) -> Object:
    await asyncio.sleep(60)
    return {"allowed": True}
