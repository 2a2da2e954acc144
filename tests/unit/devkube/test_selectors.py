"""Label selectors: what they choose and what is said of those that are none."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devkube import selectors
from devkube.errors import StatusError

LABELS = {"app": "web", "tier": "front", "example.com/level": "7", "empty": ""}


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("", True),
        ("app", True),
        ("!app", False),
        ("! none", True),
        ("app=web", True),
        ("app==web", True),
        ("app = web , tier != back", True),
        ("app=web,tier=back", False),
        ("none!=x", True),
        ("app in (web,db)", True),
        ("app in ( db )", False),
        ("app notin (web)", False),
        ("none notin (web)", True),
        ("empty=", True),
        ("empty in ()", True),
        ("app in (,)", False),
        ("example.com/level>6", True),
        ("example.com/level<7", False),
        ("app>1", False),
        ("in in (x)", False),
        ("app in (in,notin,web)", True),
    ],
)
def test_labels(text: str, chosen: bool) -> None:
    assert selectors.parse_labels(text)(LABELS) is chosen


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("=", "unable to parse requirement: found no label"),
        ("a,", "unable to parse requirement: found no label"),
        ("a b", "in 'a b'"),
        ("x,a in b", "in 'a in b'"),
        ("a in (b", "in 'a in (b'"),
        ("a in (b c)", 'Invalid value: "b c"'),
        ("a=b=c", "in 'a=b=c'"),
        ("a>x", "the value must be an integer"),
        ("-a=b", "name part must consist of alphanumeric characters"),
        ("a/b/c", "a valid label key must consist of"),
        ("/a", "prefix part must be non-empty"),
        ("A_/a", "prefix part a lowercase RFC 1123 subdomain"),
        ("a=-", "a valid label must be an empty string or consist of"),
        ("a=" + "x" * 64, "must be no more than 63 bytes"),
    ],
)
def test_labels_that_are_none(text: str, told: str) -> None:
    with pytest.raises(StatusError) as caught:
        selectors.parse_labels(text)
    assert caught.value.code == 400
    assert told in caught.value.message


@given(st.text(alphabet="ab=!,()<> in\\notx/.-\"'é", max_size=30))
def test_any_text_selects_or_is_refused(text: str) -> None:
    with contextlib.suppress(StatusError):
        assert callable(selectors.parse_labels(text))


@pytest.mark.parametrize(
    ("selector", "chosen"),
    [
        (None, False),
        ({}, True),
        ({"matchLabels": {"app": "web"}}, True),
        ({"matchLabels": {"app": "db"}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}, False),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "none", "operator": "DoesNotExist"}]}, True),
    ],
)
def test_objects(selector: dict[str, object] | None, chosen: bool) -> None:
    assert selectors.matches(selector, LABELS) is chosen


def test_an_object_as_text() -> None:
    selector = {
        "matchLabels": {"b": "2", "a": "1"},
        "matchExpressions": [
            {"key": "c", "operator": "In", "values": ["y", "x"]},
            {"key": "d", "operator": "DoesNotExist"},
        ],
    }
    assert selectors.selector_text(selector) == "a=1,b=2,c in (x,y),!d"
    assert selectors.selector_text(None) == ""
