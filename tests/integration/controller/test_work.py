"""From resources to status through real processes: what is made, counted, repaired and removed. Excluded: trouble
(test_trouble), leaders (test_leaders)."""

import asyncio
import copy
import time
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from crds import cachebackend, core, inferencecache
from devkube.errors import StatusError
from eventstore import events, subjects
from tests.support.controllerhouse import SPACE, House, matched, path, underway, until


async def test_a_backend_becomes_a_workload_and_a_status(house: House) -> None:
    await house.controller()
    await house.leader()
    await house.cache("a")
    await house.status("a", underway)
    deployment = await house.get(core.DEPLOYMENTS, "a")
    service = await house.get(core.SERVICES, "a")
    assert deployment is not None
    assert service is not None
    assert deployment["metadata"]["ownerReferences"][0]["kind"] == "CacheBackend"
    reasons = [one["reason"] for one in await house.all_of("events")]
    assert reasons.count("EngineSelectorUnmatched") == 1
    await house.audit()
    effects = await house.effects()
    assert {one.verb for one in effects} == {"apply", "status", "event"}
    causes = [one.envelope.causationid for one in await house.told() if isinstance(one.data, events.EffectApplied)]
    assert any(isinstance(cause, str) and cause.startswith("object.seen:") for cause in causes)


async def test_pods_are_counted_and_counts_do_not_hurry(house: House) -> None:
    await house.controller()
    await house.cache("a", managed=False)
    await house.status("a", matched(0))
    began = len(await house.effects())
    for number in range(20):
        await house.pod(f"p{number}", serve="a")
        await asyncio.sleep(0.02)
    await house.status("a", matched(20), within=8)
    for number in range(15):
        await house.delete(core.PODS, f"p{number}")
        await asyncio.sleep(0.02)
    await house.status("a", matched(5), within=8)
    await house.audit()
    assert len(await house.effects()) - began <= 6


async def test_what_somebody_changes_or_deletes_of_ours_comes_back(house: House) -> None:
    await house.controller()
    await house.cache("a")

    async def made() -> bool:
        return bool(await house.get(core.DEPLOYMENTS, "a")) and bool(await house.get(core.SERVICES, "a"))

    await until(made)
    await house.delete(core.SERVICES, "a")
    deployment = await house.get(core.DEPLOYMENTS, "a")
    assert deployment is not None
    containers = deployment["spec"]["template"]["spec"]["containers"]
    changed = [{**containers[0], "image": "somebody/elses:1"}]
    await house.merge(core.DEPLOYMENTS, "a", {"spec": {"template": {"spec": {"containers": changed}}}})

    async def repaired() -> bool:
        found = await house.get(core.DEPLOYMENTS, "a")
        assert found is not None
        right = found["spec"]["template"]["spec"]["containers"] == containers
        return right and bool(await house.get(core.SERVICES, "a"))

    await until(repaired)
    await house.audit()


async def test_a_foreign_service_of_the_name_is_left_alone_and_the_status_is_written_all_the_same(house: House) -> None:
    body = {
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "a", "namespace": SPACE},
        "spec": {"selector": {"somebody": "else"}, "ports": [{"port": 80}]},
    }  # fmt: skip
    await house.api.request("POST", path(core.SERVICES), body)
    await house.controller()
    await house.cache("a")
    await house.status("a", underway)
    service = await house.get(core.SERVICES, "a")
    assert service is not None
    assert service["spec"]["selector"] == {"somebody": "else"}
    await house.audit()


async def test_kinds_that_are_installed_later_are_found(empty_house: House) -> None:
    await empty_house.spaces()
    controller = await empty_house.controller()
    await empty_house.leader()

    async def missed() -> bool:
        return "kind-not-served" in controller.said()

    await until(missed)
    await empty_house.install()
    await empty_house.cache("a")
    assert await empty_house.status("a", underway) < 6
    await empty_house.audit()
    assert "Traceback" not in controller.said()


async def test_a_backend_that_goes_takes_its_workload_along(house: House) -> None:
    await house.controller()
    await house.cache("a")
    await house.status("a", underway)
    await house.delete(cachebackend.CACHE_BACKENDS, "a")
    await house.cache("b")
    await house.status("b", underway)
    await house.audit()
    assert [one["metadata"]["name"] for one in await house.all_of(cachebackend.CACHE_BACKENDS)] == ["b"]


