"""devkube: what clients send of objects, patches, selectors and URLs. Anything but a success or a refusal is a bug.

Requests go in below the socket and above everything else, as the administrator; writes are dry, so that each input
meets the same objects. A 5xx is a bug even where upstream has one.
"""

import asyncio
import copy
import json
import random
import weakref
from collections.abc import AsyncGenerator, Callable
from typing import Any

from devkube.errors import StatusError
from devkube.options import Settings
from devkube.requests import ADMIN
from devkube.routes import parse
from devkube.server import DevKube
from tests.fuzz import mutate
from tests.fuzz.target import Target, Try
from tests.support.asked import Asked
from tests.support.kubeobjects import configmap, container, crd, custom, deployment, pod, version

CORE, APPS = "/api/v1/namespaces/fuzz", "/apis/apps/v1/namespaces/fuzz"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/fuzz.example.com/v1/namespaces/fuzz/widgets"
RULE = {"rule": "self.size < 10 && self.names.all(n, n != self.word)", "messageExpression": "'no ' + self.word"}
NAME = {"type": "string", "maxLength": 9}
WIDGET = {
    "type": "object",
    "x-kubernetes-validations": [RULE, {"rule": "self.size >= oldSelf.size"}],
    "properties": {
        "size": {"type": "integer", "minimum": 0, "default": 1},
        "word": {"type": "string", "pattern": "^[a-z]*$", "default": "x", "maxLength": 9},
        "names": {"type": "array", "x-kubernetes-list-type": "set", "items": NAME, "default": [], "maxItems": 9},
        "parts": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["id"],
            "items": {
                "type": "object",
                "required": ["id"],
                "properties": {"id": {"type": "string"}, "n": {"type": "number"}},
            },
        },
        "either": {"x-kubernetes-int-or-string": True},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}
