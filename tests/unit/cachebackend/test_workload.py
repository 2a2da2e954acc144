"""What runs for a managed backend, what is taken off it, and what is not ours to touch."""

from typing import Any

import pytest

from crds import core, schema
from crds.cachebackend import CacheBackend
from eventstore import events, subjects
from handlers.cachebackend import providers, workload
from handlers.outcome import Apply, Delete, Key, Patch
from tests.support.backends import KEY, MANAGED, backend, deployment, look, service, teller
from tests.support.worlds import Teller

DEPLOYMENT = Key(core.DEPLOYMENTS, "ml", "kv")


def applied(told: Teller, *, generation: int, verb: Any = "apply") -> None:
    """Our last write of the Deployment."""
    told.versions += 1
    effect = events.EffectApplied(
        verb=verb, kind=core.DEPLOYMENTS, namespace="ml", name="kv", uid="uid-kv", resource_version=str(told.versions),
        generation=generation, body={}, desired="d", position="i:1", handler="cachebackend", key=str(KEY), epoch=1,
    )  # fmt: skip
    told.tell(subjects.effect_subject(*DEPLOYMENT), effect)


def at(generation: int, **more: Any) -> dict[str, Any]:
    found = deployment(**more)
    found["metadata"]["generation"] = generation
    return found


def of(told: Teller, kind: str) -> list[Any]:
    return [one for one in look(told).intents if getattr(one, "key", KEY).kind == kind]


def test_what_others_put_into_our_deployment_is_taken_off_once() -> None:
    told = teller()
    told.seen(KEY.kind, backend(**MANAGED))
    told.seen(core.DEPLOYMENTS, at(1))
    applied(told, generation=1)
    told.seen(core.DEPLOYMENTS, at(1))
    assert [type(one) for one in of(told, core.DEPLOYMENTS)] == [Apply]
    told.seen(core.DEPLOYMENTS, at(2))
    ours, off = of(told, core.DEPLOYMENTS)
    assert isinstance(ours, Apply)  # first our fields are put right, then the patch changes nothing that is ours
    assert isinstance(off, Patch)
    pod = off.patch["spec"]["template"]["spec"]
    assert [one["name"] for one in pod["containers"]] == ["lmcache-server"]
    assert {name for name, value in pod.items() if value is None} == set(workload.EXACT)
    applied(told, generation=3, verb="patch")
    assert [type(one) for one in of(told, core.DEPLOYMENTS)] == [Apply]  # observed before our write
    told.seen(core.DEPLOYMENTS, at(3))
    assert [type(one) for one in of(told, core.DEPLOYMENTS)] == [Apply]


def test_a_template_s_own_fields_are_kept_when_others_are_taken_off() -> None:
    told = teller()
    told.seen(KEY.kind, backend(**MANAGED, template={"nodeSelector": {"a": "b"}}))
    applied(told, generation=1)
    told.seen(core.DEPLOYMENTS, at(2))
    (off,) = [one for one in of(told, core.DEPLOYMENTS) if isinstance(one, Patch)]
    assert off.patch["spec"]["template"]["spec"]["nodeSelector"] == {"a": "b"}


def test_another_uid_than_we_wrote_to_is_not_what_we_changed() -> None:
    told = teller()
    told.seen(KEY.kind, backend(**MANAGED))
    applied(told, generation=1)
    told.seen(core.DEPLOYMENTS, {**at(7), "metadata": {**at(7)["metadata"], "uid": "uid-new"}})
    assert [type(one) for one in of(told, core.DEPLOYMENTS)] == [Apply]


@pytest.mark.parametrize(("container", "wanted"), [("lmcache-server", Delete), ("mooncake-master", Apply)])
def test_a_deployment_that_rolls_becomes_mooncake_s_by_being_made_anew(container: str, wanted: type) -> None:
    told = teller()
    told.seen(KEY.kind, backend(remoteStorage={"provider": "Mooncake", "ownership": "Managed"}))
    live = deployment()
    live["spec"]["template"]["spec"]["containers"] = [{"name": container}]
    told.seen(core.DEPLOYMENTS, live)
    assert [type(one) for one in of(told, core.DEPLOYMENTS)] == [wanted]


RIGHT = service()["spec"]
PORT = RIGHT["ports"][0]
#: change of the Service's spec -> (is it applied again, what is taken off)
SERVICES: dict[str, tuple[dict[str, Any], bool, Any]] = {
    "as we made it": ({}, False, None),
    "another port": (
        {"ports": [PORT, {"name": "x", "port": 1, "targetPort": 1}]}, True,
        {"selector": RIGHT["selector"], "ports": [{**PORT, "protocol": "TCP"}]},
    ),
    "a port less": ({"ports": []}, True, None),
    "another selector": (
        {"selector": {**RIGHT["selector"], "x": "y"}}, True,
        {"selector": {**RIGHT["selector"], "x": None}, "ports": [{**PORT, "protocol": "TCP"}]},
    ),
    "another type": ({"type": "NodePort"}, True, None),
}  # fmt: skip


@pytest.mark.parametrize("change", SERVICES)
def test_a_service_is_put_right(change: str) -> None:
    changed, drifted, off = SERVICES[change]
    told = teller()
    told.seen(KEY.kind, backend(**MANAGED))
    right = service()
    told.seen(core.SERVICES, {**right, "spec": {**right["spec"], **changed}})
    ours, *others = of(told, core.SERVICES)
    assert (ours.drifted, [one.patch["spec"] for one in others]) == (drifted, [off] if off else [])


