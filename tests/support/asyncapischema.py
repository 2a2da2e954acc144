"""AsyncAPI's own JSON schema, out of the npm package that they publish it in; none of it is part of this repository.

Fetched once with npm (350 kB), kept in ~/.cache/warmlog-tests, checked against its pinned hash in every run. Without
npm or a registry the test is skipped by name, and fails under WARMLOG_REQUIRE_REAL=1.
"""

import functools
import hashlib
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from tests.support import real

PACKAGE = "@asyncapi/specs"
VERSION = "6.11.1"
SHA256 = "01af8744dc33c0c7eb2e908f6a955319ee58b70ecadc9387d1aeb16c0cd28928"
SECONDS = 60


def _cached() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "warmlog-tests" / f"asyncapi-specs-{VERSION}.tgz"


def _is_it(path: Path) -> bool:
    return path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == SHA256


@functools.cache
def _fetched() -> str:
    """Why the package cannot be had; empty when it is there."""
    path = _cached()
    if _is_it(path):
        return ""
    npm = shutil.which("npm")
    if npm is None:
        return "npm is not installed"
    with tempfile.TemporaryDirectory() as folder:
        command = [npm, "pack", "--silent", "--pack-destination", folder, f"{PACKAGE}@{VERSION}"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            return f"npm did not fetch {PACKAGE} within {SECONDS} s"
        found = list(Path(folder).glob("*.tgz"))
        if done.returncode or not found:
            return f"npm cannot fetch {PACKAGE}: {done.stderr.strip()[-200:]}"
        if not _is_it(found[0]):
            return f"{PACKAGE} {VERSION} is not the package that was pinned"
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(found[0], path)
    return ""


def require(version: str) -> Any:
    """The schema of an AsyncAPI version; skips the test, or fails it, when it cannot be had."""
    if why := _fetched():
        real.lacks(f"AsyncAPI schema (npm package {PACKAGE}): {why}")
    with tarfile.open(_cached()) as package:
        file = package.extractfile(f"package/schemas/{version}.json")
        assert file is not None
        return json.load(file)
