"""Whole sets of violations: what comes together, and what is not told twice or of somebody else."""

from typing import Any

import pytest

from crds import schema
from crds.cachebackend import CacheBackend, CacheBackendSpec
from handlers.admission.decision import Question
from handlers.cachebackend import admit, validate
from handlers.world.reader import Reader
from handlers.world.state import World

STORAGE = "spec.remoteStorage"
OVERRIDES = "spec.integration.engineOverrides"
VLLM, SGLANG = {"runtime": "VLLM"}, {"runtime": "SGLang"}
HICACHE = {**SGLANG, "type": "SGLangHiCache", "engineSelector": {"matchLabels": {"a": "b"}}}


def storage(provider: str, ownership: str = "Managed", **more: Any) -> dict[str, Any]:
    return {"remoteStorage": {"provider": provider, "ownership": ownership, **more}}


def env(**entry: Any) -> dict[str, Any]:
    return {"integration": {"engineOverrides": {"env": [entry]}}}


#: spec -> every (type, field)
SETS: dict[str, tuple[dict[str, Any], set[tuple[str, str]]]] = {
    "EventsOnly with a tier that the pair does not speak": (
        {**VLLM, "integration": {"mode": "EventsOnly"}, **storage("Redis")},
        {("Forbidden", STORAGE), ("Invalid", f"{STORAGE}.provider")},
    ),
    "EventsOnly with a workload to scale": (
        {**VLLM, "integration": {"mode": "EventsOnly"}, "autoscaling": {"maxReplicas": 2}},
        {("Forbidden", "spec.autoscaling")},
    ),
    "a managed tier told the Service of another namespace": (
        {**VLLM, **storage("LMCacheServer", endpoint="lm.other.svc:1")}, {("Forbidden", f"{STORAGE}.endpoint")},
    ),
    "a bad port does not hide another namespace": (
        {**VLLM, **storage("LMCacheServer", "External", endpoint="lm.other.svc:8x")},
        {("Forbidden", f"{STORAGE}.endpoint"), ("Invalid", f"{STORAGE}.endpoint")},
    ),
    "a fragment is no part of a name": (
        {**VLLM, **storage("LMCacheServer", "External", endpoint="lm.other.svc#x:1")},
        {("Invalid", f"{STORAGE}.endpoint")},
    ),
    "resources of another provider's block": (
        {**VLLM, **storage("LMCacheServer", redis={"resources": {"limits": {"cpu": "-1"}}})},
        {("Forbidden", f"{STORAGE}.redis")},
    ),
    "resources of an external provider's own block": (
        {**VLLM, **storage("LMCacheServer", "External", endpoint="a:1", lmCacheServer={"resources": {"claims": [{}]}})},
        {("Forbidden", f"{STORAGE}.lmCacheServer"), ("Forbidden", f"{STORAGE}.lmCacheServer.resources.claims")},
    ),
    "a subdomain of kubernetes.io": (
        {**VLLM, **storage("LMCacheServer", lmCacheServer={"resources": {"limits": {"x.kubernetes.io/y": "1"}}})},
        set(),
    ),
    "a ratio that is empty beside a size": ({**HICACHE, "hiCache": {"sizeGB": 4, "ratio": ""}}, set()),
    "a ratio that is empty": ({**HICACHE, "hiCache": {"ratio": ""}}, {("Required", "spec.hiCache")}),
    "two capacities, both wrong": (
        {**HICACHE, "hiCache": {"sizeGB": 0, "ratio": "x"}},
        {("Invalid", "spec.hiCache"), ("Invalid", "spec.hiCache.sizeGB"), ("Invalid", "spec.hiCache.ratio")},
    ),
    "HiCache with everything that belongs elsewhere": (
        {"runtime": "VLLM", "type": "SGLangHiCache", "lmCache": {}, "autoscaling": {"maxReplicas": 2},
         "integration": {"mode": "EventsOnly", "role": "WriteOnly", "failOpen": False}},
        {("Forbidden", "spec.lmCache"), ("Required", "spec.hiCache"), ("Invalid", "spec.runtime"),
         ("Required", "spec.engineSelector.matchLabels"), ("Forbidden", "spec.autoscaling"),
         ("Forbidden", "spec.integration.mode"), ("NotSupported", "spec.integration.mode"),
         ("NotSupported", "spec.integration.role"), ("NotSupported", "spec.integration.failOpen")},
    ),
    "an environment is judged where no pair is": (
        {**VLLM, "type": "SGLangHiCache", "hiCache": {"ratio": "1"}, "engineSelector": {"matchLabels": {"a": "b"}},
         **env(name="1A")},
        {("Invalid", "spec.runtime"), ("Invalid", f"{OVERRIDES}.env[0].name")},
    ),
    "a name that begins with a digit": ({**VLLM, **env(name="1A")}, {("Invalid", f"{OVERRIDES}.env[0].name")}),
    "a name with a blank": ({**VLLM, **env(name="A B")}, {("Invalid", f"{OVERRIDES}.env[0].name")}),
    "a name of two dots": ({**VLLM, **env(name="..a")}, {("Invalid", f"{OVERRIDES}.env[0].name")}),
    "a name of one dot": ({**VLLM, **env(name=".")}, {("Invalid", f"{OVERRIDES}.env[0].name")}),
    "names that are right": ({**VLLM, **env(name="_a.b-C1")}, set()),
    "a hugepage and a device at once": (
        {**VLLM, **storage("LMCacheServer", lmCacheServer={"resources": {
            "requests": {"hugepages-2Mi": "3Mi", "a.io/x": "1500m"}, "limits": {"memory": "-1"}}})},
        {("Invalid", f"{STORAGE}.lmCacheServer.resources.{field}") for field in (
            "requests[hugepages-2Mi]", "requests[a.io/x]", "limits[memory]")},
    ),
    "a grandfathered singleton": (
        {**SGLANG, **storage("Redis"), "replicas": 3, "autoscaling": {"minReplicas": 2, "maxReplicas": 3}},
        {("Invalid", "spec.replicas"), ("Invalid", "spec.autoscaling")},
    ),
    "an external singleton is somebody else's": (
        {**SGLANG, **storage("Redis", "External", endpoint="r:1"), "replicas": 3}, set(),
    ),
}  # fmt: skip


