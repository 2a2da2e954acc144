"""The API servers that the contract suite asks, and a client that hides nothing of their answers.

Backends: devkube always, in the test's own process; a real kube-apiserver where KUBEBUILDER_ASSETS names its binaries;
k3s where a Docker engine answers. All behave alike as far as a test can see, but for what `Cluster.has` names:

    controllers   somebody collects orphans, empties namespaces and turns Deployments into Pods (not devkube's default)
    devkube       `Cluster.devkube` is the DevKube itself: its clock, faults and history

A test gets `kube` (a `Client` as cluster administrator) and `space` (a namespace of its own); the server is shared.
"""

import asyncio
import contextlib
import functools
import importlib.util
import io
import json
import os
import socket
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import yaml

from tests.support import real, realkube

Object = dict[str, Any]
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
PATIENCE = 60.0  # seconds for what a real control plane does in its own time: namespaces that end wait for each other
K3S = "rancher/k3s:v1.36.1-k3s1"


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: Any  # JSON, or the text where it is none

    def ok(self, status: int | None = None) -> Any:
        """The body of a success; the server's own words otherwise."""
        wanted = (200, 201, 202) if status is None else (status,)
        assert self.status in wanted, f"{self.status} and not {wanted}: {self.told}"
        return self.body

    def refused(self, status: int, reason: str | None = None, *parts: str) -> Any:
        """The Status of a refusal, which must have this code and reason and say all of `parts`."""
        assert self.status == status, f"{self.status} and not {status}: {self.told}"
        assert self.body["kind"] == "Status", self.told
        assert (self.body["status"], self.body["code"]) == ("Failure", status), self.told
        assert reason is None or self.body.get("reason") == reason, self.told
        for part in parts:
            assert part in self.body["message"], f"{part!r} is not in {self.body['message']!r}"
        return self.body

    @property
    def causes(self) -> list[tuple[str, str]]:
        """(field, reason) of each violation, sorted."""
        found = self.body.get("details", {}).get("causes", [])
        return sorted((cause.get("field", ""), cause.get("reason", "")) for cause in found)

    @property
    def told(self) -> str:
        return str(self.body.get("message", self.body) if isinstance(self.body, dict) else self.body)[:600]

    @property
    def warnings(self) -> list[str]:
        """Texts of the Warning headers (RFC 7234: code, agent, quoted text)."""
        return [json.loads(line.split(" ", 2)[2]) for line in self.headers.getall("Warning", [])]  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Event:
    type: str
    object: Object

    @property
    def name(self) -> str:
        return str(self.object["metadata"].get("name", ""))

    @property
    def version(self) -> str:
        return str(self.object["metadata"]["resourceVersion"])


