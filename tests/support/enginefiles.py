"""The KV event modules of vLLM and SGLang as they were released, for tests that run the engines' own publishers.

Taken from the public packages on first use (enginefetch.py) and kept in ~/.cache/warmlog-tests: about 25 kB of text per
module, 12 MB over the network for all of them, once. None of it is part of this repository. Each file is checked
against its pinned hash in every run, for it is run.

Which releases: releases.json beside the tests; `version` to `until` have the same module, byte for byte.
A module that cannot be had skips its tests by name, and fails them under WARMLOG_REQUIRE_REAL=1.
"""

import functools
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from tests.support import real

LIST = Path(__file__).parents[1] / "integration" / "realpublishers" / "releases.json"
SECONDS = 180  # for all of them, on a slow network


class Release(NamedTuple):
    """One module and the releases that share it."""

    engine: str
    version: str
    until: str
    releases: int
    files: dict[str, str]
    set: str = "engines"  # files of two sets do not meet: what is missing in one decides how it is imported

    def __str__(self) -> str:
        return f"{self.engine} {self.version}" + ("" if self.until == self.version else f" to {self.until}")

    @property
    def form(self) -> str:
        """The name of its form in enginesim, which knows no post-releases."""
        return f"{self.engine}-{self.version.partition('.post')[0]}"

    @property
    def root(self) -> Path:
        """A directory to import from."""
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        return cache / "warmlog-tests" / self.set / f"{self.engine}-{self.version}"

    @property
    def here(self) -> bool:
        """Whether every file is in the cache, unchanged."""
        return all(_sha256(self.root / path) == sha256 for path, sha256 in self.files.items())


RELEASES = [Release(**row) for row in json.loads(LIST.read_text())]
#: Files around an engine's argument parser and its reader of a store's configuration.
PARSERS = [
    Release(**row, set="parsers") for row in json.loads((LIST.parents[1] / "realparsers" / LIST.name).read_text())
]


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


@functools.cache
def _fetched(parsers: bool = False) -> dict[str, str]:
    """Fetch whatever is missing, once per run; what could not be had, by release."""
    missing = [release for release in (PARSERS if parsers else RELEASES) if not release.here]
    if not missing:
        return {}
    order = [
        {"engine": each.engine, "version": each.version, "files": each.files, "to": str(each.root)} for each in missing
    ]
    script = str(Path(__file__).with_name("enginefetch.py"))
    try:
        done = subprocess.run(
            [sys.executable, script], input=json.dumps(order), capture_output=True, text=True, timeout=SECONDS
        )
    except subprocess.TimeoutExpired:
        reasons = [f"not fetched within {SECONDS} s"] * len(missing)
    else:
        reasons = json.loads(done.stdout) if done.returncode == 0 else [done.stderr.strip()[-300:]] * len(missing)
    return {str(release): why for release, why in zip(missing, reasons, strict=True) if why}


def missing(release: Release) -> str:
    """Why the release's module cannot be had; empty when it can."""
    return _fetched(release in PARSERS).get(str(release), "")


def require(release: Release) -> Path:
    """Where the release's module can be imported from; skips the test, or fails it, when it cannot be had."""
    why = missing(release)
    if why:
        real.lacks(f"files of {release}: {why}")
    return release.root