def document(spec: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": "kv", "namespace": "ml"}, "spec": spec}


@pytest.mark.parametrize("name", SETS)
def test_the_violations_of_a_spec_are_exactly_these(name: str) -> None:
    spec, wanted = SETS[name]
    found = validate.violations(schema.read(document(spec), CacheBackend))
    assert {(one.type, one.field) for one in found} == wanted


@pytest.mark.parametrize(("least", "most", "right"), [(3, 2, False), (2, 2, True), (None, 2, True)])
def test_the_least_is_not_more_than_the_most(least: int | None, most: int, right: bool) -> None:
    spec = {**VLLM, "autoscaling": {"minReplicas": least, "maxReplicas": most}}
    problems = schema.violations(spec, CacheBackendSpec, "spec")
    assert [(one.type, one.field) for one in problems] == ([] if right else [("Invalid", "spec.autoscaling")])


def test_a_value_that_is_wrong_by_itself_is_told_alone() -> None:
    spec = {**VLLM, "autoscaling": {"minReplicas": "3", "maxReplicas": 2}}
    assert [one.type for one in schema.violations(spec, CacheBackendSpec, "spec")] == ["TypeInvalid"]


def asked(operation: Any, spec: dict[str, Any], old: dict[str, Any] | None = None) -> Question:
    return Question(
        uid="u", operation=operation, kind="cachebackends.inferencecache.io", namespace="ml", name="kv",
        view=document(spec), old=None if old is None else document(old),
    )  # fmt: skip


def test_what_is_refused_carries_its_warnings_too() -> None:
    spec = {**VLLM, **storage("Mooncake"), "replicas": 2}
    answer = admit.Validation().decide(asked("CREATE", spec), Reader(World()))
    assert [(one.type, one.field) for one in answer.violations] == [("Invalid", "spec.replicas")]
    assert len(answer.warnings) == 1


def test_an_update_is_refused_for_what_it_introduces() -> None:
    bad, worse = storage("LMCacheServer", "External", endpoint="a"), storage("LMCacheServer", "External", endpoint="b")
    decide = admit.Validation().decide
    world = Reader(World())
    assert decide(asked("UPDATE", {**VLLM, **bad, "replicas": 2}, {**VLLM, **bad}), world).verdict == "allowed"
    assert decide(asked("UPDATE", {**VLLM, **worse}, {**VLLM, **bad}), world).verdict == "refused"
    assert decide(asked("UPDATE", {**VLLM, **bad}, VLLM), world).verdict == "refused"
