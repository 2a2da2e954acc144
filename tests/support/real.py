"""Parts that a test needs and that a machine may lack: a missing one is a skip by name, and a failure where
WARMLOG_REQUIRE_REAL=1 demands real parts."""

import os
from typing import NoReturn

import pytest


def lacks(what: str) -> NoReturn:
    """End the running test: `what` is missing, and why."""
    if os.environ.get("WARMLOG_REQUIRE_REAL") == "1":
        pytest.fail(f"WARMLOG_REQUIRE_REAL=1 and no {what}")
    pytest.skip(f"needs {what}")
