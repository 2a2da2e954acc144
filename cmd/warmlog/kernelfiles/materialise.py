"""From an artifact to a tree that an engine can read and write: as links to the files, or as copies.

Links cost nothing, and nobody can change the files that they lead to. Copies are made where an engine must write
(Triton's tree), where the artifact's mount does not execute and there are libraries in it, from an archive, and where
they are small.

Everything appears together or not at all; directories are the place's own and writable. Raises Refused with one line,
or OSError; nothing is left behind then.

Rules: spec/kernelcache.md section 6 ("copy instead of symlink …").
"""

import os
from collections.abc import Callable, Iterator
from typing import Final, Literal, NamedTuple

from warmlog.kernelfiles import mounts
from warmlog.kernelfiles.archive import Archive
from warmlog.kernelfiles.entries import Entry, Limits, Readable, Refused, Source, shown
from warmlog.kernelfiles.place import Place

Mode = Literal["auto", "symlink", "copy"]
CHUNK: Final = 1 << 20
SMALL: Final = 64 << 20
TRITON: Final = "io.triton.cache"
_LIBRARIES: Final = (".so", ".cubin", ".hsaco")


class Done(NamedTuple):
    mode: str
    files: int
    bytes: int
    kept: int  # files that stood in the place already


#: Called now and then with files and bytes copied so far; may raise to end it.
Progress = Callable[[int, int], None]


def materialise(
    source: Source,
    root: str,
    target: str,
    *,
    mode: Mode = "auto",
    limits: Limits = Limits(),  # noqa: B008 - immutable
    progress: Progress = lambda files, bytes_: None,
) -> Done:
    """`root` is where the source lies, as the engine sees it: links lead there."""
    entries = source.entries(limits)
    files = [one for one in entries if not one.directory]
    if not files:
        raise Refused("there is no file in it")
    chosen = choose(mode, files, root=root, target=target, archive=isinstance(source, Archive))
    total = sum(one.size for one in files)
    kept = 0
    with Place(target) as place:
        if chosen == "copy":
            if (free := place.free()) < total:
                raise Refused(f"it has {total} bytes and {target} has room for {free}")
            copy(source, entries, place, progress)
        else:
            for one in files:
                place.link(one.path, f"{root}/{one.path}")
        for one in entries:
            kept += not place.publish(one.path, directory=one.directory)
    return Done(chosen, len(files) - kept, total, kept)


def choose(mode: Mode, files: list[Entry], *, root: str, target: str, archive: bool) -> Literal["symlink", "copy"]:
    """Raises Refused where neither would work."""
    libraries = any(one.path.endswith(_LIBRARIES) or ".so." in one.path for one in files)
    from_, to = mounts.of(root), mounts.of(target)
    cannot_link = archive or (libraries and from_ is not None and from_.noexec)
    cannot_copy = libraries and to is not None and to.noexec
    if to is not None and to.readonly:
        raise Refused(f"{target} is mounted read-only")
    if cannot_link and cannot_copy:
        raise Refused(f"there are libraries in it, and neither its mount nor that of {target} lets them be executed")
    if mode == "symlink" and archive:
        raise Refused("links cannot lead into an archive")
    if mode != "auto":
        return mode
    if cannot_link or cannot_copy:
        return "copy" if cannot_link else "symlink"
    small = sum(one.size for one in files) <= SMALL
    return "copy" if small or root.rstrip("/").endswith(TRITON) else "symlink"


def copy(source: Source, entries: list[Entry], place: Place, progress: Progress) -> None:
    """Every file into the place's partial directory. A file that is not as long as it was is refused."""
    done = 0
    for number, (entry, file) in enumerate(source.copies(entries)):
        descriptor = place.file(entry.path, executable=entry.executable)
        try:
            for piece in _pieces(entry, file):
                _write(descriptor, piece)
                done += len(piece)
                progress(number, done)
        finally:
            os.close(descriptor)


def _pieces(entry: Entry, file: Readable) -> Iterator[bytes]:
    left = entry.size
    while piece := file.read(min(CHUNK, left + 1)):
        left -= len(piece)
        if left < 0:
            break
        yield piece
    if left:
        raise Refused(f"{shown(entry.path)} changed while it was copied")


def _write(descriptor: int, piece: bytes) -> None:
    left = memoryview(piece)
    while left:
        left = left[os.write(descriptor, left) :]
