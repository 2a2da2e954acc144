"""matchConditions: what compiles, what several of them mean, what an error means under either failurePolicy."""

import pytest

from devkube.admission import conditions
from devkube.admission.conditions import Condition, Failed

VARIABLES = {
    "object": {"metadata": {"name": "a", "labels": {"app": "web"}}, "spec": {"replicas": 3}},
    "oldObject": None,
    "request": {"userInfo": {"username": "jane", "groups": ["dev"]}, "operation": "CREATE"},
}


def holds(*expressions: str, lenient: bool = False) -> bool:
    return conditions.matches([Condition(text, text) for text in expressions], VARIABLES, lenient=lenient)


@pytest.mark.parametrize(
    ("expression", "held"),
    [
        ("true", True),
        ('object.metadata.name == "a"', True),
        ("oldObject == null", True),
        ('request.userInfo.username.startsWith("system:")', False),
        ('!("system:masters" in request.userInfo.groups)', True),
        ('"app" in object.metadata.labels && object.metadata.labels["app"] == "web"', True),
        ("object.spec.replicas > 2 && object.spec.replicas < 4", True),
        ('object.metadata.?annotations["x"].orValue("none") == "none"', True),
        ('object.metadata.name.matches("^[a-c]$")', True),
        ('"a,b".split(",").exists(x, x == object.metadata.name)', True),
        ("  object.spec.replicas == 3\n", True),
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
    with pytest.raises(Failed, match=r"^\[expression"):
        holds("object.a == 1", "object.b == 1")


def problems(*found: dict) -> list[tuple[str, str, str]]:
    causes = conditions.problems({"webhooks": [{"matchConditions": list(found)}]})
    return [(c.field.removeprefix("webhooks[0].matchConditions"), c.reason, c.message) for c in causes]


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("object.x ==", "Syntax error"),
        ("foo == 1", "undeclared reference to 'foo'"),
        ("object.spec", "must evaluate to bool but got dyn"),
        ("1 + 1", "must evaluate to bool but got int"),
        ('authorizer.path("/x").check("get").allowed()', "devkube does not offer authorizer to matchConditions"),
        ("isURL(object.spec.url)", "undeclared reference to 'isURL'"),
        ('quantity("1Gi").isLessThan(quantity("2Gi"))', "undeclared reference to 'quantity'"),
        ("object.spec.list.sum() == 3", "undeclared reference to 'sum'"),
    ],
)
def test_what_cannot_be_evaluated_is_refused(expression: str, text: str) -> None:
    ((field, reason, message),) = problems({"name": "a", "expression": expression})
    assert (field, reason) == ("[0].expression", "FieldValueInvalid")
    assert message.startswith(f'Invalid value: "{expression}": ')
    assert text in message


def test_names_and_numbers() -> None:
    good = {"name": "a", "expression": "true"}
    assert problems(good) == []
    assert problems(good, good) == [("[1].name", "FieldValueDuplicate", 'Duplicate value: "a"')]
    assert problems({}) == [
        ("[0].expression", "FieldValueRequired", "Required value"),
        ("[0].name", "FieldValueRequired", "Required value"),
    ]
    many = [{"name": f"n{i}", "expression": "true"} for i in range(65)]
    assert problems(*many) == [("", "FieldValueTooMany", "Too many: 65: must have at most 64 items")]


def test_expressions_that_are_stored_already_are_not_asked_again() -> None:
    stored = {"webhooks": [{"matchConditions": [{"name": "a", "expression": "nope()"}]}]}
    assert conditions.problems(stored, stored) == []
    assert len(conditions.problems(stored)) == 1
