"""ModelDeployment: what its roles are given, and what its webhook refuses."""

import json
from typing import Any

import pytest

from crds import modeldeployment, schema
from handlers.admission.decision import Decision, Question
from handlers.kvcachepool import admit, names, roles
from handlers.kvcachepool.engines.base import Store
from handlers.kvcachepool.inject import Settings
from handlers.outcome import Object
from tests.support.kvpools import STORE, backend, binding, changed, pool, world

STORED = Store("m:50051", "tcp", "team-chat", "bfloat16")


def deployment(engine: str = "vLLM", *given: Object, **spec: Any) -> Object:
    return {
        "apiVersion": "worker.gpustack.ai/v1",
        "kind": "ModelDeployment",
        "metadata": {"name": "m", "namespace": "team"},
        "spec": {
            "model": {"name": "acme/m", "artifactRef": {"name": "a"}},
            "engine": {"name": engine, "version": "1"},
            "kvCache": {"poolRef": {"name": "chat"}},
            "roles": list(given) or [{"name": "main"}],
            **spec,
        },
    }


def asked(new: Object, old: Object | None = None, objects: tuple[Object, ...] = STORE, **settings: Any) -> Decision:
    hook = admit.deployments(Settings(**settings))
    question = Question(
        uid="u",
        operation="CREATE" if old is None else "UPDATE",
        kind=modeldeployment.DEPLOYMENTS,
        namespace="team",
        view=hook.see(new).object,
        old=hook.see(old).object if old is not None else None,
    )
    return hook.decide(question, world(*objects))


def fields(decision: Decision) -> list[str]:
    return [one.field for one in decision.violations]


P, D = {"name": "p", "kind": "Prefill"}, {"name": "d", "kind": "Decode"}
EXTRA, ENV = "spec.roles[0].extraArgs[0]", "spec.roles[0].env[0]"


def extra(engine: str, *words: str, **role: Any) -> Object:
    return deployment(engine, {"name": "main", "extraArgs": list(words), **role})


def env(engine: str, name: str, **role: Any) -> Object:
    return deployment(engine, {"name": "main", "env": [{"name": name, "value": "hunter2"}], **role})


