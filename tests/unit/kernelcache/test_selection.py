"""Every candidate and the check that it failed; where a Pod may run; what hardware a cache needs."""

from typing import Any

import pytest

from crds import schema
from crds.kernelcache import KernelCache, KernelCacheNode
from handlers.kernelcache import identity, names, placement, selection
from tests.support import kernelcaches as kc

Object = dict[str, Any]


def judged(
    pod: Object, caches: list[Object], nodes: list[Object], *, mode: str = "none", labels: Any = None
) -> tuple[str, list[tuple[str, str]], list[str]]:
    """Chosen, (name, check) of all, details."""
    found, candidates = selection.choose(
        selection.Asked(
            pod,
            "team-a",
            identity.of(pod, "team-a"),
            mode,
            lambda node: (labels or {}).get(node),
        ),
        [schema.read(one, KernelCache) for one in caches],
        [schema.read(one, KernelCacheNode) for one in nodes],
    )
    name = found.cache.metadata.name if found is not None else ""
    return name, [(one.name, one.failed) for one in candidates], [one.detail for one in candidates]


def check_of(pod: Object, cache: Object, *nodes: Object, **more: Any) -> tuple[str, str]:
    _, [(_, check)], [detail] = judged(pod, [cache], list(nodes), **more)
    return check, detail


def test_each_check_is_named() -> None:
    pod = kc.pod()
    fits = kc.cache("c", pod)
    ready = kc.node("n1", fits)
    assert check_of(pod, fits, ready) == ("", "")
    asks, has = kc.pod(args=["--max-model-len=8192"]), kc.cache("c", kc.pod(args=["--max-model-len=4096"]))
    assert check_of(asks, has, ready) == ("footprints", "option.maxModelLen is 8192 here and 4096 there")
    check, detail = check_of(kc.pod(image="rt/vllm:latest"), fits, ready)
    assert (check, "floating" in detail) == ("footprints", True)
    assert check_of(pod, kc.cache("c", pod, mountType="pvc"), ready) == ("mount-type", "mountType pvc is not oci")
    assert check_of(pod, kc.cache("c", pod, paths=[]), ready) == ("paths", "it has no cachePaths")
    assert check_of(pod, fits) == ("node", "no node has it")
    assert check_of(pod, fits, kc.node("n1", fits, state="Pulling")) == ("node", "no node has it ready: n1 Pulling")
    assert check_of(pod, fits, kc.node("n1", kc.cache("c", kc.pod(args=["-tp=2"])))) == (
        "node", "what is ready on n1 is another artifact"
    )  # fmt: skip
    assert check_of(pod, fits, ready, mode="cert") == (
        "verification", "artifactSecurity.mode is cert; its verification was not done"
    )  # fmt: skip
    at_home = kc.pod(env=[{"name": names.CACHE_ROOT, "value": "/scratch"}])
    assert check_of(at_home, kc.cache("c", at_home), kc.node("n1", kc.cache("c", at_home))) == (
        "path-differs", "it belongs at /root/.cache/vllm; this engine looks at /scratch"
    )  # fmt: skip
    assert judged(pod, [], [ready])[1:] == ([("c", "gone")], ["a node has it, but the KernelCache does not exist"])


def test_a_place_that_is_taken_is_told() -> None:
    taken = kc.pod(volumeMounts=[{"name": "pvc", "mountPath": "/root/.cache"}])
    check, detail = check_of(taken, kc.cache("c", taken), kc.node("n", kc.cache("c", taken)))
    assert (check, detail) == ("mount-conflict", "kserve-container has a mount at /root/.cache already")


