"""CEL rules of custom resources: x-kubernetes-validations."""

from typing import Any

import pytest

from tests.support.kubeobjects import crd, custom, version
from tests.support.kubernetes import Client, Space, eventually

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
INT, STR = {"type": "integer"}, {"type": "string"}


def definition(group: str, properties: dict[str, Any], *rules: dict[str, Any], **spec: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "x-kubernetes-validations": list(rules), **spec}
    return crd(group, version(schema={"spec": schema}))


async def define(kube: Client, space: Space, properties: dict[str, Any], *rules: dict[str, Any], **spec: Any) -> str:
    """A CRD with these rules on its spec; the path of its objects, once it is served."""
    await kube.create(CRDS, definition(space.group, properties, *rules, **spec))
    path = space.of(f"{space.group}/v1", "widgets")
    await eventually(lambda: kube.read(path))
    return path


async def test_a_rule_speaks_over_its_node(kube: Client, space: Space) -> None:
    """self is the node; the message stands behind the path, with the value's type in between."""
    rule = {"rule": "self.min <= self.max", "message": "min must not exceed max"}
    path = await define(kube, space, {"min": INT, "max": INT}, rule)
    await kube.create(path, custom(space.group, "a", {"min": 1, "max": 2}))
    answer = await kube.post(path, custom(space.group, "b", {"min": 3, "max": 2}))
    answer.refused(
        422, "Invalid", f'Widget.{space.group} "b" is invalid: spec: Invalid value:', "min must not exceed max"
    )
    assert answer.causes == [("spec", "FieldValueInvalid")]


async def test_without_a_message_the_rule_is_told(kube: Client, space: Space) -> None:
    """failed rule: …"""
    path = await define(kube, space, {"size": {**INT, "x-kubernetes-validations": [{"rule": "self > 3"}]}})
    answer = await kube.post(path, custom(space.group, "a", {"size": 3}))
    answer.refused(422, "Invalid", "spec.size: Invalid value:", "failed rule: self > 3")


async def test_a_message_can_be_computed(kube: Client, space: Space) -> None:
    """messageExpression wins over message, where it can be evaluated."""
    rule = {
        "rule": "self.size < 10",
        "message": "unused",
        "messageExpression": "self.word + ' is too much'",
    }
    path = await define(kube, space, {"size": INT, "word": {**STR, "maxLength": 9}}, rule)
    answer = await kube.post(path, custom(space.group, "a", {"size": 11, "word": "size"}))
    answer.refused(422, "Invalid", "size is too much")
    assert "unused" not in answer.told
    (await kube.post(path, custom(space.group, "b", {"size": 11}))).refused(422, "Invalid", "unused")


async def test_reason_and_field_path(kube: Client, space: Space) -> None:
    """The cause's reason and where it points."""
    rule = {
        "rule": "has(self.name)",
        "message": "a name is needed",
        "reason": "FieldValueRequired",
        "fieldPath": ".name",
    }
    path = await define(kube, space, {"name": STR}, rule)
    answer = await kube.post(path, custom(space.group, "a", {}))
    answer.refused(422, "Invalid", "spec.name: Required value: a name is needed")
    assert answer.causes == [("spec.name", "FieldValueRequired")]


async def test_a_field_can_be_immutable(kube: Client, space: Space) -> None:
    """self == oldSelf: not checked on create, nor while the value is absent on either side."""
    rule = {"rule": "self == oldSelf", "message": "cannot be changed"}
    path = await define(kube, space, {"model": {**STR, "x-kubernetes-validations": [rule]}, "size": INT})
    await kube.create(path, custom(space.group, "a", {"model": "m"}))
    (await kube.merge(f"{path}/a", {"spec": {"size": 2}})).ok(200)
    answer = await kube.merge(f"{path}/a", {"spec": {"model": "other"}})
    answer.refused(422, "Invalid", "spec.model: Invalid value:", "cannot be changed")
    (await kube.merge(f"{path}/a", {"spec": {"model": None}})).ok(200)
    (await kube.merge(f"{path}/a", {"spec": {"model": "other"}})).ok(200)


