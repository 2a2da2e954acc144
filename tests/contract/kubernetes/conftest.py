"""The contract's servers: devkube, and a real one where there is one."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.support import clusterfixtures
from tests.support.clusterfixtures import cluster, kube, space
from tests.support.kubernetes import Client, Cluster

__all__ = ["cluster", "kube", "space"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    clusterfixtures.in_one_session(items, Path(__file__).parent)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def nobody(cluster: Cluster) -> AsyncIterator[Client]:
    """Without credentials of any kind; `nobody.as_token(…)` is whoever the token is for."""
    async with cluster.session(anonymous=True) as session:
        yield Client(session, cluster.url)


@pytest.fixture(autouse=True)
def _only_where_it_can_be(request: pytest.FixtureRequest) -> None:
    """`@pytest.mark.needs("devkube")`: what only some backends have."""
    mark = request.node.get_closest_marker("needs")
    if mark is None:
        return
    missing = set(mark.args) - request.getfixturevalue("cluster").has
    if missing:
        pytest.skip(f"this server has no {', '.join(sorted(missing))}")
