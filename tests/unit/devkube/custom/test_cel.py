"""Rules of a schema: what they see, when they apply, how their failures are told. Compilation errors are elsewhere."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devkube.custom import cel, definition, views
from devkube.custom.structural import UNKNOWN
from tests.support.crds import crd, pool, spec_of, version

TEXT, NUMBER = {"type": "string"}, {"type": "integer"}


def ruled(rule: str | dict[str, Any], **node: Any) -> dict[str, Any]:
    return {**node, "x-kubernetes-validations": [{"rule": rule} if isinstance(rule, str) else rule]}


def told(node: Any, new: Any, old: Any = None) -> list[str]:
    """What fails for `spec`; the schema must be one that a CRD may have."""
    root = {"type": "object", "properties": {"spec": node}}
    assert definition.validate(crd(version(root)), None, "") == []
    before = UNKNOWN if old is None else pool(old)
    return [f"{cause.field}: {cause.message}" for cause in cel.validate(root, pool(new), before)]


FIELDS = {
    "min": NUMBER,
    "max": NUMBER,
    "name": TEXT,
    "mode": {"type": "string", "enum": ["A", "B"]},
    "ratio": {"type": "number"},
    "list": {"type": "array", "items": TEXT},
    "map": {"type": "object", "additionalProperties": NUMBER},
    "at": {"type": "string", "format": "date-time"},
    "day": {"type": "string", "format": "date"},
    "for": {"type": "string", "format": "duration"},
    "raw": {"type": "string", "format": "byte"},
    "either": {"x-kubernetes-int-or-string": True},
    "x-y.z/w": NUMBER,
    "a__b": NUMBER,
    "boxes": {"type": "array", "items": {"type": "object", "properties": {"w": {"type": "number"}}}},
}
VALUE = {
    "min": 1,
    "max": 2,
    "name": "pool-a",
    "mode": "A",
    "ratio": 1,
    "list": ["a", "b"],
    "map": {"x": 1, "y-z": 2},
    "at": "2026-01-02T03:04:05.5+01:00",
    "day": "2026-01-02",
    "for": "1h30m",
    "raw": "aGk=",
    "either": "50%",
    "x-y.z/w": 7,
    "a__b": 8,
    "boxes": [{"w": 1}, {"w": 2.5}],
}


@pytest.mark.parametrize(
    "rule",
    [
        "self.min <= self.max",
        "has(self.min) && !has(self.list) || size(self.list) == 2",
        "self.name.matches('^[a-z-]+$') && self.name.startsWith('pool')",
        "self.list.all(x, x < 'c') && self.list.exists(x, x == 'b') && self.list.exists_one(x, x == 'a')",
        "'a' in self.list && 'x' in self.map && !('q' in self.map)",
        "self.map['y-z'] == 2 && self.map.all(k, self.map[k] > 0)",
        "self.mode == 'A' ? self.min == 1 : self.min == 2",
        "self.ratio / 2.0 == 0.5 && self.ratio == 1.0 && self.ratio < self.max",
        "self.at < timestamp('2026-01-02T03:00:00Z') && self.at.getFullYear() == 2026",
        "self.day == timestamp('2026-01-02T00:00:00Z')",
        "self.__for__ == duration('90m')",
        "self.raw == b'hi'",
        "type(self.either) == string && self.either.endsWith('%')",
        "self.x__dash__y__dot__z__slash__w == 7 && self.a__underscores__b == 8",
        "self.boxes.map(b, b.w) == [1.0, 2.5]",
        "self.?min.orValue(5) == 1",
        "self.min > 0.5",
        "self.name.split('-')[1].upperAscii() == 'A' && self.list.join(',') == 'a,b'",
        # Kubernetes' own
        "isQuantity('1Gi') && !isQuantity('1 Gi') && quantity('1Gi').compareTo(quantity('1024Mi')) == 0",
        "quantity('1Gi') == quantity('1024Mi') && quantity('500m').isLessThan(quantity('1'))",
        "quantity('2').isGreaterThan(quantity('1500m')) && quantity(string(3)) == quantity('3000m')",
        "'abc'.indexOf('c') == 2",
        "self.either == '50%' // a comment",
    ],
)
def test_rules_that_hold(rule: str) -> None:
    node = ruled(rule, type="object", properties=FIELDS)
    assert told(node, VALUE) == []
    # and it was evaluated: its opposite fails
    opposite = ruled(f"!(\n{rule}\n)", type="object", properties=FIELDS)
    opposite["x-kubernetes-validations"][0]["message"] = "opposite"
    assert told(opposite, VALUE) == ["spec: Invalid value: opposite"]


@pytest.mark.parametrize(
    ("rule", "value", "expected"),
    [
        ("self.min <= self.max", {"min": 2, "max": 1}, "spec: Invalid value: failed rule: self.min <= self.max"),
        (
            "self.min <= self.max",
            {"min": 2},
            'spec: Invalid value: "object": Key not found in map : "max" evaluating rule: self.min <= self.max',
        ),
        (
            "1 / self.min > 0",
            {"min": 0},
            'spec: Invalid value: "object": divide by zero evaluating rule: 1 / self.min > 0',
        ),
        ({"rule": "self.min > 0", "message": " more "}, {"min": 0}, "spec: Invalid value: more"),
        (
            {"rule": "self.min > 0", "message": "no", "messageExpression": "'min is ' + string(self.min)"},
            {"min": 0},
            "spec: Invalid value: min is 0",
        ),
        (
            {"rule": "self.min > 0", "message": "no", "messageExpression": "self.name"},
            {"min": 0},
            "spec: Invalid value: no",
        ),
        (
            {"rule": "self.min > 0", "messageExpression": "' '"},
            {"min": 0},
            "spec: Invalid value: failed rule: self.min > 0",
        ),
        (
            {"rule": "self.min > 0", "fieldPath": ".min", "reason": "FieldValueForbidden", "message": "m"},
            {"min": 0},
            "spec.min: Forbidden: m",
        ),
        (
            {"rule": "self.min > 0", "reason": "FieldValueRequired", "message": "m"},
            {"min": 0},
            "spec: Required value: m",
        ),
    ],
)
def test_words(rule: Any, value: Any, expected: str) -> None:
    assert told(ruled(rule, type="object", properties=FIELDS), value) == [expected]


def test_scalars_are_told_with_their_value() -> None:
    node = {"type": "object", "properties": {"n": ruled("self > 1", type="integer")}}
    assert told(node, {"n": 1}) == ["spec.n: Invalid value: 1: failed rule: self > 1"]


def test_rules_below_lists_and_maps_know_their_place() -> None:
    item = ruled("self.w > 0", type="object", properties={"w": NUMBER})
    fields = {"l": {"type": "array", "items": item}, "m": {"type": "object", "additionalProperties": item}}
    node = {"type": "object", "properties": fields}
    assert told(node, {"l": [{"w": 1}, {"w": 0}], "m": {"k": {"w": 0}}}) == [
        "spec.l[1]: Invalid value: failed rule: self.w > 0",
        "spec.m[k]: Invalid value: failed rule: self.w > 0",
    ]


def test_the_root_sees_its_name() -> None:
    root = ruled("self.metadata.name.size() < 3 && self.kind == 'Pool'", **spec_of({}))
    assert definition.validate(crd(version(root)), None, "") == []
    assert cel.validate(root, pool({})) == []
    (cause,) = cel.validate(root, pool({}, metadata={"name": "long"}))
    assert (cause.field, cause.message.split(":")[0]) == ("<nil>", "Invalid value")


def test_nulls_are_seen_by_the_parent_only() -> None:
    node = ruled(
        "has(self.n)",
        type="object",
        properties={"n": ruled("self.x > 1", type="object", nullable=True, properties={"x": NUMBER})},
    )
    assert told(node, {"n": None}) == []


# --- transitions

FIXED = "self == oldSelf"
KEYED = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
ITEM = {"type": "object", "required": ["k"], "properties": {"k": TEXT, "v": NUMBER}}


@pytest.mark.parametrize(
    ("node", "new", "old", "failing"),
    [
        pytest.param({"properties": {"n": ruled(FIXED, type="integer")}}, {"n": 1}, None, [], id="create"),
        pytest.param({"properties": {"n": ruled(FIXED, type="integer")}}, {"n": 2}, {"n": 1}, ["spec.n"], id="changed"),
        pytest.param({"properties": {"n": ruled(FIXED, type="integer")}}, {"n": 2}, {}, [], id="added"),
        pytest.param(
            {"properties": {"n": ruled(FIXED, type="integer")}}, {}, {"n": 1}, [], id="removed is for the parent"
        ),
        pytest.param(
            ruled("!has(oldSelf.n) || has(self.n)", properties={"n": NUMBER}), {}, {"n": 1}, ["spec"], id="parent"
        ),
        pytest.param(
            {"properties": {"l": {"type": "array", **KEYED, "items": ruled(FIXED, **ITEM)}}},
            {"l": [{"k": "b", "v": 1}, {"k": "a", "v": 2}]},
            {"l": [{"k": "a", "v": 1}]},
            ["spec.l[1]"],
            id="items of a map list by key",
        ),
        pytest.param(
            {"properties": {"m": {"type": "object", "additionalProperties": ruled(FIXED, type="integer")}}},
            {"m": {"a": 2, "b": 1}},
            {"m": {"a": 1}},
            ["spec.m[a]"],
            id="map values by key",
        ),
        pytest.param(
            {"properties": {"l": ruled(FIXED, type="array", items=TEXT)}},
            {"l": ["b", "a"]},
            {"l": ["a", "b"]},
            ["spec.l"],
            id="order counts in a list",
        ),
        pytest.param(
            {"properties": {"l": ruled(FIXED, type="array", items=TEXT, **{"x-kubernetes-list-type": "set"})}},
            {"l": ["b", "c"]},
            {"l": ["a", "b"]},
            ["spec.l"],
            id="another set",
        ),
        pytest.param(
            ruled("self.n >= oldSelf.n", properties={"n": NUMBER}), {"n": 1}, {"n": 2}, ["spec"], id="only grows"
        ),
        pytest.param(
            ruled({"rule": "oldSelf.hasValue() || self.n == 0", "optionalOldSelf": True}, properties={"n": NUMBER}),
            {"n": 1},
            None,
            ["spec"],
            id="optional old value, create",
        ),
        pytest.param(
            ruled({"rule": "oldSelf.orValue(self).n == self.n", "optionalOldSelf": True}, properties={"n": NUMBER}),
            {"n": 1},
            {"n": 2},
            ["spec"],
            id="optional old value, update",
        ),
        pytest.param(
            ruled(
                {"rule": "oldSelf.hasValue() ? oldSelf.value().n == self.n : true // c", "optionalOldSelf": True},
                properties={"n": NUMBER},
            ),
            {"n": 1},
            {"n": 1},
            [],
            id="optional old value, unchanged",
        ),
    ],
)
def test_transitions(node: Any, new: Any, old: Any, failing: list[str]) -> None:
    assert [line.partition(":")[0] for line in told({"type": "object", **node}, new, old)] == failing


@pytest.mark.parametrize(
    ("new", "old", "failing"),
    [
        ({"n": 0}, {"n": 0}, []),
        ({"n": 0, "x": 1}, {"n": 0}, ["spec"]),
        ({"n": 0}, {"n": 1}, ["spec", "spec.n"]),
        ({"n": 1, "l": [0]}, {"n": 1, "l": [0]}, []),
        ({"n": 1, "l": [0, 1]}, {"n": 1, "l": [0]}, ["spec.l[0]"]),
    ],
)
def test_what_has_not_changed_is_not_blamed(new: Any, old: Any, failing: list[str]) -> None:
    positive = ruled("self > 0", type="integer")
    node = ruled(
        "self.n > 0", type="object", properties={"n": positive, "x": NUMBER, "l": {"type": "array", "items": positive}}
    )
    assert [line.partition(":")[0] for line in told(node, new, old)] == failing


NAMES = st.text(st.sampled_from("abz09-._/ é"), max_size=6) | st.sampled_from(["in", "namespace", "__", "a__b"])


@given(NAMES)
def test_escaped_names_are_identifiers_and_differ(name: str) -> None:
    escaped = views.escape(name)
    assert escaped is None or (escaped.isidentifier() and escaped.isascii())
    for other in ("a", "in", "__in__", "a-b", "a.b", "a__b", "a_b"):
        assert escaped is None or name == other or escaped != views.escape(other)
