"""Fixtures for tests on a Kubernetes API: one server for the session, on one event loop; a namespace for each test.

A conftest imports them, and calls `in_one_session` from its `pytest_collection_modifyitems`.
"""

import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.support import kubernetes
from tests.support.kubernetes import Client, Cluster, Space


def in_one_session(items: list[pytest.Item], folder: Path) -> None:
    """Run the folder's tests on the session's loop, where the server's clients are."""
    mark = pytest.mark.asyncio(loop_scope="session")
    for item in items:
        if item.path.is_relative_to(folder) and pytest_asyncio.is_async_test(item):
            item.add_marker(mark, append=False)


@pytest_asyncio.fixture(scope="session", loop_scope="session", params=list(kubernetes.backends()))
async def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    async with kubernetes.running(request.param, tmp_path_factory.mktemp(request.param)) as found:
        yield found


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def kube(cluster: Cluster) -> AsyncIterator[Client]:
    async with cluster.session() as session:
        yield Client(session, cluster.url, token=cluster.token)


@pytest_asyncio.fixture(loop_scope="session")
async def space(kube: Client) -> AsyncIterator[Space]:
    """A namespace, deleted (not waited for) at the end."""
    name = f"t-{secrets.token_hex(4)}"
    await kube.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield Space(name)
    (await kube.delete(f"/api/v1/namespaces/{name}")).ok()
