"""CRDs that a server must refuse, and how it says so. The happy paths are in the other files."""

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from devkube.builtin.catalog import BuiltinRules
from devkube.custom import definition, registry
from devkube.errors import StatusError
from tests.support.crds import crd, spec_of, version

OBJECT: dict[str, Any] = {"type": "object"}
ROOT = "spec.validation.openAPIV3Schema"  # where the schema stands that all versions share
STATUS: dict[str, Any] = {"subresources": {"status": {}}}


def told(made: Any, old: Any = None) -> list[str]:
    return [f"{cause.field}: {cause.message}" for cause in definition.validate(made, old, "")]


def refused(schema: Any, **rest: Any) -> list[str]:
    """Violations of a schema, without the path to it."""
    return [line.removeprefix(ROOT).removeprefix(".") for line in told(crd(version(schema, **rest)))]


def test_defaults() -> None:
    made = crd(version(OBJECT))
    assert made["spec"]["names"] == {"plural": "pools", "kind": "Pool", "singular": "pool", "listKind": "PoolList"}
    assert made["spec"]["conversion"] == {"strategy": "None"}
    assert told(made) == []


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"group": "single"}, 'spec.group: Invalid value: "single": should be a domain with at least one dot'),
        ({"group": ""}, 'spec.group: Invalid value: ""'),
        ({"group": "Up.case"}, 'spec.group: Invalid value: "Up.case": a lowercase RFC 1123 subdomain'),
        ({"scope": "Galaxy"}, 'spec.scope: Unsupported value: "Galaxy": supported values: "Cluster", "Namespaced"'),
        ({"scope": ""}, 'spec.scope: Unsupported value: ""'),
        ({"versions": []}, "spec.versions: Invalid value: []: must have exactly one version marked as storage version"),
        (
            {"names": {"plural": "pools", "kind": "Po_l"}},
            'spec.names.kind: Invalid value: "po_l": a DNS-1035 label must',
        ),
        (
            {"names": {"plural": "pools", "kind": "P", "listKind": "P"}},
            'spec.names.listKind: Invalid value: "P": kind and listKind may not be the same',
        ),
        (
            {"names": {"plural": "pools", "kind": "P", "shortNames": ["-"]}},
            'spec.names.shortNames[0]: Invalid value: "-"',
        ),
        (
            {"names": {"plural": "pools", "kind": "P", "categories": ["A"]}},
            'spec.names.categories[0]: Invalid value: "A"',
        ),
        ({"preserveUnknownFields": True}, "spec.preserveUnknownFields: Invalid value: true: cannot set to true"),
        ({"conversion": {"strategy": "Webhook"}}, "spec.conversion.strategy: Forbidden: devkube does not convert"),
        ({"conversion": {"strategy": "Magic"}}, 'spec.conversion.strategy: Unsupported value: "Magic"'),
    ],
    ids=str,
)
def test_spec(spec: Any, expected: str) -> None:
    assert any(line.startswith(expected) for line in told(crd(version(OBJECT), **spec)))


def test_the_name_is_plural_and_group() -> None:
    made = crd(version(OBJECT))
    made["metadata"]["name"] = "pool.example.com"
    assert told(made) == ['metadata.name: Invalid value: "pool.example.com": must be spec.names.plural+"."+spec.group']


