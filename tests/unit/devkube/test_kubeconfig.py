"""The kubeconfig: what clients read in it."""

import base64
import json
import stat
from pathlib import Path

import yaml

from devkube import certificates


def test_it_is_json_and_yaml_and_private(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "kubeconfig"
    certificates.write_kubeconfig(path, "https://127.0.0.1:6443", b"PEM", "secret")
    read = json.loads(path.read_bytes())
    assert read == yaml.safe_load(path.read_text())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    cluster = read["clusters"][0]["cluster"]
    assert cluster["server"] == "https://127.0.0.1:6443"
    assert base64.b64decode(cluster["certificate-authority-data"]) == b"PEM"
    assert read["users"][0]["user"] == {"token": "secret"}
    context = next(c for c in read["contexts"] if c["name"] == read["current-context"])
    assert context["context"] == {"cluster": "devkube", "user": "devkube", "namespace": "default"}
