"""The schemas of Kubernetes' own types: one JSON Schema document out of the package kubernetes-validate.

The newest release in the package is used. The package itself is never imported (it pulls in jsonschema): its file is
found and decoded at the first use, about 15 ms. Its descriptions are kept for `kubectl explain`.
"""

import re
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from devkube.schema import Schema

PREFIX = "#/$defs/"
# What the published document lacks: defaults of keys that identify a list's items (server-side apply needs them).
KEY_DEFAULTS = {
    ("io.k8s.api.core.v1.ContainerPort", "protocol"): "TCP",
    ("io.k8s.api.core.v1.ServicePort", "protocol"): "TCP",
    ("io.k8s.api.core.v1.EndpointPort", "protocol"): "TCP",
}


@cache
def document() -> Mapping[str, Any]:
    """`{"$defs": {name: schema}}`. RuntimeError where the package is not installed."""
    found: Mapping[str, Any] = msgspec.json.decode(_newest().read_bytes())
    for (name, field), value in KEY_DEFAULTS.items():
        found["$defs"][name]["properties"][field]["default"] = value
    return found


def _newest() -> Path:
    spec = find_spec("kubernetes_validate")
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError(
            "devkube needs the schemas of the package kubernetes-validate: pip install kubernetes-validate"
        )
    folder = Path(spec.submodule_search_locations[0]) / "kubernetes-json-schema"
    versions = [p for p in folder.iterdir() if re.fullmatch(r"v\d+\.\d+\.\d+-local", p.name)]
    return max(versions, key=lambda p: [int(n) for n in re.findall(r"\d+", p.name)]) / "_definitions.json"


@cache
def _by_kind() -> Mapping[tuple[str, str, str], str]:
    found = {}
    for name, node in document()["$defs"].items():
        for gvk in node.get("x-kubernetes-group-version-kind", ()):
            found[gvk["group"], gvk["version"], gvk["kind"]] = name
    return found


def definition(group: str, version: str, kind: str) -> str:
    """The name under `$defs` of a kind; KeyError where the document has none."""
    return _by_kind()[group, version, kind]


def schema_of(group: str, version: str, kind: str) -> Schema:
    return Schema({"$ref": PREFIX + definition(group, version, kind)}, document())
