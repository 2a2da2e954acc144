"""A strict API for what is injected and rendered: devkube always, a real one where there is one."""

import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.support import kubernetes
from tests.support.kubernetes import Client, Cluster, Space

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark = pytest.mark.asyncio(loop_scope="session")
    for item in items:
        if item.path.is_relative_to(HERE) and pytest_asyncio.is_async_test(item):
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
