"""The two shapes of an Event are one object."""

from devkube import events
from devkube.options import Settings
from devkube.server import DevKube

NEW = "/apis/events.k8s.io/v1/namespaces/default/events"
CORE = "/api/v1/namespaces/default/events"
EVENT = {
    "apiVersion": "v1",
    "kind": "Event",
    "metadata": {"name": "e", "namespace": "default"},
    "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
    "reason": "Tested",
    "message": "words",
    "source": {"component": "test"},
    "count": 3,
    "type": "Normal",
}


def test_there_and_back() -> None:
    turned = events.turned(EVENT, events.NEW)
    assert (turned["regarding"], turned["note"]) == (EVENT["involvedObject"], "words")
    assert (turned["deprecatedSource"], turned["deprecatedCount"]) == ({"component": "test"}, 3)
    assert "involvedObject" not in turned
    assert events.turned(turned, events.CORE) == EVENT
    assert events.turned(EVENT, events.CORE) is EVENT


async def test_written_in_one_group_and_read_in_the_other() -> None:
    async with DevKube(Settings()) as api:
        watch = api.watch(NEW)
        await api.request("POST", CORE, EVENT)
        found = await api.request("GET", f"{NEW}/e")
        assert (found["apiVersion"], found["note"]) == (events.NEW, "words")
        _, seen = await anext(watch)
        assert seen == found
        await watch.aclose()  # type: ignore[attr-defined]
        for path, field in ((CORE, "involvedObject.name"), (NEW, "regarding.name")):
            listed = await api.request("GET", path, query={"fieldSelector": f"{field}=p"})
            assert len(listed["items"]) == 1
        patch = {"message": "other words"}
        await api.request("PATCH", f"{CORE}/e", patch, content_type="application/merge-patch+json")
        assert (await api.request("GET", f"{NEW}/e"))["note"] == "other words"
