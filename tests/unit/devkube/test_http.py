"""A request from its URL to its answer, without sockets and with verbs that only remember."""

import itertools
from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import Any

import msgspec
import pytest

from devkube.builtin.catalog import builtin_resources
from devkube.clock import Clock
from devkube.errors import StatusError, unauthorized
from devkube.faults import Faults
from devkube.http import PIECE, HttpServer, chunks
from devkube.kinds import Catalog
from devkube.requests import ADMIN, Answer, Event, Listing, Reply, Request, Stream, User, warning_headers
from devkube.routes import Route
from tests.support.asked import Asked

NODE = b'{"apiVersion":"v1","kind":"Node","metadata":{"name":"n","resourceVersion":"3"}}'


def whole(reply: Reply) -> bytes:
    assert isinstance(reply.pieces, Iterable)
    return b"".join(reply.pieces)


class Verbs:
    """Answers what it is told to and keeps the requests."""

    def __init__(self) -> None:
        self.seen: list[Request] = []
        self.answer: Answer | Stream | Exception | None = None

    async def handle(self, request: Request) -> Answer | Stream:
        self.seen.append(request)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer or Answer(200, NODE, request.resource)


class Server:
    def __init__(self) -> None:
        self.verbs = Verbs()
        self.catalog = Catalog(builtin_resources())
        self.user: User | None = ADMIN
        self.denied: set[str] = set()
        self.front = HttpServer(
            self.catalog,
            self.verbs,
            Clock(),
            authenticate=lambda headers: self.known(),
            authorize=self.authorize,
            faults=Faults(),
        )

    def known(self) -> User:
        if self.user is None:
            raise unauthorized()
        return self.user

    def authorize(self, user: User, route: Route) -> None:
        if route.verb in self.denied:
            raise StatusError(403, "Forbidden", "no")

    async def ask(
        self, method: str, path: str, body: bytes = b"", query: dict[str, str] | None = None, **headers: str
    ) -> Reply:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.front.answer(Asked(method, path, query or {}, named, body))

    async def json(self, method: str, path: str, *rest: Any, **more: Any) -> tuple[int, Any]:
        reply = await self.ask(method, path, *rest, **more)
        return reply.status, msgspec.json.decode(whole(reply))


@pytest.fixture
def server() -> Server:
    return Server()


async def test_a_request_reaches_the_verbs_with_everything_they_need(server: Server) -> None:
    status, _ = await server.json(
        "PATCH",
        "/api/v1/namespaces/ns/pods/p/status",
        b"{}",
        {"force": "true"},
        content_type="application/merge-patch+json; charset=utf-8",
        user_agent="kubectl/v1",
    )
    assert status == 200
    (request,) = server.verbs.seen
    assert (request.verb, request.resource.plural, request.namespace) == ("patch", "pods", "ns")
    assert (request.name, request.subresource, request.query) == ("p", "status", {"force": "true"})
    assert (request.body, request.content_type) == (b"{}", "application/merge-patch+json")
    assert (request.user, request.agent) == (ADMIN, "kubectl/v1")


async def test_a_namespace_is_not_inside_itself(server: Server) -> None:
    await server.json("GET", "/api/v1/namespaces/ns")
    assert (server.verbs.seen[0].namespace, server.verbs.seen[0].name) == ("", "ns")


async def test_a_name_that_is_only_selected_is_no_name_of_the_request(server: Server) -> None:
    await server.json("GET", "/api/v1/pods", b"", {"fieldSelector": "metadata.name=p"})
    assert (server.verbs.seen[0].verb, server.verbs.seen[0].name) == ("list", "")


async def test_who_is_not_known_learns_nothing_and_who_may_not_does_not_learn_what_exists(server: Server) -> None:
    server.denied.add("list")
    assert (await server.json("GET", "/api/v1/pots"))[0] == 403
    server.user = None
    assert (await server.json("GET", "/api/v1/pots"))[0] == 401
    assert server.verbs.seen == []


async def test_an_answer_that_cannot_be_made_is_refused_before_anything_is_done(server: Server) -> None:
    status, body = await server.json("POST", "/api/v1/nodes", b"{}", accept="text/html")
    assert (status, body["reason"]) == (406, "NotAcceptable")
    status, body = await server.json("POST", "/api/v1/nodes", b"k8s\x00", content_type="application/json")
    assert (status, body["reason"]) == (415, "UnsupportedMediaType")
    assert "-f FILE" in body["message"]
    assert server.verbs.seen == []


