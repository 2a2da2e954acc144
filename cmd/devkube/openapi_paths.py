"""The `paths` of an OpenAPI document: one item per URL form of a resource, with the operations it has.

`kubectl explain` finds a type by them, client-side apply the patch types, and the check of `--validate` whether PATCH
takes `fieldValidation`. Forms: api/openapi-spec/v3 in upstream's tree.
"""

from collections.abc import Callable, Iterable
from typing import Final

from devkube.kinds import Object, Resource, Subresource
from devkube.negotiation import JSON, PATCHES, YAML

NameOf = Callable[[str, str, str], str]  # group, version, kind -> definition name
ACTIONS: Final = {
    "get": ("get", "get"),
    "update": ("put", "put"),
    "patch": ("patch", "patch"),
    "delete": ("delete", "delete"),
    "list": ("get", "list"),
    "create": ("post", "post"),
    "deletecollection": ("delete", "deletecollection"),
}
SPOKEN: Final = {"get": "read", "update": "replace", "deletecollection": "delete"}  # in operation ids
ON_ONE: Final = ("get", "update", "patch", "delete")
ON_ALL: Final = ("list", "create", "deletecollection")
QUERY: Final = {
    "create": ("dryRun", "fieldManager", "fieldValidation"),
    "update": ("dryRun", "fieldManager", "fieldValidation"),
    "patch": ("dryRun", "fieldManager", "fieldValidation", "force"),
    "delete": ("dryRun", "gracePeriodSeconds", "propagationPolicy"),
    "deletecollection": ("dryRun", "fieldSelector", "gracePeriodSeconds", "labelSelector", "propagationPolicy"),
    "list": (
        "allowWatchBookmarks",
        "continue",
        "fieldSelector",
        "labelSelector",
        "limit",
        "resourceVersion",
        "resourceVersionMatch",
        "sendInitialEvents",
        "timeoutSeconds",
        "watch",
    ),
}
TYPES: Final = {
    "allowWatchBookmarks": "boolean",
    "force": "boolean",
    "gracePeriodSeconds": "integer",
    "limit": "integer",
    "sendInitialEvents": "boolean",
    "timeoutSeconds": "integer",
    "watch": "boolean",
}


def paths_of(served: Iterable[Resource], name_of: NameOf, prefix: str) -> Object:
    found: Object = {}
    for one in served:
        root = f"/apis/{one.group}/{one.version}" if one.group else f"/api/{one.version}"
        if one.namespaced and "list" in one.verbs:
            found[f"{root}/{one.plural}"] = _item(one, None, ("list",), ON_ALL, (), name_of, prefix)
        base = f"{root}/namespaces/{{namespace}}/{one.plural}" if one.namespaced else f"{root}/{one.plural}"
        inside = ("namespace",) if one.namespaced else ()
        found[base] = _item(one, None, one.verbs, ON_ALL, inside, name_of, prefix)
        named = (*inside, "name")
        found[f"{base}/{{name}}"] = _item(one, None, one.verbs, ON_ONE, named, name_of, prefix)
        for sub in one.subresources.values():
            verbs = (*ON_ONE, "create")
            found[f"{base}/{{name}}/{sub.name}"] = _item(one, sub, sub.verbs, verbs, named, name_of, prefix)
    return {path: item for path, item in sorted(found.items()) if len(item) > 1}


def _item(
    resource: Resource,
    sub: Subresource | None,
    has: Iterable[str],
    possible: Iterable[str],
    parameters: tuple[str, ...],
    name_of: NameOf,
    prefix: str,
) -> Object:
    in_path = [{"name": one, "in": "path", "required": True, **_schema("string", prefix)} for one in parameters]
    item: Object = {"parameters": in_path}
    for verb in possible:
        if verb in has:
            method, action = ACTIONS[verb]
            item[method] = _operation(resource, sub, verb, action, name_of, prefix, inside="namespace" in parameters)
    return item


def _operation(
    resource: Resource, sub: Subresource | None, verb: str, action: str, name_of: NameOf, prefix: str, *, inside: bool
) -> Object:
    group, version, kind = resource.group, resource.version, resource.kind
    if sub is not None:
        group, version, kind = sub.group if sub.version else group, sub.version or version, sub.kind
    answer = kind
    if verb == "list":
        answer = resource.listing
    reference = {"$ref": prefix + name_of(group, version, answer)}
    words = resource.group.removesuffix(".k8s.io").split(".") if resource.group else ["core"]
    owner = "".join((words[0], *(word.capitalize() for word in words[1:])))
    scope = "Namespaced" if inside else ""
    where = "ForAllNamespaces" if resource.namespaced and not inside else ""
    said = f"{SPOKEN.get(verb, verb)}{owner[0].upper()}{owner[1:]}{resource.version.capitalize()}"
    said += "Collection" if verb == "deletecollection" else ""
    operation: Object = {
        "description": f"{verb} {sub.name + ' of ' if sub else ''}{resource.kind}",
        "operationId": f"{said}{scope}{resource.kind}{where}{sub.name.capitalize() if sub else ''}",
        "tags": [f"{owner}_{resource.version}"],
        "parameters": [
            {"name": q, "in": "query", **_schema(TYPES.get(q, "string"), prefix)} for q in QUERY.get(verb, ())
        ],
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": {"group": group, "version": version, "kind": kind},
    }
    takes = _takes(resource, verb)
    if prefix.startswith("#/components"):
        operation["responses"] = {"200": {"description": "OK", "content": {JSON: {"schema": reference}}}}
        if takes:
            operation["requestBody"] = {"required": True, "content": {one: {"schema": reference} for one in takes}}
    else:
        operation |= {
            "responses": {"200": {"description": "OK", "schema": reference}},
            "produces": [JSON, YAML],
            "consumes": list(takes) or ["*/*"],
        }
    return operation


def _takes(resource: Resource, verb: str) -> tuple[str, ...]:
    if verb == "patch":
        return tuple(one for one in PATCHES if not (resource.custom and "strategic" in one))
    return (JSON, YAML) if verb in ("create", "update") else ()


def _schema(kind: str, prefix: str) -> Object:
    return {"schema": {"type": kind}} if prefix.startswith("#/components") else {"type": kind}
