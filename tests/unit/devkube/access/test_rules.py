"""One rule against one question: a row per rule of the language, in the spirit of evaluation_helpers_test.go."""

import pytest

from devkube.access.rbac import Question, allows
from devkube.kinds import Object
from devkube.requests import User

JANE = User("jane", groups=("dev",))


def rule(verbs: str, groups: str = "", resources: str = "", names: str = "", urls: str = "") -> Object:
    found = {"verbs": verbs.split(), "apiGroups": groups.split() or [""], "resources": resources.split()}
    return {**found, "resourceNames": names.split(), "nonResourceURLs": urls.split()}


def ask(verb: str, resource: str = "", *, group: str = "", name: str = "", path: str = "") -> Question:
    resource, _, sub = resource.partition("/")
    return Question(JANE, verb, group, resource, sub, "ns", name, path)


@pytest.mark.parametrize(
    ("rule", "question", "allowed"),
    [
        pytest.param(rule("get", "", "pods"), ask("get", "pods"), True, id="exact"),
        pytest.param(rule("get", "", "pods"), ask("list", "pods"), False, id="other verb"),
        pytest.param(rule("get", "", "pods"), ask("get", "pods", group="apps"), False, id="other group"),
        pytest.param(rule("get", "", "pods"), ask("get", "pods/log"), False, id="subresource is not included"),
        pytest.param(rule("get", "", "pods/log"), ask("get", "pods/log"), True, id="subresource"),
        pytest.param(rule("get", "", "pods/log"), ask("get", "pods"), False, id="subresource only"),
        pytest.param(rule("get", "", "*/scale"), ask("get", "x/scale"), True, id="scale of anything"),
        pytest.param(rule("get", "", "*/scale"), ask("get", "x"), False, id="scale of anything is scale only"),
        pytest.param(rule("get", "", "pods/*"), ask("get", "pods/log"), False, id="pods/* is no pattern"),
        pytest.param(rule("*", "*", "*"), ask("x", "y/z", group="g"), True, id="everything"),
        pytest.param(rule("*", "*", "*"), ask("get", path="/metrics"), False, id="resources are no URLs"),
        pytest.param(rule("get", "", "pods", "a"), ask("get", "pods", name="a"), True, id="named"),
        pytest.param(rule("get", "", "pods", "a"), ask("get", "pods", name="b"), False, id="another name"),
        pytest.param(rule("list", "", "pods", "a"), ask("list", "pods"), False, id="a list has no name"),
        pytest.param(rule("get", urls="/m"), ask("get", path="/m"), True, id="URL"),
        pytest.param(rule("get", urls="/m/*"), ask("get", path="/m/x/y"), True, id="URL prefix"),
        pytest.param(rule("get", urls="/m/*"), ask("get", path="/m"), False, id="URL prefix ends in a slash"),
        pytest.param(rule("get", urls="*"), ask("get", path="/m"), True, id="any URL"),
        pytest.param(rule("get", urls="*"), ask("get", "pods"), False, id="URLs are no resources"),
    ],
)
def test_allows(rule: Object, question: Question, allowed: bool) -> None:
    assert allows(rule, question) is allowed
