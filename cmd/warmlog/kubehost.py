"""devkube as a process that may be killed: what it knew is there again when it starts in the same directory.

An apiserver that dies leaves etcd behind; devkube keeps everything in memory. So each write is also a line in
<directory>/objects.jsonl, and the next life begins with the last state of each object, under its old uid and
resourceVersion, with the same certificate and administrator's token. History is not kept: who resumes a watch is told
410 and lists again. Simulated Pods start anew. Flags are devkube's own; --directory is required.
"""

import asyncio
import dataclasses
import functools
import os
import secrets
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from devkube import certificates, cli
from devkube.options import Settings
from devkube.server import DevKube
from devkube.store import Change, Store
from warmlog import signals

CERTIFICATES: Final = ("ca.crt", "server.crt", "server.key")
CRDS: Final = "customresourcedefinitions.apiextensions.k8s.io"


class Line(msgspec.Struct, frozen=True, array_like=True):
    """One write. `object` is the state after it; of a deletion the last one."""

    key: str  # of the store
    version: int
    gone: bool
    object: msgspec.Raw


class Journal:
    """Lines are written whole and at once: what a client was told survives kill -9."""

    def __init__(self, path: Path) -> None:
        self.lines = read(path)
        shorter = path.with_suffix(".new")
        shorter.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in self.lines))
        shorter.chmod(0o600)
        shorter.replace(path)
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND)

    def write(self, change: Change) -> None:
        after = change.after
        line = Line(after.key, after.version, change.type == "DELETED", msgspec.Raw(after.raw))
        os.write(self._file, msgspec.json.encode(line) + b"\n")

    def close(self) -> None:
        os.close(self._file)


def read(path: Path) -> list[Line]:
    """The last state of every object that exists, CRDs first: they say what the others are. An unfinished last line is
    left out."""
    if not path.exists():
        return []
    last: dict[tuple[str, str, str], Line] = {}
    for text in path.read_bytes().split(b"\n")[:-1]:
        line = msgspec.json.decode(text, type=Line)
        meta = msgspec.json.decode(line.object)["metadata"]
        last[line.key, meta.get("namespace", ""), meta["name"]] = line
    return sorted((one for one in last.values() if not one.gone), key=lambda one: (one.key != CRDS, one.version))


def restore(store: Store, lines: Sequence[Line]) -> None:
    """Put everything back as it was, all at once. What a new cluster begins with gives way."""
    if not lines:
        return
    newest = max((store.version, *(one.version for one in lines)))
    for line in lines:
        store.version = line.version - 1
        restored: dict[str, Any] = msgspec.json.decode(line.object)
        meta = restored["metadata"]
        there = store.get(line.key, meta.get("namespace", ""), meta["name"])
        if there is None:
            store.create(line.key, restored)
        else:
            store.replace(line.key, restored, there.version)
    store.version = newest
    store.compact()


def known(directory: Path) -> certificates.Issued | None:
    """The certificates of an earlier life."""
    try:
        authority, certificate, key = [(directory / name).read_bytes() for name in CERTIFICATES]
    except OSError:
        return None
    return certificates.Issued(authority, certificate, key)


def token(directory: Path) -> str:
    """The administrator's, of an earlier life or a new one."""
    path = directory / "admin-token"
    if not path.exists():
        path.touch(mode=0o600)
        path.write_text(secrets.token_urlsafe(24))
    return path.read_text()


async def serve(settings: Settings) -> None:
    """Until SIGTERM or SIGINT."""
    if settings.directory is None:
        raise ValueError("give --directory: what it knows is kept there")
    stop = signals.told()
    settings.directory.mkdir(parents=True, exist_ok=True)
    journal = Journal(settings.directory / "objects.jsonl")
    try:
        api = DevKube(dataclasses.replace(settings, admin_token=token(settings.directory)))
        api.issued = known(settings.directory) or api.issued
        api.store.listen(journal.write)
        # It listens only when everything is there again: nobody sees half a cluster.
        api.http.prepare = functools.partial(restore, api.store, journal.lines)
        async with api:
            print(f'{{"url": "{api.url}", "kubeconfig": "{api.kubeconfig}"}}', flush=True)
            await stop.wait()
    finally:
        journal.close()


def main(argv: Sequence[str] | None = None) -> int:
    try:
        asyncio.run(serve(cli.settings_of(cli.parser().parse_args(argv))))
    except (OSError, ValueError) as error:
        print(f"devkube: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
