"""Hostile archives, and that good ones are read as tar reads them."""

import gzip
import io
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.tarfiles import END, header, member, padded, write
from warmlog.kernelfiles.archive import Archive
from warmlog.kernelfiles.entries import Limits, Refused
from warmlog.kernelfiles.materialise import materialise

TREE = "io.vllm.cache"
LONG = "/".join(["d" * 60] * 5) + "/kernel.so"


def contents(path: Path, limits: Limits = Limits()) -> dict[str, bytes]:  # noqa: B008 - immutable
    archive = Archive(str(path), TREE)
    found = {}
    for entry, file in archive.copies(archive.entries(limits)):
        found[entry.path] = b"".join(iter(lambda: file.read(3), b""))  # noqa: B023
    return found


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
@pytest.mark.parametrize("packed", [False, True])
def test_a_good_archive_is_read(tmp_path: Path, form: int, packed: bool) -> None:
    long = LONG if form != tarfile.USTAR_FORMAT else "d" * 90 + "/kernel.so"
    path = write(
        tmp_path / "layer",
        member(f"./{TREE}", type=tarfile.DIRTYPE),
        member(f"{TREE}/a/b.json", b"{}"),
        member(f"{TREE}/{long}", b"x" * 1000, mode=0o755),
        member("io.vllm.manifest/manifest.json", b"{}"),
        form=form,
        packed=packed,
    )
    assert contents(path) == {"a/b.json": b"{}", long: b"x" * 1000}
    assert Archive(str(path), TREE).has("io.vllm.manifest/manifest.json")
    entries = {one.path: one for one in Archive(str(path), TREE).entries(Limits())}
    assert entries[long].executable
    assert entries["a"].directory  # of which the archive has no entry of its own


def test_what_is_no_file_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, Path("/dev/zero")):
        with pytest.raises(Refused, match=f"{path} is no file"):
            Archive(str(path), TREE).has("x")


_PART = st.text(
    st.characters(codec="utf-8", exclude_characters="/", exclude_categories=("Cc", "Cs")), min_size=1, max_size=40
).filter(lambda name: name not in (".", "..") and not name.startswith(".wh."))
NAMES = st.lists(_PART, min_size=1, max_size=4).map("/".join)


@given(
    st.dictionaries(NAMES, st.binary(max_size=700), max_size=5),
    st.sampled_from((tarfile.PAX_FORMAT, tarfile.GNU_FORMAT)),
)
@settings(deadline=None)
def test_what_the_standard_library_writes_is_read(
    tmp_path_factory: pytest.TempPathFactory, files: Any, form: int
) -> None:
    names = sorted(files)
    names = [one for one in names if not any(other.startswith(f"{one}/") for other in names)]
    path = tmp_path_factory.mktemp("a") / "layer"
    write(path, *(member(f"{TREE}/{name}", files[name]) for name in names), form=form)
    assert contents(path) == {name: files[name] for name in names}


def raw(path: Path, *blocks: bytes, packed: bool = False) -> Path:
    content = b"".join(blocks) + END
    path.write_bytes(gzip.compress(content) if packed else content)
    return path