async def test_metrics_and_readiness_say_who_leads_and_what_was_done(house: House) -> None:
    controller = await house.controller()
    await house.leader()
    await house.cache("a")
    await house.status("a", underway)
    await house.audit()
    found = {
        (one.name, *one.labels.values()): one.value
        for family in text_string_to_metric_families(await controller.ask("/metrics"))
        for one in family.samples
    }
    assert found["warmlog_leader_leads",] == found["warmlog_leader_epoch",] == 1
    assert found["warmlog_effect_writes_total", "apply", "applied"] == 2
    told = [one for one in await house.effects() if one.verb == "event"]
    assert found["warmlog_effect_writes_total", "event", "applied"] == len(told) >= 1
    assert found["warmlog_world_objects", core.DEPLOYMENTS] == 1
    assert found["warmlog_watch_lists_total", core.PODS] == 1
    assert found["warmlog_watch_silence_seconds", core.PODS] < 60
    assert found["warmlog_reconcile_waiting_keys",] == 0
    assert found["warmlog_effect_seconds_count",] >= 4
    assert "leading with epoch 1" in await controller.ask("/readyz")


CRD = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{cachebackend.CACHE_BACKENDS}"


async def test_what_was_stored_before_a_rule_is_told_in_its_status_and_recovers(house: House) -> None:
    """As from a time when the schema took anything: the field is named where an operator looks, others go on."""
    strict = await house.api.request("GET", CRD)
    loose = copy.deepcopy(strict)
    for version in loose["spec"]["versions"]:
        version["schema"]["openAPIV3Schema"]["properties"]["spec"] = {
            "type": "object", "x-kubernetes-preserve-unknown-fields": True,
        }  # fmt: skip
    await house.api.request("PUT", CRD, loose)
    await house.cache("before")
    bad = {"spec": {"replicas": "three"}}
    await until(lambda: taken(house, "before", bad))
    fresh = await house.api.request("GET", CRD)
    await house.api.request("PUT", CRD, {**fresh, "spec": strict["spec"]})
    await house.controller()
    await house.cache("after")
    await house.status("before", lambda status: ready(status).get("reason") == "Invalid")
    await house.status("after", underway)
    told = await house.get(cachebackend.CACHE_BACKENDS, "before")
    assert told is not None
    said = ready(told["status"])
    assert said["status"] == "False"
    assert said["message"].startswith("spec.replicas: expected `int | null`, got `str`; correct it")
    warned = [one for one in await house.all_of("events") if one["reason"] == "Invalid"]
    assert [(one["type"], one["involvedObject"]["name"]) for one in warned] == [("Warning", "before")]
    await house.audit()
    await house.merge(cachebackend.CACHE_BACKENDS, "before", {"spec": {"replicas": 1}})
    await house.status("before", underway)
    await house.audit()
    assert await house.get(core.DEPLOYMENTS, "before") is not None


def ready(status: dict[str, Any]) -> dict[str, Any]:
    return next((one for one in status.get("conditions", []) if one["type"] == "Ready"), {})


async def taken(house: House, name: str, body: dict[str, Any]) -> bool:
    """A schema counts a moment after it was written."""
    try:
        await house.merge(cachebackend.CACHE_BACKENDS, name, body)
    except StatusError:
        return False
    return True


async def test_a_tenant_s_status_follows_what_servers_count(house: House) -> None:
    await house.controller()
    await house.leader()
    tenants = path(inferencecache.CACHE_TENANTS)
    for name, quota in (("a", 100), ("b", 5)):
        body = {
            "apiVersion": "inferencecache.io/v1alpha1",
            "kind": "CacheTenant",
            "metadata": {"name": name, "namespace": SPACE},
            "spec": {"tenantID": "team-a", "quota": {"maxIndexEntries": quota}},
        }
        await house.api.request("POST", tenants, body)
    await summarised(house, 120, 1)

    async def right() -> bool:
        first, second = [await house.get(inferencecache.CACHE_TENANTS, name) or {} for name in "ab"]
        over = {one["type"]: one["reason"] for one in first.get("status", {}).get("conditions", [])}
        other = {one["type"]: one["reason"] for one in second.get("status", {}).get("conditions", [])}
        return (over, other) == (
            {"Ready": "Observed", "QuotaExceeded": "OverEntryBudget"},
            {"Ready": "DuplicateTenantID", "QuotaExceeded": "NotEffective"},
        )

    await until(right, why=house.tails)
    await summarised(house, 80, 2)

    async def within() -> bool:
        found = await house.get(inferencecache.CACHE_TENANTS, "a") or {}
        reasons = [one["reason"] for one in found["status"]["conditions"]]
        return found["status"]["indexEntries"] == 80 and "WithinBudget" in reasons

    await until(within, why=house.tails)
    await house.audit()


async def summarised(house: House, entries: int, position: int) -> None:
    """As a server tells."""
    data = events.IndexSummarised(
        shard="0", kv_sequence=position, kv_incarnation="k", blocks=0, replicas=[], tenants={"team-a": entries}
    )
    event = events.event(
        data,
        id=f"index.summarised:{position}",
        source="warmlog/server",
        subject=subjects.index_subject("0"),
        time_ns=time.time_ns(),
        actor="server/t",
    )
    async with house.log() as log:
        await log.append(event)
