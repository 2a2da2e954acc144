"""get and list: shapes, paging, label and field selectors, resourceVersion parameters."""

import base64
import json

import pytest

from tests.support.kubeobjects import configmap, crd, custom, pod, version
from tests.support.kubernetes import Client, Cluster, Space, eventually

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


async def test_a_list_has_a_kind_and_a_version(kube: Client, space: Space) -> None:
    """Items of a built-in list carry neither kind nor apiVersion."""
    await kube.create(space.configmaps, configmap("zz-mine"))
    found = await kube.read(space.configmaps, fieldSelector="metadata.name=zz-mine")
    assert (found["kind"], found["apiVersion"]) == ("ConfigMapList", "v1")
    assert found["metadata"]["resourceVersion"].isdigit()
    assert "kind" not in found["items"][0]


async def test_an_empty_list_is_a_list(kube: Client, space: Space) -> None:
    """items is [], never null."""
    assert (await kube.read(space.pods))["items"] == []


async def test_a_list_without_a_namespace_sees_all(kube: Client, space: Space) -> None:
    """Cluster-wide reading of namespaced kinds."""
    await kube.create(space.pods, pod("p", labels={"seen": space.name}))
    found = await kube.read("/api/v1/pods", labelSelector=f"seen={space.name}")
    assert [item["metadata"]["namespace"] for item in found["items"]] == [space.name]


async def test_lists_are_ordered_by_name(kube: Client, space: Space) -> None:
    """etcd's order of keys."""
    for name in ("c", "a", "b-1", "b"):
        await kube.create(space.pods, pod(name))
    assert await kube.names(space.pods) == ["a", "b", "b-1", "c"]


async def test_pages_are_one_list(kube: Client, space: Space) -> None:
    """limit and continue: every object once, all pages of one resourceVersion, how many remain is told."""
    for number in range(5):
        await kube.create(space.pods, pod(f"p{number}"))
    seen, versions, remaining, query = [], set(), [], {"limit": "2"}
    while True:
        page = await kube.read(space.pods, **query)
        seen += [item["metadata"]["name"] for item in page["items"]]
        versions.add(page["metadata"]["resourceVersion"])
        remaining.append(page["metadata"].get("remainingItemCount"))
        if not page["metadata"].get("continue"):
            break
        query["continue"] = page["metadata"]["continue"]
    assert seen == [f"p{number}" for number in range(5)]
    assert len(versions) == 1
    assert remaining == [3, 1, None]


async def test_what_comes_between_pages_is_not_in_them(kube: Client, space: Space) -> None:
    """A continued list is of the moment of its first page."""
    for number in range(3):
        await kube.create(space.pods, pod(f"p{number}"))
    page = await kube.read(space.pods, limit="1")
    await kube.create(space.pods, pod("p1-later"))
    (await kube.delete(f"{space.pods}/p2")).ok()
    rest = await kube.read(space.pods, limit="10", **{"continue": page["metadata"]["continue"]})
    assert [item["metadata"]["name"] for item in rest["items"]] == ["p1", "p2"]


async def test_pages_of_a_selection_do_not_say_how_many_remain(kube: Client, space: Space) -> None:
    """remainingItemCount is left out with selectors."""
    for number in range(3):
        await kube.create(space.pods, pod(f"p{number}", labels={"l": "1"}))
    page = await kube.read(space.pods, limit="1", labelSelector="l=1")
    assert page["metadata"]["continue"]
    assert "remainingItemCount" not in page["metadata"]


async def test_a_continue_token_that_is_none_is_refused(kube: Client, space: Space) -> None:
    """400 with upstream's words."""
    answer = await kube.get(space.pods, limit="1", **{"continue": "nonsense"})
    answer.refused(400, "BadRequest", "continue key is not valid")


@pytest.mark.parametrize(
    ("selector", "wanted"),
    [
        ("tier=front", "a"),
        ("tier==front", "a"),
        ("tier!=front", "bcd"),
        ("tier in (front,back)", "ab"),
        ("tier notin (front)", "bcd"),
        ("tier", "abc"),
        ("!tier", "d"),
        ("tier,rank=1", "a"),
        ("rank>1", "bc"),
        ("rank<2", "a"),
        ("tier=", "c"),
        ("", "abcd"),
        ("example.com/x=y", "d"),
    ],
)
async def test_label_selectors(kube: Client, space: Space, selector: str, wanted: str) -> None:
    """labels.Parse: equality, sets, existence and integers; != and notin take objects without the label too."""
    labels = {
        "a": {"tier": "front", "rank": "1"},
        "b": {"tier": "back", "rank": "2"},
        "c": {"tier": "", "rank": "10"},
        "d": {"example.com/x": "y"},
    }
    for name, has in labels.items():
        await kube.create(space.pods, pod(name, labels=has))
    assert await kube.names(space.pods, labelSelector=selector) == list(wanted)


@pytest.mark.parametrize("selector", ["a in b", "=b", "a in (", "a,,b", "a=b=c", "a=!", "/x=1", "rank>x"])
async def test_a_label_selector_that_is_none_is_a_bad_request(kube: Client, space: Space, selector: str) -> None:
    """The parser's message, 400."""
    (await kube.get(space.pods, labelSelector=selector)).refused(400, "BadRequest")


