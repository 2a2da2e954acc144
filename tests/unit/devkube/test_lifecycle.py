"""Garbage collection, namespaces and CRDs, as they follow from writes."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from devkube.custom.registry import Registry
from devkube.errors import StatusError
from devkube.lifecycle import Lifecycle
from tests.unit.devkube.doubles import Api

MERGE = "application/merge-patch+json"


class World(Api):
    """With the lifecycle running."""

    def __init__(self) -> None:
        super().__init__()
        self.lifecycle = Lifecycle(self.verbs, Registry(self.verbs.catalog), authority="PEM")

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(1.5):
            while not condition():
                await asyncio.sleep(0)

    async def settled(self) -> None:
        """After all that follows from what was written (the collector never waits for anything but its tasks)."""
        for _ in range(50):
            await asyncio.sleep(0)

    def has(self, plural: str, name: str, namespace: str = "ns") -> bool:
        return self.store.get(plural, namespace, name) is not None

    async def owned(self, name: str, *owners: Any, **fields: Any) -> Any:
        references = [
            {"apiVersion": "v1", "kind": "X", "name": one["metadata"]["name"], "uid": one["metadata"]["uid"]}
            | fields.get("reference", {})
            for one in owners
        ]
        meta = {"ownerReferences": references, **fields.get("metadata", {})}
        return await self.create("configmaps", name, metadata=meta)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    world.lifecycle.start()
    yield world
    await world.lifecycle.stop()


async def test_dependents_go_with_their_owner(world: World) -> None:
    owner = await world.create("pods", "owner")
    middle = await world.owned("middle", owner)
    await world.owned("leaf", middle)
    await world.settled()
    assert world.has("configmaps", "leaf")
    await world.ask("delete", "pods", "owner")
    await world.until(lambda: not world.has("configmaps", "middle") and not world.has("configmaps", "leaf"))


async def test_another_owner_keeps_it_and_the_reference_goes(world: World) -> None:
    one, two = await world.create("pods", "one"), await world.create("pods", "two")
    await world.owned("child", one, two)
    await world.ask("delete", "pods", "one")
    await world.until(lambda: world.store.get("configmaps", "ns", "child").owners == (two["metadata"]["uid"],))  # type: ignore[union-attr]


async def test_an_owner_that_never_was_or_is_elsewhere(world: World) -> None:
    ghost = {"metadata": {"name": "ghost", "uid": "no-such"}}
    await world.owned("of-a-ghost", ghost)
    world.store.create(
        "pods", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "far", "namespace": "other", "uid": "far"}}
    )
    await world.owned("of-another-namespace", {"metadata": {"name": "far", "uid": "far"}})
    await world.until(
        lambda: not world.has("configmaps", "of-a-ghost") and not world.has("configmaps", "of-another-namespace")
    )


async def test_orphans_are_set_free(world: World) -> None:
    owner = await world.create("pods", "owner")
    await world.owned("child", owner)
    await world.ask("delete", "pods", "owner", {"propagationPolicy": "Orphan"})
    await world.until(lambda: not world.has("pods", "owner"))
    child = await world.ask("get", "configmaps", "child")
    assert not child["metadata"].get("ownerReferences")


async def test_in_the_foreground_dependents_go_first(world: World) -> None:
    owner = await world.create("pods", "owner")
    await world.owned("held", owner, reference={"blockOwnerDeletion": True}, metadata={"finalizers": ["example.com/x"]})
    await world.owned("free", owner)
    await world.ask("delete", "pods", "owner", {"propagationPolicy": "Foreground"})
    await world.until(lambda: not world.has("configmaps", "free"))
    await world.settled()
    assert world.has("pods", "owner")
    await world.ask("patch", "configmaps", "held", {"metadata": {"finalizers": None}}, content_type=MERGE)
    await world.until(lambda: not world.has("pods", "owner"))


async def test_a_dependent_that_does_not_block_does_not_hold_its_owner(world: World) -> None:
    owner = await world.create("pods", "owner")
    await world.owned("held", owner, metadata={"finalizers": ["example.com/x"]})
    await world.ask("delete", "pods", "owner", {"propagationPolicy": "Foreground"})
    await world.until(lambda: not world.has("pods", "owner"))
    assert "deletionTimestamp" in (await world.ask("get", "configmaps", "held"))["metadata"]


async def test_a_namespace_is_furnished(world: World) -> None:
    await world.create("namespaces", "new")
    await world.until(
        lambda: world.has("serviceaccounts", "default", "new") and world.has("configmaps", "kube-root-ca.crt", "new")
    )
    found = await world.ask("get", "configmaps", "kube-root-ca.crt", namespace="new")
    assert found["data"] == {"ca.crt": "PEM"}


async def test_a_namespace_ends_with_all_that_is_in_it(world: World) -> None:
    await world.create("pods", "p")
    await world.create("widgets", "w", metadata={"finalizers": ["example.com/x"]})
    await world.ask("delete", "namespaces", "ns")
    await world.until(lambda: not world.has("pods", "p"))
    await world.settled()
    assert world.has("namespaces", "ns", "")
    await world.ask("patch", "widgets", "w", {"metadata": {"finalizers": None}}, content_type=MERGE)
    await world.until(lambda: not world.has("namespaces", "ns", ""))


async def test_what_is_held_up_is_tried_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("devkube.lifecycle._RETRY", 0.01)
    owner = await world.create("pods", "owner")
    await world.owned("child", owner)
    handle, refusals = world.verbs.handle, 2

    async def sometimes(request: Any) -> Any:
        nonlocal refusals
        if request.verb == "delete" and request.name == "child" and refusals:
            refusals -= 1
            raise StatusError(403, "Forbidden", "not yet")
        return await handle(request)

    monkeypatch.setattr(world.verbs, "handle", sometimes)
    await world.ask("delete", "pods", "owner")
    await world.until(lambda: not world.has("configmaps", "child"))
    assert refusals == 0