REFUSED: dict[str, tuple[Object, list[str]]] = {
    "nothing": (deployment(), []),
    "owned argument": (extra("vLLM", "--kv_ev={}"), [EXTRA]),
    "its value is a word of its own": (extra("vLLM", "--kv-events-config", "{}"), [EXTRA]),
    "a dotted one with a strange path": (extra("vLLM", "--kv-transfer-config.ü=1"), [EXTRA]),
    "argument of the other engine": (extra("vLLM", "--disaggregation-mode=prefill"), []),
    "SGLang's": (extra("SGLang", "--disaggregation-mo=prefill"), [EXTRA]),
    "a command takes over": (extra("vLLM", "--kv_ev={}", command=["vllm"]), []),
    "dtype": (extra("SGLang", "--kv-cache-dtype=fp8"), [EXTRA]),
    "owned variable": (env("SGLang", names.TENANT), [ENV]),
    "variable of the other engine": (env("vLLM", names.TENANT), []),
    "reserved whatever the command": (env("vLLM", "GPUSTACK_REPLICA_SIZE", command=["vllm"]), [ENV]),
    "no Binding": (deployment(kvCache={"poolRef": {"name": ""}}), ["spec.kvCache.poolRef.name"]),
    "a server beside a half": (deployment("vLLM", {"name": "a"}, P), ["spec.roles[0].kind"]),
    "two of a kind": (deployment("vLLM", P, {**P, "name": "q"}), ["spec.roles[1].kind"]),
    "two of a name": (deployment("vLLM", P, {**D, "name": "p"}), ["spec.roles[1].name"]),
    "unknown engine": (deployment("TensorRT"), ["spec.engine.name"]),
    "interfaces without a fabric": (
        deployment("vLLM", {"name": "a", "resources": {"interface": 1}}), ["spec.roles[0].resources.interface"]
    ),
    "no object of its own": (changed(deployment(), spec__roles="x"), ["spec"]),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_refused(what: str) -> None:
    given, expected = REFUSED[what]
    assert fields(asked(given)) == expected


def test_the_dtype_is_free_without_a_cache_or_with_the_setting_off() -> None:
    given = extra("vLLM", "--kv-cache-dtype=fp8")
    assert fields(asked(given, dtype_owned=False)) == []
    assert fields(asked(changed(given, spec__kvCache=None))) == []


def test_a_new_cache_has_to_fit_and_a_stored_one_stays() -> None:
    mixed = (binding(), pool(), backend("store", "TCP", "RDMA"))
    assert fields(asked(deployment(), objects=mixed)) == ["spec.kvCache.poolRef.name"]
    assert fields(asked(deployment(), deployment(), objects=mixed)) == []
    assert fields(asked(deployment(), objects=())) == []


def test_interfaces_follow_the_transports() -> None:
    given = deployment("vLLM", {**P, "resources": {"interface": 1}}, D, kvTransfer={"protocol": "EFA"})
    rdma = (binding(), pool(), backend(protocol="RDMA"))
    assert "mix" in asked(given, objects=rdma).reason
    assert fields(asked(given)) == []
    mixed = (binding(), pool(), backend("store", "EFA", "RDMA"))
    assert "differ" in asked(given, given, objects=mixed).reason


CHANGES = {
    "spec.model": {"spec__model__name": "other"},
    "spec.model (unknown part)": {"spec__model__artifactRef": {"name": "b"}},
    "spec.engine.name": {"spec__engine__name": "SGLang"},
    "spec.kvCache": {"spec__kvCache__poolRef__name": "other"},
    "spec.roles": {"spec__roles": [{"name": "other"}]},
    "spec.roles[0].size": {"spec__roles__0__size": 2},
    "spec.roles[0].command": {"spec__roles__0__command": ["vllm"]},
    "spec.roles[0].resources": {"spec__roles__0__resources": {"accelerator": 2}},
}


@pytest.mark.parametrize("field", CHANGES)
def test_what_cannot_be_changed(field: str) -> None:
    assert fields(asked(changed(deployment(), **CHANGES[field]), deployment())) == [field.partition(" ")[0]]


def test_what_can_be_changed() -> None:
    new = changed(deployment(), spec__engine__version="2", spec__roles__0__extraArgs=["--seed=1"])
    assert fields(asked(changed(new, spec__roles__0__kind="Server"), deployment())) == []


def test_one_that_is_being_deleted_loses_its_finalizer_whatever_it_says() -> None:
    stored = changed(extra("vLLM", "--kv-cache-dtype=fp8"), metadata__deletionTimestamp="2026-01-01T00:00:00Z")
    assert fields(asked(changed(stored, metadata__finalizers=[]), stored)) == []
    assert fields(asked(changed(stored, spec__kvCache=None), stored)) == ["spec.kvCache"]


def test_no_value_of_an_author_is_shown() -> None:
    given = extra("vLLM", "--api-key", "hunter2", "--x=hunter2", command=["sh", "-c", "hunter2"])
    given["spec"]["roles"][0] |= {"env": [{"name": "A", "value": "hunter2"}], "other": "hunter2"}
    given["status"] = {"x": "hunter2"}
    assert "hunter2" not in str(admit.deployments(Settings()).see(given).object)


def rendered(given: Object, number: int = 0, store: Store | None = STORED, manufacturer: str = "") -> roles.Given:
    made = schema.read(given, modeldeployment.ModelDeployment)
    assert made.spec.roles is not None
    role = made.spec.roles[number]
    part = store._replace(role=roles.half(made, role)) if store is not None else None
    return roles.rendered(made, role, part, manufacturer)


def transfer(given: roles.Given) -> Any:
    return json.loads(given.args[given.args.index(names.KV_TRANSFER) + 1])


def test_a_lone_half_is_rendered_as_a_server() -> None:
    assert transfer(rendered(deployment("vLLM", P)))["kv_role"] == "kv_both"
    assert "--disaggregation-mode" not in rendered(deployment("SGLang", P)).args


def test_a_pair_without_a_cache_has_the_direct_leg_alone() -> None:
    pair = deployment("vLLM", P, D, router={"name": "r"})
    assert transfer(rendered(pair, store=None))["kv_connector"] == "MooncakeConnector"
    ascend = transfer(rendered(pair, store=None, manufacturer="ascend"))
    assert (ascend["kv_connector"], ascend["kv_connector_extra_config"]["kv_port"]) == ("MooncakeConnectorV1", 8998)
    assert rendered(deployment("vLLM", kvCache=None), store=None).args == ()


def test_only_halves_that_produce_publish_events() -> None:
    pair = deployment("vLLM", P, D, router={"name": "r"})
    assert names.KV_EVENTS in rendered(pair, 0).args
    assert names.KV_EVENTS not in rendered(pair, 1).args
    assert names.KV_EVENTS not in rendered(deployment()).args
    assert rendered(pair, 0).ports == (("mc-bootstrap", 8998),)


def test_what_the_author_names_is_not_defaulted() -> None:
    assert names.HIERARCHICAL in rendered(deployment("SGLang")).args
    assert names.HIERARCHICAL not in rendered(extra("SGLang", "--enable-hier")).args
    decode = {**D, "extraArgs": ["--disaggregation-decode-retraction-backup=x"]}
    assert roles.RETRACTION not in rendered(deployment("SGLang", P, decode), 1).args
    toggled = rendered(env("vLLM", "MC_TE_METRIC"))
    assert [one["name"] for one in toggled.env] == [names.CONFIG_PATH, "MC_STORE_CLIENT_METRIC_BANDWIDTH"]
    forced = {**P, "env": [{"name": "MC_FORCE_TCP", "value": "0"}]}
    pinned = rendered(deployment("vLLM", forced, D, router={"name": "r"}))
    assert "MC_FORCE_TCP" not in [one["name"] for one in pinned.env]


def test_a_taken_over_role_gets_devices_and_nothing_else() -> None:
    given = deployment("vLLM", {"name": "a", "command": ["x"], "resources": {"interface": 2}})
    found = rendered(given, store=STORED._replace(protocol="rdma"))
    assert found == roles.Given(unmanaged=True, limits=(("device.gpustack.ai/rdma", "2"),))
