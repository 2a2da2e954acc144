"""One intent, one call: preconditions, ownership, what is sent and what is recorded."""

from typing import Any

import msgspec
import pytest

from handlers import canonical
from handlers.effects import carry
from handlers.effects.cluster import ClusterError, Written
from handlers.outcome import Apply, Delete, Key, Patch, Status, Told
from subscribers.kubernetes.narrow import narrow
from tests.support.fakecluster import FakeCluster

KEY = Key("services", "ml", "a")
OWNED: dict[str, Any] = {"metadata": {"ownerReferences": [{"uid": "o", "controller": True}]}}


async def carried(cluster: FakeCluster, intent: Any) -> Written:
    return (await carry.carry_out(cluster, intent, now_ns=1_700_000_000_123_456_789))[3]


async def test_an_apply_of_what_is_not_there_creates_it() -> None:
    cluster = FakeCluster()
    written = await carried(cluster, Apply(key=KEY, body={**OWNED, "spec": {}}, owner="o"))
    assert written == Written("uid-1", "100", 1)
    assert "uid" not in cluster.bodies[0]["metadata"]


async def test_an_apply_of_what_is_ours_names_its_uid() -> None:
    cluster = FakeCluster()
    cluster.put(KEY, OWNED)
    intent = Apply(key=KEY, body=OWNED, owner="o")
    await carried(cluster, intent)
    assert cluster.bodies[0]["metadata"]["uid"] == "uid-1"
    assert "uid" not in intent.body["metadata"], "what was wanted is what is recorded"


@pytest.mark.parametrize(
    "owners",
    [[], [{"uid": "o"}], [{"uid": "other", "controller": True}]],
    ids=["nobody's", "not controlled", "somebody's"],
)
async def test_an_apply_of_a_foreign_object_is_refused(owners: list[Any]) -> None:
    cluster = FakeCluster()
    cluster.put(KEY, {"metadata": {"ownerReferences": owners}})
    with pytest.raises(carry.Foreign, match="left alone"):
        await carried(cluster, Apply(key=KEY, body=OWNED, owner="o"))
    assert cluster.writes() == []


async def test_a_status_goes_over_the_version_that_was_read() -> None:
    cluster = FakeCluster()
    cluster.put(KEY, {"spec": {"x": 1}})
    await carried(cluster, Status(key=KEY, uid="uid-1", status={"n": 1}))
    assert cluster.bodies[0]["metadata"]["resourceVersion"] == "100"
    assert cluster.objects[KEY]["status"] == {"n": 1}
    assert cluster.objects[KEY]["spec"] == {"x": 1}


async def test_a_status_that_is_so_already_is_not_written() -> None:
    cluster = FakeCluster()
    cluster.put(KEY, {"status": {"n": 1}})
    assert await carried(cluster, Status(key=KEY, uid="uid-1", status={"n": 1})) == Written("uid-1", "100", 1)
    assert cluster.writes() == []


@pytest.mark.parametrize("there", [True, False], ids=["another one", "none"])
async def test_neither_status_nor_patch_touches_another_object_of_the_name(there: bool) -> None:
    cluster = FakeCluster()
    if there:
        cluster.put(KEY, {}, uid="new")
    for intent in (
        Status(key=KEY, uid="old", status={"n": 1}),
        Patch(key=KEY, uid="old", resource_version="1", patch={}),
    ):
        with pytest.raises(ClusterError) as raised:
            await carried(cluster, intent)
        assert raised.value.code == 404
    assert cluster.writes() == []


async def test_a_patch_goes_over_the_version_that_is_there_and_not_the_one_that_was_seen() -> None:
    cluster = FakeCluster()
    cluster.put(KEY, {"spec": {"x": 1}})
    cluster.put(KEY, {"spec": {"x": 1}, "unread": True})
    await carried(cluster, Patch(key=KEY, uid="uid-1", resource_version="100", patch={"spec": {"x": 2}}))
    assert cluster.bodies[0]["metadata"] == {"uid": "uid-1", "resourceVersion": "101"}
    assert cluster.objects[KEY]["spec"] == {"x": 2}


async def test_a_delete_is_of_exactly_this_object() -> None:
    cluster = FakeCluster()
    cluster.put(KEY, {}, uid="new")
    with pytest.raises(ClusterError) as raised:
        await carried(cluster, Delete(key=KEY, uid="old"))
    assert raised.value.reason == "Conflict"
    await carried(cluster, Delete(key=KEY, uid="new"))
    assert cluster.objects == {}


TOLD = Told(
    about=Key("cachebackends.inferencecache.io", "ml", "a"), uid="u", api_version="inferencecache.io/v1alpha1",
    object_kind="CacheBackend", type="Warning", reason="Bad", message="m" * 2000, transition="3",
)  # fmt: skip


async def test_an_event_reads_as_kubectl_describe_wants_it() -> None:
    cluster = FakeCluster()
    await carried(cluster, TOLD)
    (key,) = cluster.objects
    found = cluster.objects[key]
    assert key.namespace == "ml"
    assert found["involvedObject"] == {
        "apiVersion": "inferencecache.io/v1alpha1",
        "kind": "CacheBackend",
        "namespace": "ml",
        "name": "a",
        "uid": "u",
    }
    assert (found["type"], found["reason"], len(found["message"])) == ("Warning", "Bad", 1024)
    assert found["firstTimestamp"] == found["lastTimestamp"] == "2023-11-14T22:13:20Z"


