"""OpenAPI v3 of what is served, a document per group and version, from the catalog.

kubectl reads it for `explain`, for client-side apply (merge keys) and to learn that a PATCH knows `fieldValidation`.
Built-in types come from the one schema document that also validates them, with what JSON Schema says differently
translated back; types of CRDs are their own schema with apiVersion, kind and metadata put in, as upstream publishes
them. Left out: version 2 (but for the empty document that kubectl asks for), parameters of reads, operation ids, what
operations take and return but for PATCH, subresources, types of lists.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from devkube.builtin.document import document
from devkube.errors import no_such_path
from devkube.kinds import Catalog, Object, Resource
from devkube.negotiation import PATCHES
from devkube.schema import Node

INFO: Final = {"title": "Kubernetes", "version": "v1.36.0"}
OBJECT_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
GVK: Final = "x-kubernetes-group-version-kind"
PREFIX: Final = "#/components/schemas/"
_OPTIONS: Final = ("dryRun", "fieldManager", "fieldValidation", "force")


def index(catalog: Catalog) -> Object:
    """GET /openapi/v3: where each group and version has its document. Without a hash clients ask with ETags."""
    return {"paths": {path: {"serverRelativeURL": f"/openapi/v3/{path}"} for path in map(_path, catalog)}}


def v3(catalog: Catalog, path: str) -> Object:
    """GET /openapi/v3/PATH, PATH being `api/v1` or `apis/GROUP/VERSION`."""
    served = [one for one in catalog if _path(one) == path]
    if not served:
        raise no_such_path()
    paths = {where: item for one in served for where, item in _paths(one)}
    components = {"schemas": _schemas(served)}
    return {"openapi": "3.0.0", "info": INFO, "paths": dict(sorted(paths.items())), "components": components}


def _paths(one: Resource) -> Iterator[tuple[str, Object]]:
    """What kubectl looks up: the kind behind a path, and what a PATCH takes."""
    base = f"/{_path(one)}/{'namespaces/{namespace}/' if one.namespaced else ''}{one.plural}"
    plain = {"responses": {"200": {"description": "OK"}}, GVK: _gvk(one)}
    takes = [patch for patch in PATCHES if not (one.custom and "strategic" in patch)]
    patch = {
        **plain,
        "parameters": [{"name": name, "in": "query", "schema": {"type": "string"}} for name in _OPTIONS],
        "requestBody": {"content": {patch: {"schema": {"type": "object"}} for patch in takes}},
    }
    yield base, {"get": plain, "post": plain}
    yield f"{base}/{{name}}", {"get": plain, "put": plain, "patch": patch, "delete": plain}


def _schemas(served: list[Resource]) -> Object:
    """What the resources are and everything that refers to, by definition name."""
    custom = [one for one in served if one.custom]
    made = {".".join((*reversed(one.group.split(".")), one.version, one.kind)): _custom(one) for one in custom}
    builtin, kinds = document()["$defs"], [_gvk(one) for one in served if not one.custom]
    wanted = [name for name, node in builtin.items() if any(gvk in kinds for gvk in node.get(GVK, ()))]
    wanted.append(OBJECT_META)
    while wanted:
        name = wanted.pop()
        if name not in made:
            made[name] = translate(builtin[name])
            wanted += re.findall(r'"#/\$defs/([^"]+)"', msgspec.json.encode(builtin[name]).decode())
    return dict(sorted(made.items()))


def translate(node: Node) -> Object:
    """A node of the built-in document as OpenAPI: no null types, open objects, references as OpenAPI writes them."""
    out: Object = {}
    for key, value in node.items():
        if key == "type" and isinstance(value, list):
            out[key] = next(one for one in value if one != "null")
        elif key == "properties":
            out[key] = {name: translate(child) for name, child in value.items()}
            for name in out[key].keys() & {"apiVersion", "kind"}:
                out[key][name].pop("enum", None)  # the validator's, not upstream's
        elif key in ("items", "additionalProperties") and isinstance(value, Mapping):
            out[key] = translate(value)
        elif key in ("oneOf", "anyOf", "allOf"):
            out[key] = [translate(one) for one in value]
        elif key != "$ref" and (key != "additionalProperties" or value is not False):
            out[key] = value
    if [one.get("type") for one in out.get("oneOf", ())] == ["string", "integer"]:
        out["format"] = "int-or-string"
    if "$ref" not in node:
        return out
    reference = {"$ref": PREFIX + node["$ref"].rsplit("/", 1)[1]}
    return {"allOf": [reference], **out} if out else reference  # beside a reference OpenAPI 3 ignores everything


def _custom(resource: Resource) -> Object:
    """A CRD's version as published."""
    node, about = resource.rules.schema.node, "Standard metadata: name, labels, annotations, owners and the server's."
    properties = {
        **(node.get("properties") or {}),
        "apiVersion": {"type": "string", "description": "Group and version of this representation of the object."},
        "kind": {"type": "string", "description": "Name of the type of this object, in CamelCase."},
        "metadata": {"allOf": [{"$ref": PREFIX + OBJECT_META}], "description": about},
    }
    return {**node, "type": "object", "properties": properties, GVK: [_gvk(resource)]}


def _gvk(resource: Resource) -> dict[str, str]:
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}


def _path(resource: Resource) -> str:
    return f"apis/{resource.group}/{resource.version}" if resource.group else f"api/{resource.version}"
