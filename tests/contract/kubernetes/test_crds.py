"""Custom resources: what a definition must be, what it gives, and what its schema does to objects. CEL: test_cel."""

import json
from typing import Any

import pytest

from tests.support.kubeobjects import crd, custom, version
from tests.support.kubernetes import Client, Cluster, Space, eventually

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


async def define(kube: Client, space: Space, properties: dict[str, Any], **fields: Any) -> str:
    """A CRD whose spec has these properties; the path of its objects, once it is served."""
    spec = {"type": "object", "properties": properties, **fields.pop("spec", {})}
    schema = {"spec": spec, **fields.pop("beside", {})}
    await kube.create(CRDS, crd(space.group, version(schema=schema, **fields)))
    path = space.of(f"{space.group}/v1", "widgets")
    await eventually(lambda: kube.read(path))
    return path


async def test_a_definition_is_accepted_and_established(kube: Client, space: Space) -> None:
    """Conditions NamesAccepted and Established, the accepted names, the stored versions; defaults of names."""
    body = crd(space.group)
    del body["spec"]["names"]["listKind"], body["spec"]["names"]["singular"]
    made = await kube.create(CRDS, body)
    assert (made["spec"]["names"]["listKind"], made["spec"]["names"]["singular"]) == ("WidgetList", "widget")
    assert made["spec"]["conversion"] == {"strategy": "None"}

    async def established() -> dict[str, Any]:
        found = await kube.read(f"{CRDS}/{made['metadata']['name']}")
        states = {one["type"]: one["status"] for one in found["status"].get("conditions") or []}
        assert states.get("NamesAccepted") == states.get("Established") == "True"
        return found

    found = await eventually(established)
    assert found["status"]["storedVersions"] == ["v1"]
    assert found["status"]["acceptedNames"]["plural"] == "widgets"


OBJECT = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}
SCALE = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}
COLUMN = {"type": "integer", "jsonPath": ".spec.size"}


def broken(change: str) -> dict[str, Any]:
    """A definition of a group that no test uses, with one thing wrong."""
    group = "broken.example.com"
    spec: dict[str, Any] = {"type": "object", "properties": {"size": {"type": "integer"}}}
    body = crd(group, version(schema={"spec": spec}))
    found, names = body["spec"]["versions"][0], body["spec"]["names"]
    match change:
        case "name":
            body["metadata"]["name"] = f"other.{group}"
        case "no-spec":
            del body["spec"]
        case "group":
            body["spec"]["group"] = "single"
        case "no-schema":
            del found["schema"]
        case "no-type":
            del spec["type"]
        case "unknown-type":
            spec["properties"]["size"]["type"] = "number-like"
        case "two-storages":
            body["spec"]["versions"].append(version("v2"))
        case "no-storage":
            found["storage"] = False
        case "version-twice":
            body["spec"]["versions"].append(version("v1", storage=False))
        case "scope":
            body["spec"]["scope"] = "Somewhere"
        case "plural":
            names["plural"] = "Widgets"
        case "default-of-wrong-type":
            spec["properties"]["size"]["default"] = "big"
        case "additional-beside-properties":
            spec["additionalProperties"] = {"type": "string"}
        case "map-list-without-keys":
            spec["properties"]["list"] = {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "items": {"type": "object", "properties": {"id": {"type": "string"}}},
            }
        case "bad-pattern":
            spec["properties"]["word"] = {"type": "string", "pattern": "a("}
        case "bad-column":
            found["additionalPrinterColumns"] = [{"name": "X", "type": "integer", "jsonPath": "spec.size"}]
        case "preserve":
            body["spec"]["preserveUnknownFields"] = True
        case "ref":
            spec["properties"]["size"] = {"$ref": "#/definitions/x"}
    return body


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ("name", "metadata.name"),
        ("no-spec", "spec"),
        ("group", "spec.group"),
        ("no-schema", "spec.versions[0].schema.openAPIV3Schema"),
        ("no-type", "spec.validation.openAPIV3Schema.properties[spec].type"),
        ("unknown-type", "spec.validation.openAPIV3Schema.properties[spec].properties[size].type"),
        ("two-storages", "spec.versions"),
        ("no-storage", "spec.versions"),
        ("version-twice", "spec.versions"),
        ("scope", "spec.scope"),
        ("plural", "spec.names.plural"),
        ("default-of-wrong-type", "spec.validation.openAPIV3Schema.properties[spec].properties[size].default"),
        ("additional-beside-properties", "spec.validation.openAPIV3Schema.properties[spec].additionalProperties"),
        ("map-list-without-keys", "spec.validation.openAPIV3Schema.properties[spec].properties[list]"),
        ("bad-pattern", "spec.validation.openAPIV3Schema.properties[spec].properties[word].pattern"),
        ("bad-column", "spec.additionalPrinterColumns[0].JSONPath"),
        ("preserve", "spec.preserveUnknownFields"),
        ("ref", "spec.validation.openAPIV3Schema.properties[spec].properties[size].$ref"),
    ],
)
async def test_a_broken_definition_is_refused_with_its_path(kube: Client, change: str, field: str) -> None:
    """ValidateCustomResourceDefinition: structural schemas, names, versions, columns. What a definition's only version
    says is told where it stands in upstream's internal type: spec.validation."""
    answer = await kube.post(CRDS, broken(change))
    answer.refused(422, "Invalid")
    assert any(where.startswith(field) for where, _ in answer.causes), answer.causes