async def test_a_refusal_is_a_status_also_for_those_who_asked_for_a_table(server: Server) -> None:
    server.verbs.answer = StatusError(429, "TooManyRequests", "later", retry_after=3)
    reply = await server.ask("GET", "/api/v1/nodes/n", accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    assert (reply.status, reply.headers) == (429, (("Retry-After", "3"),))
    body = msgspec.json.decode(whole(reply))
    assert (body["kind"], body["code"], body["details"]) == ("Status", 429, {"retryAfterSeconds": 3})


async def test_warnings_reach_the_client_with_a_refusal_too(server: Server) -> None:
    async def handle(request: Request) -> Answer:
        request.warnings.append("mind the gap")
        raise StatusError(403, "Forbidden", "no")

    server.verbs.handle = handle  # type: ignore[method-assign]
    reply = await server.ask("GET", "/api/v1/nodes/n")
    assert (reply.status, reply.headers) == (403, (("Warning", '299 - "mind the gap"'),))


async def test_a_table_of_an_object_a_table_of_a_list_and_a_status_that_stays_one(server: Server) -> None:
    table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
    assert (await server.json("GET", "/api/v1/nodes/n", accept=table))[1]["kind"] == "Table"
    server.verbs.answer = Answer(200, Listing(server.catalog.find("", "v1", "nodes"), {}, [NODE]))  # type: ignore[arg-type]
    body = (await server.json("GET", "/api/v1/nodes", accept=table))[1]
    assert (body["kind"], len(body["rows"])) == ("Table", 1)
    server.verbs.answer = Answer(200, {"kind": "Status"})
    assert (await server.json("DELETE", "/api/v1/nodes/n", accept=table))[1]["kind"] == "Status"


async def test_a_list_is_told_as_upstream_tells_it(server: Server) -> None:
    nodes = server.catalog.find("", "v1", "nodes")
    assert nodes is not None
    server.verbs.answer = Answer(200, Listing(nodes, {"resourceVersion": "9"}, [NODE]), nodes)
    body = (await server.json("GET", "/api/v1/nodes"))[1]
    assert (body["kind"], body["apiVersion"], body["metadata"]) == ("NodeList", "v1", {"resourceVersion": "9"})
    assert body["items"] == [{"metadata": {"name": "n", "resourceVersion": "3"}}]


async def test_a_watch_sends_stored_bytes_and_of_tables_the_columns_once(server: Server) -> None:
    nodes = server.catalog.find("", "v1", "nodes")
    assert nodes is not None

    async def batches() -> AsyncGenerator[Sequence[Event], None]:
        yield [Event("ADDED", NODE), Event("MODIFIED", NODE)]
        yield [Event("ERROR", b'{"kind":"Status"}')]

    async def lines(accept: str) -> list[Any]:
        server.verbs.answer = batches()
        reply = await server.ask("GET", "/api/v1/nodes", b"", {"watch": "1"}, accept=accept)
        assert isinstance(reply.pieces, AsyncGenerator)
        text = b"".join([lines async for lines in reply.pieces])
        return [msgspec.json.decode(line) for line in text.splitlines()]

    status, refusal = await server.json(
        "GET",
        "/api/v1/nodes",
        b"",
        {"watch": "1"},
        accept="application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    )
    assert (status, refusal["reason"], server.verbs.seen) == (406, "NotAcceptable", [])
    plain = await lines("application/json")
    assert [one["type"] for one in plain] == ["ADDED", "MODIFIED", "ERROR"]
    assert plain[0]["object"] == msgspec.json.decode(NODE)
    table = await lines("application/json;as=Table;v=v1;g=meta.k8s.io")
    assert table[0]["object"]["columnDefinitions"]
    assert table[1]["object"]["columnDefinitions"] is None
    assert table[2]["object"] == {"kind": "Status"}


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/api", "APIVersions"),
        ("/apis", "APIGroupList"),
        ("/apis/apps", "APIGroup"),
        ("/apis/apps/", "APIGroup"),
        ("/api/v1", "APIResourceList"),
        ("/apis/apps/v1", "APIResourceList"),
    ],
)
async def test_discovery(server: Server, path: str, kind: str) -> None:
    status, body = await server.json("GET", path)
    assert (status, body["kind"]) == (200, kind)


@pytest.mark.parametrize("path", ["/api", "/apis"])
async def test_aggregated_discovery_says_so_in_its_content_type(server: Server, path: str) -> None:
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    reply = await server.ask("GET", path, accept=accept)
    assert reply.content_type == accept
    assert msgspec.json.decode(whole(reply))["kind"] == "APIGroupDiscoveryList"


async def test_the_rest_of_what_is_not_about_objects(server: Server) -> None:
    for path in ("/healthz", "/livez", "/readyz"):
        reply = await server.ask("GET", path)
        assert (reply.status, whole(reply)) == (200, b"ok")
    verbose = await server.ask("GET", "/readyz", b"", {"verbose": ""})
    assert whole(verbose) == b"readyz check passed\n"
    assert (await server.json("GET", "/version"))[1]["minor"] == "36"
    assert "/apis" in (await server.json("GET", "/"))[1]["paths"]
    assert "api/v1" in (await server.json("GET", "/openapi/v3"))[1]["paths"]
    assert (await server.json("GET", "/openapi/v3/apis/scheduling.k8s.io/v1"))[1]["openapi"] == "3.0.0"
    assert (await server.json("GET", "/openapi/v3", accept="application/com.github.protobuf"))[0] == 406
    assert (await server.json("POST", "/version"))[0] == 405
    for path in (
        "/metrics",
        "/api/v1//pods",
        "/apis/apps/v1//x",
        "/openapi/v3/apis/none/v1",
        "/openapi",
        "/apis/none",
        "/api/v2",
        "/healthzz",
    ):
        assert (await server.json("GET", path))[0] == 404, path


async def test_a_document_that_has_not_changed_is_not_sent_again(server: Server) -> None:
    first = await server.ask("GET", "/apis")
    again = await server.ask("GET", "/apis", if_none_match=dict(first.headers)["ETag"])
    assert (again.status, whole(again)) == (304, b"")


def test_warnings_are_quoted_once_and_within_a_limit() -> None:
    assert list(warning_headers(['say "hi"\n', 'say "hi"\n', "a\\b"])) == [
        ("Warning", '299 - "say \\"hi\\" "'),
        ("Warning", '299 - "a\\\\b"'),
    ]
    many = list(warning_headers(f"{i} " + "x" * 600 for i in range(100)))
    assert len(many) == 16
    assert all(len(text) < 300 for _, text in many)


def test_answers_leave_in_pieces_worth_a_write() -> None:
    pieces = [b"x" * 1000] * 1000
    out = list(chunks(pieces))
    assert b"".join(out) == b"".join(pieces)
    assert all(len(one) >= PIECE for one in out[:-1])
    assert list(chunks([])) == []
    assert list(itertools.islice(chunks(itertools.repeat(b"x" * PIECE)), 2)) == [b"x" * PIECE] * 2
