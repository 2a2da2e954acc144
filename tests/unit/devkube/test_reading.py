"""get and list: pages, versions, selectors."""

import base64
import json
from typing import Any

import pytest

from devkube import reading
from devkube.errors import StatusError
from tests.unit.devkube.doubles import Api


@pytest.fixture
async def api() -> Api:
    api = Api()
    for name in "abcde":
        await api.create("configmaps", name, metadata={"labels": {"vowel": str(name in "ae").lower()}})
    return api


async def names(api: Api, **query: str) -> list[str]:
    return [json.loads(item)["metadata"]["name"] for item in (await api.listing("configmaps", **query)).items]


async def refused(api: Api, **query: str) -> StatusError:
    with pytest.raises(StatusError) as caught:
        await api.listing("configmaps", **query)
    return caught.value


async def test_get(api: Api) -> None:
    assert (await api.ask("get", "configmaps", "a"))["metadata"]["name"] == "a"
    with pytest.raises(StatusError) as caught:
        await api.ask("get", "configmaps", "z")
    assert (caught.value.code, caught.value.message) == (404, 'configmaps "z" not found')


async def test_a_list_has_the_version_of_now(api: Api) -> None:
    found = await api.ask("list", "configmaps")
    assert (found["kind"], found["apiVersion"]) == ("ConfigMapList", "v1")
    assert found["metadata"] == {"resourceVersion": str(api.store.version)}
    assert [item["metadata"]["name"] for item in found["items"]] == list("abcde")
    assert "kind" not in found["items"][0]


async def test_items_of_custom_kinds_say_their_kind(api: Api) -> None:
    await api.create("widgets", "w")
    (item,) = (await api.ask("list", "widgets"))["items"]
    assert item["kind"] == "Widget"


async def test_selectors_choose(api: Api) -> None:
    assert await names(api, labelSelector="vowel=true") == ["a", "e"]
    assert await names(api, fieldSelector="metadata.name!=a", labelSelector="vowel=true") == ["e"]


async def test_pages_show_one_version(api: Api) -> None:
    first = await api.listing("configmaps", limit="2")
    assert first.metadata["remainingItemCount"] == 3
    await api.ask("delete", "configmaps", "d")
    await api.create("configmaps", "bb")
    token = first.metadata["continue"]
    assert await names(api, limit="2", **{"continue": token}) == ["c", "d"]
    assert await names(api, **{"continue": token}) == ["c", "d", "e"]
    rest = await api.listing("configmaps", limit="3", **{"continue": token})
    assert rest.metadata == {"resourceVersion": first.metadata["resourceVersion"]}


async def test_a_page_of_a_selection_does_not_count_the_rest(api: Api) -> None:
    found = await api.listing("configmaps", limit="1", labelSelector="vowel=false")
    assert "continue" in found.metadata
    assert "remainingItemCount" not in found.metadata


async def test_a_token_that_expired_is_told(api: Api) -> None:
    first = await api.listing("configmaps", limit="2")
    await api.create("configmaps", "bb")
    api.store.compact()
    error = await refused(api, **{"continue": first.metadata["continue"]})
    assert (error.code, error.reason) == (410, "Expired")
    assert "the continue parameter is too old" in error.message


@pytest.mark.parametrize("token", ["x", "!!", "e30", base64.b64encode(b"[1]").decode(), "bnVsbA"])
async def test_tokens_that_are_none(api: Api, token: str) -> None:
    error = await refused(api, **{"continue": token})
    assert error.code == 400
    assert "continue key is not valid" in error.message


async def test_exactly_a_version(api: Api) -> None:
    version = str(api.store.version)
    await api.create("configmaps", "f")
    exact: dict[str, Any] = {"resourceVersion": version, "resourceVersionMatch": "Exact"}
    assert await names(api, **exact) == list("abcde")
    assert await names(api, resourceVersion=version) == list("abcdef")
    api.store.compact()
    assert (await refused(api, **exact)).code == 410


async def test_a_version_not_reached_yet_times_out(api: Api) -> None:
    error = await refused(api, resourceVersion="9999")
    assert (error.code, error.reason, error.retry_after) == (504, "Timeout", 1)
    assert "Too large resource version: 9999" in error.message


def test_a_token_is_read_as_it_was_written() -> None:
    store = Api().store
    stored = store.create(
        "configmaps", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "n", "name": "x/y"}}
    )
    assert reading.decode_token(reading.encode_token(7, stored)) == (7, ("n", "x/y"))
