"""A devkube in the test's own process, asked over HTTP like any API server."""

import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest

from devkube.options import Settings
from devkube.server import DevKube


@dataclass(frozen=True)
class Answer:
    status: int
    body: Any
    warnings: list[str]

    @property
    def told(self) -> str:
        return str(self.body.get("message", self.body))


class Asker:
    """Requests as the administrator, or as whoever a token or Impersonate-User says."""

    def __init__(self, api: DevKube, session: aiohttp.ClientSession, headers: Mapping[str, str]) -> None:
        self.api, self._session, self._headers = api, session, headers

    def token(self, token: str) -> "Asker":
        return Asker(self.api, self._session, {"Authorization": f"Bearer {token}"})

    def like(self, user: str) -> "Asker":
        return Asker(self.api, self._session, {**self._headers, "Impersonate-User": user})

    async def __call__(self, method: str, path: str, body: Any = None, *, media: str = "application/json") -> Answer:
        headers = {**self._headers, "Content-Type": media}
        async with self._session.request(method, self.api.url + path, json=body, headers=headers) as response:
            content = await response.json(content_type=None) if "json" in response.content_type else {}
            return Answer(response.status, content, response.headers.getall("Warning", []))


@pytest.fixture
async def api() -> AsyncIterator[DevKube]:
    async with DevKube(Settings(webhook_services={})) as found:
        yield found


@pytest.fixture
async def ask(api: DevKube) -> AsyncIterator[Asker]:
    connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=str(api.ca_file)))
    async with aiohttp.ClientSession(connector=connector) as session:
        yield Asker(api, session, {"Authorization": f"Bearer {api.admin_token}"})
