"""Thousands of objects read live: page by page, slice by slice, and the values behind their tokens."""

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from crds import core
from crds.cachebackend import CACHE_BACKENDS
from handlers.effects.cluster import ClusterError
from handlers.tokens import token
from subscribers.kubernetes import livereads, pages
from subscribers.kubernetes.client import Answer


def backend(number: int) -> dict[str, Any]:
    overrides = {"env": [{"name": "A", "value": f"hunter{number}"}], "args": [f"--a=b{number}", f"c{number}", "d"]}
    return {
        "metadata": {"name": f"kv-{number}", "namespace": "ml", "uid": f"u{number}", "resourceVersion": "7"},
        "spec": {"runtime": "VLLM", "integration": {"engineOverrides": overrides}},
    }


class Api:
    """Answers lists of `documents`, `size` to a page, at once."""

    def __init__(self, documents: list[Any], size: int = 500) -> None:
        self.documents, self.size = documents, size
        self.asked: list[tuple[str, dict[str, str]]] = []

    async def request(
        self, method: str, path: str, *, query: Mapping[str, str], deadline: float, **more: Any
    ) -> Answer:
        self.asked.append((path, dict(query)))
        at = int(query.get("continue", "0"))
        end = at + self.size
        metadata = {"resourceVersion": "9", **({"continue": str(end)} if end < len(self.documents) else {})}
        return Answer(200, msgspec.json.encode({"metadata": metadata, "items": self.documents[at:end]}))


def reads_of(api: Any) -> livereads.LiveReads:
    return livereads.LiveReads(api, deadline=0.3)


async def test_all_pages_are_one_reading_and_others_run_between_slices() -> None:
    api = Api([backend(number) for number in range(1234)])
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    found = await reads_of(api).objects(CACHE_BACKENDS, "ml")
    task.cancel()
    assert [key.name for key in found] == [f"kv-{number}" for number in range(1234)]
    assert [query.get("continue") for _, query in api.asked] == [None, "500", "1000"]
    assert turns >= 1234 // pages.SLICE
    assert "hunter" not in str(found)


async def test_values_of_thousands_are_learned_with_them_and_asked_for_once() -> None:
    api = Api([backend(number) for number in range(3000)])
    reads = reads_of(api)
    wanted = frozenset((token("u0", "hunter0"), token("u2999", "hunter2999"), token("u7", "gone")))
    await reads.objects(CACHE_BACKENDS, "ml")
    lists = len(api.asked)
    found = await reads.values(CACHE_BACKENDS, "ml", wanted - {token("u7", "gone")})
    assert sorted(found.values()) == ["hunter0", "hunter2999"]
    assert len(api.asked) == lists, "known already"
    assert len(await reads.values(CACHE_BACKENDS, "ml", wanted)) == 2
    assert len(api.asked) == 2 * lists, "what nobody has is looked for in all"


async def test_values_are_looked_for_no_further_than_they_are_found() -> None:
    api = Api([backend(number) for number in range(3000)])
    assert len(await reads_of(api).values(CACHE_BACKENDS, "ml", frozenset((token("u3", "hunter3"),)))) == 1
    assert len(api.asked) == 1


async def test_more_values_than_are_kept_still_give_those_that_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(livereads, "MOST", 10)
    reads = reads_of(Api([backend(number) for number in range(100)]))
    for number in (0, 99, 50):
        wanted = frozenset((token(f"u{number}", f"hunter{number}"),))
        assert list((await reads.values(CACHE_BACKENDS, "ml", wanted)).values()) == [f"hunter{number}"]
        await reads.objects(CACHE_BACKENDS, "ml")


async def test_one_strange_object_does_not_stop_the_others() -> None:
    strange = {"metadata": {"name": "odd", "namespace": "ml", "uid": "u"}, "spec": "none"}
    found = await reads_of(Api([backend(1), strange])).objects(CACHE_BACKENDS, "ml")
    assert [(key.name, known.value is None) for key, known in found.items()] == [("kv-1", False), ("odd", True)]
    assert next(reversed(found.values())).problem == "spec: expected `object`, got `str`"


async def test_what_is_no_list_is_no_answer() -> None:
    class Odd(Api):
        async def request(self, *words: Any, **more: Any) -> Answer:
            return Answer(200, b"[]")

    with pytest.raises(ClusterError, match="a list that is none"):
        await reads_of(Odd([])).objects(CACHE_BACKENDS, "ml")


async def test_a_kind_of_which_one_name_is_watched_is_read_so() -> None:
    api = Api([])
    await reads_of(api).objects(core.CONFIG_MAPS, "kserve")
    assert api.asked[0][1]["fieldSelector"] == "metadata.name=inferenceservice-config"
