"""JSON Patch and merge patch. The odd cases are upstream's behaviour, checked against its library when written."""

import copy

import pytest

from devkube.errors import StatusError
from devkube.patches import MAX_OPERATIONS, json_patch, merge_patch
from devkube.values import MAX_DEPTH

DOC = {"a": {"b": 1, "c": [1, 2, 3]}, "x/y": 1, "m~n": 2, "none": None}


def op(kind, path, **more):
    return {"op": kind, "path": path, **more}


@pytest.mark.parametrize(
    ("ops", "expected"),
    [
        ([op("add", "/a/d", value={"e": 1})], {**DOC, "a": {"b": 1, "c": [1, 2, 3], "d": {"e": 1}}}),
        ([op("add", "/a/c/1", value=9)], {**DOC, "a": {"b": 1, "c": [1, 9, 2, 3]}}),
        ([op("add", "/a/c/-", value=9)], {**DOC, "a": {"b": 1, "c": [1, 2, 3, 9]}}),
        ([op("add", "/a/c/-1", value=9)], {**DOC, "a": {"b": 1, "c": [1, 2, 3, 9]}}),
        ([op("add", "/a/b")], {**DOC, "a": {"b": None, "c": [1, 2, 3]}}),
        ([op("remove", "/a/c/0")], {**DOC, "a": {"b": 1, "c": [2, 3]}}),
        ([op("remove", "/a/c/-1")], {**DOC, "a": {"b": 1, "c": [1, 2]}}),
        ([op("remove", "/x~1y"), op("remove", "/m~0n"), op("remove", "/none")], {"a": DOC["a"]}),
        ([op("replace", "/a/b", value=[])], {**DOC, "a": {"b": [], "c": [1, 2, 3]}}),
        ([op("replace", "/new", value=5)], {**DOC, "new": 5}),
        ([op("replace", "", value={"z": 1})], {"z": 1}),
        ([op("move", "/a/z", **{"from": "/a/b"})], {**DOC, "a": {"z": 1, "c": [1, 2, 3]}}),
        ([op("copy", "/z", **{"from": "/a/c"}), op("remove", "/z/0")], {**DOC, "z": [2, 3]}),
        ([op("copy", "/z", **{"from": "/absent"})], {**DOC, "z": None}),
        ([op("test", "/a", value={"c": [1, 2, 3], "b": 1}), op("test", "/absent"), op("test", "/none")], DOC),
        ([], DOC),
    ],
)
def test_operations(ops, expected):
    before = copy.deepcopy(DOC)
    assert json_patch(DOC, ops) == expected
    assert before == DOC


@pytest.mark.parametrize(
    ("ops", "why"),
    [
        ([op("test", "/a/b", value=2)], "testing value /a/b failed: test failed"),
        ([op("test", "/a/b", value=True)], "testing value /a/b failed: test failed"),
        ([op("test", "", value={})], "testing value  failed: test failed"),
        ([op("remove", "/a/z")], "remove operation does not apply: Unable to remove nonexistent key: z"),
        ([op("remove", "/a/c/3")], "Unable to access invalid index: 3"),
        ([op("remove", "/a/c/-")], "Unable to access invalid index: -"),
        ([op("remove", "/a/c/-4")], "Unable to access invalid index: -4"),
        ([op("add", "/a/c/x", value=1)], "value was not a proper array index: 'x'"),
        ([op("add", "/a/c/5", value=1)], "add operation does not apply: Unable to access invalid index: 5"),
        ([op("add", "/q/r", value=1)], 'add operation does not apply: doc is missing path: "/q/r": missing value'),
        ([op("add", "", value={})], 'add operation does not apply: doc is missing path: ""'),
        ([op("add", "/a/b/c", value=1)], "doc is missing path"),
        ([op("replace", "/a/c/7", value=1)], "replace operation does not apply: Unable to access invalid index: 7"),
        ([op("replace", "", value=3)], "Invalid value: an number"),
        ([op("move", "/b", **{"from": "/z"})], "Unable to remove nonexistent key: z"),
        ([op("move", "/a/b/c", **{"from": "/a"})], 'doc is missing path: "/a/b/c"'),
        ([op("move", "/b")], "move operation does not apply: missing path or from field"),
        ([op("copy", "/b", **{"from": "/a/c/9"})], "copy operation does not apply: Unable to access invalid index: 9"),
        ([{"op": "add"}], "add operation does not apply: missing path"),
        ([op("merge", "/a")], "merge operation does not apply: there is no such operation"),
        ([{}], "none operation does not apply"),
        ([op("replace", "", value=[1])], "Invalid value: an array"),
    ],
)
def test_what_does_not_apply_is_a_422_that_says_why(ops, why):
    with pytest.raises(StatusError) as refused:
        json_patch(DOC, ops)
    assert (refused.value.code, refused.value.reason) == (422, "Invalid")
    assert why in refused.value.message


