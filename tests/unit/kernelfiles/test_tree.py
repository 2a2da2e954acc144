"""Hostile trees: none of them is made anything of, whatever it is that is wrong."""

import os
import socket
from pathlib import Path

import pytest

from warmlog.kernelfiles.entries import Limits, Refused
from warmlog.kernelfiles.materialise import materialise
from warmlog.kernelfiles.tree import Tree


def good(root: Path) -> Path:
    (root / "torch_compile_cache" / "abc").mkdir(parents=True)
    (root / "torch_compile_cache" / "abc" / "kernel.so").write_bytes(b"elf")
    (root / "torch_compile_cache" / "abc" / "kernel.so").chmod(0o755)
    (root / "top.json").write_text("{}")
    return root


def test_a_good_tree_is_read_directories_first(tmp_path: Path) -> None:
    found = Tree(str(good(tmp_path))).entries(Limits())
    assert [one.path for one in found] == [
        "top.json", "torch_compile_cache", "torch_compile_cache/abc", "torch_compile_cache/abc/kernel.so"
    ]  # fmt: skip
    assert [one.executable for one in found] == [False, False, False, True]
    assert found[0].size == 2


def link(at: Path) -> None:
    at.symlink_to("/etc/passwd")


def inner_link(at: Path) -> None:
    at.symlink_to("top.json")


def linked_directory(at: Path) -> None:
    at.symlink_to("/etc", target_is_directory=True)


def broken_link(at: Path) -> None:
    at.symlink_to("nowhere")


def pipe(at: Path) -> None:
    os.mkfifo(at)


def listening(at: Path) -> None:
    socket.socket(socket.AF_UNIX).bind(str(at)[-100:] if len(str(at)) > 100 else str(at))


def device(at: Path) -> None:
    try:
        os.mknod(at, 0o20666, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("only root makes devices")


def setuid(at: Path) -> None:
    at.write_bytes(b"x")
    at.chmod(0o4755)


def setgid(at: Path) -> None:
    at.write_bytes(b"x")
    at.chmod(0o2755)


def control(at: Path) -> None:
    (at.parent / "a\x1b]0;gotcha\x07").write_bytes(b"x")


HOSTILE = {
    link: "a link", inner_link: "a link", linked_directory: "a link", broken_link: "a link", pipe: "a pipe",
    listening: "a socket", device: "a device", setuid: "somebody else", setgid: "somebody else",
    control: "control character",
}  # fmt: skip


@pytest.mark.parametrize("made", HOSTILE, ids=lambda made: made.__name__)
@pytest.mark.parametrize("deep", [False, True], ids=["at the top", "deep"])
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_a_hostile_tree_is_refused_whole(
    tmp_path: Path, made: object, deep: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, target = good(tmp_path / "a"), tmp_path / "t"
    target.mkdir()
    where = root / "torch_compile_cache" if deep else root
    monkeypatch.chdir(where)  # a socket's name may be 107 bytes long
    made(Path("bad") if made is listening else where / "bad")  # type: ignore[operator]
    with pytest.raises(Refused, match=HOSTILE[made]) as refused:  # type: ignore[index]
        materialise(Tree(str(root)), str(root), str(target))
    assert "\x1b" not in str(refused.value)
    assert list(target.iterdir()) == []


def test_too_many_files_are_refused(tmp_path: Path) -> None:
    for number in range(6):
        (tmp_path / str(number)).write_bytes(b"x")
    assert len(Tree(str(tmp_path)).entries(Limits(entries=6))) == 6
    with pytest.raises(Refused, match="more than 5 entries"):
        Tree(str(tmp_path)).entries(Limits(entries=5))


def test_too_many_bytes_are_refused_sparse_ones_too(tmp_path: Path) -> None:
    with open(tmp_path / "big", "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(Refused, match="more than"):
        Tree(str(tmp_path)).entries(Limits())


def test_a_deep_tree_is_refused(tmp_path: Path) -> None:
    (tmp_path / "/".join("d" * 40)).mkdir(parents=True)
    with pytest.raises(Refused, match="deeper than"):
        Tree(str(tmp_path)).entries(Limits())


def test_the_root_itself_is_not_followed(tmp_path: Path) -> None:
    good(tmp_path / "real")
    (tmp_path / "link").symlink_to("real")
    with pytest.raises(OSError, match=r"Not a directory|symbolic links"):
        Tree(str(tmp_path / "link")).entries(Limits())


def test_a_file_that_becomes_a_link_after_the_look_is_not_followed(tmp_path: Path) -> None:
    tree = Tree(str(good(tmp_path)))
    entries = tree.entries(Limits())
    (tmp_path / "top.json").unlink()
    (tmp_path / "top.json").symlink_to("/etc/passwd")
    with pytest.raises(OSError, match="symbolic links"):
        list(tree.copies(entries))


def test_a_directory_that_becomes_a_link_after_the_look_is_not_followed(tmp_path: Path) -> None:
    tree = Tree(str(good(tmp_path / "a")))
    entries = [one for one in tree.entries(Limits()) if one.path.endswith(".so")]
    (tmp_path / "a" / "torch_compile_cache").rename(tmp_path / "moved")
    (tmp_path / "a" / "torch_compile_cache").symlink_to(tmp_path / "moved")
    with pytest.raises(Refused, match="no directory"):
        list(tree.copies(entries))


def test_a_pipe_that_takes_a_file_s_place_does_not_block(tmp_path: Path) -> None:
    tree = Tree(str(good(tmp_path)))
    entries = tree.entries(Limits())
    (tmp_path / "top.json").unlink()
    os.mkfifo(tmp_path / "top.json")
    with pytest.raises(Refused, match="a pipe"):
        list(tree.copies(entries))