async def test_an_event_that_is_there_was_told() -> None:
    cluster = FakeCluster()
    await carried(cluster, TOLD)
    assert await carried(cluster, TOLD) == Written("", "", 0)
    assert len(cluster.objects) == 1


async def test_who_may_not_any_more_does_not_write() -> None:
    cluster = FakeCluster()
    cluster.put(KEY, OWNED)
    for intent in (
        Apply(key=KEY, body=OWNED, owner="o"),
        Status(key=KEY, uid="uid-1", status={"n": 1}),
        Patch(key=KEY, uid="uid-1", resource_version="1", patch={}),
    ):
        with pytest.raises(carry.Stopped):
            await carry.carry_out(cluster, intent, now_ns=0, may=lambda: False)
    assert cluster.writes() == []


@pytest.mark.parametrize(
    ("size", "verb", "kept"), [(10, "apply", True), (20_000, "apply", False), (20_000, "status", True)]
)
def test_a_large_body_is_recorded_by_its_hash_but_a_status_whole(size: int, verb: str, kept: bool) -> None:
    body = {"x": "y" * size}
    how = {"work_key": KEY, "handler": "h", "position": "i:1", "epoch": 1, "attempt": 1}
    found = carry.recorded(KEY, verb, body, Written("u", "5", 2), **how)  # type: ignore[arg-type]
    assert found.desired == canonical.digest(body)
    assert found.body == (body if kept else {})


class TestValuesThatTheLogDoesNotHold:
    SOURCE = Key("cachebackends.inferencecache.io", "ml", "a")

    def backend(self, secret: str) -> dict[str, Any]:
        server = {"command": ["run", f"--token={secret}"]}
        storage = {"provider": "LMCacheServer", "ownership": "Managed", "lmCacheServer": server}
        return {"metadata": {}, "spec": {"runtime": "VLLM", "remoteStorage": storage}}

    def intent(self, live: dict[str, Any]) -> Apply:
        told = narrow(self.SOURCE.kind, msgspec.json.encode(live)).object
        (spec,) = [told["spec"]["remoteStorage"]["lmCacheServer"]]
        body = {"spec": {"template": {"spec": {"containers": [{"name": "x", "command": spec["command"]}]}}}}
        return Apply(key=KEY, body={**body, "metadata": {}}, owner="o")

    async def test_are_put_in_for_the_write_and_not_told(self) -> None:
        cluster = FakeCluster()
        live = cluster.put(self.SOURCE, self.backend("hunter2"))
        intent = self.intent(live)
        target, verb, body, written = await carry.carry_out(cluster, intent, now_ns=0, source=self.SOURCE)
        (container,) = cluster.objects[KEY]["spec"]["template"]["spec"]["containers"]
        assert container["command"] == ["run", "--token=hunter2"]
        how: dict[str, Any] = {"work_key": self.SOURCE, "handler": "h", "position": "i:1", "epoch": 1, "attempt": 1}
        assert "hunter2" not in str(carry.recorded(target, verb, body, written, **how))

    async def test_that_have_changed_meanwhile_are_a_conflict(self) -> None:
        cluster = FakeCluster()
        intent = self.intent(cluster.put(self.SOURCE, self.backend("hunter2")))
        cluster.put(self.SOURCE, self.backend("hunter3"))
        with pytest.raises(ClusterError, match="have changed since") as raised:
            await carry.carry_out(cluster, intent, now_ns=0, source=self.SOURCE)
        assert raised.value.reason == "Conflict"
        assert cluster.writes() == []
        del cluster.objects[self.SOURCE]
        with pytest.raises(ClusterError, match="have changed since"):
            await carry.carry_out(cluster, intent, now_ns=0, source=self.SOURCE)

    async def test_that_look_like_a_token_are_written_as_they_are(self) -> None:
        cluster = FakeCluster()
        live = self.backend("hunter2")
        live["spec"]["remoteStorage"]["lmCacheServer"]["image"] = "⟦0123456789abcdef⟧"
        intent = self.intent(cluster.put(self.SOURCE, live))
        (container,) = intent.body["spec"]["template"]["spec"]["containers"]
        container["image"] = "⟦0123456789abcdef⟧"
        await carry.carry_out(cluster, intent, now_ns=0, source=self.SOURCE)
        (written,) = cluster.objects[KEY]["spec"]["template"]["spec"]["containers"]
        assert (written["image"], written["command"]) == ("⟦0123456789abcdef⟧", ["run", "--token=hunter2"])

    async def test_are_not_in_what_a_refusal_says(self) -> None:
        cluster = FakeCluster()
        intent = self.intent(cluster.put(self.SOURCE, self.backend("hunter2")))
        cluster.faults = [ClusterError(422, "Invalid", 'command: Invalid value: "hunter2": no')]
        with pytest.raises(ClusterError) as raised:
            await carry.carry_out(cluster, intent, now_ns=0, source=self.SOURCE)
        assert (raised.value.code, raised.value.reason) == (422, "Invalid")
        assert "hunter2" not in f"{raised.value} {raised.value.message}"
        assert raised.value.__cause__ is None
