"""OpenAPI v3 of what is served, a document per group and version, from the catalog.

kubectl reads it for `explain`, for client-side apply (merge keys) and to learn that a PATCH knows `fieldValidation`.
Built-in types come from the one schema document that also validates them, with what JSON Schema says differently
translated back; types of CRDs are their own schema with apiVersion, kind and metadata put in, as upstream publishes
them. Left out: version 2 (but for the empty document that kubectl asks for), parameters of reads, operation ids.
"""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from devkube.builtin.document import document
from devkube.errors import no_such_path
from devkube.kinds import Catalog, Object, Resource, Subresource
from devkube.negotiation import JSON, PATCHES, YAML
from devkube.schema import Node

INFO: Final = {"title": "Kubernetes", "version": "v1.36.0"}
META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
GVK: Final = "x-kubernetes-group-version-kind"
PREFIX: Final = "#/components/schemas/"
#: Every document has these, whatever its resources refer to.
ALWAYS: Final = tuple(META + kind for kind in ("ObjectMeta", "ListMeta", "Status", "DeleteOptions"))
_ON_ONE: Final = {"get": "get", "update": "put", "patch": "patch", "delete": "delete"}
_ON_ALL: Final = {"list": "get", "create": "post", "deletecollection": "delete"}
_OPTIONS: Final = ("dryRun", "fieldManager", "fieldValidation", "force")


class OpenApi:
    """Makes the documents; whoever serves them keeps them until the catalog changes (`discovery.Cache`)."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._names: dict[tuple[str, str, str], str] = {}

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
        paths = {where: item for one in served for where, item in self._paths(one)}
        schemas = {"schemas": self._schemas(served)}
        return {"openapi": "3.0.0", "info": INFO, "paths": dict(sorted(paths.items())), "components": schemas}

    def _paths(self, one: Resource) -> Iterator[tuple[str, Object]]:
        base = f"/{_path(one)}/{'namespaces/{namespace}/' if one.namespaced else ''}{one.plural}"
        if one.namespaced and "list" in one.verbs:
            yield f"/{_path(one)}/{one.plural}", self._item(one, None, ("list",), _ON_ALL)
        yield base, self._item(one, None, one.verbs, _ON_ALL)
        yield f"{base}/{{name}}", self._item(one, None, one.verbs, _ON_ONE)
        for sub in one.subresources.values():
            yield f"{base}/{{name}}/{sub.name}", self._item(one, sub, sub.verbs, {**_ON_ONE, "create": "post"})

    def _item(
        self, resource: Resource, sub: Subresource | None, has: tuple[str, ...], possible: Mapping[str, str]
    ) -> Object:
        return {method: self._operation(resource, sub, verb) for verb, method in possible.items() if verb in has}

    def _operation(self, resource: Resource, sub: Subresource | None, verb: str) -> Object:
        gvk = _kind(resource, sub) if sub else (resource.group, resource.version, resource.kind)
        answer = (*gvk[:2], resource.listing) if verb == "list" else gvk
        schema = {"schema": {"$ref": PREFIX + self._name(*answer)}}
        takes: tuple[str, ...] = (JSON, YAML) if verb in ("create", "update") else ()
        if verb == "patch":
            takes = tuple(one for one in PATCHES if not (resource.custom and "strategic" in one))
        operation: Object = {
            "parameters": [{"name": one, "in": "query", "schema": {"type": "string"}} for one in _OPTIONS if takes],
            "responses": {"200": {"description": "OK", "content": {JSON: schema}}},
            "x-kubernetes-action": verb,
            GVK: dict(zip(("group", "version", "kind"), gvk, strict=True)),
        }
        if takes:
            operation["requestBody"] = {"required": True, "content": dict.fromkeys(takes, schema)}
        return operation

    def _schemas(self, served: list[Resource]) -> Object:
        """What the resources are and everything that refers to, by definition name."""
        builtin, wanted, made = document()["$defs"], list(ALWAYS), dict[str, Any]()
        for one in served:
            if one.custom:
                made[self._name(one.group, one.version, one.kind)] = custom_schema(one)
                made[self._name(one.group, one.version, one.listing)] = _custom_list(one)
            wanted += [self._name(one.group, one.version, kind) for kind in (one.kind, one.listing)]
            wanted += [self._name(*_kind(one, sub)) for sub in one.subresources.values()]
        while wanted:
            name = wanted.pop()
            if name not in made and name in builtin:
                made[name] = translate(builtin[name])
                wanted += _references(builtin[name])
        return dict(sorted(made.items()))

    def _name(self, group: str, version: str, kind: str) -> str:
        """The definition's name: Go's package path of a built-in type, the reversed group of a custom one."""
        if not self._names:
            for name, node in document()["$defs"].items():
                for gvk in node.get(GVK, ()):
                    self._names.setdefault((gvk["group"], gvk["version"], gvk["kind"]), name)
        known = self._names.get((group, version, kind))
        return known or ".".join((*reversed(group.split(".")), version, kind))


def _kind(resource: Resource, sub: Subresource) -> tuple[str, str, str]:
    group, version = (sub.group, sub.version) if sub.version else (resource.group, resource.version)
    return group, version, sub.kind


def translate(node: Node) -> Object:
    """A node of the built-in document as OpenAPI: no null types, open objects, references as OpenAPI writes them."""
    out: Object = {}
    for key, value in node.items():
        if key == "$ref":
            continue
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
        elif key != "additionalProperties" or value is not False:
            out[key] = value
    if [one.get("type") for one in out.get("oneOf", ())] == ["string", "integer"]:
        out["format"] = "int-or-string"
    if "$ref" not in node:
        return out
    reference = {"$ref": PREFIX + node["$ref"].rsplit("/", 1)[1]}
    return {"allOf": [reference], **out} if out else reference  # beside a reference OpenAPI 3 ignores everything


def _references(node: Any) -> Iterator[str]:
    """Names of all definitions a node refers to directly."""
    if isinstance(node, Mapping):
        for key, value in node.items():
            if key == "$ref" and isinstance(value, str):
                yield value.rsplit("/", 1)[1]
            else:
                yield from _references(value)
    elif isinstance(node, list):
        for one in node:
            yield from _references(one)


def custom_schema(resource: Resource) -> Object:
    """A CRD's version as published."""
    node = dict(resource.rules.schema.node)
    properties = {name: _embedded(child) for name, child in (node.get("properties") or {}).items()}
    gvk = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    return {**node, "type": "object", "properties": {**properties, **_type_meta("ObjectMeta")}, GVK: [gvk]}


