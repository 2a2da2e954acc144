"""`warmlog linker`: the marker first, one line for whatever is wrong, and the exit code that lets the Pod start."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from tests.support.tarfiles import member, write
from warmlog import cli, flags, linker
from warmlog.kernelfiles import place
from warmlog.kernelfiles.entries import Refused


@pytest.fixture(autouse=True)
def _every_line() -> Iterator[None]:
    """Programs that ran in this process before set a level of their own."""
    structlog.reset_defaults()
    yield
    structlog.reset_defaults()


@pytest.fixture
def mount(tmp_path: Path) -> Path:
    root = tmp_path / "kernel-cache"
    (root / "io.vllm.cache" / "a").mkdir(parents=True)
    (root / "io.vllm.cache" / "a" / "kernel").write_bytes(b"k")
    (root / "io.vllm.manifest").mkdir()
    (root / "io.vllm.manifest" / "manifest.json").write_text("{}")
    (tmp_path / "place").mkdir()
    return root


def values(**changed: str) -> flags.Values:
    return flags.resolve(linker_arguments(), linker.FLAGS, changed)


def linker_arguments() -> Any:
    import argparse

    return argparse.Namespace()


def told(source: str, target: Path, **changed: str) -> dict[str, Any]:
    with capture_logs() as lines:
        linker.link(source, str(target), values(**changed))
    (line,) = [one for one in lines if one["event"] != "kernel-cache-copying"]
    return dict(line)


def test_a_cache_is_linked_and_said_so(mount: Path, tmp_path: Path) -> None:
    line = told(f"{mount}/io.vllm.cache", tmp_path / "place")
    assert (line["event"], line["files"], line["bytes"], line["mode"]) == ("kernel-cache-linked", 1, 1, "copy")
    assert (tmp_path / "place" / "a" / "kernel").read_bytes() == b"k"


def broken(mount: Path, name: str) -> None:
    manifest = mount / "io.vllm.manifest" / "manifest.json"
    match name:
        case "empty mount":
            for one in sorted(mount.rglob("*"), reverse=True):
                one.rmdir() if one.is_dir() else one.unlink()
        case "no marker":
            manifest.unlink()
        case "marker is a link":
            manifest.unlink()
            manifest.symlink_to("/etc/hostname")
        case "marker is no JSON":
            manifest.write_text("{")
        case "marker is a bomb":
            manifest.write_text("[" * 200_000)
        case "marker is a number":
            manifest.write_text("7")
        case "no tree":
            (mount / "io.vllm.cache" / "a" / "kernel").unlink()
            (mount / "io.vllm.cache" / "a").rmdir()
            (mount / "io.vllm.cache").rmdir()
        case "tree is a link":
            (mount / "io.vllm.cache").rename(mount / "other")
            (mount / "io.vllm.cache").symlink_to("other")
        case "hostile tree":
            (mount / "io.vllm.cache" / "l").symlink_to("/etc/passwd")
        case "no mount":
            for one in sorted(mount.rglob("*"), reverse=True):
                one.rmdir() if one.is_dir() else one.unlink()
            mount.rmdir()


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("empty mount", "container runtime may not know image volumes"),
        ("no marker", "manifest.json is missing"),
        ("marker is a link", "manifest.json is missing"),
        ("marker is no JSON", "no JSON"),
        ("marker is a bomb", "no JSON"),
        ("marker is a number", "no manifest"),
        ("no tree", "no directory of the artifact"),
        ("tree is a link", "no directory of the artifact"),
        ("hostile tree", "a link"),
        ("no mount", "cannot be read"),
    ],
)
def test_whatever_is_wrong_is_one_line_and_nothing_else(mount: Path, tmp_path: Path, name: str, why: str) -> None:
    broken(mount, name)
    line = told(f"{mount}/io.vllm.cache", tmp_path / "place")
    assert line["event"] == "kernel-cache-not-linked"
    assert why in line["why"]
    assert "\n" not in line["why"]
    assert list((tmp_path / "place").iterdir()) == []


def test_the_marker_may_be_left_out_where_the_flag_says_so(mount: Path, tmp_path: Path) -> None:
    broken(mount, "no marker")
    line = told(f"{mount}/io.vllm.cache", tmp_path / "place", WARMLOG_MARKER="optional")
    assert line["event"] == "kernel-cache-linked"


def test_a_place_that_is_not_there_is_one_line(mount: Path, tmp_path: Path) -> None:
    assert "FileNotFoundError" in told(f"{mount}/io.vllm.cache", tmp_path / "nowhere")["why"]


def test_a_defect_of_ours_lets_the_pod_start(mount: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(self: object, path: str, *, executable: bool) -> int:
        raise ZeroDivisionError("a defect\nof two lines")

    monkeypatch.setattr(place.Place, "file", fails)
    line = told(f"{mount}/io.vllm.cache", tmp_path / "place", WARMLOG_MODE="copy")
    assert line["why"] == "ZeroDivisionError: a defect of two lines"
    assert list((tmp_path / "place").iterdir()) == []


def test_an_archive_is_taken_with_its_marker(tmp_path: Path) -> None:
    (tmp_path / "place").mkdir()
    files = [member("io.vllm.cache/a", b"x")]
    path = write(tmp_path / "layer.tgz", *files, packed=True)
    assert "manifest.json is missing" in told(f"{path}!io.vllm.cache", tmp_path / "place")["why"]
    write(path, member("io.vllm.manifest/manifest.json", b"{}"), *files, packed=True)
    assert told(f"{path}!io.vllm.cache", tmp_path / "place")["files"] == 1
    assert (tmp_path / "place" / "a").read_bytes() == b"x"


def test_a_long_copy_says_how_far_it_is_and_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(linker.time, "monotonic", lambda: clock[0])
    watch = linker.Watch("/place", 60.0)
    with capture_logs() as lines:
        for _ in range(12):
            clock[0] += 2
            watch.progress(3, 7_000_000)
        assert [one["seconds"] for one in lines] == [6, 12, 18, 24]
        clock[0] += 60
        with pytest.raises(Refused, match="longer than 60 s"):
            watch.progress(3, 7_000_000)


def test_the_program_ends_with_0_whatever_happened(
    mount: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "other").mkdir()
    good, bad = f"{mount}/io.vllm.cache={tmp_path}/place", f"{mount}/io.triton.cache={tmp_path}/other"
    assert cli.main(["linker", "--log-format", "json", bad, good]) == 0
    events = [json.loads(line)["event"] for line in capsys.readouterr().err.splitlines()]
    assert events == ["kernel-cache-not-linked", "kernel-cache-linked"]


def test_a_word_that_is_no_pair_is_a_usage_error() -> None:
    assert cli.main(["linker", "/only/one"]) == cli.USAGE