FILE = header(b"io.vllm.cache/good", size=1) + padded(b"x")
HOSTILE = {
    "absolute": ([member("/etc/cron.d/x", b"x")], "absolute"),
    "leads out": ([member(f"{TREE}/../../x", b"x")], "leads out"),
    "leads out in the end": ([member(f"{TREE}/..", type=tarfile.DIRTYPE)], "leads out"),
    "symbolic link": ([member(f"{TREE}/l", type=tarfile.SYMTYPE, linkname="/etc/passwd")], "a link"),
    "link inside": ([member(f"{TREE}/l", type=tarfile.SYMTYPE, linkname="good")], "a link"),
    "hard link": ([member(f"{TREE}/l", type=tarfile.LNKTYPE, linkname="/etc/passwd")], "a link"),
    "character device": ([member(f"{TREE}/d", type=tarfile.CHRTYPE)], "a device"),
    "block device": ([member(f"{TREE}/d", type=tarfile.BLKTYPE)], "a device"),
    "pipe": ([member(f"{TREE}/p", type=tarfile.FIFOTYPE)], "a pipe"),
    "setuid": ([member(f"{TREE}/s", b"x", mode=0o4755)], "somebody else"),
    "setgid": ([member(f"{TREE}/s", b"x", mode=0o2755)], "somebody else"),
    "whiteout": ([member(f"{TREE}/.wh.good")], "deletes"),
    "twice": ([member(f"{TREE}/a", b"1"), member(f"{TREE}/a", b"2")], "comes twice"),
    "file and directory": ([member(f"{TREE}/a", b"1"), member(f"{TREE}/a/b", b"2")], "a file and a directory"),
    "directory and file": ([member(f"{TREE}/a/b", b"1"), member(f"{TREE}/a", b"2")], "comes twice"),
    "outside what is wanted": ([member("elsewhere", type=tarfile.SYMTYPE, linkname="/")], "a link"),
    "pax name leads out": ([member(f"{TREE}/a", b"1", pax_headers={"path": "../x"})], "leads out"),
    "control character": ([member(f"{TREE}/a\x1b[2J", b"1")], "control"),
    "long name": ([member(f"{TREE}/" + "n" * 300, b"1")], "longer than"),
    "deep": ([member("/".join([TREE, *"d" * 40]), b"1")], "deeper than"),
}  # fmt: skip
BROKEN = {
    "checksum": (FILE[:148] + b"7777777\0" + FILE[156:], "checksum"),
    "no number": (FILE[:124] + b"99999999999\0" + FILE[136:], "checksum|number"),
    "no end": (FILE[:600], "ends"),
    "larger than it is": (header(b"io.vllm.cache/a", size=5000), "ends"),
    "size of a giant": (header(b"io.vllm.cache/a", size=1 << 60), "more than"),
    "impossible size": (header(b"io.vllm.cache/a", size=(1 << 63) + 5), "cannot be"),
    "huge extended header": (header(b"x", size=1 << 33, kind=b"x"), "oversized header"),
    "huge long name": (header(b"x", size=1 << 30, kind=b"L"), "oversized header"),
    "endless extended headers": (b"".join([header(b"x", size=0, kind=b"x")] * 100), "oversized header"),
    "extended header that is none": (header(b"x", size=20, kind=b"x") + padded(b"99 path=x\n"), "extended header"),
    "extended size that is none": (header(b"x", size=12, kind=b"x") + padded(b"12 size=-10\n"), "size"),
    "sparse": (header(b"io.vllm.cache/a", kind=b"S"), "sparse"),
    "unknown kind": (header(b"io.vllm.cache/a", kind=b"Z"), "unknown kind"),
    "file without a name": (header(b"", size=1) + padded(b"x"), "no name"),
    "no archive": (b"hello, world" * 100, "broken"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_archive_is_refused_whole(tmp_path: Path, name: str) -> None:
    members, why = HOSTILE[name]
    target = tmp_path / "t"
    target.mkdir()
    path = write(tmp_path / "layer", member(f"{TREE}/good", b"x"), *members)
    with pytest.raises(Refused, match=why):
        materialise(Archive(str(path), TREE), "layer", str(target))
    assert list(target.iterdir()) == []


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("packed", [False, True])
def test_a_broken_archive_is_refused(tmp_path: Path, name: str, packed: bool) -> None:
    blocks, why = BROKEN[name]
    path = tmp_path / "layer"
    content = blocks if name in ("no end", "larger than it is") else blocks + END
    path.write_bytes(gzip.compress(content) if packed else content)
    with pytest.raises(Refused, match=why):
        contents(path)


def test_a_bomb_ends_at_the_limit(tmp_path: Path) -> None:
    """100 MiB of zeros in 100 KB."""
    path = tmp_path / "layer"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(header(b"io.vllm.cache/a", size=100 << 20))
        for _ in range(100):
            file.write(bytes(1 << 20))
    with pytest.raises(Refused, match="more than 1000000 bytes"):
        contents(path, Limits(bytes=1_000_000))


def test_zeros_without_end_are_read_as_the_end(tmp_path: Path) -> None:
    path = tmp_path / "layer"
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(50):
            file.write(bytes(1 << 20))
    assert contents(path) == {}


def test_a_truncated_gzip_is_refused(tmp_path: Path) -> None:
    whole = gzip.compress(header(b"io.vllm.cache/a", size=9000) + bytes(range(256)) * 36 + END)
    path = tmp_path / "layer"
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(Refused, match="broken"):
        contents(path)


def test_more_entries_than_the_limit_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "layer", *(member(f"{TREE}/{n}", b"x") for n in range(6)))
    with pytest.raises(Refused, match="more than 5 entries"):
        contents(path, Limits(entries=5))


@given(st.binary(max_size=3000), st.integers(0, 1200), st.binary(min_size=1, max_size=40))
@settings(deadline=None)
def test_nothing_but_a_refusal_comes_of_noise(
    tmp_path_factory: pytest.TempPathFactory, noise: bytes, at: int, patch: bytes
) -> None:
    path = tmp_path_factory.mktemp("a") / "layer"
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.addfile(*_added(member(f"{TREE}/a", b"x" * 600, pax_headers={"comment": "é"})))
    good = bytearray(buffer.getvalue())
    good[at : at + len(patch)] = patch
    for content in (noise, bytes(good)):
        path.write_bytes(content)
        try:
            found = contents(path)
        except Refused:
            continue
        assert all(".." not in name.split("/") and not name.startswith("/") for name in found)


def _added(one: tuple[tarfile.TarInfo, bytes]) -> tuple[tarfile.TarInfo, io.BytesIO]:
    return one[0], io.BytesIO(one[1])
