"""The schemas of Kubernetes' own types: one JSON Schema document out of the package kubernetes-validate.

The newest release in the package is used. The package itself is never imported (it pulls in jsonschema): its file is
found and decoded at the first use, about 15 ms. Its descriptions are kept for `kubectl explain`.
"""

import re
from collections.abc import Mapping
from functools import cache
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import msgspec

from devkube.schema import Schema

PREFIX = "#/$defs/"


@cache
def document() -> Mapping[str, Any]:
    """`{"$defs": {name: schema}}`."""
    package = cast(ModuleSpec, find_spec("kubernetes_validate"))  # a dependency: it is there
    folder = Path(cast(str, package.origin)).parent / "kubernetes-json-schema"
    versions = [p for p in folder.iterdir() if re.fullmatch(r"v\d+\.\d+\.\d+-local", p.name)]
    newest = max(versions, key=lambda p: [int(n) for n in re.findall(r"\d+", p.name)])
    found: Mapping[str, Any] = msgspec.json.decode((newest / "_definitions.json").read_bytes())
    # What it lacks: defaults of keys that identify a list's items (server-side apply needs them).
    for name in ("ContainerPort", "ServicePort", "EndpointPort"):
        found["$defs"][f"io.k8s.api.core.v1.{name}"]["properties"]["protocol"]["default"] = "TCP"
    return found


@cache
def _by_kind() -> Mapping[tuple[str, str, str], str]:
    return {
        (gvk["group"], gvk["version"], gvk["kind"]): name
        for name, node in document()["$defs"].items()
        for gvk in node.get("x-kubernetes-group-version-kind", ())
    }


def schema_of(group: str, version: str, kind: str) -> Schema:
    """KeyError where the document has no such kind."""
    return Schema({"$ref": PREFIX + _by_kind()[group, version, kind]}, document())
