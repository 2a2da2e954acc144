"""What appears in the place, and that nothing else does."""

import os
import stat
from pathlib import Path

import pytest

from tests.support.tarfiles import member, write
from warmlog.kernelfiles import materialise as module
from warmlog.kernelfiles import mounts
from warmlog.kernelfiles.archive import Archive
from warmlog.kernelfiles.entries import Entry, Limits, Refused
from warmlog.kernelfiles.materialise import materialise
from warmlog.kernelfiles.mounts import Mount
from warmlog.kernelfiles.place import PARTIAL
from warmlog.kernelfiles.tree import Tree

FILES = {"a/b/kernel.so": b"elf" * 50, "a/empty": b"", "top": b"t"}


@pytest.fixture(autouse=True)
def _masked() -> None:
    os.umask(0)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    root = tmp_path / "source" / "io.vllm.cache"
    for name, data in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    (root / "a" / "b" / "kernel.so").chmod(0o555)
    (root / "a" / "hollow").mkdir()
    return root


@pytest.fixture
def target(tmp_path: Path) -> Path:
    made = tmp_path / "target"
    made.mkdir()
    return made


def found(place: Path) -> dict[str, bytes]:
    return {str(one.relative_to(place)): one.read_bytes() for one in place.rglob("*") if one.is_file()}


@pytest.mark.parametrize("mode", ["symlink", "copy"])
def test_everything_is_there_and_directories_are_writable(source: Path, target: Path, mode: module.Mode) -> None:
    done = materialise(Tree(str(source)), str(source), str(target), mode=mode)
    assert found(target) == FILES
    assert done == (mode, 3, 151, 0)
    assert (target / "a" / "hollow").is_dir()
    assert stat.S_IMODE((target / "a" / "b").stat().st_mode) == 0o777
    assert not (target / PARTIAL).exists()
    for name in FILES:
        assert (target / name).is_symlink() == (mode == "symlink")
        if mode == "symlink":
            assert os.readlink(target / name) == str(source / name)
    if mode == "copy":
        assert stat.S_IMODE((target / "a" / "b" / "kernel.so").stat().st_mode) == 0o777
        assert stat.S_IMODE((target / "top").stat().st_mode) == 0o666


@pytest.mark.parametrize("mode", ["symlink", "copy"])
def test_a_second_time_changes_nothing(source: Path, target: Path, mode: module.Mode) -> None:
    """An init container may run again."""
    materialise(Tree(str(source)), str(source), str(target), mode=mode)
    again = materialise(Tree(str(source)), str(source), str(target), mode=mode)
    assert found(target) == FILES
    assert (again.files, again.kept) == (0, 3)


def test_what_stands_there_stays(source: Path, target: Path) -> None:
    (target / "a").mkdir()
    (target / "a" / "empty").write_bytes(b"the engine's")
    (target / "top").symlink_to("/nowhere")
    done = materialise(Tree(str(source)), str(source), str(target), mode="copy")
    assert (target / "a" / "empty").read_bytes() == b"the engine's"
    assert os.readlink(target / "top") == "/nowhere"
    assert (done.files, done.kept) == (1, 2)