class Watch:
    """One running watch. Everything waits at most `PATIENCE` and then fails."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    async def next(self) -> Event:
        found = await self._line()
        assert found is not None, "the watch ended"
        return found

    async def take(self, count: int) -> list[Event]:
        return [await self.next() for _ in range(count)]

    async def until(self, is_last: Callable[[Event], bool]) -> list[Event]:
        seen = [await self.next()]
        while not is_last(seen[-1]):
            seen.append(await self.next())
        return seen

    async def rest(self) -> list[Event]:
        """What still comes until the server ends the stream."""
        seen = []
        while (event := await self._line()) is not None:
            seen.append(event)
        return seen

    async def _line(self) -> Event | None:
        async with asyncio.timeout(PATIENCE):
            line = await self._response.content.readline()
        if not line:
            return None
        content = json.loads(line)
        return Event(content["type"], content["object"])


class Client:
    """Requests as one user. `query` values are sent as they are; a dict body as JSON, bytes and text unchanged."""

    def __init__(self, session: aiohttp.ClientSession, url: str, *, token: str | None = None) -> None:
        self._session, self.url, self._token = session, url, token

    def as_token(self, token: str) -> "Client":
        return Client(self._session, self.url, token=token)

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, str] | None = None,
        media: str = "application/json",
        accept: str = "application/json",
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        data: Any = body if body is None or isinstance(body, bytes | str) else json.dumps(body)
        if data is not None and len(data) > 2**19:  # aiohttp warns of larger ones that are no file
            data = io.BytesIO(data if isinstance(data, bytes) else data.encode())
        sent = self._headers(
            {"Accept": accept, **({"Content-Type": media} if data is not None else {}), **(headers or {})}
        )
        async with asyncio.timeout(PATIENCE):
            async with self._session.request(method, self.url + path, data=data, params=query, headers=sent) as answer:
                raw = await answer.read()
                return Answer(answer.status, answer.headers, _decoded(raw))

    async def get(self, path: str, **query: str) -> Answer:
        return await self.call("GET", path, query=query)

    async def post(self, path: str, body: Any, **query: str) -> Answer:
        return await self.call("POST", path, body, query=query)

    async def put(self, path: str, body: Any, **query: str) -> Answer:
        return await self.call("PUT", path, body, query=query)

    async def delete(self, path: str, options: Object | None = None, **query: str) -> Answer:
        return await self.call("DELETE", path, options, query=query)

    async def merge(self, path: str, body: Any, **query: str) -> Answer:
        return await self.call("PATCH", path, body, query=query, media=MERGE_PATCH)

    async def strategic(self, path: str, body: Any, **query: str) -> Answer:
        return await self.call("PATCH", path, body, query=query, media=STRATEGIC)

    async def json_patch(self, path: str, *operations: Object, **query: str) -> Answer:
        return await self.call("PATCH", path, list(operations), query=query, media=JSON_PATCH)

    async def apply(self, path: str, body: Any, manager: str = "tester", **query: str) -> Answer:
        return await self.call("PATCH", path, body, query={"fieldManager": manager, **query}, media=APPLY)

    async def create(self, path: str, body: Object, **query: str) -> Object:
        made: Object = (await self.post(path, body, **query)).ok(201)
        return made

    async def read(self, path: str, **query: str) -> Object:
        found: Object = (await self.get(path, **query)).ok(200)
        return found

    async def names(self, path: str, **query: str) -> list[str]:
        return [item["metadata"]["name"] for item in (await self.read(path, **query))["items"]]

    async def version(self, path: str) -> str:
        """The resourceVersion to watch from."""
        return str((await self.read(path))["metadata"]["resourceVersion"])

    @contextlib.asynccontextmanager
    async def watch(self, path: str, *, accept: str = "application/json", **query: str) -> AsyncIterator[Watch]:
        endless = aiohttp.ClientTimeout(total=None)
        headers = self._headers({"Accept": accept})
        sent = {"watch": "true", **query}
        async with self._session.get(self.url + path, params=sent, headers=headers, timeout=endless) as response:
            if response.status != 200:
                raise AssertionError(f"{response.status}: {await response.text()}")
            yield Watch(response)
            response.close()

    def _headers(self, headers: dict[str, str]) -> dict[str, str]:
        return {**headers, **({"Authorization": f"Bearer {self._token}"} if self._token else {})}


def _decoded(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except ValueError:
        return raw.decode(errors="replace")


async def eventually(attempt: Callable[[], Awaitable[Any]]) -> Any:
    """What `attempt` returns once it no longer fails an assertion; its last failure after `PATIENCE` seconds.

    For what a real server does a moment later (informers of webhooks and roles, controllers), never for a race that
    the test itself made."""
    deadline = time.monotonic() + PATIENCE
    pause = 0.02
    while True:
        try:
            return await attempt()
        except AssertionError:
            if time.monotonic() > deadline:
                raise
        await asyncio.sleep(pause)
        pause = min(2 * pause, 0.5)


@dataclass(frozen=True)
class Space:
    """A namespace, and the paths of what is in it."""

    name: str

    def of(self, group_version: str, plural: str) -> str:
        return f"{root(group_version)}/namespaces/{self.name}/{plural}"

    @property
    def pods(self) -> str:
        return self.of("v1", "pods")

    @property
    def configmaps(self) -> str:
        return self.of("v1", "configmaps")

    @property
    def deployments(self) -> str:
        return self.of("apps/v1", "deployments")

    @property
    def group(self) -> str:
        """An API group that no other test uses."""
        return f"{self.name}.example.com"


def root(group_version: str) -> str:
    return f"/apis/{group_version}" if "/" in group_version else f"/api/{group_version}"


@dataclass(frozen=True)
class Cluster:
    name: str
    url: str
    ca_file: Path
    kubeconfig: Path
    token: str | None = None
    pair: tuple[Path, Path] | None = None
    webhook_host: str = "127.0.0.1"  # where the server reaches what a test serves
    has: frozenset[str] = field(default_factory=frozenset)
    devkube: Any = None

    def blames_the_client(self, answer: Answer) -> None:
        """A real server says 500 to some of what it cannot read; devkube never does."""
        assert answer.status in ((400, 422) if "devkube" in self.has else (400, 422, 500)), answer.told

    def session(self, *, anonymous: bool = False) -> aiohttp.ClientSession:
        """For the caller to close. Anonymous: no client certificate, so that the token alone says who it is."""
        context = ssl.create_default_context(cafile=self.ca_file)
        if self.pair is not None and not anonymous:
            context.load_cert_chain(*self.pair)
        return aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context, limit=0), read_bufsize=2**22)


def backends() -> dict[str, str]:
    """The backends of this run, each with what it is, for the header."""
    found = {"devkube": "in process"}
    if realkube.folder() is not None:
        found["kube-apiserver"] = f"{realkube.version()} from {realkube.VARIABLE}"
    if _docker():
        found["k3s"] = f"{K3S} in Docker"
    only = os.environ.get("WARMLOG_KUBERNETES")
    if only is not None:
        found = {name: what for name, what in found.items() if name == only}
        assert found, f"WARMLOG_KUBERNETES={only}, and this run has no such backend"
    return found


def choice() -> str:
    return ", ".join(f"{name} ({what})" for name, what in backends().items())


@functools.cache
def _docker() -> bool:
    """Does a Docker engine answer, and are testcontainers installed? Asked without docker's client, which leaves a
    socket open when none does."""
    if importlib.util.find_spec("testcontainers") is None:
        return False
    host = urlsplit(os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock"))
    try:
        if host.scheme != "unix":
            socket.create_connection((host.hostname or "", host.port or 2375), timeout=3).close()
            return True
        with socket.socket(socket.AF_UNIX) as engine:
            engine.settimeout(3)
            engine.connect(host.path)
            engine.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
            return b"200 OK" in engine.recv(64)
    except OSError:
        return False


@contextlib.asynccontextmanager
async def running(name: str, directory: Path) -> AsyncIterator[Cluster]:
    start = {"devkube": _devkube, "kube-apiserver": _real, "k3s": _k3s}[name]
    async with start(directory) as cluster:
        yield cluster


@contextlib.asynccontextmanager
async def _devkube(directory: Path) -> AsyncIterator[Cluster]:
    from devkube.options import Settings
    from devkube.server import DevKube

    async with DevKube(Settings(directory=directory)) as api:
        yield Cluster(
            "devkube",
            api.url,
            Path(api.ca_file),
            Path(api.kubeconfig),
            token=api.admin_token,
            has=frozenset({"devkube"}),
            devkube=api,
        )


@contextlib.asynccontextmanager
async def _real(directory: Path) -> AsyncIterator[Cluster]:
    async with realkube.running(directory) as server:
        has = frozenset({"controllers"} if server.controllers else set())
        pair = (server.certificate, server.key)
        yield Cluster("kube-apiserver", server.url, server.ca_file, server.kubeconfig, pair=pair, has=has)


@contextlib.asynccontextmanager
async def _k3s(directory: Path) -> AsyncIterator[Cluster]:
    """Webhooks reach the test through the host's gateway, by the name that Docker Desktop uses too."""
    from docker.errors import DockerException
    from testcontainers.community.k3s import K3SContainer
    from testcontainers.core.wait_strategies import LogMessageWaitStrategy

    class Container(K3SContainer):  # type: ignore[misc, unused-ignore]
        def get_container_host_ip(self) -> str:
            """Asked for before there is a container too, which inside of one has no answer."""
            return super().get_container_host_ip() if self._container else "localhost"

        def _connect(self) -> None:
            """As the library's, which warns of the wait that it uses itself."""
            LogMessageWaitStrategy("Node controller sync successful").wait_until_ready(self)

    container = Container(image=K3S)
    container.with_kwargs(privileged=True, extra_hosts={"host.docker.internal": "host-gateway"})
    try:
        try:
            await asyncio.to_thread(container.start)
        except DockerException as error:
            real.lacks(f"k3s: a Docker engine answers, and does not start {K3S}: {error}")
        config = yaml.safe_load(container.config_yaml())
        directory.mkdir(parents=True, exist_ok=True)
        kubeconfig = directory / "kubeconfig"
        kubeconfig.write_text(json.dumps(config))
        user, cluster = config["users"][0]["user"], config["clusters"][0]["cluster"]
        yield Cluster(
            "k3s",
            cluster["server"],
            _written(directory / "ca.crt", cluster["certificate-authority-data"]),
            kubeconfig,
            pair=(
                _written(directory / "client.crt", user["client-certificate-data"]),
                _written(directory / "client.key", user["client-key-data"]),
            ),
            webhook_host="host.docker.internal",
            has=frozenset({"controllers"}),
        )
    finally:
        await asyncio.to_thread(container.stop)


def _written(path: Path, encoded: str) -> Path:
    import base64

    path.write_bytes(base64.b64decode(encoded))
    return path
