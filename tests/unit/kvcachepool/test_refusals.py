"""R1 to R31: each refusal is a check with a name, at a field, with a line that names key, object and fix."""

from typing import Any

import pytest

from handlers.kvcachepool import inject, names
from handlers.kvcachepool.inject import Settings
from handlers.outcome import Object
from tests.support.kvpools import STORE, TRUE, backend, binding, changed, pod, pool, world

BINDING, POOL, BACKEND = STORE
ANNOTATION = names.annotation
AT_BINDING = ANNOTATION(names.BINDING)
SERVER = "spec.containers[0]"


def container(engine: str = "vLLM", **fields: Any) -> Object:
    return pod(engine, **fields)


def args(engine: str, *words: str) -> Object:
    made = pod(engine)
    made["spec"]["containers"][0]["args"] += words
    return made


def launched(command: list[str] | None, given: list[str] | None = None, **annotations: str) -> Object:
    said = {f"{names.PREFIX}{key.replace('_', '-')}": value for key, value in annotations.items()}
    made = pod(annotations=said)
    target = made["spec"]["containers"][0]
    del target["command"], target["args"]
    target |= {key: value for key, value in (("command", command), ("args", given)) if value is not None}
    return made


def condition(status: str, reason: str) -> Object:
    return {**TRUE, "status": status, "reason": reason}


def two(name: str | None = None) -> Object:
    made = pod(annotations={names.CONTAINER: name})
    made["spec"]["containers"].append({"name": "proxy"})
    made["spec"]["initContainers"] = [{"name": "warm"}]
    return made


def volume(name: str) -> Object:
    return changed(pod(), spec__volumes=[{"name": name, "emptyDir": {}}])


def mount(name: str, path: str) -> Object:
    return container(volumeMounts=[{"name": name, "mountPath": path}])


def env(engine: str, name: str) -> Object:
    return container(engine, env=[{"name": name, "value": "x"}])


