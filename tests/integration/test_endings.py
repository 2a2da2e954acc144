"""How `dev`, `demo` and tools end when they are interrupted, cannot begin, or nobody reads what they say.

Excluded: roles (test_roles), what dev and demo show (test_dev, test_demo).
"""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support import natsserver
from tests.support.processes import mentioning


def begin(words: Sequence[str], directory: Path) -> "subprocess.Popen[str]":
    directory.mkdir(exist_ok=True)
    return subprocess.Popen(
        [sys.executable, "-m", "warmlog", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "TMPDIR": str(directory), "PYTHONUNBUFFERED": "1"},
    )


def gone(directory: Path, within: float = 5.0) -> bool:
    deadline = time.monotonic() + within
    while mentioning(str(directory)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not mentioning(str(directory))


MOMENTS = [
    pytest.param(["dev"], "nats-server ", signal.SIGINT, 0, id="dev starts its first engine"),
    pytest.param(["dev"], "KUBECONFIG ", signal.SIGINT, 0, id="dev starts its roles"),
    pytest.param(["dev"], "engine-b ", signal.SIGTERM, 0, id="dev starts its last engine"),
    pytest.param(["demo", "--turns=5"], "1.", signal.SIGTERM, 130, id="demo begins"),
    pytest.param(["demo", "--turns=5"], "3.", signal.SIGINT, 130, id="demo starts its engines"),
    pytest.param(["demo", "--turns=5"], "6.", signal.SIGTERM, 130, id="demo kills an engine"),
]


@pytest.mark.parametrize(("words", "after", "number", "code"), MOMENTS)
def test_a_signal_at_any_moment_leaves_no_process(
    words: list[str], after: str, number: signal.Signals, code: int, tmp_path: Path
) -> None:
    natsserver.require()
    more = [f"--dir={tmp_path / 'state'}"] if words == ["dev"] else []
    running = begin([*words, *more], tmp_path / "tmp")
    assert running.stdout is not None
    try:
        for line in running.stdout:
            if line.startswith(after):
                break
        running.send_signal(number)
        time.sleep(0.1)
        running.send_signal(number)  # a second Ctrl-C does not cut the orderly end short
        rest = running.stdout.read()
        # The second one may meet an interpreter that is ending already.
        assert running.wait(20) in (code, -number), rest
        assert "Traceback" not in rest
    finally:
        running.kill()
        running.wait()
        running.stdout.close()
    assert gone(tmp_path)
    assert not list((tmp_path / "tmp").iterdir()), "the demo's directory goes with it"


def said(words: Sequence[str], *, before: str = "") -> tuple[int, str]:
    """Exit code and standard error of a command line; `before` are statements that run before it."""
    program = f"from warmlog import cli, natsserver\n{before}\nraise SystemExit(cli.main({list(words)!r}))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr.strip()


@pytest.mark.parametrize("command", ["dev", "demo"])
def test_a_missing_wheel_is_one_line_with_the_command_that_installs_it(command: str, tmp_path: Path) -> None:
    where = [f"--dir={tmp_path}"] if command == "dev" else []
    code, err = said([command, *where], before="natsserver.WHEEL = 'no-such-wheel'")
    assert (code, err.count("\n")) == (3, 0)
    assert "pip install" in err


def test_a_port_that_dev_cannot_have_is_one_line(tmp_path: Path) -> None:
    natsserver.require()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, err = said(["dev", f"--dir={tmp_path}", f"--nats-port={port}"])
    assert (code, err.count("\n")) == (3, 0)
    assert f"port {port} on 127.0.0.1 is in use" in err


def test_a_state_directory_that_cannot_be_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    code, err = said(["dev", f"--dir={tmp_path / 'file' / 'state'}"])
    assert (code, err.count("\n")) == (3, 0)
    assert "give --dir another" in err


TOOL = """
import sys, types
import structlog
from warmlog import cli, output
tool = types.ModuleType("warmlog.events")
tool.FLAGS = (output.FLAG,)
tool.run = lambda values, arguments: {}
sys.modules["warmlog.events"] = tool
raise SystemExit(cli.main(["events"]))
"""


def test_a_full_disk_behind_standard_output_is_one_line() -> None:
    with open("/dev/full", "w") as full:
        program = TOOL.format("output.show(1, form='human', human=str)")
        done = subprocess.run([sys.executable, "-c", program], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.stderr == "warmlog events: standard output cannot be written: No space left on device\n"
    assert done.returncode == 1


def test_nobody_reading_is_an_end_like_any_other() -> None:
    program = TOOL.format("[output.show('x' * 4096, form='human', human=str) for _ in range(10_000)]")
    tool = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert tool.stdout is not None
    assert tool.stderr is not None
    tool.stdout.readline()
    tool.stdout.close()
    assert tool.stderr.read() == ""
    assert tool.wait(20) == 0
    tool.stderr.close()


def test_trouble_of_a_tool_is_told_beside_its_output() -> None:
    program = TOOL.format("structlog.get_logger().warning('trouble') or 0")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == ""
    assert "trouble" in done.stderr
