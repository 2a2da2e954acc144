"""matchConditions: what compiles, what several of them mean, what an error means under either failurePolicy."""

import pytest

from devkube.admission import conditions
from devkube.admission.conditions import Failed

VARIABLES = {
    "object": {"metadata": {"name": "a", "labels": {"app": "web"}}, "spec": {"replicas": 3}},
    "oldObject": None,
    "request": {
        "userInfo": {"username": "jane", "groups": ["dev"], "extra": {"a/b": ["c"]}},
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "operation": "CREATE",
        "dryRun": False,
    },
}


def holds(*expressions: str, lenient: bool = False) -> bool:
    return conditions.matches(expressions, VARIABLES, lenient=lenient)


@pytest.mark.parametrize(
    ("expression", "held"),
    [
        ("true", True),
        ('object.metadata.name == "a"', True),
        ("oldObject == null", True),
        ('request.userInfo.extra["a/b"].exists(x, x == "c")', True),
        ("!has(request.subResource) && !request.dryRun", True),
        ('request.kind.kind == "Pod" && request.resource.resource == "pods"', True),
        ('request.userInfo.username.startsWith("system:")', False),
        ('!("system:masters" in request.userInfo.groups)', True),
        ('"app" in object.metadata.labels && object.metadata.labels["app"] == "web"', True),
        ("object.spec.replicas > 2 && object.spec.replicas < 4", True),
        ('object.metadata.?annotations["x"].orValue("none") == "none"', True),
        ('object.metadata.name.matches("^[a-c]$")', True),
        ('"a,b".split(",").exists(x, x == object.metadata.name)', True),
        ("  object.spec.replicas == 3\n", True),
        ('quantity("1Gi").isGreaterThan(quantity("1Mi"))', True),
        ("[1, 2, object.spec.replicas].exists(n, n == 3)", True),
    ],
)
def test_expressions(expression: str, held: bool) -> None:
    assert holds(expression) is held


def test_all_must_hold_and_a_false_one_decides_even_beside_errors() -> None:
    assert holds("true", "1 == 1")
    assert not holds("true", "false")
    assert not holds("object.nope.x == 1", "false")


def test_an_error_fails_or_skips() -> None:
    with pytest.raises(Failed, match=r"expression 'object\.nope\.x == 1' resulted in error: .*nope"):
        holds("object.nope.x == 1", "true")
    assert not holds("object.nope.x == 1", "true", lenient=True)
    with pytest.raises(Failed, match=r"object\.a == 1.*, expression"):
        holds("object.a == 1", "object.b == 1")


def problems(*found: dict) -> list[tuple[str, str, str]]:
    return [(c.field, c.reason, c.message) for c in conditions.problems(found, "here")]


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("object.x ==", "Syntax error"),
        ("foo == 1", "undeclared reference to 'foo'"),
        ("object.spec", "must evaluate to a bool but got dyn"),
        ("1 + 1", "must evaluate to a bool but got int"),
        ('authorizer.path("/x").check("get").allowed()', "(devkube does not have authorizer)"),
        ('quantity("1Gi") == object.nope()', "undeclared reference to 'nope'"),
        ('format.named("x").hasValue()', "(devkube does not have format)"),
        ("quantity(1).isInteger()", "found no matching overload"),
        ('request.userinfo.username == "x"', "undefined field 'userinfo'"),
        ("request.dryRun == 1", "found no matching overload"),
    ],
)
def test_what_cannot_be_evaluated_is_refused(expression: str, text: str) -> None:
    ((field, reason, message),) = problems({"name": "a", "expression": expression})
    assert (field, reason) == ("here[0].expression", "FieldValueInvalid")
    assert message.startswith(f'Invalid value: "{expression}": ')
    assert text in message


def test_numbers() -> None:
    assert problems({"name": "a", "expression": "true"}) == []
    assert problems({}) == [("here[0].expression", "FieldValueRequired", "Required value")]
