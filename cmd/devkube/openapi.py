"""OpenAPI of what is served: version 3 per group and version, and version 2 as one document, both from the catalog.

kubectl reads it for `explain`, for client-side apply (merge keys) and to learn that a PATCH knows `fieldValidation`.
Built-in types come from the one schema document that also validates them, with what JSON Schema says differently
translated back; types of CRDs are their own schema with apiVersion, kind and metadata put in, as upstream publishes
them.

Left out: protobuf forms, parameters' descriptions, operations that this server has not.
"""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from devkube.errors import no_such_path
from devkube.kinds import Catalog, Object, Resource
from devkube.openapi_paths import paths_of
from devkube.schema import Node

INFO: Final = {"title": "Kubernetes", "version": "v1.36.0"}
META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
GVK: Final = "x-kubernetes-group-version-kind"
V3: Final = "#/components/schemas/"
V2: Final = "#/definitions/"
#: Every document has these, whatever its resources refer to.
ALWAYS: Final = tuple(META + kind for kind in ("ObjectMeta", "ListMeta", "Status", "DeleteOptions", "Patch"))


class OpenApi:
    """Makes the documents; whoever serves them keeps them until the catalog changes (`discovery.Cache`)."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._names: dict[int, dict[tuple[str, str, str], str]] = {}

    def index(self) -> Object:
        """GET /openapi/v3: where each group and version has its document."""
        found: dict[str, list[Resource]] = {}
        for one in self._catalog:
            found.setdefault(_path(one), []).append(one)
        return {
            "paths": {
                path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={_fingerprint(served)}"}
                for path, served in found.items()
            }
        }

    def v3(self, path: str) -> Object:
        """GET /openapi/v3/PATH, PATH being `api/v1` or `apis/GROUP/VERSION`."""
        served = [one for one in self._catalog if _path(one) == path]
        if not served:
            raise no_such_path()
        return {
            "openapi": "3.0.0",
            "info": INFO,
            "paths": paths_of(served, self._name, V3),
            "components": {
                "schemas": self._schemas(served, V3),
                "securitySchemes": {"BearerToken": {"type": "apiKey", "in": "header", "name": "authorization"}},
            },
        }

    def v2(self) -> Object:
        served = list(self._catalog)
        paths: Object = {}
        for one in served:
            if "patch" in one.verbs:
                paths |= paths_of([one], self._name, V2)
        return {"swagger": "2.0", "info": INFO, "paths": paths, "definitions": self._schemas(served, V2)}

    def _schemas(self, served: list[Resource], prefix: str) -> Object:
        """What the resources are and everything that refers to, by definition name."""
        document = self._builtin_document()
        wanted = [name for name in ALWAYS if name in document]
        made: Object = {META + "Patch": {"type": "object", "description": "A patch, see the content types."}}
        for one in served:
            if one.custom:
                made[self._name(one.group, one.version, one.kind)] = custom_schema(one, prefix)
                made[self._name(one.group, one.version, one.listing)] = custom_list_schema(one, prefix)
            kinds = [(one.group, one.version, one.kind), (one.group, one.version, one.listing)]
            for sub in one.subresources.values():
                kinds.append((sub.group, sub.version, sub.kind) if sub.version else (one.group, one.version, sub.kind))
            wanted += [self._name(*kind) for kind in kinds]
        while wanted:
            name = wanted.pop()
            if name not in made and name in document:
                made[name] = translate(document[name], prefix)
                wanted += references(document[name])
        return dict(sorted(made.items()))

    def _name(self, group: str, version: str, kind: str) -> str:
        """The definition's name: Go's package path of a built-in type, the reversed group of a custom one."""
        return self._builtin_name(group, version, kind) or ".".join((*reversed(group.split(".")), version, kind))

    def _builtin_name(self, group: str, version: str, kind: str) -> str | None:
        document = self._builtin_document()
        names = self._names.get(id(document))
        if names is None:
            names = self._names[id(document)] = {}
            for name, node in document.items():
                for gvk in node.get(GVK, ()):
                    names.setdefault((gvk["group"], gvk["version"], gvk["kind"]), name)
        return names.get((group, version, kind))

    def _builtin_document(self) -> Node:
        for one in self._catalog:
            found: Node | None = one.rules.schema.document.get("$defs") if not one.custom else None
            if found:
                return found
        return {}


def translate(node: Node, prefix: str) -> Object:
    """A node of the built-in document as OpenAPI: no null types, references as the version of OpenAPI writes them."""
    out: Object = {}
    for key, value in node.items():
        if key == "$ref":
            continue
        if key == "type" and isinstance(value, list):
            out[key] = next(one for one in value if one != "null")
        elif key == "properties":
            out[key] = {name: _property(name, child, prefix) for name, child in value.items()}
        elif key in ("items", "additionalProperties") and isinstance(value, Mapping):
            out[key] = translate(value, prefix)
        elif key in ("oneOf", "anyOf", "allOf"):
            out[key] = [translate(one, prefix) for one in value]
        elif key == "additionalProperties" and value is False:
            continue  # strictness is the validator's; upstream publishes open objects
        else:
            out[key] = value
    if [one.get("type") for one in out.get("oneOf", ())] == ["string", "integer"]:
        out["format"] = "int-or-string"
        if prefix == V2:
            out = {"type": "string", **{k: v for k, v in out.items() if k != "oneOf"}}
    if "$ref" not in node:
        return out
    reference = {"$ref": prefix + node["$ref"].rsplit("/", 1)[1]}
    # Beside a reference OpenAPI 3 ignores everything, so upstream wraps it; version 2 keeps both.
    return reference | out if prefix == V2 or not out else {"allOf": [reference], **out}


def _property(name: str, node: Node, prefix: str) -> Object:
    made = translate(node, prefix)
    if name in ("apiVersion", "kind"):
        made.pop("enum", None)  # the validator's, not upstream's
    return made


def references(node: Any) -> Iterator[str]:
    """Names of all definitions a node refers to directly."""
    if isinstance(node, Mapping):
        for key, value in node.items():
            if key == "$ref" and isinstance(value, str):
                yield value.rsplit("/", 1)[1]
            else:
                yield from references(value)
    elif isinstance(node, list):
        for one in node:
            yield from references(one)


def custom_schema(resource: Resource, prefix: str) -> Object:
    """A CRD's version as published. For OpenAPI 2, a type that keeps unknown fields says nothing of its fields, else
    kubectl would take the list for complete."""
    node = dict(resource.rules.schema.node)
    gvk = [{"group": resource.group, "version": resource.version, "kind": resource.kind}]
    if not node or (prefix == V2 and node.get("x-kubernetes-preserve-unknown-fields")):
        return {"type": "object", GVK: gvk}
    properties = {name: _embedded(child, prefix) for name, child in (node.get("properties") or {}).items()}
    node["properties"] = {**properties, **_type_meta(prefix)}
    return {**node, "type": "object", GVK: gvk}


def custom_list_schema(resource: Resource, prefix: str) -> Object:
    item = prefix + ".".join((*reversed(resource.group.split(".")), resource.version, resource.kind))
    return {
        "type": "object",
        "description": f"{resource.listing} is a list of {resource.kind}",
        "required": ["items"],
        "properties": {
            **_type_meta(prefix, "ListMeta"),
            "items": {"type": "array", "items": {"$ref": item}, "description": f"List of {resource.plural}."},
        },
        GVK: [{"group": resource.group, "version": resource.version, "kind": resource.listing}],
    }


def _embedded(node: Any, prefix: str) -> Any:
    """Embedded resources get their type and metadata described too."""
    if not isinstance(node, Mapping):
        return node
    made: Object = dict(node)
    if "properties" in made:
        made["properties"] = {name: _embedded(child, prefix) for name, child in made["properties"].items()}
    for key in ("items", "additionalProperties"):
        if key in made:
            made[key] = _embedded(made[key], prefix)
    if made.get("x-kubernetes-embedded-resource"):
        made["properties"] = {**(made.get("properties") or {}), **_type_meta(prefix)}
        made["required"] = sorted({*(made.get("required") or ()), "apiVersion", "kind"})
    return made


def _type_meta(prefix: str, meta: str = "ObjectMeta") -> Object:
    reference = {"$ref": f"{prefix}{META}{meta}"}
    about = "Standard metadata: name, labels, annotations, owners and what the server keeps."
    return {
        "apiVersion": {"type": "string", "description": "Group and version of this representation of the object."},
        "kind": {"type": "string", "description": "Name of the type of this object, in CamelCase."},
        "metadata": {**reference, "description": about}
        if prefix == V2
        else {"allOf": [reference], "description": about},
    }


def _path(resource: Resource) -> str:
    return f"apis/{resource.group}/{resource.version}" if resource.group else f"api/{resource.version}"


def _fingerprint(served: list[Resource]) -> str:
    """Changes when the document would: clients cache by it."""
    told = [
        [r.plural, r.kind, r.verbs, sorted(r.subresources), r.rules.schema.node if r.custom else ""] for r in served
    ]
    return hashlib.sha256(msgspec.json.encode(told)).hexdigest()[:32].upper()