@pytest.mark.parametrize(
    ("spec", "fields", "where"),
    [
        ({"conversion": {"strategy": "Magic"}}, {}, "spec.conversion.strategy"),
        ({"names": {"listKind": "Widget"}}, {}, "spec.names.listKind"),
        (
            {},
            {"subresources": {"scale": {**SCALE, "specReplicasPath": ".n"}}},
            "spec.subresources.scale.specReplicasPath",
        ),
        (
            {},
            {"subresources": {"scale": {**SCALE, "labelSelectorPath": ".n"}}},
            "spec.subresources.scale.labelSelectorPath",
        ),
        (
            {},
            {"additionalPrinterColumns": [{"name": "A", **COLUMN, "type": "text"}]},
            "spec.additionalPrinterColumns[0].type",
        ),
        ({}, {"selectableFields": [{"jsonPath": ".spec.nothing"}]}, "spec.selectableFields[0].jsonPath"),
    ],
)
async def test_a_definition_s_parts_are_checked(
    kube: Client, space: Space, spec: dict[str, Any], fields: dict[str, Any], where: str
) -> None:
    answer = await kube.post(CRDS, crd(space.group, version(**fields), **spec))
    answer.refused(422, "Invalid")
    assert where in [field for field, _ in answer.causes]


STRINGS, FREE = {"type": "array", "items": {"type": "string"}}, {"x-kubernetes-preserve-unknown-fields": True}