async def test_a_transition_compares_old_and_new(kube: Client, space: Space) -> None:
    """oldSelf anywhere in the rule makes it one of updates."""
    rule = {"rule": "self.size >= oldSelf.size", "message": "may only grow"}
    path = await define(kube, space, {"size": INT}, rule)
    await kube.create(path, custom(space.group, "a", {"size": 5}))
    (await kube.merge(f"{path}/a", {"spec": {"size": 6}})).ok(200)
    (await kube.merge(f"{path}/a", {"spec": {"size": 4}})).refused(422, "Invalid", "may only grow")


async def test_optional_old_self_is_there_from_the_start(kube: Client, space: Space) -> None:
    """optionalOldSelf: evaluated on create with optional.none()."""
    rule = {
        "rule": "oldSelf.hasValue() ? self.size >= oldSelf.value().size : self.size == 1",
        "optionalOldSelf": True,
        "message": "start at one, then grow",
    }
    path = await define(kube, space, {"size": INT}, rule)
    (await kube.post(path, custom(space.group, "a", {"size": 2}))).refused(422, "Invalid", "start at one")
    await kube.create(path, custom(space.group, "a", {"size": 1}))
    (await kube.merge(f"{path}/a", {"spec": {"size": 0}})).refused(422, "Invalid", "then grow")
    (await kube.merge(f"{path}/a", {"spec": {"size": 3}})).ok(200)


