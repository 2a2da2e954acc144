"""Requests on a connection that is made anew by another task meanwhile. Answers and rotation: tests/integration."""

from typing import Any

import aiohttp
import pytest

from handlers.effects.cluster import ClusterError
from subscribers.kubernetes.client import Client


class Api:
    """A connection of kubernetes_asyncio whose request ends so, after what `meanwhile` does."""

    def __init__(self, error: Exception, meanwhile: Any = lambda: None) -> None:
        self.error, self.meanwhile = error, meanwhile

    async def call_api(self, *path: str, **named: Any) -> aiohttp.ClientResponse:
        self.meanwhile()
        raise self.error


def made(api: Api) -> Client:
    client = Client("", "")
    client._api, client._looked = api, float("inf")
    return client


@pytest.mark.parametrize("error", [AssertionError(), RuntimeError("Session is closed")])
async def test_a_request_on_a_connection_that_was_replaced_has_no_answer(error: Exception) -> None:
    """As for a broken connection: its caller tries again. Another error of this kind is a defect, and stays one."""
    client = made(Api(error, meanwhile=lambda: setattr(client, "_api", Api(error))))
    with pytest.raises(ClusterError, match="made anew") as told:
        await client.request("GET", "/api/v1/pods")
    assert (told.value.code, told.value.reason) == (0, "NoAnswer")
    with pytest.raises(type(error)):
        await client.request("GET", "/api/v1/pods")
