"""SGLang with LMCache's worker and with its own cache, form by form: what is shared, adopted and declined."""

from typing import Any

import pytest

from handlers.cachebackend import names
from handlers.outcome import Object
from tests.support.wiring import HICACHE, SGLANG, after, engine, managed

# SGLang with LMCache --------------------------------------------------------------------------------------------------


def worker(pod: Object) -> Object:
    (found,) = [one for one in pod["spec"]["initContainers"] if one["name"] == names.MP_WORKER]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize(
    ("lm", "chunk", "port", "gib"),
    [
        ({}, 256, 5555, 4), ({"chunkSizeTokens": 65537}, 256, 5555, 4), ({"workerPort": 7000}, 256, 7000, 4),
        ({"hostMemory": {"capacity": "1025Gi"}}, 256, 5555, 4),
        ({"hostMemory": {"capacity": "1024Gi"}}, 256, 5555, 1024),
        ({"hostMemory": {"capacity": "-1"}}, 256, 5555, 4), ({"hostMemory": {"capacity": "100Mi"}}, 256, 5555, 1),
    ],
)  # fmt: skip
def test_the_worker_s_numbers_stand_in_all_their_places(lm: Object, chunk: int, port: int, gib: int) -> None:
    now, _ = after(SGLANG | {"lmCache": lm})
    made = worker(now)
    script = made["command"][-1]
    for part in (f"chunk_size: {chunk}\\n", f"--chunk-size {chunk} ", f"mp_port: {port}\\n", f"--port {port} "):
        assert part in script
    assert f"--l1-size-gb {gib} " in script
    assert f"{port}" in made["startupProbe"]["exec"]["command"][-1]
    assert made["resources"]["limits"] == made["resources"]["requests"] == {"memory": f"{gib + 1}Gi"}
    (shm,) = [one for one in now["spec"]["volumes"] if one["name"] == "lmcache-dshm"]
    assert shm["emptyDir"] == {"medium": "Memory", "sizeLimit": f"{gib + 1}Gi"}
    assert "l2-adapter" not in script


def test_with_redis_the_worker_has_a_second_level() -> None:
    script = worker(after(SGLANG | managed("Redis"), endpoint="kv.ml.svc:6379")[0])["command"][-1]
    assert script.endswith("""--l2-adapter '{"type":"resp","host":"kv.ml.svc","port":6379}'""")


def mounted(**mount: Any) -> Object:
    return {"volumeMounts": [{"name": "v", "mountPath": "/dev/shm", **mount}]}


#: (engine, volume) -> the check that declined, "" where the mount is shared
SHARED: dict[str, tuple[Object, Object, str]] = {
    "an emptyDir": (mounted(), {"emptyDir": {"medium": "Memory"}}, ""),
    "a part of one": (mounted(subPath="s"), {"emptyDir": {}}, ""),
    "a hostPath": (mounted(), {"hostPath": {"path": "/dev/shm"}}, ""),
    "a claim": (mounted(), {"persistentVolumeClaim": {"claimName": "c"}}, ""),
    "with a slash at the end": (mounted(mountPath="/dev/shm/"), {"emptyDir": {}}, ""),
    "read-only": (mounted(readOnly=True), {"emptyDir": {}}, "shm-read-only"),
    "an expression": (mounted(subPathExpr="$(X)"), {"emptyDir": {}}, "shm-sub-path"),
    "a read-only claim": (
        mounted(), {"persistentVolumeClaim": {"claimName": "c", "readOnly": True}}, "shm-read-only",
    ),
    "a read-only CSI volume": (mounted(), {"csi": {"driver": "d", "readOnly": True}}, "shm-read-only"),
    "a CSI volume": (mounted(), {"csi": {"driver": "d", "readOnly": False}}, ""),
    **{
        kind: (mounted(), {kind: {}}, "shm-read-only") for kind in ("configMap", "secret", "downwardAPI", "projected")
    },
}  # fmt: skip


@pytest.mark.parametrize("case", SHARED)
def test_shared_memory_that_is_there_is_shared_or_declined(case: str) -> None:
    container, volume, check = SHARED[case]
    now, decision = after(SGLANG, container, volumes=[{"name": "v", **volume}])
    assert decision.check == (check or "injected")
    if check:
        assert decision.patch == ()
        return
    assert [one["name"] for one in now["spec"]["volumes"]] == ["v", "lmcache-config"]
    assert engine(now)["volumeMounts"][0] in worker(now)["volumeMounts"]


