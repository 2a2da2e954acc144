"""A strict API for what is injected and rendered: devkube always, a real one where there is one."""

from pathlib import Path

import pytest

from tests.support import clusterfixtures
from tests.support.clusterfixtures import cluster, kube, space

__all__ = ["cluster", "kube", "space"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    clusterfixtures.in_one_session(items, Path(__file__).parent)
