"""Parts that a test needs and that a machine may lack: a missing one is a skip by name, and a failure where
WARMLOG_REQUIRE_REAL=1 demands real parts."""

import ctypes.util
import os
import shutil
import sys
from pathlib import Path
from typing import NoReturn

import pytest


def lacks(what: str) -> NoReturn:
    """End the running test: `what` is missing, and why."""
    if os.environ.get("WARMLOG_REQUIRE_REAL") == "1":
        pytest.fail(f"WARMLOG_REQUIRE_REAL=1 and no {what}")
    pytest.skip(f"needs {what}")


def program(name: str, package: str, *libraries: str) -> str:
    """The path of a program beside this Python or on PATH; lacking where it or a library that it loads is not there."""
    found = shutil.which(name, path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    missing = [one for one in libraries if ctypes.util.find_library(one) is None]
    if found is None or missing:
        lacks(f"{name} ({package})" if found is None else f"{name}, which loads {', '.join(missing)} ({package})")
    return found


def mooncake_master() -> str:
    package = "PyPI mooncake-transfer-engine-non-cuda, Debian libcurl4, libibverbs1, librdmacm1, libnuma1"
    return program("mooncake_master", package, "curl", "ibverbs", "rdmacm", "numa")
