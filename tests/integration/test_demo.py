"""The demo is the main job's acceptance test: real processes, real sockets, kill -9, every answer checked by itself.

With Kubernetes (devkube, and a real API server where KUBEBUILDER_ASSETS names one) and without; with kubectl and
without. Excluded: the judge itself (tests/unit/test_demo_judge.py).
"""

import os
import subprocess
import sys

import pytest

from tests.support import kubectl, natsserver, realkube

ENGINES = (
    "engine-a: wire form vllm-0.33",
    "engine-b: wire form vllm-0.13, blocks of 32 tokens, without replay socket",
    "engine-c: wire form sglang",
    "PREFIX_MATCH → engine-a",
    "nothing of its old life is credited",
    "engine-b: 5 turns while nobody listened; partial",
    "every answer is right again",
    "warmlog lookup --at",
    "engine-a: gone",
)
CLUSTER = (
    '+ --kv-transfer-config \'{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}\'',
    "+ inferencecache.io/injected-by: team-a/chat",
    "no CacheBackend selects it: admitted as it came",
    "Ready is False: AwaitingFirstKVEvent",
    "Ready is True: KVEventsObserved",
    "$ warmlog explain cachebackend/team-a/chat",
    "mpod.inferencecache.io patched it: injected",
    "decided again there: the same bytes",
    "kernels-known: + image volume of the cache, + init container kernel-cache-linker",
    "kernels-other: admitted as it came",
    "mkernelcache.serving.kserve.io patched it: mounted, kernel cache kernels by its workload footprint",
    "option.maxModelLen is 8192 here and 4096 there",
    "back: the same objects (from ",
    "the Pod that engine-b was scaled by is wired, and counted",
    "byte for byte what the API showed then",
    "matchedEnginePods: 2 -> 3",
)


def demo(*words: str, environment: dict[str, str] | None = None) -> str:
    natsserver.require()
    done = subprocess.run(
        [sys.executable, "-m", "warmlog", "demo", "--turns=15", *words],
        capture_output=True,
        text=True,
        timeout=110,
        env={**os.environ, **(environment or {})},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "none wrong" in done.stdout
    return done.stdout


def test_the_demo_runs_the_main_job_to_its_end_and_finds_no_wrong_answer() -> None:
    kubectl.require(kubectl.WHEEL)
    told = demo("--kubernetes=devkube")
    for said in (*ENGINES, *CLUSTER, "$ kubectl get cachebackends\n   NAME   TYPE "):
        assert said in told, told
    for said in (
        "-o jsonpath='{.spec.artifact.identity}'",
        "-o jsonpath='{.status.cacheStatus}'",
        "$ kubectl describe pod",
    ):
        assert said in told, told
    assert "not installed" not in told


def test_without_kubernetes_the_engines_part_is_told_alone() -> None:
    told = demo("--kubernetes=none")
    for said in ENGINES:
        assert said in told, told
    assert "kubectl" not in told


def test_with_a_real_api_server() -> None:
    if realkube.folder() is None:
        pytest.skip(f"no kube-apiserver: {realkube.VARIABLE} is not set")
    told = demo("--kubernetes=assets")
    for said in (*ENGINES, *CLUSTER):
        assert said in told, told
