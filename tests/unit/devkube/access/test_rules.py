"""One rule against one question, and what a set of rules lacks of another. The tables are read from upstream's
evaluation_helpers_test.go and policy_comparator_test.go in spirit: a row per rule of the language."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devkube.access.rules import Question, Rule, allows, missing
from devkube.requests import User

JANE = User("jane", groups=("dev",))


def ask(verb: str, resource: str = "", *, group: str = "", name: str = "", path: str = "") -> Question:
    resource, _, sub = resource.partition("/")
    return Question(JANE, verb, group, resource, sub, "ns", name, path)


@pytest.mark.parametrize(
    ("rule", "question", "allowed"),
    [
        pytest.param(Rule(("get",), ("",), ("pods",)), ask("get", "pods"), True, id="exact"),
        pytest.param(Rule(("get",), ("",), ("pods",)), ask("list", "pods"), False, id="other verb"),
        pytest.param(Rule(("get",), ("",), ("pods",)), ask("get", "pods", group="apps"), False, id="other group"),
        pytest.param(Rule(("get",), ("",), ("pods",)), ask("get", "pods/log"), False, id="subresource is not included"),
        pytest.param(Rule(("get",), ("",), ("pods/log",)), ask("get", "pods/log"), True, id="subresource"),
        pytest.param(Rule(("get",), ("",), ("pods/log",)), ask("get", "pods"), False, id="subresource only"),
        pytest.param(Rule(("get",), ("",), ("*/scale",)), ask("get", "x/scale"), True, id="scale of anything"),
        pytest.param(Rule(("get",), ("",), ("*/scale",)), ask("get", "x"), False, id="scale of anything is scale only"),
        pytest.param(Rule(("get",), ("",), ("pods/*",)), ask("get", "pods/log"), False, id="pods/* is no pattern"),
        pytest.param(Rule(("*",), ("*",), ("*",)), ask("x", "y/z", group="g"), True, id="everything"),
        pytest.param(Rule(("*",), ("*",), ("*",)), ask("get", path="/metrics"), False, id="resources are no URLs"),
        pytest.param(Rule(("get",), ("",), ("pods",), ("a",)), ask("get", "pods", name="a"), True, id="named"),
        pytest.param(Rule(("get",), ("",), ("pods",), ("a",)), ask("get", "pods", name="b"), False, id="another name"),
        pytest.param(Rule(("list",), ("",), ("pods",), ("a",)), ask("list", "pods"), False, id="a list has no name"),
        pytest.param(Rule(("get",), urls=("/m",)), ask("get", path="/m"), True, id="URL"),
        pytest.param(Rule(("get",), urls=("/m/*",)), ask("get", path="/m/x/y"), True, id="URL prefix"),
        pytest.param(Rule(("get",), urls=("/m/*",)), ask("get", path="/m"), False, id="URL prefix ends in a slash"),
        pytest.param(Rule(("get",), urls=("*",)), ask("get", path="/m"), True, id="any URL"),
        pytest.param(Rule(("get",), urls=("*",)), ask("get", "pods"), False, id="URLs are no resources"),
    ],
)
def test_allows(rule: Rule, question: Question, allowed: bool) -> None:
    assert allows(rule, question) is allowed


PODS = Rule(("get", "list"), ("",), ("pods",))


@pytest.mark.parametrize(
    ("held", "wanted", "lacking"),
    [
        pytest.param([PODS], [PODS], [], id="the same"),
        pytest.param(
            [PODS],
            [Rule(("get", "delete", "watch"), ("",), ("pods",))],
            ['{APIGroups:[""], Resources:["pods"], Verbs:["delete" "watch"]}'],
            id="verbs are told together",
        ),
        pytest.param(
            [Rule(("get",), ("",), ("pods",)), Rule(("list",), ("",), ("pods",))], [PODS], [], id="held in two rules"
        ),
        pytest.param([Rule(("*",), ("*",), ("*",))], [PODS, Rule(("x",), ("g",), ("a/b",), ("n",))], [], id="star"),
        pytest.param(
            [PODS],
            [Rule(("get",), ("",), ("*",))],
            ['{APIGroups:[""], Resources:["*"], Verbs:["get"]}'],
            id="a star is more than all",
        ),
        pytest.param([PODS], [Rule(("get",), ("",), ("pods",), ("a",))], [], id="one name of all"),
        pytest.param(
            [Rule(("get",), ("",), ("pods",), ("a",))],
            [Rule(("get",), ("",), ("pods",))],
            ['{APIGroups:[""], Resources:["pods"], Verbs:["get"]}'],
            id="all names of one",
        ),
        pytest.param([Rule(("get",), ("",), ("*/scale",))], [Rule(("get",), ("",), ("x/scale",))], [], id="*/scale"),
        pytest.param(
            [Rule(("get",), urls=("/a/*",))],
            [Rule(("get",), urls=("/a/b", "/c"))],
            ['{NonResourceURLs:["/c"], Verbs:["get"]}'],
            id="URLs",
        ),
        pytest.param(
            [],
            [Rule(("get",), ("", "apps"), ("x",))],
            [f'{{APIGroups:["{group}"], Resources:["x"], Verbs:["get"]}}' for group in ("", "apps")],
            id="a group each",
        ),
    ],
)
def test_missing(held: list[Rule], wanted: list[Rule], lacking: list[str]) -> None:
    assert list(map(str, missing(held, wanted))) == lacking


words = st.lists(st.sampled_from(["a", "b", "*", "b/s", "*/s"]), max_size=3).map(tuple)
rules = st.builds(Rule, verbs=words, groups=words, resources=words, names=words, urls=st.just(()))


@given(st.lists(rules, max_size=3), st.lists(rules, max_size=3))
def test_what_nobody_lacks_nobody_gains(held: list[Rule], wanted: list[Rule]) -> None:
    """Covered rules allow nothing that the holder's do not: the point of the check."""
    if missing(held, wanted):
        return
    for verb in ("a", "b", "c"):
        for resource in ("a", "b", "b/s", "c/s"):
            for name in ("", "a", "*"):
                question = ask(verb, resource, group="a", name=name)
                if any(allows(rule, question) for rule in wanted):
                    assert any(allows(rule, question) for rule in held)