async def test_entries_of_a_keyed_list_meet_their_former_selves(kube: Client, space: Space) -> None:
    """Transition rules below a map list correlate by key; below other lists they are refused."""
    rule = {"rule": "self == oldSelf", "message": "fixed"}
    item = {
        "type": "object",
        "properties": {"id": STR, "value": {**STR, "maxLength": 9, "x-kubernetes-validations": [rule]}},
        "required": ["id"],
    }
    listed = {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id"], "items": item}
    listed["maxItems"] = 9
    path = await define(kube, space, {"items": listed})
    two = [{"id": "x", "value": "1"}, {"id": "y", "value": "2"}]
    await kube.create(path, custom(space.group, "a", {"items": two}))
    (await kube.merge(f"{path}/a", {"spec": {"items": [*reversed(two), {"id": "z", "value": "3"}]}})).ok(200)
    answer = await kube.merge(f"{path}/a", {"spec": {"items": [{"id": "y", "value": "9"}]}})
    answer.refused(422, "Invalid", "spec.items[0].value", "fixed")
    plain = {"type": "array", "items": {**STR, "x-kubernetes-validations": [rule]}}
    answer = await kube.post(CRDS, definition(f"b.{space.group}", {"items": plain}))
    answer.refused(422, "Invalid", "oldSelf cannot be used")


async def test_lists_and_maps_are_walked(kube: Client, space: Space) -> None:
    """all, exists, size, filter, map and in."""
    rules = [
        {"rule": "self.names.all(n, n.startsWith('a'))", "message": "all start with a"},
        {"rule": "self.names.exists(n, n.endsWith('z'))", "message": "one ends with z"},
        {"rule": "size(self.names) <= 3", "message": "at most three"},
        {"rule": "self.limits.all(k, self.limits[k] > 0)", "message": "positive"},
        {"rule": "'a' in self.limits", "message": "a is limited"},
        {"rule": "self.names.filter(n, n.contains('-')).map(n, size(n)).exists_one(s, s > 2)", "message": "one dash"},
    ]
    limits = {"type": "object", "additionalProperties": INT, "maxProperties": 9}
    names = {"type": "array", "maxItems": 9, "items": {**STR, "maxLength": 9}}
    path = await define(kube, space, {"names": names, "limits": limits}, *rules)
    await kube.create(path, custom(space.group, "a", {"names": ["ab", "a-z"], "limits": {"a": 1}}))
    answer = await kube.post(path, custom(space.group, "b", {"names": ["b", "b", "b", "b"], "limits": {"b": 0}}))
    answer.refused(422, "Invalid")
    for rule in rules:
        assert rule["message"] in answer.told


async def test_every_scalar_has_its_type(kube: Client, space: Space) -> None:
    """Strings, numbers, booleans, bytes, date-times and durations by format, int-or-string as dynamic. What has no
    name in CEL is no matter."""
    properties = {
        "text": STR,
        "number": {"type": "number"},
        "flag": {"type": "boolean"},
        "at": {**STR, "format": "date-time"},
        "every": {**STR, "format": "duration"},
        "either": {"x-kubernetes-int-or-string": True},
        "raw": {**STR, "format": "byte"},
        "9 lives": INT,
    }
    rules = [
        {"rule": "self.text.matches('^[a-z]+$') && self.text.size() < 5"},
        {"rule": "self.number > 0.5"},
        {"rule": "self.flag"},
        {"rule": "self.at > timestamp('2026-01-01T00:00:00Z')"},
        {"rule": "self.every <= duration('1h')"},
        {"rule": "type(self.either) == int ? self.either < 10 : self.either.endsWith('%')"},
        {"rule": "self.raw == b'hi'"},
    ]
    path = await define(kube, space, properties, *rules)
    good = {"text": "abc", "number": 1.5, "flag": True, "at": "2026-02-01T00:00:00Z", "every": "30m", "either": "5%"}
    good |= {"raw": "aGk=", "9 lives": 9}
    await kube.create(path, custom(space.group, "a", good))
    await kube.create(path, custom(space.group, "b", {**good, "either": 5}))
    for name, wrong in {"text": "ABC", "number": 0, "flag": False, "every": "2h", "either": 50, "raw": "aGs="}.items():
        (await kube.post(path, custom(space.group, "c", {**good, name: wrong}))).refused(422, "Invalid", "failed rule")
    answer = await kube.post(path, custom(space.group, "c", {**good, "at": "2025-02-01T00:00:00Z"}))
    answer.refused(422, "Invalid", "failed rule")


async def test_names_that_are_words_of_cel_are_escaped(kube: Client, space: Space) -> None:
    """__in__, __namespace__; dashes, dots and slashes as __dash__, __dot__, __slash__."""
    properties = {"in": INT, "namespace": STR, "a-b": INT, "a.b": INT}
    rules = [
        {"rule": "self.__in__ == 1"},
        {"rule": "self.__namespace__ == 'n'"},
        {"rule": "self.a__dash__b < self.a__dot__b"},
    ]
    path = await define(kube, space, properties, *rules)
    good = {"in": 1, "namespace": "n", "a-b": 1, "a.b": 2}
    await kube.create(path, custom(space.group, "a", good))
    (await kube.post(path, custom(space.group, "b", {**good, "a-b": 3}))).refused(422, "Invalid", "a__dash__b")


async def test_a_root_rule_sees_the_name(kube: Client, space: Space) -> None:
    """metadata.name and generateName, apiVersion and kind; nothing else of metadata."""
    body = crd(space.group, version())
    schema = body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["x-kubernetes-validations"] = [{"rule": "self.metadata.name == 'default'", "message": "there is one"}]
    await kube.create(CRDS, body)
    path = space.of(f"{space.group}/v1", "widgets")
    await eventually(lambda: kube.create(path, custom(space.group, "default", {"size": 1})))
    (await kube.post(path, custom(space.group, "second", {"size": 1}))).refused(422, "Invalid", "there is one")


async def test_rules_see_defaults(kube: Client, space: Space) -> None:
    """Defaulting comes first."""
    path = await define(kube, space, {"size": {**INT, "default": 7}}, {"rule": "self.size == 7"})
    await kube.create(path, custom(space.group, "a", {}))


async def test_rules_of_status_hold_on_its_endpoint(kube: Client, space: Space) -> None:
    """Below status as below spec."""
    rule = {"rule": "self.ready <= self.total", "message": "more ready than there are"}
    status = {"type": "object", "properties": {"ready": INT, "total": INT}, "x-kubernetes-validations": [rule]}
    schema = {"spec": {"type": "object"}, "status": status}
    await kube.create(CRDS, crd(space.group, version(schema=schema, subresources={"status": {}})))
    path = space.of(f"{space.group}/v1", "widgets")
    await eventually(lambda: kube.create(path, custom(space.group, "a", {})))
    (await kube.merge(f"{path}/a/status", {"status": {"ready": 1, "total": 1}})).ok(200)
    answer = await kube.merge(f"{path}/a/status", {"status": {"ready": 2}})
    answer.refused(422, "Invalid", "status: Invalid value:", "more ready than there are")


async def test_an_error_while_evaluating_is_a_violation(kube: Client, space: Space) -> None:
    """A key that is not there, a division by zero: never an error of the server."""
    path = await define(kube, space, {"a": INT, "b": INT}, {"rule": "self.a / self.b > 0"})
    await kube.create(path, custom(space.group, "a", {"a": 2, "b": 1}))
    (await kube.post(path, custom(space.group, "b", {"a": 2, "b": 0}))).refused(422, "Invalid", "rule")
    (await kube.post(path, custom(space.group, "c", {"a": 2}))).refused(422, "Invalid", "rule")


@pytest.mark.parametrize(
    ("rule", "part"),
    [
        ("self.", "Syntax error"),
        ("self.none > 1", "undefined field 'none'"),
        ("self.size", "must evaluate to a bool"),
        ("self.size > 'x'", "found no matching overload"),
        ("", "Required value"),
        ("unknown(self.size)", "undeclared reference to 'unknown'"),
    ],
)
async def test_a_rule_that_does_not_compile_is_refused_with_the_definition(
    kube: Client, space: Space, rule: str, part: str
) -> None:
    """The path of the rule and what the compiler says."""
    answer = await kube.post(CRDS, definition(space.group, {"size": INT}, {"rule": rule}))
    answer.refused(422, "Invalid", part)
    where = "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule"
    assert {field for field, _ in answer.causes} == {where}


@pytest.mark.parametrize(
    ("rule", "where", "reason"),
    [
        ({"rule": "true", "message": "two\nlines"}, ".message", "FieldValueInvalid"),
        ({"rule": "true\n&& true"}, ".message", "FieldValueRequired"),
        ({"rule": "true", "reason": "FieldValueOdd"}, ".reason", "FieldValueNotSupported"),
        ({"rule": "true", "fieldPath": ".nothing"}, ".fieldPath", "FieldValueInvalid"),
        ({"rule": "true", "optionalOldSelf": True}, ".optionalOldSelf", "FieldValueInvalid"),
    ],
)
async def test_what_a_rule_says_beside_itself_is_checked(
    kube: Client, space: Space, rule: dict[str, Any], where: str, reason: str
) -> None:
    answer = await kube.post(CRDS, definition(space.group, {"size": INT}, rule))
    answer.refused(422, "Invalid")
    path = "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0]"
    assert answer.causes == [(path + where, reason)]


async def test_a_rule_comes_to_an_end(kube: Client, space: Space) -> None:
    """One that asks too much is told when it is written, or when it is asked."""
    rule = {"rule": "self.list.all(a, self.list.all(b, self.list.all(c, self.list.all(d, true))))"}
    answer = await kube.post(CRDS, definition(space.group, {"list": {"type": "array", "items": INT}}, rule))
    if answer.status == 201:
        answer = await kube.post(
            space.of(f"{space.group}/v1", "widgets"), custom(space.group, "a", {"list": [1] * 100})
        )
    answer.refused(422, "Invalid", "budget")


@pytest.mark.parametrize(
    ("node", "value", "rule"),
    [
        ({**STR, "format": "date-time"}, "soon", "self.value > timestamp('2026-01-01T00:00:00Z')"),
        ({"type": "boolean"}, "yes", "self.value"),
        ({"type": "object", "properties": {"size": INT}}, "none", "self.value.size > 1"),
        ({"type": "array", "items": INT}, "none", "self.value.all(one, one > 1)"),
        ({"type": "object", "additionalProperties": INT}, "none", "self.value.all(one, one > '')"),
    ],
)
async def test_a_rule_meets_what_the_schema_takes_no_more(
    kube: Client, space: Space, node: dict[str, Any], value: str, rule: str
) -> None:
    """A value from before is not blamed for its type; the rule that cannot be asked of it is told."""
    path = await define(kube, space, {"value": STR, "size": INT})
    await kube.create(path, custom(space.group, "a", {"value": value, "size": 1}))
    name = f"{CRDS}/widgets.{space.group}"
    versions = definition(space.group, {"value": node, "size": INT}, {"rule": rule})["spec"]["versions"]
    (await kube.merge(name, {"spec": {"versions": versions}})).ok()
    size = iter(range(2, 1000))

    async def refused() -> None:
        answer = await kube.merge(f"{path}/a", {"spec": {"size": next(size)}})
        answer.refused(422, "Invalid", "evaluating rule")
        assert answer.causes == [("spec", "FieldValueInvalid")]

    await eventually(refused)


async def test_a_message_expression_must_be_text(kube: Client, space: Space) -> None:
    """Compiled with the definition too."""
    rule = {"rule": "self.size > 1", "messageExpression": "self.size"}
    answer = await kube.post(CRDS, definition(space.group, {"size": INT}, rule))
    answer.refused(422, "Invalid", "messageExpression", "must evaluate to a string")


@pytest.mark.parametrize(
    ("rule", "good", "bad"),
    [
        ("!format.dns1123Label().validate(self.word).hasValue()", "fine", "Not Fine"),
        ("cidr('10.0.0.0/8').containsIP(self.word)", "10.1.2.3", "11.1.2.3"),
        ("isURL(self.word) && url(self.word).getScheme() == 'https'", "https://x", "http://x"),
        ("quantity(self.word).isLessThan(quantity('1Gi'))", "900Mi", "2Gi"),
        ("isQuantity(self.word)", "900Mi", "900 Mi"),
        ("isSemver(self.word) && semver(self.word).major() == 2", "2.1.0", "1.9.0"),
        ("self.word.split(',').sum() == '' || true", "", ""),
        ("self.word.lowerAscii() == 'abc' && self.word.charAt(0) == 'a'", "abc", "ABC"),
        ("self.word.find('[0-9]+') == '42'", "a42b", "a43b"),
        ("[3, 1, 2].isSorted() || self.word.indexOf('x') == 1", "axe", "xxx"),
        ("sets.contains(['a', 'b'], [self.word])", "a", "c"),
        ("'%s-%d'.format([self.word, 3]) == 'a-3'", "a", "b"),
        ("optional.of(self.word).orValue('x') == 'y'", "y", "x"),
        ("self.word.split('').all(i, c, i < 2 || c == 'z')", "abz", "abc"),
        ("[self.word, 'm'].sort()[0] == 'm'", "z", "a"),
    ],
)
async def test_kubernetes_own_functions_are_evaluated_or_refused(
    kube: Client, space: Space, rule: str, good: str, bad: str
) -> None:
    """Whatever a server accepts with the definition it evaluates as upstream does: nothing is ignored."""
    answer = await kube.post(CRDS, definition(space.group, {"word": {**STR, "maxLength": 20}}, {"rule": rule}))
    if answer.status != 201:
        answer.refused(422, "Invalid", "x-kubernetes-validations[0].rule")
        return
    path = space.of(f"{space.group}/v1", "widgets")
    await eventually(lambda: kube.create(path, custom(space.group, "good", {"word": good})))
    if bad != good:
        (await kube.post(path, custom(space.group, "bad", {"word": bad}))).refused(422, "Invalid", "failed rule")
