"""`devkube` as a process: ready line, kubeconfig, SIGTERM, and how it refuses to start."""

import base64
import json
import os
import signal
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

COMMAND = [sys.executable, "-m", "devkube"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(("cmd", os.environ.get("PYTHONPATH", "")))}


def start(*flags: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([*COMMAND, *flags], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT)


@pytest.fixture
def process(tmp_path: Path) -> Iterator["subprocess.Popen[bytes]"]:
    started = start("--port", "0", "--kubeconfig", str(tmp_path / "deep" / "kubeconfig"))
    yield started
    started.kill()
    started.communicate()


def ready(process: "subprocess.Popen[bytes]") -> dict[str, Any]:
    assert process.stdout is not None
    told: dict[str, Any] = json.loads(process.stdout.readline())
    return told


def ask(config: Path, path: str) -> Any:
    """GET as the kubeconfig says."""
    read = json.loads(config.read_text())
    cluster, user = read["clusters"][0]["cluster"], read["users"][0]["user"]
    trust = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    request = urllib.request.Request(cluster["server"] + path, headers={"Authorization": f"Bearer {user['token']}"})
    return urllib.request.urlopen(request, context=trust, timeout=10)


def test_the_kubeconfig_leads_to_a_cluster_and_sigterm_ends_it_with_watches_open(
    process: "subprocess.Popen[bytes]", tmp_path: Path
) -> None:
    told = ready(process)
    assert told["event"] == "ready"
    config = tmp_path / "deep" / "kubeconfig"
    assert told["kubeconfig"] == str(config)
    with ask(config, "/api/v1/namespaces") as answer:
        found = json.load(answer)
    assert "default" in [item["metadata"]["name"] for item in found["items"]]
    authority = Path(told["certificate_authority"])
    assert authority.exists()
    with ask(config, "/api/v1/namespaces?watch=1") as watch:
        assert json.loads(watch.readline())["type"] == "ADDED"
        process.send_signal(signal.SIGTERM)
        watch.read()  # to a proper end
    assert process.wait(10) == 0
    assert process.stderr is not None
    assert process.stderr.read() == b""
    assert not authority.exists()


@pytest.mark.parametrize(
    ("flags", "code", "told"),
    [
        (["--port", "99999"], 2, "no port"),
        (["--webhook-service", "hook"], 2, "'hook' is not NAMESPACE/NAME[:PORT]=HOST:PORT"),
        (["--port", "0", "--simulate", "--node-label", "a b=c"], 1, "metadata.labels"),
        (["--port", "0", "--listen", "192.0.2.1"], 1, "cannot listen on 192.0.2.1"),
        (["--port", "0", "--directory", "/dev/null/x"], 1, "/dev/null/x"),
    ],
)
def test_what_keeps_it_from_starting_is_one_line(flags: list[str], code: int, told: str) -> None:
    with start(*flags) as process:
        out, error = process.communicate(timeout=20)
    assert (process.returncode, out) == (code, b"")
    assert told in error.decode()
    assert "Traceback" not in error.decode()
    assert len(error.decode().splitlines()[-1:]) == 1