def test_a_link_in_the_place_is_not_followed(source: Path, target: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (target / "a").symlink_to(outside)
    with pytest.raises(Refused, match="is no directory"):
        materialise(Tree(str(source)), str(source), str(target), mode="copy")
    assert list(outside.iterdir()) == []
    assert not (target / PARTIAL).exists()


def test_a_place_that_is_a_link_is_refused(source: Path, target: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(target)
    with pytest.raises(OSError, match=r"Not a directory|symbolic links"):
        materialise(Tree(str(source)), str(source), str(tmp_path / "link"))


@pytest.mark.parametrize("kind", ["directory", "file", "link"])
def test_what_an_earlier_run_left_is_taken_away(source: Path, target: Path, tmp_path: Path, kind: str) -> None:
    left = target / PARTIAL
    if kind == "directory":
        (left / "a").mkdir(parents=True)
        (left / "a" / "half").write_bytes(b"x")
        (left / "out").symlink_to(tmp_path)
    elif kind == "file":
        left.write_bytes(b"x")
    else:
        left.symlink_to(tmp_path)
    materialise(Tree(str(source)), str(source), str(target), mode="copy")
    assert found(target) == FILES
    assert source.exists()


def test_a_copy_that_is_ended_leaves_nothing(source: Path, target: Path) -> None:
    def stop(files: int, bytes_: int) -> None:
        if files:
            raise Refused("too slow")

    with pytest.raises(Refused, match="too slow"):
        materialise(Tree(str(source)), str(source), str(target), mode="copy", progress=stop)
    assert list(target.iterdir()) == []


@pytest.mark.parametrize("size", [-1, 1])
def test_a_file_that_changes_length_while_it_is_copied(source: Path, target: Path, size: int) -> None:
    class Changing(Tree):
        def entries(self, limits: Limits) -> list[Entry]:
            return [one._replace(size=one.size + size) if one.size else one for one in super().entries(limits)]

    with pytest.raises(Refused, match="changed while it was copied"):
        materialise(Changing(str(source)), str(source), str(target), mode="copy")
    assert list(target.iterdir()) == []


def test_an_empty_tree_is_told(target: Path, tmp_path: Path) -> None:
    (tmp_path / "e" / "only" / "directories").mkdir(parents=True)
    with pytest.raises(Refused, match="no file in it"):
        materialise(Tree(str(tmp_path / "e")), "e", str(target))


def test_a_full_disk_is_told_before_anything_is_copied(
    source: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module.Place, "free", lambda self: 10)
    with pytest.raises(Refused, match="has room for 10"):
        materialise(Tree(str(source)), str(source), str(target), mode="copy")


def test_an_archive_is_copied(target: Path, tmp_path: Path) -> None:
    path = write(
        tmp_path / "layer", *(member(f"io.vllm.cache/{name}", data) for name, data in FILES.items()), packed=True
    )
    done = materialise(Archive(str(path), "io.vllm.cache"), "layer", str(target))
    assert found(target) == FILES
    assert done.mode == "copy"


def test_many_directories_need_few_descriptors(target: Path, tmp_path: Path) -> None:
    root = tmp_path / "wide"
    for number in range(300):
        (root / f"d{number}" / "e").mkdir(parents=True)
        (root / f"d{number}" / "e" / "f").write_bytes(b"x")
    before = len(os.listdir("/proc/self/fd"))
    most = 0

    def look(files: int, bytes_: int) -> None:
        nonlocal most
        most = max(most, len(os.listdir("/proc/self/fd")))

    done = materialise(Tree(str(root)), str(root), str(target), mode="copy", progress=look)
    assert done.files == 300
    assert most < before + 20
    assert len(os.listdir("/proc/self/fd")) == before


# Choosing -------------------------------------------------------------------------------------------------------------

LIBRARY = [Entry("a/k.so", directory=False, size=10)]
PLAIN = [Entry("a/k.json", directory=False, size=10)]
LARGE = [Entry("a/k.json", directory=False, size=1 << 30)]
LARGE_LIBRARY = [Entry("a/libk.so.1", directory=False, size=1 << 30)]


@pytest.mark.parametrize(
    ("files", "root", "source", "place", "expected"),
    [
        (PLAIN, "/s/io.vllm.cache", "ro", "rw", "copy"),
        (LARGE, "/s/io.vllm.cache", "ro", "rw", "symlink"),
        (LARGE, "/s/io.triton.cache", "ro", "rw", "copy"),
        (LARGE_LIBRARY, "/s/io.vllm.cache", "ro,noexec", "rw", "copy"),
        (LARGE_LIBRARY, "/s/io.vllm.cache", "ro", "rw", "symlink"),
        (LARGE, "/s/io.vllm.cache", "ro,noexec", "rw", "symlink"),
        (LIBRARY, "/s/io.vllm.cache", "ro", "rw,noexec", "symlink"),
        (LIBRARY, "/s/io.vllm.cache", "ro,noexec", "rw,noexec", "neither"),
        (PLAIN, "/s/io.vllm.cache", "ro", "ro", "read-only"),
    ],
)
def test_how_it_is_made(
    files: list[Entry], root: str, source: str, place: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def of(path: str) -> Mount:
        return Mount(path, frozenset((source if path == root else place).split(",")), "overlay")

    monkeypatch.setattr(mounts, "of", of)
    if expected in ("symlink", "copy"):
        assert module.choose("auto", files, root=root, target="/t", archive=False) == expected
        return
    with pytest.raises(Refused, match=expected):
        module.choose("auto", files, root=root, target="/t", archive=False)


def test_links_into_an_archive_are_refused() -> None:
    with pytest.raises(Refused, match="into an archive"):
        module.choose("symlink", PLAIN, root="/s", target="/t", archive=True)


MOUNTINFO = r"""22 1 0:20 / / rw,relatime - ext4 /dev/a rw
30 22 0:30 / /proc rw,nosuid,nodev,noexec - proc proc rw
40 22 0:40 / /var/run/gkm/kernel-cache ro,noexec - overlay overlay ro
41 22 0:41 / /with\040blank rw - tmpfs tmpfs rw
50 22 0:50 / /cache rw - tmpfs tmpfs rw
51 22 0:51 / /cache ro - tmpfs tmpfs rw
garbage
""".splitlines()


@pytest.mark.parametrize(
    ("path", "point", "option"),
    [
        ("/var/run/gkm/kernel-cache/io.vllm.cache", "/var/run/gkm/kernel-cache", "noexec"),
        ("/var/run/gkm/kernel-cache2", "/", "relatime"),
        ("/with blank/x", "/with blank", "rw"),
        ("/cache", "/cache", "ro"),  # the later of two lies on top
    ],
)
def test_the_mount_of_a_path(path: str, point: str, option: str) -> None:
    mount = mounts.of(path, MOUNTINFO)
    assert mount is not None
    assert mount.point == point
    assert option in mount.options


def test_the_kernel_says_something_of_every_path() -> None:
    assert mounts.of("/") is not None
    assert mounts.of("/", []) is None