SPEC = {
    "size": 2,
    "word": "abc",
    "names": ["a", "b"],
    "parts": [{"id": "p", "n": 1.5}],
    "either": "50%",
    "free": {"a": [1]},
}
DEFINITION = crd("fuzz.example.com", version(schema={"spec": WIDGET}, subresources={"status": {}, "scale": {
    "specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}}))  # fmt: skip
FULL = pod(
    "p",
    container(
        "main",
        env=[{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        ports=[{"containerPort": 80, "name": "http"}],
        resources={"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "1"}},
        volumeMounts=[{"name": "v", "mountPath": "/v", "subPath": "x"}],
        readinessProbe={"httpGet": {"port": "http", "path": "/"}},
    ),
    spec={
        "volumes": [{"name": "v", "image": {"reference": "r:1"}}, {"name": "w", "configMap": {"name": "c"}}],
        "initContainers": [container("side", restartPolicy="Always")],
        "tolerations": [{"key": "k", "operator": "Exists"}],
        "nodeSelector": {"a": "b"},
    },
    labels={"app": "x"},
    finalizers=["example.com/f"],
)
PRESENT = (
    ("/api/v1/namespaces", {"metadata": {"name": "fuzz"}}),
    (f"{CORE}/pods", FULL),
    (f"{CORE}/configmaps", configmap("c", {"k": "v"})),
    (f"{APPS}/deployments", deployment("d")),
    (CRDS, DEFINITION),
    (WIDGETS, custom("fuzz.example.com", "w", SPEC)),
)


def _asking(request: Callable[[bytes], list[Asked]]) -> Callable[[], Try]:
    """Each input makes a few requests; understood means that one of them succeeded."""

    def make() -> Try:
        loop = asyncio.new_event_loop()
        api = DevKube(Settings(authorization="AlwaysAllow"))

        async def prepare() -> None:
            for path, body in PRESENT:
                await api.request("POST", path, body)

        loop.run_until_complete(prepare())

        async def ask(call: Asked) -> bool:
            try:
                route = parse(call.method, call.path, call.query)
                answer = await api.http.perform(call, route, ADMIN)
            except StatusError as error:
                if not 400 <= error.code < 500:
                    raise RuntimeError(f"{error.code} {error.message} for {call}") from error
                return False
            if isinstance(answer.pieces, AsyncGenerator):
                await answer.pieces.aclose()
                return True
            body = b"".join(answer.pieces)
            assert answer.status < 500, (answer.status, body[:500], call)
            return answer.status < 300

        def one(raw: bytes) -> bool:
            return sum(loop.run_until_complete(ask(call)) for call in request(raw)) > 0

        weakref.finalize(one, loop.close)
        return one

    return make


def _call(method: str, path: str, body: bytes | None = None, *, media: str = "application/json", **query: str) -> Asked:
    headers = {"content-type": media} if body is not None else {}
    return Asked(method, path, query, headers, body or b"")


ODD: list[Any] = [
    *(
        None,
        True,
        0,
        -1,
        1.5,
        2**63,
        "",
        "a",
        "A b",
        "\x00",
        "x" * 300,
        [],
        {},
        [None],
        [[]],
        [{}],
        {"": 1},
        {"a": None},
    ),
    *({"name": "main"}, {"$patch": "delete"}, {"$patch": "x"}, [{"$patch": "replace"}], "2026-01-01T00:00:00Z", "1Gi"),
]
KEYS = ("$patch", "$retainKeys", "$setElementOrder/containers", "$deleteFromPrimitiveList/finalizers", "status", "id")


def _document(raw: bytes, corpus: list[Any]) -> bytes:
    """The input itself, or most often, where it is no JSON, a document of the corpus with its parts at odds: that
    gets past the decoder."""
    try:
        json.loads(raw)
    except ValueError:
        chance = random.Random(raw)
        if chance.random() < 0.8:
            made = copy.deepcopy(chance.choice(corpus))
            for _ in range(chance.randint(1, 3)):
                disturb(made, chance)
            return json.dumps(made).encode()
    return raw


def disturb(document: Any, chance: random.Random) -> None:
    """One value becomes another, or odd, or goes, or moves under another name."""
    places: list[tuple[Any, Any]] = []

    def walk(value: Any) -> None:
        for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
            places.append((value, key))
            walk(value[key])

    walk(document)
    if not places:
        return
    holder, key = chance.choice(places)
    other, from_ = chance.choice(places)
    match chance.randrange(5):
        case 0:
            holder[key] = copy.deepcopy(other[from_])
        case 1:
            del holder[key]
        case 2 if isinstance(holder, dict):
            holder[chance.choice(KEYS)] = holder.pop(key)
        case 3 if isinstance(holder, list):
            holder.insert(0, copy.deepcopy(holder[key]))
        case _:
            holder[key] = copy.deepcopy(chance.choice(ODD))


def _patching(kind: str, corpus: list[Any], **query: str) -> Callable[[bytes], list[Asked]]:
    paths = (f"{CORE}/pods/p", f"{CORE}/configmaps/c", f"{APPS}/deployments/d", f"{WIDGETS}/w", f"{WIDGETS}/w/scale")
    media = f"application/{kind}"

    def request(raw: bytes) -> list[Asked]:
        body = _document(raw, corpus)
        return [_call("PATCH", path, body, media=media, dryRun="All", **query) for path in paths]

    return request


def _bodies(raw: bytes) -> list[Asked]:
    raw = _document(raw, NEW)
    posts = [f"{CORE}/pods", f"{APPS}/deployments", WIDGETS, CRDS, f"{CORE}/configmaps"]
    made = [_call("POST", path, raw, dryRun="All", fieldValidation="Strict") for path in posts]
    return [*made, _call("PUT", f"{CORE}/pods/p", raw, dryRun="All"), _call("PUT", f"{WIDGETS}/w", raw, dryRun="All")]


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")  # what the server in front makes of escaped bytes that are no text


def _selectors(raw: bytes) -> list[Asked]:
    text = _text(raw)
    return [
        _call("GET", f"{CORE}/pods", labelSelector=text),
        _call("GET", f"{CORE}/pods", fieldSelector=text),
        _call("GET", WIDGETS, fieldSelector=text, labelSelector=text),
        _call("GET", f"{CORE}/pods", watch="1", labelSelector=text),
        _call("DELETE", f"{CORE}/configmaps", labelSelector=text, dryRun="All"),
    ]


def _urls(raw: bytes) -> list[Asked]:
    """METHOD path?name=value&…; the query is split here as the server in front would."""
    method, _, rest = _text(raw).partition(" ")
    path, _, query = rest.partition("?")
    parameters = dict(pair.partition("=")[::2] for pair in query.split("&") if pair)
    parameters.pop("resourceVersion", None)  # a version of the future is waited for
    return [Asked(method if method.isalpha() else "GET", "/" + path.lstrip("/"), {**parameters, "dryRun": "All"})]


def _json(*values: Any) -> list[bytes]:
    return [json.dumps(value).encode() for value in values]


MERGES: list[Any] = [
    {"metadata": {"labels": {"a": "b", "app": None}, "finalizers": None}},
    {"spec": {"containers": [{"name": "main", "image": "i:2"}], "replicas": 3}},
    {
        "spec": {
            "template": {"spec": {"containers": [{"name": "main", "$patch": "delete"}, {"name": "n", "image": "i"}]}}
        }
    },
    {"spec": {"$patch": "replace", "size": 3}, "data": {"$retainKeys": ["k"], "k": "w"}},
    {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/f"], "$setElementOrder/finalizers": ["a/b"]}},
    {"spec": {"$setElementOrder/containers": [{"name": "main"}], "size": 4, "parts": [{"id": "q"}]}},
    {"status": {"conditions": [{"type": "Ready", "status": "True"}]}, "metadata": {"managedFields": [{}]}},
]
PATCHES: list[Any] = [
    [{"op": "add", "path": "/metadata/labels/x", "value": "1"}, {"op": "test", "path": "/metadata/name", "value": "p"}],
    [{"op": "remove", "path": "/metadata/finalizers/0"}, {"op": "replace", "path": "/spec/size", "value": 3}],
    [
        {"op": "move", "from": "/spec/word", "path": "/spec/free/word"},
        {"op": "copy", "from": "/data/k", "path": "/data/l"},
    ],
    [{"op": "add", "path": "/spec/containers/-", "value": {"name": "n"}}, {"op": "add", "path": "", "value": {}}],
    [{"op": "add", "path": "/data/~1~0", "value": "1"}],
]
APPLIES: list[Any] = [
    configmap("c", {"k": "w"}, labels={"l": "1"}),
    {**pod("p", container("main", image="i:2")), "status": {"phase": "Running"}},
    deployment("d", replicas=2),
    custom("fuzz.example.com", "w", {"size": 3, "parts": [{"id": "p", "n": 2}, {"id": "q"}], "names": ["c"]}),
]
SELECTORS = [
    b"app=x,tier!=back", b"app in (x,y),!z", b"n>1,m<2", b"a notin (b)", b"metadata.name=p,status.phase!=Running",
    b"spec.nodeName=", b"a==b", b"example.com/a.b=c_d", b"metadata.namespace=fuzz", b"a=\\,\\=",
]  # fmt: skip
URLS = [
    b"GET api/v1/namespaces/fuzz/pods?limit=1&continue=",
    b"GET apis/apps/v1",
    b"GET openapi/v3/api/v1?hash=x",
    b"DELETE api/v1/namespaces/fuzz/pods/p?propagationPolicy=Foreground&gracePeriodSeconds=5",
    b"GET api/v1/pods?watch=1&timeoutSeconds=1",
    b"GET apis/fuzz.example.com/v1/namespaces/fuzz/widgets/w/scale",
    b"POST api/v1/namespaces",
    b"PATCH api/v1/nodes/n?force=true",
    b"GET api/v1/namespaces/fuzz/configmaps/c?resourceVersion=0&resourceVersionMatch=Exact",
    b"GET readyz/ping?verbose",
    b"GET api/v1/pods?sendInitialEvents=true&watch=true&allowWatchBookmarks=1&resourceVersionMatch=NotOlderThan",
    b"DELETE api/v1/namespaces/fuzz/configmaps?fieldSelector=metadata.name%3Dc&orphanDependents=true",
]
WORDS = (
    *mutate.JSON,
    b'"$patch"',
    b'"delete"',
    b'"spec"',
    b'"metadata"',
    b'"name"',
    b"-1",
    b'"a/b"',
    b'"~"',
    b"2147483648",
)
NEW: list[Any] = [
    *(
        {**body, "metadata": {**body["metadata"], "name": "new"}}
        for _, body in PRESENT
        if body.get("kind") not in (None, DEFINITION["kind"])
    ),
    crd("new.example.com", *DEFINITION["spec"]["versions"]),
    {**FULL, "metadata": {**FULL["metadata"], "name": "p"}},
]
BODIES = _json(*(body for body in NEW if "apiVersion" in body))

TARGETS = [
    Target("devkube: JSON patches", _json(*PATCHES), WORDS, _asking(_patching("json-patch+json", PATCHES))),
    Target("devkube: merge patches", _json(*MERGES), WORDS, _asking(_patching("merge-patch+json", MERGES))),
    Target(
        "devkube: strategic patches", _json(*MERGES), WORDS, _asking(_patching("strategic-merge-patch+json", MERGES))
    ),
    Target(
        "devkube: applied configurations",
        _json(*APPLIES),
        WORDS,
        _asking(_patching("apply-patch+yaml", APPLIES, fieldManager="fuzz", force="true")),
    ),
    Target("devkube: bodies", BODIES, WORDS, _asking(_bodies)),
    Target("devkube: selectors", SELECTORS, (*mutate.TEXT, b"(", b")", b"!", b" in "), _asking(_selectors)),
    Target("devkube: URLs", URLS, (*mutate.TEXT, b"watch=1", b"limit=", b"/status", b"/scale"), _asking(_urls)),
]
SLOW = tuple(target.name for target in TARGETS)