@pytest.mark.parametrize(
    ("versions", "expected"),
    [
        ([version(OBJECT), version(OBJECT, "v2")], "must have exactly one version marked as storage version"),
        ([version(OBJECT, storage=False)], "must have exactly one version marked as storage version"),
        ([version(OBJECT), version(OBJECT, storage=False)], "must contain unique version names"),
        ([version(OBJECT, "1")], "a DNS-1035 label must consist of"),
        ([version(None)], "spec.versions[0].schema.openAPIV3Schema: Required value"),
        (
            [version(OBJECT, additionalPrinterColumns=[{"name": "A", "type": "text", "jsonPath": ".a"}])],
            'additionalPrinterColumns[0].type: Invalid value: "text": must be one of boolean,date,integer,number',
        ),
        (
            [version(OBJECT, additionalPrinterColumns=[{"name": "A", "type": "date", "jsonPath": "a"}])],
            "must be a simple json path starting with .",
        ),
        (
            [version(OBJECT, additionalPrinterColumns=[{"name": "A", "type": "date", "jsonPath": ".a[?(@"}])],
            "unrecognized column definition",
        ),
        (
            [
                version(
                    OBJECT, subresources={"scale": {"specReplicasPath": ".status.n", "statusReplicasPath": ".status.n"}}
                )
            ],
            "should be a json path under .spec",
        ),
        (
            [version(spec_of({"a": {"type": "number"}}), selectableFields=[{"jsonPath": ".spec.a"}])],
            "must point to a field of type string, boolean or integer",
        ),
        (
            [version(spec_of({}), selectableFields=[{"jsonPath": ".spec.b"}])],
            "must point to a field",
        ),
    ],
)
def test_versions(versions: Any, expected: str) -> None:
    assert any(expected in line for line in told(crd(*versions)))


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({}, "type: Required value: must not be empty"),
        ({"type": "string"}, 'type: Invalid value: "string": must be object at the root'),
        ({**OBJECT, "additionalProperties": OBJECT}, "additionalProperties: Forbidden: must not be used at the root"),
        ({**OBJECT, "nullable": True}, "nullable: Forbidden: nullable cannot be true at the root"),
        (
            {**OBJECT, "properties": {"a": {}}},
            "properties[a].type: Required value: must not be empty",
        ),
        ({**OBJECT, "properties": {"a": {"type": "array"}}}, "properties[a].items: Required value: must be specified"),
        (
            {**OBJECT, "properties": {"a": {"type": "array", "items": {}}}},
            "properties[a].items.type: Required value: must not be empty",
        ),
        (
            {**OBJECT, "properties": {"a": {"type": "text"}}},
            'properties[a].type: Unsupported value: "text": supported values',
        ),
        (
            {**OBJECT, "properties": {"a": {**OBJECT, "$ref": "#/x"}}},
            "properties[a].$ref: Forbidden: $ref is not supported",
        ),
        (
            {**OBJECT, "properties": {"a": {"type": "string", "pattern": "("}}},
            'properties[a].pattern: Invalid value: "(": must be a valid regular expression',
        ),
        (
            {**OBJECT, "properties": {"a": {"type": "array", "items": OBJECT, "uniqueItems": True}}},
            "properties[a].uniqueItems: Forbidden: uniqueItems is not supported",
        ),
        (
            {**OBJECT, "properties": {"a": {**OBJECT, "properties": {"b": OBJECT}, "additionalProperties": OBJECT}}},
            "properties[a].additionalProperties: Forbidden: is mutual exclusive with properties",
        ),
        (
            {**OBJECT, "properties": {"a": {**OBJECT, "x-kubernetes-preserve-unknown-fields": False}}},
            "properties[a].x-kubernetes-preserve-unknown-fields: Invalid value: false: must be true or undefined",
        ),
        (
            {**OBJECT, "properties": {"metadata": {**OBJECT, "properties": {"labels": OBJECT}}}},
            "properties[metadata]: Forbidden: must not specify anything other than name and generateName",
        ),
        (
            {**OBJECT, "properties": {"metadata": {**OBJECT, "default": {}}}},
            "properties[metadata]: Forbidden: must not specify anything other than name and generateName",
        ),
        ({**OBJECT, "oneOf": [{"properties": {"a": {}}}]}, "properties[a]: Required value: because it is defined in"),
        ({**OBJECT, "anyOf": [{"type": "object"}]}, "anyOf[0].type: Forbidden: must be empty to be structural"),
        (
            {**OBJECT, "not": {"properties": {"metadata": {}}}},
            "not.properties[metadata]: Forbidden: must not be specified in a",
        ),
        (
            {**OBJECT, "properties": {"a": {"type": "string", "x-kubernetes-embedded-resource": True}}},
            'properties[a].type: Invalid value: "string": must be object if x-kubernetes-embedded-resource is',
        ),
        (
            {**OBJECT, "properties": {"a": {**OBJECT, "x-kubernetes-embedded-resource": True}}},
            "properties[a].properties: Required value: must not be empty without x-kubernetes-preserve",
        ),
        (
            {
                **OBJECT,
                "properties": {"a": {"x-kubernetes-int-or-string": True, "x-kubernetes-preserve-unknown-fields": True}},
            },
            "properties[a].x-kubernetes-preserve-unknown-fields: Invalid value: true: must be false if x-kubernetes",
        ),
        (
            {**OBJECT, "properties": {"a": {**OBJECT, "x-kubernetes-list-type": "set"}}},
            'properties[a].type: Invalid value: "object": must be array if x-kubernetes-list-type is specified',
        ),
        (
            {**OBJECT, "properties": {"a": {"type": "array", "items": OBJECT, "x-kubernetes-list-type": "set"}}},
            "properties[a].items.x-kubernetes-map-type: Invalid value: null: must be atomic as item of a list with",
        ),
        (
            {**OBJECT, "properties": {"a": {"type": "array", "items": OBJECT, "x-kubernetes-list-type": "map"}}},
            "properties[a].x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type",
        ),
        (
            {
                **OBJECT,
                "properties": {
                    "a": {
                        "type": "array",
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["k"],
                        "items": {**OBJECT, "properties": {"k": {"type": "string"}}},
                    }
                },
            },
            "properties[a].items.properties[k].default: Required value: a key must have a default or be required",
        ),
        (
            {**OBJECT, "properties": {"a": {"type": "integer", "default": "x"}}},
            'properties[a].default: Invalid value: "string": spec.validation.openAPIV3Schema.properties[a].default',
        ),
        (
            {**OBJECT, "properties": {"a": {**OBJECT, "default": {"b": 1}}}},
            'properties[a].default: Invalid value: {"b":1}: must not have unknown fields',
        ),
    ],
    ids=str,
)
def test_schemas(schema: Any, expected: str) -> None:
    found = refused(schema)
    assert any(line.startswith(expected) for line in found), found


