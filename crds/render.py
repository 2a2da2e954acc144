"""CRDs as YAML, written from the Structs: `python -m crds.render` rewrites crds/*.yaml; a test compares.

How a Struct becomes a structural schema; names, columns and versions of each kind are in definitions.

Rules: apiextensions.k8s.io/v1.
"""

import inspect
import typing
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from crds import schema
from crds.definitions import DEFINITIONS, Column, Definition

HERE: Final = Path(__file__).parent
Document = dict[str, Any]


def documents() -> dict[str, Document]:
    """File name -> CRD."""
    return {f"{one.group}_{one.plural}.yaml": definition(one) for one in DEFINITIONS}


def definition(one: Definition) -> Document:
    properties: Document = {
        "apiVersion": {"type": "string", "description": "Version of this representation."},
        "kind": {"type": "string", "description": "Kind of this object."},
        "metadata": {"type": "object"},
        "spec": struct(one.spec),
    }
    if one.status is not None:
        properties["status"] = struct(one.status)
    root: Document = {"type": "object", "description": one.doc, "properties": properties}
    if one.spec_required:
        root["required"] = ["spec"]
    if one.rules:
        root["x-kubernetes-validations"] = [_rule(rule) for rule in one.rules]
    versions = [
        {
            "name": version,
            "served": True,
            "storage": version == one.versions[-1],
            "schema": {"openAPIV3Schema": root},
            **({"subresources": {"status": {}}} if one.status is not None else {}),
            "additionalPrinterColumns": [_column(column) for column in one.columns],
        }
        for version in one.versions
    ]
    names = {"kind": one.kind, "listKind": f"{one.kind}List", "plural": one.plural, "singular": one.kind.lower()}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": one.name, "labels": {"app.kubernetes.io/part-of": "warmlog"}},
        "spec": {
            "group": one.group,
            "names": {**names, **({"shortNames": list(one.short)} if one.short else {})},
            "scope": "Cluster" if one.cluster else "Namespaced",
            "versions": versions,
            **({"conversion": {"strategy": "None"}} if len(versions) > 1 else {}),
        },
    }


def _column(column: Column) -> Document:
    found = {"name": column.name, "type": column.type, "jsonPath": column.path}
    return {**found, **({"description": column.description} if column.description else {})}


def _rule(rule: schema.Rule) -> Document:
    return {"rule": rule.cel, "message": rule.message, **({"fieldPath": rule.field} if rule.field else {})}


def struct(given: type[msgspec.Struct]) -> Document:
    """A structural schema of type object."""
    found: Document = {"type": "object"}
    doc = inspect.cleandoc(given.__doc__ or "").split("\n\n")[0].replace("\n", " ")
    if doc:
        found["description"] = doc
    fields = list(schema.fields(given))
    if fields:
        found["properties"] = {one.name: _value(one.type, one.of) for one in fields}
    if getattr(given, "OPEN", False):
        found["x-kubernetes-preserve-unknown-fields"] = True
    if required := [one.name for one in fields if one.of.required]:
        found["required"] = required
    if rules := getattr(given, "RULES", ()):
        found["x-kubernetes-validations"] = [_rule(rule) for rule in rules]
    return found


_TYPES: Final = {str: "string", int: "integer", bool: "boolean", float: "number"}


def _value(hint: Any, said: schema.Is) -> Document:
    found = _shape(hint, said)
    if said.doc:
        found = {**found, "description": said.doc}
    if said.default is not msgspec.UNSET:
        found["default"] = said.default
    if said.rules:
        found["x-kubernetes-validations"] = [_rule(rule) for rule in said.rules]
    return found


def _shape(hint: Any, said: schema.Is) -> Document:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if said.format == "quantity":
        return {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}
    if origin is list:
        return _list(arguments[0], said)
    if origin is dict:
        found: Document = {"type": "object"}
        if said.free:
            return {**found, "x-kubernetes-preserve-unknown-fields": True}
        if said.max_properties != 0:
            found["additionalProperties"] = _value(*schema.unwrap(arguments[1]))
        bounds = {"minProperties": said.min_properties, "maxProperties": said.max_properties}
        return {**found, **{name: value for name, value in bounds.items() if value is not None}}
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return struct(hint)
    return _scalar(hint, said)


def _list(item: Any, said: schema.Is) -> Document:
    items = {"type": "object", "x-kubernetes-preserve-unknown-fields": True} if said.free else None
    found: Document = {"type": "array", "items": items or _value(*schema.unwrap(item))}
    if said.min_items is not None:
        found["minItems"] = said.min_items
    if said.max_items is not None:
        found["maxItems"] = said.max_items
    if said.atomic:
        found["x-kubernetes-list-type"] = "atomic"
    if said.map_keys:
        found |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(said.map_keys)}
    return found


def _scalar(hint: Any, said: schema.Is) -> Document:
    found: Document = {"type": _TYPES[hint]}
    if said.enum:
        found["enum"] = list(said.enum)
    if said.pattern:
        found["pattern"] = said.pattern
    if said.format and said.format != "duration":  # Go's durations are no format that the API server knows
        found["format"] = said.format
    most = said.maximum
    if most == 2**63 - 1:  # API servers keep bounds as float64, where this one is above every int64
        found["format"], most = "int64", None
    for name, value in (
        ("minimum", said.minimum), ("maximum", most), ("minLength", said.min_length),
        ("maxLength", said.max_length),
    ):  # fmt: skip
        if value is not None:
            found[name] = value
    return found


class _Dumper(yaml.SafeDumper):
    """Without anchors: two versions that share a schema are written out twice."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def page(document: Document) -> str:
    head = "# Written by `python -m crds.render`; edit the Structs, not this file.\n"
    return head + yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True)


def main() -> None:
    for name, document in documents().items():
        (HERE / name).write_text(page(document))


if __name__ == "__main__":
    main()