OURS = {"name": names.MP_WORKER, "image": "old", "env": [{"name": "INFERENCECACHE_MP_WORKER", "value": "true"}]}
THEIRS = {"name": names.MP_WORKER, "image": "mine"}
#: what stands in the Pod -> the check that declined, "" where it converges
TAKEN: dict[str, tuple[Object, list[Object], str]] = {
    "their worker": ({}, [{"initContainers": [THEIRS]}], "reserved-name"),
    "our worker": ({}, [{"initContainers": [OURS]}], ""),
    "their config volume": ({}, [{"volumes": [{"name": "lmcache-config", "emptyDir": {}}]}], "reserved-name"),
    "their shm volume": ({}, [{"volumes": [{"name": "lmcache-dshm", "emptyDir": {}}]}], "reserved-name"),
    "our volumes": (
        {}, [{"initContainers": [OURS]}, {"volumes": [{"name": "lmcache-config", "emptyDir": {}}]}], "",
    ),
    "their path": (
        {"volumeMounts": [{"name": "v", "mountPath": "/etc/lmcache"}]}, [{"volumes": [{"name": "v", "emptyDir": {}}]}],
        "reserved-path",
    ),
    "a path below": (
        {"volumeMounts": [{"name": "v", "mountPath": "/etc/lmcache-other"}]},
        [{"volumes": [{"name": "v", "emptyDir": {}}]}], "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", TAKEN)
def test_names_that_are_reserved_are_ours_or_nothing_is_wired(case: str) -> None:
    container, parts, check = TAKEN[case]
    pod = {key: value for part in parts for key, value in part.items()}
    now, decision = after(SGLANG, container, **pod)
    assert decision.check == (check or "injected")
    assert (decision.patch == ()) == bool(check)
    if not check:
        assert worker(now)["image"] == "engine:1"


# SGLang's own cache ---------------------------------------------------------------------------------------------------

ALL = HICACHE | {
    "hiCache": {"sizeGB": 8, "writePolicy": "write_back", "ioBackend": "direct", "memoryLayout": "page_head"}
}
#: (spec, arguments before) -> after, or the check that declined
FLAGS: dict[str, tuple[Object, list[str], list[str] | str]] = {
    "all, in order": (ALL, [], [
        "--enable-hierarchical-cache", "--hicache-size", "8", "--hicache-write-policy", "write_back",
        "--hicache-io-backend", "direct", "--hicache-mem-layout", "page_head"]),
    "what is there stays": (
        ALL, ["--hicache-mem-layout=page_head", "--hicache-size", "+8", "--enable-hierarchical-cache"],
        ["--hicache-mem-layout=page_head", "--hicache-size", "+8", "--enable-hierarchical-cache",
         "--hicache-write-policy", "write_back", "--hicache-io-backend", "direct"],
    ),
    "an equal number": (HICACHE, ["--hicache-ratio", "15e-1"], [
        "--hicache-ratio", "15e-1", "--enable-hierarchical-cache"]),
    "a size is whole": (ALL, ["--hicache-size", "8.0"], "different-value"),
    "another policy": (ALL, ["--hicache-write-policy", "write_through"], "different-value"),
    "the author's own policy": (HICACHE, ["--hicache-write-policy", "write_back"], [
        "--hicache-write-policy", "write_back", "--enable-hierarchical-cache", "--hicache-ratio", "1.5"]),
    "the author's own policy twice": (
        HICACHE, ["--hicache-write-policy", "write_back", "--hicache-write-policy=write_back"], "duplicate",
    ),
    "the author's own policy without a value": (HICACHE, ["--hicache-io-backend"], "malformed"),
    "an empty value": (HICACHE, ["--hicache-ratio="], "malformed"),
    "the other capacity": (ALL, ["--hicache-ratio=2"], "other-capacity"),
    "the switch twice": (HICACHE, ["--enable-hierarchical-cache", "--enable-hierarchical-cache"], "malformed"),
    "the switch with a value": (HICACHE, ["--enable-hierarchical-cache=1"], "malformed"),
    "LMCache's file": (HICACHE, ["--lmcache-config-file=/x"], "other-cache"),
    "stored without a capacity": (HICACHE | {"hiCache": {}}, [], "capacity"),
    "stored with two": (HICACHE | {"hiCache": {"sizeGB": 1, "ratio": "2"}}, [], "capacity"),
    "stored failing closed": (HICACHE | {"integration": {"failOpen": False}}, [], "role"),
    "stored reading only": (HICACHE | {"integration": {"role": "ReadOnly"}}, [], "role"),
}  # fmt: skip


@pytest.mark.parametrize("case", FLAGS)
def test_hicache_adopts_what_says_the_same_and_declines_the_rest(case: str) -> None:
    spec, before, wanted = FLAGS[case]
    now, decision = after(spec, {"args": before})
    if isinstance(wanted, str):
        assert (decision.check, decision.patch) == (wanted, ())
        return
    assert engine(now)["args"] == wanted
    assert "env" not in engine(now)