@pytest.mark.parametrize(
    ("volume", "mount", "check"),
    [
        ({"emptyDir": {}}, {}, ""),
        ({"persistentVolumeClaim": {"claimName": "mine"}}, {}, "mount-conflict"),
        ({"hostPath": {"path": "/x"}}, {}, "mount-conflict"),
        ({"emptyDir": {}}, {"readOnly": True}, "mount-conflict"),
        ({"emptyDir": {}}, {"subPath": "a"}, "mount-conflict"),
        ({"emptyDir": {}}, {"mountPath": "/root/.cache/vllm/"}, ""),
        ({"emptyDir": {}}, {"mountPath": "/root/./.cache//vllm"}, ""),
        ({"emptyDir": {}}, {"mountPath": "/"}, "mount-conflict"),
    ],
)
def test_whose_mounts_are_used(volume: Object, mount: Object, check: str) -> None:
    mounts = [{"name": "v", "mountPath": names.DEFAULT_ROOT, **mount}]
    pod = kc.pod(volumeMounts=mounts, spec={"volumes": [{"name": "v", **volume}]})
    assert check_of(pod, kc.cache("c", pod), kc.node("n", kc.cache("c", pod)))[0] == check


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ([], "/root/.cache/vllm"),
        ([{"name": "HOME", "value": "/home/me"}], "/home/me/.cache/vllm"),
        ([{"name": "HOME", "value": "/"}], "/.cache/vllm"),
        ([{"name": "XDG_CACHE_HOME", "value": "/x/"}, {"name": "HOME", "value": "/home/me"}], "/x/vllm"),
        ([{"name": "VLLM_CACHE_ROOT", "value": "/c"}, {"name": "XDG_CACHE_HOME", "value": "/x"}], "/c"),
        ([{"name": "BASE", "value": "/b"}, {"name": "VLLM_CACHE_ROOT", "value": "$(BASE)/c"}], "/b/c"),
        ([{"name": "VLLM_CACHE_ROOT", "value": "/a"}, {"name": "VLLM_CACHE_ROOT", "value": "/b"}], "/b"),
    ],
)
def test_where_an_engine_looks(env: list[Object], expected: str) -> None:
    pod = kc.pod(env=env)
    made = kc.cache("c", pod, paths=[{**kc.PATH, "containerPath": expected}])
    assert check_of(pod, made, kc.node("n", made)) == ("", "")


@pytest.mark.parametrize(
    "path", ["/proc/1", "/etc/x", "/var/run", "/var/run/gkm/kernel-cache/x", "/mnt/models/a", "/dev"]
)
def test_places_that_are_not_a_cache_s(path: str) -> None:
    pod = kc.pod(env=[{"name": names.CACHE_ROOT, "value": path}])
    made = kc.cache("c", pod, paths=[{**kc.PATH, "containerPath": path}])
    assert check_of(pod, made, kc.node("n", made))[0] == "path-invalid"


def test_paths_that_lie_in_each_other() -> None:
    pod = kc.pod()
    triton = {"containerPath": "/root/.cache/vllm/triton", "ociPath": names.TRITON_TREE}
    made = kc.cache("c", pod, paths=[kc.PATH, triton])
    assert check_of(pod, made, kc.node("n", made))[0] == "paths"
    apart = kc.cache("c", pod, paths=[kc.PATH, {**triton, "containerPath": "/root/.triton/cache"}])
    assert check_of(pod, apart, kc.node("n", apart))[0] == ""


def test_the_runtime_s_container_is_the_one_that_made_it() -> None:
    """Identity is that of the runtime: a cache for another container's engine says nothing about this one."""
    pod = kc.pod(spec={"containers": [*kc.pod()["spec"]["containers"], {"name": "other", "image": "x"}]})
    made = kc.cache("c", pod, paths=[{**kc.PATH, "containerName": "other"}])
    assert check_of(pod, made, kc.node("n", made))[0] == "path-differs"


# Order ----------------------------------------------------------------------------------------------------------------


def test_the_order_is_match_then_age_then_name() -> None:
    pod, moved = kc.pod(args=["-tp=2"]), kc.pod(command=["vllm", "serve"], args=["-tp=2"])
    old, new = ({"creationTimestamp": f"2026-0{month}-01T00:00:00Z"} for month in (3, 4))
    caches = [
        kc.cache("compat-new", moved, metadata=new), kc.cache("b-new", pod, metadata=new),
        kc.cache("a-new", pod, metadata=new), kc.cache("old", pod, metadata=old),
    ]  # fmt: skip
    nodes = [kc.node("n", *caches)]
    for wanted in ("a-new", "b-new", "old", "compat-new"):
        name, all_, _ = judged(pod, caches, nodes)
        assert name == wanted
        assert [check for one, check in all_ if one == wanted] == [""]
        assert {check for one, check in all_ if one != wanted} <= {"not-chosen"}
        caches = [one for one in caches if one["metadata"]["name"] != wanted]
        nodes = [kc.node("n", *caches)]


# Nodes ----------------------------------------------------------------------------------------------------------------


def required(*terms: Object) -> Object:
    return {
        "affinity": {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [*terms]}}
        }
    }


def expression(operator: str, *values: str, key: str = "gpu") -> Object:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


FIELDS = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}