@pytest.mark.parametrize(
    "schema",
    [
        {**OBJECT, "x-kubernetes-preserve-unknown-fields": True},
        {**OBJECT, "properties": {"metadata": {**OBJECT, "properties": {"name": {"type": "string", "maxLength": 9}}}}},
        {
            **OBJECT,
            "properties": {
                "a": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}
            },
        },
        {
            **OBJECT,
            "properties": {
                "a": {
                    "x-kubernetes-int-or-string": True,
                    "allOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}, {"pattern": "x"}],
                }
            },
        },
        {**OBJECT, "properties": {"a": OBJECT, "b": OBJECT}, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
        {**OBJECT, "properties": {"a": {"type": "string", "format": "unheard-of", "default": "x"}}},
    ],
    ids=str,
)
def test_schemas_that_are_right(schema: Any) -> None:
    assert refused(schema, subresources={"scale": None}) == []


# --- rules

FIELDS = {"n": {"type": "integer"}, "l": {"type": "array", "items": {"type": "string"}}, "s": {"type": "string"}}


@pytest.mark.parametrize(
    ("rule", "field", "expected"),
    [
        ({"rule": "self.m > 1"}, "rule", "compilation failed: ERROR: <input>:1:5: undefined field 'm'"),
        ({"rule": "self.n > 'a'"}, "rule", "found no matching overload for '_>_' applied to '(int, string)'"),
        ({"rule": "self.n"}, "rule", "must evaluate to a bool but got int"),
        ({"rule": "self.n >"}, "rule", "Syntax error"),
        ({"rule": " "}, "rule", "Required value: rule is not specified"),
        ({"rule": "oldSelf.m == 1"}, "rule", "undefined field 'm'"),
        ({"rule": "oldSelf.value().m == 1", "optionalOldSelf": True}, "rule", "<input>:2:16: undefined field 'm'"),
        (
            {"rule": "self.n > 1", "optionalOldSelf": True},
            "optionalOldSelf",
            "may not be set if oldSelf is not used in rule",
        ),
        ({"rule": "self.s == 'oldSelf'", "optionalOldSelf": True}, "optionalOldSelf", "may not be set if oldSelf"),
        ({"rule": "self.n > 1", "messageExpression": "self.n"}, "messageExpression", "must evaluate to a string"),
        ({"rule": "self.n > 1", "messageExpression": "self.m"}, "messageExpression", "undefined field 'm'"),
        ({"rule": "self.n > 1", "fieldPath": "n"}, "fieldPath", "must be a path of names"),
        ({"rule": "self.n > 1", "fieldPath": ".m"}, "fieldPath", "must be a path of names"),
        ({"rule": "self.n > 1", "reason": "Because"}, "reason", 'Unsupported value: "Because"'),
        ({"rule": "self.n\n> 1"}, "message", "message must be specified if rule contains line breaks"),
        ({"rule": "self.n > 1", "message": "a\nb"}, "message", "must not contain line breaks"),
        # what devkube cannot evaluate is refused, with the reason
        (
            {"rule": "format.named(self.s).hasValue()"},
            "rule",
            "devkube does not have format",
        ),
        ({"rule": "isURL(self.s)"}, "rule", "devkube does not have isURL"),
        ({"rule": "self.l.sortBy(x, x) == self.l"}, "rule", "devkube does not have sortBy"),
        ({"rule": "noSuchFunction(self.s)"}, "rule", "undeclared reference to 'noSuchFunction'"),
        ({"rule": "quantity(self.s) < quantity('1')"}, "rule", "found no matching overload for '_<_'"),
        ({"rule": "self.l.sum() == 'ab'"}, "rule", "devkube does not have sum"),
    ],
    ids=str,
)
def test_rules(rule: Any, field: str, expected: str) -> None:
    found = refused(spec_of(FIELDS, **{"x-kubernetes-validations": [{"rule": "true"}, rule]}))
    assert len(found) == 1
    assert found[0].startswith(f"properties[spec].x-kubernetes-validations[1].{field}: ")
    assert expected in found[0]


