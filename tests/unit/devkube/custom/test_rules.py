"""One version of a CRD behind the protocol of rules: the steps in order, and how each refuses."""

import copy
from typing import Any

import pytest

from devkube.custom.registry import CustomRules, resources_of
from devkube.errors import StatusError
from tests.support.crds import crd, pool, spec_of, version

SPEC = {
    "size": {"type": "integer", "default": 1, "minimum": 1},
    "mode": {"type": "string"},
    "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
    "template": {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
    },
}
RULE = {"x-kubernetes-validations": [{"rule": "self.size < 10", "message": "too large"}]}
SCALE = {
    "specReplicasPath": ".spec.size",
    "statusReplicasPath": ".status.size",
    "labelSelectorPath": ".status.selector",
}


UNCHECKED = (
    "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)


def rules(**rest: Any) -> CustomRules:
    schema = spec_of(SPEC, **RULE)
    schema["properties"]["status"] = {
        "type": "object",
        "properties": {"size": {"type": "integer"}, "selector": {"type": "string"}},
    }
    columns = [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Mode", "type": "string", "jsonPath": ".spec.mode"},
    ]
    (row,) = resources_of(crd(version(schema, additionalPrinterColumns=columns, **rest)))
    assert isinstance(row.rules, CustomRules)
    return row.rules


STATUS = rules(subresources={"status": {}, "scale": SCALE})


def told(new: Any, old: Any = None, subresource: str = "", of: CustomRules = STATUS) -> list[str]:
    return [f"{cause.field}: {cause.message}" for cause in of.validate(new, old, subresource)]


def test_unknown_fields() -> None:
    obj = pool({"sise": 1, "size": 2}, extra=1)
    obj["metadata"]["nme"] = "x"
    warnings = ['unknown field "extra"', 'unknown field "metadata.nme"', 'unknown field "spec.sise"']
    with pytest.raises(StatusError) as caught:
        STATUS.decode(copy.deepcopy(obj), validation="Strict")
    assert (caught.value.code, caught.value.reason) == (400, "BadRequest")
    assert caught.value.message == (
        'Pool in version "v1" cannot be handled as a Pool: strict decoding error: ' + ", ".join(warnings)
    )
    assert STATUS.decode(copy.deepcopy(obj), validation="Ignore") == []
    assert STATUS.decode(obj, validation="Warn") == warnings
    assert obj == pool({"size": 2})


def test_metadata_of_the_wrong_type() -> None:
    with pytest.raises(StatusError) as caught:
        STATUS.decode(pool({}, metadata={"labels": ["a"]}), validation="Ignore")
    assert caught.value.code == 400
    assert (
        'metadata: Invalid value: {"labels":["a"]}: json: cannot unmarshal array into field labels'
        in caught.value.message
    )


def test_defaults_and_nulls() -> None:
    obj = pool({"size": None, "mode": None})
    STATUS.decode(obj, validation="Strict")
    STATUS.default(obj)
    assert obj["spec"] == {"size": 1}


def test_the_schema_knows_metadata() -> None:
    meta = STATUS.schema.field("metadata")
    assert meta is not None
    assert meta.field("labels") is not None


def test_each_kind_of_violation() -> None:
    new = pool({"size": 0, "tags": ["a", "b", "a"], "template": {"apiVersion": "a/b/c", "kind": ""}})
    assert told(new) == [
        "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1",
        'spec.tags[2]: Duplicate value: "a"',
        "spec.template.kind: Required value",
        UNCHECKED,
    ]
    assert told(pool({"size": 1, "template": {}})) == [
        "spec.template.apiVersion: Required value",
        "spec.template.kind: Required value",
        UNCHECKED,
    ]
    assert told(pool({"size": 10})) == ["spec: Invalid value: too large"]


def test_duplicates_that_were_there_before_may_stay() -> None:
    old = pool({"size": 1, "tags": ["a", "a"]})
    assert told(pool({"size": 2, "tags": ["a", "a"]}), old) == []
    assert told(pool({"size": 2, "tags": ["b", "b"]}), old) == ['spec.tags[1]: Duplicate value: "b"']


def test_a_status_write_is_checked_as_a_status() -> None:
    old = pool({"size": 1})
    found = told(pool({"size": 1}, status={"size": "x"}), old, "status")
    assert found[0] == 'status.size: Invalid value: "string": status.size in body must be of type integer: "string"'
    assert told(pool({"size": 1}, status={"size": 3}), old, "status") == []


def test_table() -> None:
    assert STATUS.table(pool({"size": 3}), 0) == [3, None]