@pytest.mark.parametrize(
    ("patch", "why"),
    [
        ({"a": 1}, "Expected `array`, got `object`"),
        (None, "Expected `array`, got `null`"),
        (["x"], "Expected `object`, got `str` - at `$[0]`"),
        ([{"op": 5}], "Expected `str`, got `int` - at `$[0].op`"),
        ([op("add", ["a"])], "Expected `str | null`, got `array` - at `$[0].path`"),
    ],
)
def test_what_is_no_json_patch_is_a_400(patch, why):
    with pytest.raises(StatusError) as refused:
        json_patch(DOC, patch)
    assert (refused.value.code, refused.value.reason) == (400, "BadRequest")
    assert why in refused.value.message


def test_a_json_patch_has_limits():
    with pytest.raises(StatusError) as many:
        json_patch({}, [op("test", "/a")] * (MAX_OPERATIONS + 1))
    assert (many.value.code, many.value.reason) == (413, "RequestEntityTooLarge")
    assert "maximum operations in a JSON patch is 10000, got 10001" in many.value.message
    with pytest.raises(StatusError) as large:
        json_patch({"a": "x" * 1_000_000}, [op("copy", f"/b{n}", **{"from": "/a"}) for n in range(9)])
    assert (large.value.code, "exceeding the limit 3145728" in large.value.message) == (422, True)


def test_no_patch_nests_without_end():
    deep: object = 1
    for _ in range(MAX_DEPTH + 2):
        deep = {"a": deep}
    with pytest.raises(StatusError, match="nested deeper than 200 levels"):
        json_patch({}, [op("add", "/a", value=deep)])
    # Operations that are shallow by themselves: each one level further down.
    stacked = [op("add", "/a" * level, value={}) for level in range(1, 2000)] + [op("copy", "/b", **{"from": "/a"})]
    with pytest.raises(StatusError) as piled:
        json_patch({}, stacked)
    assert piled.value.code in (400, 422)


@pytest.mark.parametrize(
    ("doc", "patch", "expected"),
    [
        ({"a": 1, "b": {"c": 1, "d": 2}}, {"a": None, "b": {"c": None, "e": 3}}, {"b": {"d": 2, "e": 3}}),
        ({"a": [1]}, {"a": [2, None, {"x": None, "y": 1}]}, {"a": [2, None, {"x": None, "y": 1}]}),
        ({"a": {"b": 1}}, {"a": [None, {"x": None}]}, {"a": [None, {"x": None}]}),
        ({"a": 1}, {"a": {"b": {"c": None, "d": 1}}}, {"a": {"b": {"d": 1}}}),
        ({"a": None}, {"a": {"b": None}}, {"a": {}}),
        ({"a": 1}, {}, {"a": 1}),
        ({}, {"absent": None}, {}),
    ],
)
def test_merge_patch(doc, patch, expected):
    before = copy.deepcopy((doc, patch))
    patched = merge_patch(doc, patch)
    assert patched == expected
    assert (doc, patch) == before


def test_a_patched_object_shares_nothing_with_its_sources():
    doc, patch = {"kept": {"a": [1]}, "merged": {"b": {}}}, {"merged": {"c": {"d": [1]}}}
    patched = merge_patch(doc, patch)
    patched["kept"]["a"].append(2)
    patched["merged"]["b"]["x"] = patched["merged"]["c"]["d"].append(2)
    assert (doc, patch) == ({"kept": {"a": [1]}, "merged": {"b": {}}}, {"merged": {"c": {"d": [1]}}})


@pytest.mark.parametrize("patch", [None, [], "x", 5])
def test_a_merge_patch_is_an_object(patch):
    with pytest.raises(StatusError) as refused:
        merge_patch({"a": 1}, patch)
    assert (refused.value.code, refused.value.reason) == (400, "BadRequest")
