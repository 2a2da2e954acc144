"""Manifests from a directory become events, and only what changed does. Excluded: bad manifests (test_roles)."""

from pathlib import Path

import pytest

from crds.inferencecache import CACHE_POLICIES, CACHE_TENANTS
from eventstore import events, memory, subjects
from handlers.prefixindex import policies
from handlers.world import kinds
from warmlog import manifests

POLICY = """
apiVersion: inferencecache.io/v1alpha1
kind: CachePolicy
metadata: {name: eager, namespace: team-a}
spec: {minimumMatchedTokens: %d}
status: {conditions: []}
"""


async def types(log: memory.MemoryStore) -> list[str]:
    found = []
    async for batch in log.read():
        for stored in batch:
            decoded = events.decode(stored)
            assert isinstance(decoded, events.Decoded)
            found.append(type(decoded.data).__name__)
    return found


async def known(log: memory.MemoryStore) -> policies.Policies:
    world = policies.UNKNOWN
    async for batch in log.read():
        for stored in batch:
            decoded = events.decode(stored)
            assert isinstance(decoded, events.Decoded)
            world = policies.fold(world, stored.subject, decoded.data)
    return world


async def test_a_first_reading_tells_objects_and_complete_lists(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(POLICY % 16)
    log = memory.MemoryStore()
    await manifests.append(log, manifests.read(tmp_path))
    assert await types(log) == ["ObjectSeen", "KindListed", "KindListed"]
    world = await known(log)
    assert world.of("team-a").minimum_matched_tokens == 16
    assert world.unlisted == ()


async def test_what_is_told_has_the_shape_of_its_kind(tmp_path: Path) -> None:
    """Told with an older one, a leader would take it for an old version's and tell it again."""
    tenant = "{apiVersion: inferencecache.io/v1alpha1, kind: CacheTenant, metadata: {name: a}, spec: {tenantID: a}}"
    (tmp_path / "both.yaml").write_text(f"{POLICY % 32}\n---\n{tenant}")
    log = memory.MemoryStore()
    await manifests.append(log, manifests.read(tmp_path))
    found = [events.decode(stored) async for batch in log.read() for stored in batch]
    told = {one.stored.subject.split(".")[2]: one.data for one in found if isinstance(one, events.Decoded)}
    shapes = {kind: one.shape for kind, one in told.items() if isinstance(one, events.ObjectSeen | events.KindListed)}
    assert shapes == {subjects.escape(kind): kinds.KINDS[kind].shape for kind in (CACHE_POLICIES, CACHE_TENANTS)}


async def test_the_same_directory_again_appends_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(POLICY % 16)
    log = memory.MemoryStore()
    await manifests.append(log, manifests.read(tmp_path))
    assert await manifests.append(log, manifests.read(tmp_path)) == 0


async def test_a_changed_object_is_seen_again_and_a_removed_one_is_gone(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(POLICY % 16)
    log = memory.MemoryStore()
    await manifests.append(log, manifests.read(tmp_path))
    (tmp_path / "a.yaml").write_text(POLICY % 32)
    await manifests.append(log, manifests.read(tmp_path))
    assert (await known(log)).of("team-a").minimum_matched_tokens == 32
    (tmp_path / "a.yaml").unlink()
    await manifests.append(log, manifests.read(tmp_path))
    assert (await known(log)).of("team-a") == policies.DEFAULT
    assert (await types(log))[3:] == ["ObjectSeen", "KindListed", "ObjectGone", "KindListed"]
    assert await manifests.append(log, manifests.read(tmp_path)) == 0


async def test_an_object_that_comes_back_is_seen_again(tmp_path: Path) -> None:
    log = memory.MemoryStore()
    for content in (POLICY % 16, "", POLICY % 16):
        (tmp_path / "a.yaml").write_text(content)
        await manifests.append(log, manifests.read(tmp_path))
    assert (await known(log)).of("team-a").minimum_matched_tokens == 16


async def test_an_empty_directory_lists_both_kinds_as_empty(tmp_path: Path) -> None:
    log = memory.MemoryStore()
    await manifests.append(log, manifests.read(tmp_path))
    assert await types(log) == ["KindListed", "KindListed"]


async def test_one_object_in_two_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(POLICY % 16)
    (tmp_path / "b.yml").write_text(POLICY % 32)
    with pytest.raises(manifests.ManifestError, match="team-a/eager stands in two manifests"):
        manifests.read(tmp_path)


def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(manifests.ManifestError, match="is no directory"):
        manifests.read(tmp_path / "nowhere")