@pytest.mark.parametrize(
    ("selector", "wanted"),
    [
        ("metadata.name=a", "a"),
        ("metadata.name!=a", "b"),
        ("status.phase=Pending", "ab"),
        ("spec.nodeName=n1", "b"),
        ("spec.nodeName=", "a"),
        ("spec.restartPolicy=Always,spec.nodeName=n1", "b"),
    ],
)
async def test_field_selectors_of_pods(kube: Client, space: Space, selector: str, wanted: str) -> None:
    """ToSelectableFields of a Pod."""
    await kube.create(space.pods, pod("a"))
    await kube.create(space.pods, pod("b", spec={"nodeName": "n1"}))
    assert await kube.names(space.pods, fieldSelector=selector) == list(wanted)


async def test_a_field_that_is_not_selectable_is_named(kube: Client, space: Space) -> None:
    """The conversion of field labels: 400."""
    answer = await kube.get(space.pods, fieldSelector="spec.containers=1")
    answer.refused(400, "BadRequest", "field label not supported: spec.containers")
    answer = await kube.get(space.configmaps, fieldSelector="data.x=1")
    answer.refused(400, "BadRequest", "data.x")
    answer = await kube.get(space.configmaps, fieldSelector="metadata.name")
    answer.refused(400, "BadRequest", "can't understand 'metadata.name'")


async def test_a_crd_chooses_its_selectable_fields(kube: Client, space: Space) -> None:
    """selectableFields of a version, beside metadata.name and metadata.namespace."""
    schema = {"spec": {"type": "object", "properties": {"color": {"type": "string"}}}}
    await kube.create(CRDS, crd(space.group, version(schema=schema, selectableFields=[{"jsonPath": ".spec.color"}])))
    path = space.of(f"{space.group}/v1", "widgets")
    await eventually(lambda: kube.create(path, custom(space.group, "a", {"color": "red"})))
    await kube.create(path, custom(space.group, "b", {"color": "blue"}))
    assert await kube.names(path, fieldSelector="spec.color=blue") == ["b"]
    answer = await kube.get(path, fieldSelector="spec.other=1")
    answer.refused(400, "BadRequest", "field label not supported: spec.other")


async def test_a_list_may_be_as_old_as_its_reader_saw(kube: Client, space: Space) -> None:
    """resourceVersion=0 and NotOlderThan are both answered; a reader sees at least its own writes."""
    made = await kube.create(space.pods, pod("a"))
    seen = made["metadata"]["resourceVersion"]
    assert await kube.names(space.pods, resourceVersion=seen, resourceVersionMatch="NotOlderThan") == ["a"]
    (await kube.get(space.pods, resourceVersion="0")).ok(200)
    (await kube.get(f"{space.pods}/a", resourceVersion="0")).ok(200)


async def test_a_match_needs_a_version(kube: Client, space: Space) -> None:
    """ValidateListOptions."""
    answer = await kube.get(space.pods, resourceVersionMatch="NotOlderThan")
    answer.refused(422, "Invalid", "resourceVersionMatch is forbidden unless resourceVersion is provided")


async def test_a_version_of_the_future_is_a_timeout(kube: Client, space: Space) -> None:
    """The cache waits three seconds for it, then tells to come back."""
    answer = await kube.get(space.pods, resourceVersion="999999999")
    told = answer.refused(504, "Timeout", "Too large resource version")
    assert told["details"]["retryAfterSeconds"] == 1


async def test_a_version_that_is_no_number_is_refused(kube: Client, cluster: Cluster, space: Space) -> None:
    """Versions are opaque to clients, not to the server."""
    cluster.blames_the_client(await kube.get(space.pods, resourceVersion="abc"))


async def test_a_page_is_of_no_other_version(kube: Client, space: Space) -> None:
    for name in "ab":
        await kube.create(space.configmaps, configmap(name))
    page = (await kube.read(space.configmaps, limit="1"))["metadata"]
    query = {"continue": page["continue"], "resourceVersion": page["resourceVersion"]}
    (await kube.get(space.configmaps, **query)).refused(400, "BadRequest", "not allowed when using continue")
    (await kube.get(space.configmaps, limit="")).refused(400, "BadRequest", 'parsing "": invalid syntax')
    (await kube.get(space.configmaps, resourceVersion="x")).refused(400, "BadRequest", "invalid resource version")


async def test_a_continue_token_of_the_future_is_not_yet_due(kube: Client, space: Space) -> None:
    """Tokens are the server's own business; what one must not do is to show nothing as if that were all."""
    await kube.create(space.configmaps, configmap("a"))
    await kube.create(space.configmaps, configmap("b"))
    token = (await kube.read(space.configmaps, limit="1"))["metadata"]["continue"]
    content = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    later = {**content, "rv": 10**12} if isinstance(content, dict) else [10**12, *content[1:]]
    made = base64.urlsafe_b64encode(json.dumps(later).encode()).decode().rstrip("=")
    answer = await kube.get(space.configmaps, limit="1", **{"continue": made})
    answer.refused(504, "Timeout", "Too large resource version")


async def test_version_0_reads_all_at_once(kube: Client, space: Space) -> None:
    """It comes from a cache, which knows no pages."""
    for name in "ab":
        await kube.create(space.configmaps, configmap(name))

    async def there() -> None:  # a cache may be behind
        found = await kube.read(space.configmaps, limit="1", resourceVersion="0")
        assert {"a", "b"} <= {one["metadata"]["name"] for one in found["items"]}
        assert "continue" not in found["metadata"]

    await eventually(there)
