"""Builds the optional native helper (handlers/prefixindex/_native.c) when the package is installed.

Without a C compiler, without Python's headers or on a machine that the helper refuses, the package is installed all
the same: Python does the work, slower. One line says so.
"""

import os
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCE = "handlers/prefixindex/_native.c"
BINARY = "handlers/prefixindex/_native.abi3.so"


def build(root: Path) -> str:
    """Compile; returns why not, or nothing. The binary appears whole or not at all: others may be importing it."""
    compiler = shlex.split(os.environ.get("CC") or "cc")
    half = root / f"{BINARY}.{os.getpid()}"
    command = [*compiler, "-O3", "-std=gnu11", "-Wall", "-Wextra", "-Wno-unused-parameter", "-fPIC", "-shared"]
    if sys.platform == "darwin":
        command += ["-undefined", "dynamic_lookup"]
    command += [f"-I{sysconfig.get_path('include')}", str(root / SOURCE), "-o", str(half)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{compiler[0]}: {error}"
    if done.returncode:
        half.unlink(missing_ok=True)
        return next((line for line in done.stderr.splitlines() if "error" in line), f"{compiler[0]} failed")
    half.replace(root / BINARY)
    return ""


class NativeHelper(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel":
            return
        if why := build(Path(self.root)):
            self.app.display_warning(f"without the native helper, lookups by token ids are slower: {why}")
            return
        build_data["artifacts"].append(BINARY)
        if version != "editable":
            build_data["pure_python"] = False
            build_data["tag"] = f"cp311-abi3-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