@pytest.mark.parametrize("kind", [core.DEPLOYMENTS, core.SERVICES, core.AUTOSCALERS])
def test_a_foreign_object_of_the_name_is_never_touched(kind: str) -> None:
    scaled = {**MANAGED, "autoscaling": {"minReplicas": 1, "maxReplicas": 2}}
    for spec in (scaled, MANAGED, {}, {"integration": {"mode": "EventsOnly"}}):
        told = teller()
        told.seen(KEY.kind, backend(**spec))
        told.seen(kind, {"metadata": {"name": "kv", "namespace": "ml", "generation": 4}, "spec": {}})
        assert of(told, kind) == []


def test_a_singleton_loses_the_autoscaler_that_it_had() -> None:
    told = teller()
    storage = {"provider": "Mooncake", "ownership": "Managed"}
    told.seen(KEY.kind, backend(remoteStorage=storage, autoscaling={"minReplicas": 1, "maxReplicas": 2}, replicas=3))
    owner = deployment()["metadata"]["ownerReferences"]
    told.seen(core.AUTOSCALERS, {"metadata": {"name": "kv", "namespace": "ml", "ownerReferences": owner}, "spec": {}})
    assert [type(one) for one in of(told, core.AUTOSCALERS)] == [Delete]
    (ours,) = of(told, core.DEPLOYMENTS)
    assert ours.body["spec"]["replicas"] == 1


# What is rendered -----------------------------------------------------------------------------------------------------


def rendered(live: int | None = None, **spec: Any) -> providers.Rendered:
    document = {"metadata": {"name": "kv", "namespace": "ml", "uid": "u"}, "spec": {"runtime": "VLLM", **spec}}
    return providers.render(schema.read(document, CacheBackend), live_replicas=live)


def container(made: providers.Rendered) -> Any:
    (found,) = made.deployment["spec"]["template"]["spec"]["containers"]
    return found


SCALED = {"autoscaling": {"minReplicas": 2, "maxReplicas": 6}}


@pytest.mark.parametrize(
    ("spec", "live", "wanted"),
    [
        ({}, None, 1), ({"replicas": 0}, 5, 0), ({"replicas": 4}, 1, 4),
        (SCALED, None, 2), ({**SCALED, "replicas": 5}, None, 2), ({**SCALED, "replicas": 5}, 4, 4), (SCALED, 0, 2),
        ({"autoscaling": {"maxReplicas": 6}, "replicas": 3}, None, 1),
    ],
)  # fmt: skip
def test_replicas_are_the_author_s_or_an_autoscaler_s(spec: dict[str, Any], live: int | None, wanted: int) -> None:
    assert rendered(live, **MANAGED, **spec).deployment["spec"]["replicas"] == wanted


@pytest.mark.parametrize(
    ("limits", "cpu"),
    [({}, "250m"), ({"cpu": "4"}, "250m"), ({"cpu": "100m"}, "100m"), ({"memory": "1Gi"}, "250m")],
)
def test_an_autoscaler_gets_a_cpu_request_that_its_limit_allows(limits: dict[str, str], cpu: str) -> None:
    block = {**MANAGED["remoteStorage"], "lmCacheServer": {"resources": {"limits": limits}}}
    resources = container(rendered(remoteStorage=block, **SCALED))["resources"]
    assert resources["requests"] == {"cpu": cpu}
    assert resources.get("limits", {}) == limits


@pytest.mark.parametrize(
    ("resources", "wanted"),
    [
        (None, 6871947674), ({}, 6871947674), ({"limits": {"memory": "0"}}, 6871947674),
        ({"limits": {"memory": "1Gi"}}, 858993460), ({"limits": {"memory": 11}}, 9),
        ({"requests": {"memory": "1Gi"}}, 6871947674),
    ],
)  # fmt: skip
def test_redis_leaves_a_fifth_of_its_limit_to_itself(resources: Any, wanted: int) -> None:
    block = {
        "provider": "Redis",
        "ownership": "Managed",
        "redis": {"resources": resources} if resources is not None else {},
    }
    args = container(rendered(runtime="SGLang", remoteStorage=block))["args"]
    assert args[args.index("--maxmemory") + 1] == str(wanted)
    assert args[:3] == ["redis-server", "--save", ""]


def test_a_command_of_one_s_own_is_split_and_image_and_resources_are_passed_through() -> None:
    own = {"image": "i@sha256:1", "command": ["/bin/serve", "--port", "1"], "resources": {"requests": {"cpu": "1"}}}
    made = container(rendered(remoteStorage={**MANAGED["remoteStorage"], "lmCacheServer": own}))
    assert (made["image"], made["command"], made["args"]) == ("i@sha256:1", ["/bin/serve"], ["--port", "1"])
    assert made["resources"] == {"requests": {"cpu": "1"}}


def test_the_autoscaler_s_target_is_eighty_unless_told() -> None:
    for told, wanted in (({}, 80), ({"targetCPUUtilizationPercent": 55}, 55)):
        made = rendered(**MANAGED, autoscaling={"maxReplicas": 6, **told}).autoscaler
        assert made is not None
        (metric,) = made["spec"]["metrics"]
        assert metric["resource"]["target"] == {"type": "Utilization", "averageUtilization": wanted}
        assert made["spec"]["minReplicas"] == 1
