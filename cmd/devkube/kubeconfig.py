"""The kubeconfig a start writes: one cluster, one user with a bearer token, one context named devkube.

It is JSON, which every reader of YAML reads, so that a start needs no YAML library.
"""

import base64
import json
from pathlib import Path
from typing import Any

from devkube.certificates import write_private

NAME = "devkube"


def document(url: str, authority: bytes, token: str, *, namespace: str = "default") -> dict[str, Any]:
    """`authority` is the CA's certificate in PEM; it is embedded, so the file works wherever it is copied."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": NAME,
                "cluster": {"server": url, "certificate-authority-data": base64.b64encode(authority).decode()},
            }
        ],
        "users": [{"name": NAME, "user": {"token": token}}],
        "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": NAME, "namespace": namespace}}],
        "current-context": NAME,
    }


def write(path: Path, content: dict[str, Any]) -> None:
    """Readable by its owner only: it holds the admin's token. Missing folders are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_private(path, json.dumps(content, indent=2).encode() + b"\n")
