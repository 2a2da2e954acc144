"""The API servers that houses stand on: devkube in the test's process, a real one where KUBEBUILDER_ASSETS names it.

    api = houseapi.made("kube-apiserver", directory); await api.start()
    await api.request("POST", path, body)      # as administrator; StatusError with the server's own words

Both are asked past whatever a house puts between them and its roles. They reach a webhook as a Service, over TLS with
the Service's name: devkube is told which address stands for it, the real one resolves a Service of type ExternalName,
and its configurations name the port where the test listens.
"""

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import aiohttp
import yaml

from devkube.access.rbac import Question
from devkube.errors import Cause, StatusError
from devkube.options import Settings
from devkube.server import DevKube
from tests.support import kubernetes, realkube

Object = dict[str, Any]
CONFIGURATIONS = tuple(
    f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations" for kind in ("mutating", "validating")
)
MINE = {"labelSelector": "app.kubernetes.io/part-of=warmlog"}


class Api(Protocol):
    name: str
    url: str
    ca_file: Path
    kubeconfig: Path
    admin_token: str

    async def start(self) -> None: ...
    async def stop(self) -> None: ...
    async def request(
        self, method: str, path: str, body: Any = None, *, query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> Any: ...  # fmt: skip
    async def forget(self) -> None:
        """Every version known so far is too old now: 410 for who resumes."""

    async def revoke(self, token: str) -> None:
        """`token` is the administrator's from now on, and the one before is nobody's."""

    def refusals(self) -> list[str]:
        """What accounts asked without the right to."""

    async def route(self, service: str, port: int) -> None:
        """Reviews for this Service (namespace/name) come to this port, by the configurations that exist now."""


class Dev(DevKube):
    name = "devkube"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._services: dict[str, str] = {}
        self.admission._caller._services = self._services
        self._refused: list[str] = []
        require = self.authorizer.require

        def listening(question: Question) -> None:
            try:
                require(question)
            except StatusError as error:
                self._refused.append(str(error))
                raise

        self.authorizer.require = listening  # type: ignore[method-assign]

    async def start(self) -> None:
        await super().start()
        # A connection for each review: every one of them meets the certificate and the replica of its moment.
        connector = aiohttp.TCPConnector(limit=0, force_close=True)
        self.admission._caller._session = aiohttp.ClientSession(connector=connector)

    async def forget(self) -> None:
        self.expire_history()

    async def revoke(self, token: str) -> None:
        self.authenticator._admin = token.encode()

    def refusals(self) -> list[str]:
        return self._refused

    async def route(self, service: str, port: int) -> None:
        self._services[service] = f"127.0.0.1:{port}"


class RealApi(realkube.Real):
    name = "kube-apiserver"

    def __init__(self, directory: Path, token: str) -> None:
        super().__init__(directory, token=token, audit=True)
        self._session: aiohttp.ClientSession | None = None

    @property
    def admin_token(self) -> str:
        return self.token

    async def start(self) -> None:
        await super().start()
        content = yaml.safe_load(self.kubeconfig.read_text())
        content["users"][0]["user"] = {"token": self.token}
        self.kubeconfig.write_text(yaml.safe_dump(content))
        context = ssl.create_default_context(cafile=self.ca_file)
        context.load_cert_chain(self.certificate, self.key)
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context, limit=0))

    async def stop(self) -> None:
        if self._session is not None:
            await self._session.close()
        await super().stop()

    async def request(
        self, method: str, path: str, body: Any = None, *, query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> Any:  # fmt: skip
        assert self._session is not None, "start it first"
        answer = await kubernetes.Client(self._session, self.url).call(
            method, path, body, query=query, media=content_type
        )
        if answer.status < 300:
            return answer.body
        if not isinstance(answer.body, dict):
            raise StatusError(answer.status, "", answer.told)
        details = answer.body.get("details", {})
        causes = [
            Cause(one.get("reason", ""), one.get("message", ""), one.get("field", ""))
            for one in details.get("causes", [])
        ]
        raise StatusError(answer.status, answer.body.get("reason", ""), answer.body.get("message", ""), causes=causes)

    async def forget(self) -> None:
        await self.compact()

    async def route(self, service: str, port: int) -> None:
        namespace, _, name = service.partition("/")
        path = f"/api/v1/namespaces/{namespace}/services"
        live = await self.request("GET", f"{path}/{name}")
        if live["spec"]["type"] != "ExternalName":
            await self.request("DELETE", f"{path}/{name}")
            spec = {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]}
            metadata = {"name": name, "labels": live["metadata"]["labels"]}
            await self.request(
                "POST", path, {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}
            )
        for kind in CONFIGURATIONS:
            for one in (await self.request("GET", kind, query=MINE))["items"]:
                operations = [
                    {"op": "replace", "path": f"/webhooks/{number}/clientConfig/service/port", "value": port}
                    for number, _ in enumerate(one["webhooks"])
                ]
                await self.request(
                    "PATCH", f"{kind}/{one['metadata']['name']}", operations, content_type=kubernetes.JSON_PATCH
                )


def names() -> list[str]:
    """The backends of this run that a house can stand on."""
    return [name for name in kubernetes.backends() if name in ("devkube", "kube-apiserver")]


def made(name: str, directory: Path, token: str = "the-administrator") -> Api:
    return (
        RealApi(directory, token) if name == "kube-apiserver" else Dev(Settings(directory=directory, admin_token=token))
    )
