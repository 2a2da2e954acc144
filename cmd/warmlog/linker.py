"""Makes a mounted kernel cache appear where an engine looks for it. Runs as an init container and never blocks a Pod.

Example:
  warmlog linker /var/run/gkm/kernel-cache/io.vllm.cache=/root/.cache/vllm

Each word is SOURCE=PLACE: a directory of the artifact, or a tar file and a directory in it, layer.tgz!io.vllm.cache.
Beside the directory must stand the artifact's marker, io.vllm.manifest/manifest.json: an image volume that a container
runtime does not know is an empty directory. Whatever is wrong is one line in the log; the exit code is 0 all the same,
and the engine compiles its kernels. Exit code 2: wrong flags.
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from typing import Any, Final

import structlog

from warmlog import flags, logs
from warmlog.kernelfiles import mounts
from warmlog.kernelfiles.archive import Archive
from warmlog.kernelfiles.entries import Limits, Refused, Source
from warmlog.kernelfiles.materialise import Done, materialise
from warmlog.kernelfiles.tree import Tree

log = structlog.get_logger()

FLAGS: Final = (
    flags.Flag("mode", "symlink, copy or auto", "auto", flags.one_of("auto", "symlink", "copy")),
    flags.Flag(
        "marker", "whether the artifact's manifest must be there", "required", flags.one_of("required", "optional")
    ),
    flags.Flag("max-bytes", "of one artifact; more is refused", "16Gi", flags.size),
    flags.Flag("max-files", "entries of one artifact; more are refused", "200000", flags.at_least(1)),
    flags.Flag("deadline", "a copy that takes longer is given up", "10m", flags.interval),
    *logs.FLAGS,
)
SPOKEN: Final = 5.0  # seconds between two lines of progress
LARGEST_MARKER: Final = 1 << 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pairs", nargs="*", metavar="SOURCE=PLACE", help="what belongs where")


def run(values: flags.Values, arguments: argparse.Namespace) -> int:
    logs.configure(role="linker", form=values["log-format"], level=values["log-level"])
    os.umask(0)  # a place is the Pod's own: whoever the engine runs as may write there
    pairs = [word.partition("=") for word in arguments.pairs]
    if not pairs or any(not source or not target for source, _, target in pairs):
        raise flags.UsageError("write SOURCE=PLACE, two absolute paths")
    for source, _, target in pairs:
        link(source, target, values)
    return 0


def link(source: str, target: str, values: flags.Values) -> Done | None:
    """One pair; None when nothing was made of it, which is told. Never raises."""
    watch = Watch(target, values["deadline"])
    try:
        artifact, root = opened(source, required=values["marker"] == "required", tick=watch.tick)
        limits = Limits(entries=values["max-files"], bytes=values["max-bytes"])
        done = materialise(
            artifact, root, os.path.normpath(target), mode=values["mode"], limits=limits, progress=watch.progress
        )
    except Exception as error:  # serving goes on without a cache, whatever happened
        why = str(error) if isinstance(error, Refused) else f"{type(error).__name__}: {error}"
        log.warning("kernel-cache-not-linked", source=source, place=target, why=" ".join(why.split()))
        return None
    log.info(
        "kernel-cache-linked", source=source, place=target, mode=done.mode, files=done.files, bytes=done.bytes,
        kept=done.kept, seconds=round(watch.seconds, 1),
    )  # fmt: skip
    return done


def opened(source: str, *, required: bool, tick: Callable[[], None]) -> tuple[Source, str]:
    """The artifact, its marker checked first. Raises Refused."""
    if "!" in source:
        file, _, inside = source.partition("!")
        archive = Archive(file, inside, tick)
        if required and not archive.has(marker_of(inside)):
            raise Refused(f"{file} is no kernel cache: {marker_of(inside)} is missing")
        return archive, source
    root = os.path.normpath(source)
    parent, name = os.path.split(root)
    _present(parent)
    if required:
        _marked(parent, marker_of(name))
    if not os.path.isdir(root) or os.path.islink(root):
        raise Refused(f"{root} is no directory of the artifact")
    return Tree(root), root


def marker_of(tree: str) -> str:
    """io.vllm.cache -> io.vllm.manifest/manifest.json."""
    return f"{tree.strip('/').removesuffix('.cache')}.manifest/manifest.json"


def _present(mount: str) -> None:
    try:
        with os.scandir(mount) as entries:
            empty = next(entries, None) is None
    except OSError as error:
        raise Refused(f"{mount} cannot be read: {error.strerror}") from None
    if empty:
        found = mounts.of(mount)
        kind = f"a mount of type {found.type}" if found is not None and found.point == mount else "no mount"
        raise Refused(f"{mount} is empty ({kind}): the container runtime may not know image volumes")


def _marked(parent: str, marker: str) -> None:
    try:
        with Tree(parent).open(marker) as file:
            manifest: Any = json.loads(file.read(LARGEST_MARKER))
    except (OSError, Refused) as error:
        raise Refused(f"{parent} is no kernel cache: {marker} is missing ({error})") from None
    except (ValueError, RecursionError) as error:
        raise Refused(f"{parent} is no kernel cache: {marker} is no JSON ({error})") from None
    if not isinstance(manifest, dict | list):
        raise Refused(f"{parent} is no kernel cache: {marker} is no manifest")


class Watch:
    """Says how far a long copy is, and ends one that takes too long."""

    def __init__(self, target: str, deadline: float) -> None:
        self.target, self.deadline = target, deadline
        self.began = self.spoke = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    def tick(self) -> None:
        if self.seconds > self.deadline:
            raise Refused(f"it took longer than {self.deadline:g} s")

    def progress(self, files: int, bytes_: int) -> None:
        self.tick()
        now = time.monotonic()
        if now - self.spoke >= SPOKEN:
            self.spoke = now
            log.info("kernel-cache-copying", place=self.target, files=files, bytes=bytes_, seconds=round(self.seconds))
