"""One server for the whole session, on one event loop; a namespace of its own for each test."""

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


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def nobody(cluster: Cluster) -> AsyncIterator[Client]:
    """Without credentials of any kind; `nobody.as_token(…)` is whoever the token is for."""
    async with cluster.session(anonymous=True) as session:
        yield Client(session, cluster.url)


@pytest_asyncio.fixture(loop_scope="session")
async def space(kube: Client) -> AsyncIterator[Space]:
    """A namespace, deleted (not waited for) at the end."""
    name = f"t-{secrets.token_hex(4)}"
    await kube.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield Space(name)
    (await kube.delete(f"/api/v1/namespaces/{name}")).ok()


@pytest.fixture(autouse=True)
def _only_where_it_can_be(request: pytest.FixtureRequest) -> None:
    """`@pytest.mark.needs("devkube")`: what only some backends have."""
    mark = request.node.get_closest_marker("needs")
    if mark is None:
        return
    missing = set(mark.args) - request.getfixturevalue("cluster").has
    if missing:
        pytest.skip(f"this server has no {', '.join(sorted(missing))}")