@pytest.mark.parametrize(
    ("schema", "where"),
    [
        (
            {"properties": {"x": {"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "set"}}},
            "properties[x].items.x-kubernetes-map-type",
        ),
        ({"properties": {"x": {"type": "array", "items": [{"type": "string"}]}}}, "properties[x].items"),
        ({"properties": {"x": {**OBJECT, "default": {"id": "a", "odd": 1}}}}, "properties[x].default"),
        ({"properties": {"x": {**OBJECT, "anyOf": [{"type": "object"}]}}}, "properties[x].anyOf[0].type"),
        (
            {"properties": {"x": {**OBJECT, "allOf": [{"properties": {"id": {"default": "a"}}}]}}},
            "properties[x].allOf[0].properties[id].default",
        ),
        ({"properties": {"x": {**STRINGS, "not": {"items": {"nullable": True}}}}}, "properties[x].not.items.nullable"),
        (
            {
                "properties": {"x": STRINGS},
                "allOf": [{"properties": {"x": {"items": {"anyOf": [{"minLength": 1}]}}, "y": {"minimum": 1}}}],
            },
            "properties[y]",
        ),
        ({"anyOf": [{"properties": {"metadata": {"minProperties": 1}}}]}, "anyOf[0].properties[metadata]"),
        (
            {"properties": {"x": {**FREE, "x-kubernetes-validations": [{"rule": "true"}]}}},
            "properties[x].x-kubernetes-validations",
        ),
    ],
)
async def test_a_schema_is_structural(kube: Client, space: Space, schema: dict[str, Any], where: str) -> None:
    """Junctors say what values are valid, of what the structure has; defaults are pruned."""
    made = version()
    made["schema"]["openAPIV3Schema"] = {"type": "object", **schema}
    answer = await kube.post(CRDS, crd(space.group, made))
    answer.refused(422, "Invalid")
    assert f"spec.validation.openAPIV3Schema.{where}" in [field for field, _ in answer.causes]


async def test_unknown_fields_are_pruned(kube: Client, space: Space) -> None:
    """At every level, but for what is marked to be kept, what may be anything, and embedded metadata."""
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    inner = {"type": "object", "properties": {"known": {"type": "string"}}}
    anything = {"type": "object", "additionalProperties": True}
    properties = {"free": free, "any": anything, "inner": inner, "list": {"type": "array", "items": inner}}
    path = await define(kube, space, properties)
    value = {"known": "1", "unknown": "2"}
    made = await kube.create(
        path, custom(space.group, "a", {"free": value, "any": value, "inner": value, "list": [value]}, x=1)
    )
    assert made["spec"] == {"free": value, "any": value, "inner": {"known": "1"}, "list": [{"known": "1"}]}
    assert "x" not in made


async def test_defaults_are_filled_in(kube: Client, space: Space) -> None:
    """Nested ones where the parent exists; null counts as missing unless nullable; on reading too."""
    inner = {"type": "object", "properties": {"deep": {"type": "integer", "default": 3}}}
    path = await define(
        kube,
        space,
        {
            "mode": {"type": "string", "default": "auto"},
            "inner": inner,
            "given": {**inner, "default": {}},
            "nullable": {"type": "string", "nullable": True, "default": "x"},
        },
    )
    made = await kube.create(path, custom(space.group, "a", {"inner": {}, "mode": None, "nullable": None}))
    assert made["spec"] == {"inner": {"deep": 3}, "given": {"deep": 3}, "mode": "auto", "nullable": None}
    made = await kube.create(path, custom(space.group, "b", {}))
    assert made["spec"] == {"given": {"deep": 3}, "mode": "auto", "nullable": "x"}


def a_list(of: str, **fields: Any) -> dict[str, Any]:
    return {"type": "array", "items": {"type": of}, **fields}


def a_map(of: str, **fields: Any) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": {"type": of}, **fields}


MAP_LIST = {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id"], "items": OBJECT}


@pytest.mark.parametrize(
    ("schema", "good", "bad", "part"),
    [
        ({"type": "integer"}, 3, "3", 'must be of type integer: "string"'),
        ({"type": "integer"}, 3, 3.5, "must be of type integer"),
        ({"type": "number"}, 3.5, True, "must be of type number"),
        ({"type": "string"}, "x", 1, "must be of type string"),
        ({"type": "boolean"}, True, "true", "must be of type boolean"),
        (a_list("string"), ["a"], [1], "must be of type string"),
        (a_map("integer"), {"k": 1}, {"k": "v"}, "must be of type integer"),
        ({"type": "string", "nullable": True}, None, 1, "must be of type string"),
        ({"x-kubernetes-int-or-string": True}, "50%", 1.5, "must be of type integer,string"),
        ({"type": "string", "enum": ["a", "b"]}, "a", "c", 'supported values: "a", "b"'),
        ({"type": "integer", "minimum": 1}, 1, 0, "should be greater than or equal to 1"),
        ({"type": "integer", "maximum": 9}, 9, 10, "should be less than or equal to 9"),
        ({"type": "integer", "minimum": 1, "exclusiveMinimum": True}, 2, 1, "should be greater than 1"),
        ({"type": "integer", "multipleOf": 5}, 10, 7, "should be a multiple of 5"),
        ({"type": "number", "multipleOf": 0.5}, 1.5, 1e308, "should be a multiple of 0.5"),
        ({"type": "string", "minLength": 2}, "ab", "a", "should be at least 2 chars long"),
        ({"type": "string", "maxLength": 2}, "äö", "abc", "may not be more than 2"),
        ({"type": "string", "pattern": "^a+$"}, "aa", "b", "should match '^a+$'"),
        (a_list("string", minItems=1), ["a"], [], "should have at least 1 items"),
        (a_list("string", maxItems=1), ["a"], ["a", "b"], "must have at most 1 item"),
        (a_map("string", maxProperties=1), {"a": ""}, {"a": "", "b": ""}, "must have at most 1"),
        (a_map("string", minProperties=1), {"a": ""}, {}, "at least 1 properties"),
        (OBJECT, {"id": "x"}, {}, "id: Required value"),
        (a_list("string", **{"x-kubernetes-list-type": "set"}), ["a"], ["a", "a"], 'Duplicate value: "a"'),
        (MAP_LIST, [{"id": "a"}], [{"id": "a"}, {"id": "a"}], "Duplicate value"),
        ({"type": "string", "format": "date-time"}, "2026-01-01T00:00:00Z", "yesterday", "must be of type date-time"),
        ({"type": "string", "format": "ipv4"}, "10.0.0.1", "10.0.0", "must be of type ipv4"),
        ({"type": "string", "format": "uuid"}, "5a0c7a9e-8c7e-4c39-a3b4-37f8a1c3c1a1", "5a0c", "must be of type uuid"),
        ({"type": "string", "format": "byte"}, "aGVsbG8=", "?", "must be of type byte"),
        ({"type": "string", "format": "unknown-to-all"}, "anything", 1, "must be of type string"),
        ({"type": "integer", "format": "int32"}, 2**31 - 1, 2**31, "must be of type integer with format int32"),
        ({"type": "integer", "format": "int64"}, 2**63 - 1, 2**63, "must be of type integer"),
        ({"type": "integer", "not": {"enum": [13]}}, 12, 13, "must not validate the schema"),
        ({"type": "integer", "anyOf": [{"minimum": 10}, {"maximum": 2}]}, 1, 5, "must validate at least one schema"),
        ({"type": "integer", "allOf": [{"minimum": 3}]}, 3, 2, "greater than or equal to 3"),
        ({"type": "integer", "oneOf": [{"minimum": 5}, {"maximum": 7}]}, 1, 6, "must validate one and only one schema"),
    ],
)
async def test_values_are_checked(
    kube: Client, space: Space, schema: dict[str, Any], good: object, bad: object, part: str
) -> None:
    """One keyword of the schema each: what it takes, and what it says of the rest (422, with the path)."""
    path = await define(kube, space, {"value": schema})
    assert (await kube.create(path, custom(space.group, "good", {"value": good})))["spec"]["value"] == good
    answer = await kube.post(path, custom(space.group, "bad", {"value": bad}))
    answer.refused(422, "Invalid", f'Widget.{space.group} "bad" is invalid', "spec.value", part)
    assert all(field.startswith("spec.value") or field in ("", "<nil>") for field, _ in answer.causes), answer.causes


async def test_required_fields_are_required(kube: Client, space: Space) -> None:
    """With the reason FieldValueRequired."""
    path = await define(kube, space, {"size": {"type": "integer"}}, spec={"required": ["size"]})
    answer = await kube.post(path, custom(space.group, "a", {}))
    answer.refused(422, "Invalid", "spec.size: Required value")
    assert answer.causes == [("spec.size", "FieldValueRequired")]


async def test_an_embedded_resource_is_a_resource(kube: Client, space: Space) -> None:
    """x-kubernetes-embedded-resource: kind and apiVersion are required, its metadata is kept and checked."""
    inner = {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}
    path = await define(kube, space, {"template": inner})
    template = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "nope": 1}, "spec": {"any": 1}}
    made = await kube.create(path, custom(space.group, "a", {"template": template}))
    assert made["spec"]["template"]["metadata"] == {"name": "x"}
    answer = await kube.post(path, custom(space.group, "b", {"template": {"spec": {}}}))
    answer.refused(422, "Invalid", "spec.template.apiVersion", "spec.template.kind")
    answer = await kube.post(path, custom(space.group, "c", {"template": {"apiVersion": 1, "kind": "Pod"}}))
    answer.refused(400, "BadRequest", "spec.template.apiVersion: Invalid value: 1: must be a string")


async def test_metadata_is_always_known(kube: Client, space: Space) -> None:
    """A schema need not describe it, and unknown fields in it are dropped."""
    path = await define(kube, space, {"size": {"type": "integer"}})
    body = custom(space.group, "a", {}, metadata={"labels": {"l": "1"}, "nope": 1})
    made = await kube.create(path, body)
    assert made["metadata"]["labels"] == {"l": "1"}
    assert "nope" not in made["metadata"]
    answer = await kube.post(path, custom(space.group, "b", {}, metadata={"labels": {"l": 1}}))
    assert answer.status in (400, 422)


async def test_kind_and_version_are_required(kube: Client, space: Space) -> None:
    """Unlike built-in kinds, a custom resource has no defaults for them."""
    path = await define(kube, space, {"size": {"type": "integer"}})
    answer = await kube.post(path, {"metadata": {"name": "a"}})
    answer.refused(400, "BadRequest", "Kind")
    answer = await kube.post(path, {"kind": "Widget", "metadata": {"name": "a"}})
    answer.refused(400, "BadRequest", "the API version in the data () does not match the expected API version")
    answer = await kube.post(path, {**custom(space.group, "a"), "kind": "Gadget"})
    answer.refused(422, "Invalid", 'kind: Invalid value: "Gadget": must be Widget')


async def test_status_is_apart_where_it_is_a_subresource(kube: Client, space: Space) -> None:
    """Neither endpoint changes the other's half; labels through /status are ignored."""
    beside = {"status": {"type": "object", "properties": {"ready": {"type": "boolean"}}}}
    path = await define(kube, space, {"size": {"type": "integer"}}, beside=beside, subresources={"status": {}})
    made = await kube.create(path, custom(space.group, "a", {"size": 1}, status={"ready": True}))
    assert "status" not in made
    patch = {"status": {"ready": True}, "spec": {"size": 9}, "metadata": {"labels": {"l": "1"}}}
    now = (await kube.merge(f"{path}/a/status", patch)).ok(200)
    assert (now["status"], now["spec"], now["metadata"]["generation"]) == ({"ready": True}, {"size": 1}, 1)
    assert "labels" not in now["metadata"]
    now = (await kube.merge(f"{path}/a", {"status": {"ready": False}, "spec": {"size": 2}})).ok(200)
    assert (now["status"], now["spec"], now["metadata"]["generation"]) == ({"ready": True}, {"size": 2}, 2)


async def test_without_the_subresource_status_is_a_field(kube: Client, space: Space) -> None:
    """And its path is not served; everything but metadata counts for the generation."""
    beside = {"status": {"type": "object", "properties": {"ready": {"type": "boolean"}}}}
    path = await define(kube, space, {"size": {"type": "integer"}}, beside=beside)
    made = await kube.create(path, custom(space.group, "a", {"size": 1}, status={"ready": True}))
    assert made["status"] == {"ready": True}
    (await kube.merge(f"{path}/a/status", {"status": {}})).refused(404, "NotFound")
    now = (await kube.merge(f"{path}/a", {"status": {"ready": False}})).ok(200)
    assert now["metadata"]["generation"] == 2


async def test_several_versions_serve_the_same_objects(kube: Client, space: Space) -> None:
    """conversion None: only apiVersion differs; what is not served is not found."""
    schema = {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    old = version("v1alpha1", storage=False, schema=schema)
    gone = {**version("v1beta1", storage=False, schema=schema), "served": False}
    await kube.create(CRDS, crd(space.group, version(schema=schema), old, gone))
    new_path, old_path = (space.of(f"{space.group}/{name}", "widgets") for name in ("v1", "v1alpha1"))
    await eventually(lambda: kube.create(old_path, custom(space.group, "a", {"k": 1}, version="v1alpha1")))
    found = await kube.read(f"{new_path}/a")
    assert (found["apiVersion"], found["spec"]) == (f"{space.group}/v1", {"k": 1})
    listed = await kube.read(old_path)
    assert [item["apiVersion"] for item in listed["items"]] == [f"{space.group}/v1alpha1"]
    (await kube.merge(f"{new_path}/a", {"spec": {"k": 2}})).ok(200)
    assert (await kube.read(f"{old_path}/a"))["spec"] == {"k": 2}
    assert (await kube.get(space.of(f"{space.group}/v1beta1", "widgets"))).status == 404
    answer = await kube.post(new_path, custom(space.group, "b", {}, version="v1alpha1"))
    answer.refused(400, "BadRequest")


async def test_a_watch_of_one_version_sees_writes_of_another(kube: Client, space: Space) -> None:
    """Each event in the version of its watch."""
    schema = {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    await kube.create(CRDS, crd(space.group, version(schema=schema), version("v2", storage=False, schema=schema)))
    first, second = (space.of(f"{space.group}/{name}", "widgets") for name in ("v1", "v2"))
    await eventually(lambda: kube.read(second))
    async with kube.watch(second, resourceVersion=await kube.version(second)) as watch:
        await eventually(lambda: kube.create(first, custom(space.group, "a", {})))
        event = await watch.next()
    assert (event.type, event.object["apiVersion"]) == ("ADDED", f"{space.group}/v2")


async def test_a_definition_can_change(kube: Client, space: Space) -> None:
    """A new version and a new field are served; objects of before stay."""
    path = await define(kube, space, {"size": {"type": "integer"}})
    await kube.create(path, custom(space.group, "a", {"size": 1}))
    name = f"{CRDS}/widgets.{space.group}"
    found = await kube.read(name)
    more = {"spec": {"type": "object", "properties": {"size": {"type": "integer"}, "color": {"type": "string"}}}}
    found["spec"]["versions"] = [version(schema=more), version("v2", storage=False, schema=more)]
    (await kube.put(name, found)).ok(200)
    newer = space.of(f"{space.group}/v2", "widgets")
    await eventually(lambda: kube.read(newer))
    assert await kube.names(newer) == ["a"]

    async def coloured() -> None:
        now = (await kube.merge(f"{path}/a", {"spec": {"color": "red"}})).ok(200)
        assert now["spec"] == {"size": 1, "color": "red"}

    await eventually(coloured)


async def test_a_stored_version_cannot_be_dropped(kube: Client, space: Space) -> None:
    """status.storedVersions names it: objects may lie there in it. Who has migrated them says so in the status."""
    await define(kube, space, {"size": {"type": "integer"}})
    name = f"{CRDS}/widgets.{space.group}"

    async def refused() -> None:
        found = await kube.read(name)
        found["spec"]["versions"] = [version("v2")]
        answer = await kube.put(name, found)
        answer.refused(
            422,
            "Invalid",
            "status.storedVersions[0]: Invalid value",
            "missing from spec.versions; v1 was previously a storage version",
        )

    await eventually(refused)
    (await kube.merge(name, {"spec": {"versions": [version(storage=False), version("v2")]}})).ok()
    assert (await kube.read(name))["status"]["storedVersions"] == ["v1", "v2"]
    (await kube.merge(f"{name}/status", {"status": {"storedVersions": ["v2"]}})).ok()
    (await kube.merge(name, {"spec": {"versions": [version("v2")]}})).ok()


async def test_one_that_ends_is_let_go_whatever_its_status_says(kube: Client, space: Space) -> None:
    """Its watches end with it."""
    path = await define(kube, space, {"size": {"type": "integer"}})
    name = f"{CRDS}/widgets.{space.group}"
    await kube.create(path, custom(space.group, "a", {"size": 1}))
    (await kube.merge(f"{name}/status", {"status": {"storedVersions": ["v9"]}})).ok()
    async with kube.watch(path, resourceVersion=await kube.version(path)) as watch:
        (await kube.delete(name)).ok()
        assert (await watch.next()).type == "DELETED"
        assert await watch.rest() == []

    async def gone() -> None:
        (await kube.get(name)).refused(404)

    await eventually(gone)


async def test_a_number_is_a_float64(kube: Client, cluster: Cluster, space: Space) -> None:
    path = await define(kube, space, {"size": {"type": "number"}})
    body = json.dumps(custom(space.group, "a", {"size": 7})).replace("7", "1e400")
    cluster.blames_the_client(await kube.post(path, body))


async def test_the_scope_cannot_change(kube: Client, space: Space) -> None:
    """Immutable once established; so are the group and the kind's plural."""
    await define(kube, space, {"size": {"type": "integer"}})
    name = f"{CRDS}/widgets.{space.group}"

    async def refused() -> None:
        answer = await kube.merge(name, {"spec": {"scope": "Cluster"}})
        answer.refused(422, "Invalid", "spec.scope: Invalid value", "field is immutable")

    await eventually(refused)


async def test_with_its_definition_go_the_objects(kube: Client, space: Space) -> None:
    """The finalizer customresourcecleanup; a definition of the same name starts empty."""
    path = await define(kube, space, {"size": {"type": "integer"}})
    name = f"{CRDS}/widgets.{space.group}"
    await kube.create(path, custom(space.group, "a", {"size": 1}))
    (await kube.delete(name)).ok()

    async def gone() -> None:
        assert (await kube.get(name)).status == 404
        assert (await kube.get(path)).status == 404

    await eventually(gone)
    assert await define(kube, space, {"size": {"type": "integer"}}) == path
    assert await kube.names(path) == []


async def test_cluster_scoped_definitions(kube: Client, space: Space) -> None:
    """No namespace in the path, nor in the object."""
    await kube.create(CRDS, crd(space.group, scope="Cluster"))
    path = f"/apis/{space.group}/v1/widgets"
    made = await eventually(lambda: kube.create(path, custom(space.group, "a", {"size": 1})))
    assert "namespace" not in made["metadata"]
    assert (await kube.get(space.of(f"{space.group}/v1", "widgets"))).status == 404
    (await kube.delete(f"{path}/a")).ok(200)


async def test_names_of_custom_resources_are_subdomains(kube: Client, space: Space) -> None:
    """As for most kinds."""
    path = await define(kube, space, {"size": {"type": "integer"}})
    answer = await kube.post(path, custom(space.group, "Not Valid", {}))
    answer.refused(422, "Invalid", "metadata.name")


@pytest.mark.needs("devkube")
async def test_what_is_left_out_of_definitions_is_refused(kube: Client, space: Space) -> None:
    """devkube converts nothing and shows no column whose path it cannot read, and says so at once."""
    conversion = {
        "strategy": "Webhook",
        "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://127.0.0.1:1/convert"}},
    }
    answer = await kube.post(CRDS, crd(space.group, conversion=conversion))
    answer.refused(422, "Invalid", "spec.conversion")
    column = {"name": "A", "type": "string", "jsonPath": ".a[?(@"}
    answer = await kube.post(CRDS, crd(space.group, version(additionalPrinterColumns=[column])))
    answer.refused(422, "Invalid", "spec.additionalPrinterColumns[0].JSONPath", "unrecognized column definition")


FORMATS: dict[str, tuple[list[str], list[str]]] = {  # what fits, what does not
    "date-time": (
        ["2026-01-02T03:04:05Z", "2026-01-02t03:04:05z", "2026-01-02T03:04:05.123456789+02:00"],
        ["2026-01-02T03:04:05", "2026-01-02 03:04:05Z", "2026-01-02T24:00:00Z", "2026-02-30T00:00:00Z", "x", ""],
    ),
    "date": (["2026-01-02"], ["20260102", "2026-1-2", "2026-02-30", "2026-W01-1", ""]),
    "duration": (
        [
            "1h",
            "1h30m",
            "1.5s",
            "-1s",
            "+1s",
            "0",
            "1us",
            "1µs",
            ".5s",
            "1.s",
            "1d",
            "2 weeks",
            "1 day 2 hours",
            "- 1h",
        ],
        ["1", "", "h", "5", "1y", "1 month"],
    ),
    "byte": (["aGk=", "YWJj"], ["aGk", "aGk=\n", "!", "", "aG k="]),
    "uri": (["http://a", "/a", "http://", "mailto:x", "//a", "http://[::1]", "a:b"], ["a", "a b", "http://a b", ""]),
    "email": (["a@b", "a@b.c", "A <a@b.c>", "a@[1.2.3.4]", "ä@b"], ["a", "a@", "@b", "a b@c", "a@b,c@d"]),
    "hostname": (
        ["a", "A", "1", "a.bc", "1.2.3.com"],
        ["-a", "a_b", "a.", ".a", "a..b", "a" * 64, "*.a", "a b", "", "a.b", "example.c0m", "1.2.3.4", "a.bc."],
    ),
    "ipv4": (["1.2.3.4"], ["1.2.3", "1.2.3.4 ", "::1", "256.1.1.1"]),
    "ipv6": (["::1", "::ffff:1.2.3.4", "::"], ["1.2.3.4", "fe80::1%eth0", "1::2::3"]),
    "cidr": (
        ["10.0.0.0/8", "10.0.0.1/8", "::/0", "10.0.0.0/08", "::1/128"],
        ["10.0.0.0", "10.0.0.0/33", "10.0.0.0/255.0.0.0"],
    ),
    "uuid": (
        ["123e4567-e89b-12d3-a456-426614174000", "123E4567E89B12D3A456426614174000"],
        ["123", "{123e4567-e89b-12d3-a456-426614174000}"],
    ),
    "password": (["", "x"], []),
}


async def test_formats_are_those_of_upstreams_library(kube: Client, space: Space) -> None:
    """Durations in words count; a name of several parts ends in letters, two at least."""
    path = await define(
        kube, space, {form: a_list("string", items={"type": "string", "format": form}) for form in FORMATS}
    )
    await kube.create(path, custom(space.group, "good", {form: good for form, (good, _) in FORMATS.items()}))
    answer = await kube.post(path, custom(space.group, "bad", {form: bad for form, (_, bad) in FORMATS.items()}))
    answer.refused(422, "Invalid", "must be of type hostname")
    wrong = [f"spec.{form}[{index}]" for form, (_, bad) in FORMATS.items() for index in range(len(bad))]
    assert sorted(field for field, _ in answer.causes if field not in ("", "<nil>")) == sorted(wrong)


async def test_a_text_of_the_wrong_size_is_told_once(kube: Client, space: Space) -> None:
    path = await define(kube, space, {"word": {"type": "string", "minLength": 2, "pattern": "^[a-z]+$"}})
    answer = await kube.post(path, custom(space.group, "a", {"word": ""}))
    answer.refused(422, "Invalid", "at least 2 chars long")
    assert answer.causes == [("spec.word", "FieldValueInvalid")]


async def test_a_whole_number_is_written_as_one(kube: Client, space: Space) -> None:
    path = await define(kube, space, {}, spec={"x-kubernetes-preserve-unknown-fields": True})
    spec = '{"a":2.0,"b":1e2,"c":0.5}'
    text = json.dumps(custom(space.group, "a", {})).replace('"spec": {}', f'"spec": {spec}')
    made = (await kube.post(path, text)).ok(201)
    assert json.dumps(made["spec"], sort_keys=True) == '{"a": 2, "b": 100, "c": 0.5}'
    patched = (await kube.merge(f"{path}/a", '{"spec":{"c":3.0}}')).ok(200)
    assert json.dumps(patched["spec"]["c"]) == "3"


async def test_groups_of_the_project_need_its_approval(kube: Client) -> None:
    refused = await kube.post(CRDS, crd("devkube.k8s.io"), dryRun="All")
    refused.refused(422, "Invalid", "metadata.annotations[api-approved.kubernetes.io]", "protected groups")


async def test_the_keys_of_a_list_differ(kube: Client, space: Space) -> None:
    item = {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}}
    parts = {"type": "array", "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k", "k"]}
    (await kube.post(CRDS, crd(space.group, version(schema={"parts": parts})))).refused(
        422, "Invalid", "must not contain duplicate entries"
    )


async def test_a_default_may_be_empty(kube: Client, space: Space) -> None:
    """It is any JSON; what a Go struct leaves out is something else."""
    names = {"type": "array", "items": {"type": "string"}, "default": []}
    path = await define(kube, space, {"names": names})
    made = (await kube.post(path, custom(space.group, "a", {}))).ok(201)
    assert made["spec"] == {"names": []}


async def test_a_subresource_that_the_definition_has_not(kube: Client, space: Space) -> None:
    """Upstream says that the object is not there, whether it is or not; kubectl scale shows it."""
    path = await define(kube, space, {})
    await kube.create(path, custom(space.group, "a", {}))
    for name in ("scale", "status", "nonsense"):
        (await kube.get(f"{path}/a/{name}")).refused(404, "NotFound", f'widgets.{space.group} "a" not found')
