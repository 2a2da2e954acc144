"""Rules of schemas, judged without an API server."""

from typing import Annotated, Any

import msgspec
import pytest

from crds import schema
from crds.schema import IMMUTABLE, Is, Rule


class Inner(msgspec.Struct):
    fixed: Annotated[str, Is(rules=(Rule(IMMUTABLE, "fixed is immutable"),))] = ""


class Outer(msgspec.Struct):
    name: Annotated[str, Is(min_length=1, max_length=3)] = ""
    end: Annotated[str, Is(pattern="^a+$")] = ""
    items: Annotated[list[str] | None, Is(min_items=1, max_items=2)] = None
    labels: Annotated[dict[str, str] | None, Is(min_properties=1, max_properties=2)] = None
    inner: Inner | None = None
    whole: Annotated[Inner | None, Is(rules=(Rule(IMMUTABLE, "whole is immutable"),))] = None


@pytest.mark.parametrize(
    ("document", "problems"),
    [
        ({"name": "abc", "end": "aa", "items": ["x"], "labels": {"a": "b"}}, []),
        ({"name": ""}, [("Invalid", "name")]),
        ({"name": "abcd"}, [("TooLong", "name")]),
        ({"end": "aa\n"}, [("Invalid", "end")]),  # the end is the end
        ({"items": []}, [("Invalid", "items")]),
        ({"items": ["a", "b", "c"]}, [("TooMany", "items")]),
        ({"labels": {}}, [("Invalid", "labels")]),
        ({"labels": {"a": "", "b": "", "c": ""}}, [("Invalid", "labels")]),
    ],
)
def test_bounds(document: dict[str, Any], problems: list[tuple[str, str]]) -> None:
    assert [(one.type, one.field) for one in schema.violations(document, Outer)] == problems


@pytest.mark.parametrize(
    ("old", "new", "fields"),
    [
        ({"inner": {"fixed": "a"}}, {"inner": {"fixed": "a"}}, []),
        ({"inner": {"fixed": "a"}}, {"inner": {"fixed": "b"}}, ["spec.inner.fixed"]),
        ({"inner": {"fixed": "a"}}, {"inner": {}}, []),  # a transition has two ends
        ({"inner": {}}, {"inner": {"fixed": "a"}}, []),
        ({"whole": {"fixed": "a"}}, {"whole": {"fixed": "b"}}, ["spec.whole", "spec.whole.fixed"]),
        ({"whole": {"fixed": "a"}}, {}, []),
        ({"name": "a"}, {"name": "b"}, []),
        (None, {}, []),
    ],
)
def test_what_may_not_change(old: Any, new: Any, fields: list[str]) -> None:
    assert [one.field for one in schema.transitions(new, old, Outer, "spec")] == fields
