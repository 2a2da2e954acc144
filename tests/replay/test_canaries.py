"""Canaries in every field of every custom resource of ours and of Pods: no stream, status, Event, line, metric has one.

Every object is told by the watch, reviewed by its webhooks (created, changed, denied), reconciled and written; then
every message of the log is read back, the world as a keyframe would hold it, what was written to the cluster, what
authors were told, what was logged and what is counted. What needs the values gets them: managed stores run with the
command that was written for them.

Rules: design.md section 2, "Privacy".
"""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
import structlog

from crds import core
from crds.cachebackend import CACHE_BACKENDS
from handlers.outcome import Key
from handlers.world import kinds
from subscribers import metrics
from subscribers.http import reviewmeters
from tests.support import canaries, reviews
from tests.support.canaries import CANARY
from tests.support.house import OPTIONS, House
from warmlog import systems

Object = dict[str, Any]
TURNS = range(5)
INJECT = "kvcache.gpustack.ai/inject"


async def reviewed(house: House, hook: systems.Hook, document: Object) -> Iterator[bytes]:
    """What authors are told, patches aside: an answer may hold what its object holds."""
    said = []
    plural = hook.kind.partition(".")[0]
    webhook = house.webhooks[0]
    for operation in hook.operations:
        house.uid += 1
        asked: dict[str, Any] = {"operation": "UPDATE", "old": document} if operation == "UPDATE" else {}
        metadata = document["metadata"]
        body = reviews.of(
            plural,
            document,
            uid=f"r{house.uid}",
            namespace=metadata.get("namespace", ""),
            name=metadata["name"],
            **asked,
        )
        answer = msgspec.json.decode(await webhook.desk.answer(hook.path, msgspec.json.encode(body)))["response"]
        answer.pop("patch", None)
        said.append(msgspec.json.encode(answer))
    return iter(said)


def found(places: dict[str, bytes]) -> list[str]:
    return [
        f"{where}: …{content[max(0, (at := content.index(CANARY.encode())) - 120) : at + 60].decode(errors='replace')}"
        for where, content in places.items()
        if CANARY.encode() in content
    ]


async def everything(house: House) -> dict[str, bytes]:
    """Plants, lets all happen, and gives back every place that is searched."""
    places: dict[str, bytes] = {}
    definitions = canaries.definitions()
    planted: list[tuple[str, Object]] = [
        (plural, canaries.strange(one, turn)) for plural, one in definitions.items() for turn in TURNS
    ]
    planted += [(plural, canaries.broken(one, turn)) for plural, one in definitions.items() for turn in TURNS]
    planted += [(CACHE_BACKENDS, canaries.backend(name, storage)) for name, storage in canaries.STORAGES.items()]
    planted += [
        (
            core.PODS,
            canaries.pod(reviews.ENGINE, f"engine-{name}", {"serve": name, "kvcache.gpustack.ai/inject": "true"}),
        )
        for name in (*canaries.STORAGES, "nobody")
    ]
    house.cluster.put(Key("secrets", "ml", "s"), {"metadata": {}, "data": {"password": CANARY}})
    for plural, document in planted:
        metadata = document["metadata"]
        put = house.cluster.put(Key(plural, metadata.get("namespace", ""), metadata["name"]), document)
        if plural == CACHE_BACKENDS:
            house.secrets |= kinds.values(plural, put)
    await house.lead()
    for text in canaries.CONFIGS:
        house.cluster.put(Key(core.CONFIG_MAPS, "kserve", "inferenceservice-config"), canaries.config(text))
        await house.observe()
        await house.work()
    await house.contact()
    house.read(house.webhooks[0].world, house.last)
    for moment in ("fresh", "stale", "away"):  # from the world; by live reads; nothing can be read
        house.away = moment == "away"
        house.now += 0 if moment == "fresh" else 10**10
        for plural, document in planted:
            for hook in systems.hooks(OPTIONS):
                if hook.kind == plural:
                    for number, said in enumerate(await reviewed(house, hook, document)):
                        places[f"answer of {hook.path} about {document['metadata']['name']} #{number} {moment}"] = said
    await house.webhooks[0].recorder.drain(1)
    assert await house.work(1000)
    for number, body in enumerate(house.messages(), 1):
        places[f"message #{number}"] = body
    for key, live in house.cluster.objects.items():
        if key.kind == "events":
            places[str(key)] = msgspec.json.encode(live)
        elif key.kind == CACHE_BACKENDS and not live["metadata"]["name"].startswith("strange"):
            written = [one for one in live.get("status", {}).get("conditions", []) if isinstance(one, dict)]
            places[f"conditions of {key}"] = msgspec.json.encode(written)
    registry = metrics.Registry()
    reviewmeters.register(registry, house.webhooks[0].desk, house.webhooks[0].recorder)
    places["metrics"] = registry.render()
    return places


async def test_no_canary_is_anywhere_but_where_it_belongs(capsys: pytest.CaptureFixture[str]) -> None:
    house = House(webhooks=1)
    with structlog.testing.capture_logs() as lines:
        places = await everything(house)
    captured = capsys.readouterr()
    places |= {"stdout": captured.out.encode(), "stderr": captured.err.encode(), "lines": repr(lines).encode()}
    assert "\n".join(found(places)) == ""
    assert sum(where.startswith("message") for where in places) > 100
    command = house.cluster.objects[Key(core.DEPLOYMENTS, "ml", "server")]["spec"]["template"]["spec"]["containers"][0]
    assert command["command"] + command["args"] == canaries.STORAGES["server"]["lmCacheServer"]["command"]


@pytest.mark.parametrize("turn", TURNS)
@pytest.mark.parametrize("plural", sorted(canaries.definitions()))
def test_what_is_planted_is_there(plural: str, turn: int) -> None:
    assert CANARY in str(canaries.strange(canaries.definitions()[plural], turn))