def test_old_values_that_cannot_be_found() -> None:
    item = {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}
    (found,) = refused(spec_of({"l": {"type": "array", "items": item}}))
    assert "oldSelf cannot be used on the uncorrelatable portion of the schema within" in found
    assert found.endswith("properties[spec].properties[l]")


def test_rules_of_fields_that_cel_cannot_name() -> None:
    rule = {"x-kubernetes-validations": [{"rule": "self.m > 1"}]}
    fields = {"a b": {"type": "object", "properties": {"n": {"type": "integer"}}, **rule}}
    (found,) = refused(spec_of(fields))
    assert "undefined field 'm'" in found


# --- updates and the status


def established(made: dict[str, Any]) -> dict[str, Any]:
    made = copy.deepcopy(made)
    definition.prepare(made, None, "")
    made["status"]["conditions"] = [{"type": "Established", "status": "True"}]
    return made


def test_what_may_not_change() -> None:
    old = established(crd(version(OBJECT)))
    new = copy.deepcopy(old)
    new["spec"]["scope"], new["spec"]["names"]["kind"], new["spec"]["group"] = "Cluster", "Pond", "example.org"
    found = told(new, old)
    assert 'spec.scope: Invalid value: "Cluster": field is immutable' in found
    assert 'spec.names.kind: Invalid value: "Pond": field is immutable' in found
    assert 'spec.group: Invalid value: "example.org": field is immutable' in found


def test_stored_versions_grow_and_may_not_be_dropped() -> None:
    old = established(crd(version(OBJECT)))
    assert old["status"]["storedVersions"] == ["v1"]
    new = crd(version(OBJECT, storage=False), version(OBJECT, "v2"))
    definition.prepare(new, old, "")
    assert new["status"]["storedVersions"] == ["v1", "v2"]
    assert told(new, old) == []
    gone = crd(version(OBJECT, "v2"))
    definition.prepare(gone, new, "")
    assert told(gone, new)[0].startswith('status.storedVersions[0]: Invalid value: "v1": missing from spec.versions')


# --- nothing makes it stumble

TYPES = BuiltinRules("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
KEYS = st.sampled_from(
    [
        "type",
        "properties",
        "items",
        "additionalProperties",
        "allOf",
        "anyOf",
        "oneOf",
        "not",
        "default",
        "enum",
        "format",
        "nullable",
        "pattern",
        "required",
        "maximum",
        "minLength",
        "x-kubernetes-list-type",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-map-type",
        "x-kubernetes-int-or-string",
        "x-kubernetes-embedded-resource",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-validations",
        "a",
        "metadata",
        "rule",
        "messageExpression",
        "fieldPath",
        "optionalOldSelf",
    ]
)
LEAVES = st.one_of(
    st.sampled_from(
        ["object", "array", "string", "integer", "map", "set", "self == oldSelf", "self.a > 1", "(", "", ".a"]
    ),
    st.booleans(),
    st.none(),
    st.integers(-2, 2),
)
NODES = st.recursive(
    LEAVES,
    lambda below: st.lists(below, max_size=2) | st.dictionaries(KEYS, below, max_size=4),
    max_leaves=16,
)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(KEYS, NODES, max_size=5))
def test_any_schema_is_accepted_or_refused(schema: dict[str, Any]) -> None:
    made = crd(version({"type": "object", **schema}, subresources={"status": {}}))
    try:
        TYPES.decode(made, validation="Ignore")
    except StatusError:  # a wrong JSON type; the decoder has tests of its own
        return
    if not definition.validate(made, None, ""):
        (row,) = registry.resources_of(made)
        obj = {"apiVersion": "example.com/v1", "kind": "Pool", "metadata": {"name": "a"}, "a": {"a": [1, None]}}
        row.rules.decode(obj, validation="Ignore")
        row.rules.default(obj)
        row.rules.validate(obj, None, "")