FORWARDED = "launch-args-forwarded"
#: refusal, what it is about -> (Pod, objects, check, field, words)
TABLE: dict[str, tuple[Object, tuple[Object, ...], str, str, tuple[str, ...]]] = {
    "R1 no binding": (pod(annotations={names.BINDING: None}), STORE, "binding", AT_BINDING, (names.BINDING,)),
    "R1 empty": (pod(annotations={names.BINDING: ""}), STORE, "binding", AT_BINDING, (names.BINDING,)),
    "R2 slash": (pod(annotations={names.BINDING: "a/b"}), STORE, "binding-name", AT_BINDING, ("a/b", "plain name")),
    "R3 absent": (pod(), (POOL, BACKEND), "binding-absent", AT_BINDING, ("chat", "team", "create")),
    "R4 terminating": (
        pod(), (changed(BINDING, metadata__deletionTimestamp="2026-01-01T00:00:00Z"), POOL, BACKEND),
        "binding-deleted", AT_BINDING, ("chat", "TENANT_NOT_REGISTERED", "another"),
    ),
    "R5 pool": (pod(), (BINDING, BACKEND), "pool-absent", AT_BINDING, ("chat", "main", "poolRef")),
    "R5 unnamed": (pod(), (BINDING, pool(backend=""), BACKEND), "backend-unnamed", AT_BINDING, ("main", "backends")),
    "R5 backend": (pod(), (BINDING, POOL), "backend-absent", AT_BINDING, ("main", "store")),
    "R6 absent": (pod(), (BINDING, pool(condition=None), BACKEND), "ledger", AT_BINDING,
                  ("main", "QuotaLedgerAvailable", "not reported")),
    "R6 unknown": (pod(), (BINDING, pool(condition=condition("Unknown", "Probing")), BACKEND), "ledger", AT_BINDING,
                   ("main", "Unknown", "Probing")),
    "R6 false": (pod(), (BINDING, pool(condition=condition("False", "LedgerUnreachable")), BACKEND), "ledger",
                 AT_BINDING, ("LedgerUnreachable", "master")),
    "R7 endpoint": (pod(), (BINDING, pool(endpoint=""), BACKEND), "pool-endpoint", AT_BINDING,
                    ("main", "clientEndpoint")),
    "R8 no engine": (pod(annotations={names.ENGINE: None}), STORE, "engine", ANNOTATION(names.ENGINE),
                     ("vLLM", "SGLang")),
    "R8 case": (pod(annotations={names.ENGINE: "vllm"}), STORE, "engine", ANNOTATION(names.ENGINE), ('write "vLLM"',)),
    "R8 ascend": (pod(annotations={names.ENGINE: "vllm-ascend"}), STORE, "engine", ANNOTATION(names.ENGINE),
                  (names.MANUFACTURER, "ascend")),
    "R8 manufacturer": (pod(annotations={names.MANUFACTURER: "nvidia"}), STORE, "manufacturer",
                        ANNOTATION(names.MANUFACTURER), ("nvidia", "ascend")),
    "R8 with SGLang": (pod("SGLang", {names.MANUFACTURER: "ascend"}), STORE, "manufacturer",
                       ANNOTATION(names.MANUFACTURER), ("SGLang", "remove")),
    "R9 role": (pod(annotations={names.ROLE: "Server"}), STORE, "role", ANNOTATION(names.ROLE),
                ("Server", "Prefill", "leave the annotation off")),
    "R9 empty": (pod(annotations={names.ROLE: ""}), STORE, "role", ANNOTATION(names.ROLE), ("Prefill",)),
    "R10 none named": (two(), STORE, "container-unnamed", ANNOTATION(names.CONTAINER), ("2", "server", "proxy")),
    "R10 unknown": (two("x"), STORE, "container-unknown", ANNOTATION(names.CONTAINER), ("x", "server", "proxy")),
    "R10 empty": (two(""), STORE, "container-unknown", ANNOTATION(names.CONTAINER), ("server", "proxy")),
    "R10 no containers": (changed(pod(), spec__containers=[]), STORE, "container-none", "spec.containers",
                          ("no containers",)),
    "R11 init": (two("warm"), STORE, "container-init", ANNOTATION(names.CONTAINER),
                 ("warm", "init container", "server")),
    "R12 config path": (env("vLLM", names.CONFIG_PATH), STORE, "owned-env", f"{SERVER}.env[0]",
                        (names.CONFIG_PATH, "remove")),
    "R13 transfer": (args("vLLM", "--kv_tr={}"), STORE, "owned-argument", f"{SERVER}.args[2]",
                     ("--kv_tr", names.KV_TRANSFER, "remove")),
    "R14 hicache": (args("SGLang", "--hicache-storage-backend", "file"), STORE, "owned-argument", f"{SERVER}.args[2]",
                    (names.HICACHE_BACKEND,)),
    "R15 dtype": (args("vLLM", "--kv_cache_dtype=fp8"), STORE, "owned-dtype", f"{SERVER}.args[2]",
                  ("--kv_cache_dtype", "KVCachePoolBinding", names.SETTING)),
    "R16 source env": (env("SGLang", names.SGLANG_CONFIG_PATH), STORE, "source-env", f"{SERVER}.env[0]",
                       (names.SGLANG_CONFIG_PATH, "nothing would read")),
    "R17 source argument": (args("SGLang", "--hicache-storage-backend-extra-config={}"), STORE, "source-argument",
                            f"{SERVER}.args[2]", (names.HICACHE_EXTRA,)),
    "R18 volume": (volume(names.VOLUME), STORE, "owned-volume", "spec.volumes[0]", (names.VOLUME, "rename")),
    "R18 mount": (mount(names.VOLUME, "/x"), STORE, "owned-mount", f"{SERVER}.volumeMounts[0]", (names.VOLUME,)),
    "R18 path": (mount("v", names.DIRECTORY), STORE, "owned-path", f"{SERVER}.volumeMounts[0]", (names.DIRECTORY,)),
    "R18 path with a slash": (mount("v", "/etc//gpustack/kvcache/"), STORE, "owned-path", f"{SERVER}.volumeMounts[0]",
                              ("v",)),

                           "R18 path inside": (mount("v", f"{names.DIRECTORY}/{names.FILE}"), STORE,
                        "owned-path", f"{SERVER}.volumeMounts[0]", ("v",)),
    "R19 nothing said": (launched(None, None, launch_args_forwarded="true"), STORE, "launch-unsaid", SERVER,
                         ("server", "command", "args")),
    "R20 args only": (launched(None, ["serve"]), STORE, "launch-entrypoint", f"{SERVER}.command",
                      ("ENTRYPOINT", FORWARDED)),
    "R21 nothing behind": (launched(["tini", "--"], launch_args_forwarded="true"), STORE, "launch-empty",
                           f"{SERVER}.command", ("tini",)),
    "R22 other engine": (launched(["python3", "-m", "sglang.launch_server"], launch_args_forwarded="true"), STORE,
                         "launch-other-engine", f"{SERVER}.command", ("sglang", "vllm", names.ENGINE)),
    "R23 unknown": (launched(["gosu", "a", "vllm"]), STORE, "launch-unknown", f"{SERVER}.command", ("gosu", FORWARDED)),
    "R23 a line in a word": (launched(["vllm serve m"]), STORE, "launch-unknown", f"{SERVER}.command", ("one word",)),
    "R24 shell": (launched(["sh", "-ec"], ["vllm serve"], launch_args_forwarded="true"), STORE, "launch-shell",
                  f"{SERVER}.command", ("sh", "-ec", "no declaration")),
    "R25 hidden": (launched(["env", "-S", "vllm serve"]), STORE, "launch-hidden", f"{SERVER}.command",
                   ("single argument", "env", FORWARDED)),
    "R26 script": (launched(["sh", "/app/run.sh"]), STORE, "launch-script", f"{SERVER}.command", ("run.sh", FORWARDED)),
    "R27 forwarding": (launched(["vllm"], ["serve"], launch_args_forwarded="yes"), STORE, "launch-forwarded",
                       ANNOTATION(names.FORWARDED), ("yes", "true")),
    "R28 unknown key": (pod(annotations={f"{names.PREFIX}bindng": "x"}), STORE, "annotation-unknown",
                        ANNOTATION(f"{names.PREFIX}bindng"), ("bindng", *names.ACCEPTED)),
    "R29 record": (pod(annotations={names.INJECTED: "{}"}), STORE, "annotation-written", ANNOTATION(names.INJECTED),
                   (names.INJECTED, "remove")),
    "R29 config": (pod(annotations={names.CLIENT_CONFIG: "{}"}), STORE, "annotation-written",
                   ANNOTATION(names.CLIENT_CONFIG), (names.CLIENT_CONFIG, "remove")),
    "R30 domain": (pod(annotations={names.DOMAIN: "x"}), STORE, "domain-annotation", ANNOTATION(names.DOMAIN),
                   (names.DOMAIN, "KVCachePoolBinding", "remove")),
    "R31 constrained": (pod(annotations={names.MANUFACTURER: "ascend"}), STORE, "transport-unsupported", AT_BINDING,
                        ("vllm-ascend", "ascend", '"tcp"', "store", "CANN")),
    "R31 mixed": (pod(), (BINDING, POOL, backend("store", "TCP", "RDMA")), "transport-mixed", AT_BINDING,
                  ('"tcp", "rdma"', "NotSupportedTransport", "another pool")),
    "a Binding without a dtype": (pod(),
                                  (changed(BINDING, spec__domain__dtype=None), POOL, BACKEND), "dtype", AT_BINDING,
                                  ("chat", "dtype")),
    "a Binding that cannot be read": (pod(),
                                      (changed(BINDING, spec__domain="x"), POOL, BACKEND), "unreadable", AT_BINDING,
                                      ("chat", "cannot be read")),
}  # fmt: skip