def _custom_list(resource: Resource) -> Object:
    item = {"$ref": PREFIX + ".".join((*reversed(resource.group.split(".")), resource.version, resource.kind))}
    properties = {**_type_meta("ListMeta"), "items": {"type": "array", "items": item}}
    gvk = {"group": resource.group, "version": resource.version, "kind": resource.listing}
    return {"type": "object", "required": ["items"], "properties": properties, GVK: [gvk]}


def _embedded(node: Any) -> Any:
    """Embedded resources get their type and metadata described too."""
    if not isinstance(node, Mapping):
        return node
    made: Object = {
        key: _embedded(one) if key in ("items", "additionalProperties") else one for key, one in node.items()
    }
    if "properties" in made:
        made["properties"] = {name: _embedded(child) for name, child in made["properties"].items()}
    if made.get("x-kubernetes-embedded-resource"):
        made["properties"] = {**(made.get("properties") or {}), **_type_meta("ObjectMeta")}
    return made


def _type_meta(meta: str) -> Object:
    about = "Standard metadata: name, labels, annotations, owners and what the server keeps."
    return {
        "apiVersion": {"type": "string", "description": "Group and version of this representation of the object."},
        "kind": {"type": "string", "description": "Name of the type of this object, in CamelCase."},
        "metadata": {"allOf": [{"$ref": f"{PREFIX}{META}{meta}"}], "description": about},
    }


def _path(resource: Resource) -> str:
    return f"apis/{resource.group}/{resource.version}" if resource.group else f"api/{resource.version}"


def _fingerprint(served: list[Resource]) -> str:
    """Changes when the document would: clients cache by it."""
    told = [
        [r.plural, r.kind, r.verbs, sorted(r.subresources), r.rules.schema.node if r.custom else ""] for r in served
    ]
    return hashlib.sha256(msgspec.json.encode(told)).hexdigest()[:32].upper()