@pytest.mark.parametrize(
    ("spec", "labels", "allowed"),
    [
        ({}, {}, True),
        ({"nodeName": "n1"}, {}, True),
        ({"nodeName": "n2"}, None, False),
        ({"nodeSelector": {"gpu": "h100"}}, {"gpu": "h100", "zone": "z"}, True),
        ({"nodeSelector": {"gpu": "h100"}}, {"gpu": "a100"}, False),
        ({"nodeSelector": {"gpu": "h100"}}, None, True),
        (required(expression("In", "h100", "a100")), {"gpu": "a100"}, True),
        (required(expression("In", "h100")), {}, False),
        (required(expression("NotIn", "h100")), {}, True),
        (required(expression("NotIn", "h100")), {"gpu": "h100"}, False),
        (required(expression("Exists")), {"gpu": ""}, True),
        (required(expression("DoesNotExist")), {"gpu": ""}, False),
        (required(expression("Gt", "7")), {"gpu": "8"}, True),
        (required(expression("Lt", "7")), {"gpu": "8"}, False),
        (required(expression("Gt", "x")), {"gpu": "8"}, False),
        (required(expression("Near", "7")), {"gpu": "7"}, False),
        (required(expression("In", "x"), expression("Exists")), {"gpu": "h100"}, True),
        (required({**FIELDS, **expression("Exists")}), {}, False),
        (required(FIELDS), None, True),
        (required({"matchFields": [{**FIELDS["matchFields"][0], "values": ["n2"]}]}), None, False),
        (required({}), {}, False),
        (required(), {}, False),
    ],
)
def test_where_a_pod_may_run(spec: Object, labels: Any, allowed: bool) -> None:
    assert placement.allows({"spec": spec}, "n1", labels) == allowed


def test_a_cache_that_is_ready_elsewhere_only_is_passed_over() -> None:
    pod = kc.pod(spec={"nodeSelector": {"gpu": "h100"}})
    cache = kc.cache("c", pod)
    nodes = [kc.node("n1", cache), kc.node("n2", cache)]
    labels = {"n1": {"gpu": "a100"}, "n2": {"gpu": "a100"}}
    _, [(_, check)], [detail] = judged(pod, [cache], nodes, labels=labels)
    assert (check, detail) == ("placement", "the Pod may not run where it is ready: n1, n2")
    assert judged(pod, [cache], nodes, labels={**labels, "n2": {"gpu": "h100"}})[0] == "c"


H100 = {"accelerators": [{"product": "NVIDIA-H100", "arch": "sm_90"}], "cpuArch": "amd64"}
A100 = {"accelerators": [{"product": "NVIDIA-A100", "arch": "sm_80"}], "cpuArch": "amd64"}


@pytest.mark.parametrize(
    ("producer", "status", "labels", "fits"),
    [
        ({}, H100, {}, True),
        ({"acceleratorArch": "sm_90", "cpuArch": "amd64"}, H100, {}, True),
        ({"acceleratorArch": "sm_90"}, A100, {}, False),
        ({"acceleratorArch": "sm_90"}, {}, {}, True),  # unknown is no opinion
        ({"acceleratorProduct": "NVIDIA-H100"}, A100, {}, False),
        ({"acceleratorProduct": "NVIDIA-H100"}, {}, {"nvidia.com/gpu.product": "NVIDIA-A100"}, False),
        ({"acceleratorProduct": "NVIDIA-H100"}, {}, {"nvidia.com/gpu.product": "NVIDIA-H100"}, True),
        ({"acceleratorProduct": "NVIDIA-H100-PCIe", "acceleratorArch": "sm_90"}, H100, {}, True),
        ({"cpuArch": "arm64"}, H100, {}, False),
        ({"cpuArch": "arm64"}, {}, {"kubernetes.io/arch": "amd64"}, False),
        ({"cpuArch": "arm64"}, {}, {}, True),
        ({"acceleratorArch": "sm_80"}, {"accelerators": [*H100["accelerators"], *A100["accelerators"]]}, {}, True),
    ],
)
def test_what_hardware_a_cache_needs(producer: Object, status: Object, labels: Object, fits: bool) -> None:
    pod = kc.pod()
    cache = kc.cache("c", pod, artifact={"producer": producer})
    check, _ = check_of(pod, cache, kc.node("n1", cache, **status), labels={"n1": labels})
    assert check == ("" if fits else "hardware")


def test_hardware_is_no_part_of_a_footprint() -> None:
    pod = kc.pod()
    one, other = (kc.cache("c", pod, artifact={"producer": {"acceleratorArch": arch}}) for arch in ("sm_80", "sm_90"))
    assert one["spec"]["artifact"]["identity"] == other["spec"]["artifact"]["identity"]