@pytest.mark.parametrize("what", TABLE)
def test_refusal(what: str) -> None:
    given, objects, check, field, words = TABLE[what]
    decision = inject.decide(given, "team", world(*objects), Settings())
    assert (decision.verdict, decision.check) == ("refused", check)
    assert [one.field for one in decision.violations] == [field]
    assert [word for word in words if word not in decision.reason] == []
    assert len(decision.reason.splitlines()) == 1


ABSENT = {"R3 absent": "kvcachepoolbindings", "R5 pool": "kvcachepools", "R5 backend": "kvcachebackends"}


@pytest.mark.parametrize("what", TABLE)
def test_what_is_absent_is_read_live_before_anybody_is_refused(what: str) -> None:
    given, objects, *_ = TABLE[what]
    decision = inject.decide(given, "team", world(*objects), Settings())
    assert [kind.partition(".")[0] for kind in decision.missed] == ([ABSENT[what]] if what in ABSENT else [])


FREE = {
    "SGLang with vLLM's path": env("SGLang", names.CONFIG_PATH),
    "SGLang with vLLM's flag": args("SGLang", names.KV_TRANSFER, "{}"),
    "vLLM with SGLang's variable": env("vLLM", names.SGLANG_CONFIG_PATH),
    "vLLM with SGLang's flag": args("vLLM", names.HICACHE_BACKEND, "file"),
    "vLLM with a longer flag": args("vLLM", "--kv-cache-dtype-skip-layers", "0"),
    "SGLang with an underscore": args("SGLang", "--kv_cache_dtype", "fp8"),
    "SGLang with a role": pod("SGLang", {names.ROLE: "Decode"}),
    "a mount beside ours": mount("v", f"{names.DIRECTORY}2"),
    "a mount above ours": mount("v", "/etc/gpustack"),
}


@pytest.mark.parametrize("what", FREE)
def test_the_same_key_on_an_engine_that_does_not_read_it_is_free(what: str) -> None:
    assert inject.decide(FREE[what], "team", world(*STORE), Settings()).verdict == "patched"


def test_the_dtype_is_free_when_the_setting_is_off() -> None:
    given = args("vLLM", "--kv-cache-dtype", "fp8")
    decision = inject.decide(given, "team", world(*STORE), Settings(dtype_owned=False))
    assert decision.verdict == "patched"
    assert not any("bfloat16" in str(op) for op in decision.patch)


def test_a_constrained_engine_uses_the_group_that_fits() -> None:
    given = pod(annotations={names.MANUFACTURER: "ascend"})
    decision = inject.decide(given, "team", world(BINDING, POOL, backend("store", "RDMA", "CANN")), Settings())
    assert decision.verdict == "patched"
    assert any('"protocol":"ascend"' in str(op.get("value")) for op in decision.patch)


def test_the_same_transport_twice_is_not_mixed() -> None:
    decision = inject.decide(pod(), "team", world(BINDING, POOL, backend("store", "Auto", "TCP")), Settings())
    assert decision.verdict == "patched"


def test_bindings_of_other_namespaces_are_not_seen() -> None:
    objects = (binding(namespace="other"), POOL, BACKEND)
    assert inject.decide(pod(), "team", world(*objects), Settings()).check == "binding-absent"
