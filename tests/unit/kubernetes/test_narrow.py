"""From bytes to what is told of an object. Canaries lie wherever a secret may lie, and must not come through."""

from typing import Any

import msgspec
import pytest

from crds import cachebackend, core
from handlers import conditions
from handlers.cachebackend import names
from handlers.tokens import token
from handlers.world import kinds
from subscribers.kubernetes import depth
from subscribers.kubernetes import narrow as narrowing
from subscribers.kubernetes.machine import Machine, Seen
from subscribers.kubernetes.narrow import narrow

CANARY = "c4n4ry-s3cr3t"


def told(kind: str, document: dict[str, Any]) -> narrowing.Narrow:
    return narrow(kind, msgspec.json.encode(document))


def metadata(**more: Any) -> dict[str, Any]:
    return {
        "name": "a",
        "namespace": "ml",
        "uid": "u",
        "resourceVersion": "7",
        "managedFields": [{"manager": CANARY, "fieldsV1": {"f:data": {}}}],
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": CANARY, "x": CANARY},
        **more,
    }


CONTAINER = {
    "name": "engine",
    "image": "vllm:1",
    "command": ["sh", "-c", CANARY],
    "args": ["--key", CANARY],
    "env": [{"name": "KEY", "value": CANARY}, {"name": "S", "valueFrom": {"secretKeyRef": {"name": CANARY}}}],
    "envFrom": [{"secretRef": {"name": CANARY}}],
    "livenessProbe": {"httpGet": {"path": f"/{CANARY}", "httpHeaders": [{"name": "A", "value": CANARY}]}},
    "lifecycle": {"preStop": {"exec": {"command": [CANARY]}}},
}
POD_SPEC = {
    "containers": [CONTAINER],
    "initContainers": [CONTAINER],
    "volumes": [
        {"name": "v", "secret": {"secretName": CANARY}},
        {"name": "t", "csi": {"volumeAttributes": {"k": CANARY}}},
    ],
    "imagePullSecrets": [{"name": CANARY}],
}  # fmt: skip
ENDED = {
    "name": "engine",
    "state": {"terminated": {"exitCode": 1, "message": CANARY}},
    "lastState": {"terminated": {"exitCode": 1, "message": CANARY}},
}
OBJECTS: dict[str, dict[str, Any]] = {
    core.PODS: {
        "metadata": metadata(labels={"app": "x"}),
        "spec": POD_SPEC,
        "status": {"phase": "Running", "containerStatuses": [ENDED], "initContainerStatuses": [ENDED]},
    },
    core.DEPLOYMENTS: {
        "metadata": metadata(generation=2),
        "spec": {"template": {"metadata": {"annotations": {"x": CANARY}, "creationTimestamp": None}, "spec": POD_SPEC}},
    },
    core.REPLICA_SETS: {"metadata": metadata(), "spec": {"template": {"spec": POD_SPEC}}},
    core.SERVICES: {"metadata": metadata(), "spec": {"externalName": CANARY, "ports": [{"port": 80}]}},
    core.AUTOSCALERS: {"metadata": metadata(), "spec": {"minReplicas": 1, "maxReplicas": 3}},
    cachebackend.CACHE_BACKENDS: {
        "metadata": metadata(),
        "spec": {
            "runtime": "VLLM",
            "integration": {
                "engineOverrides": {
                    "env": [
                        {"name": "HF_TOKEN", "value": CANARY},
                        {"name": "X", "valueFrom": {"secretKeyRef": {"name": "s"}}},
                    ],
                    "args": [f"--api-key={CANARY}", "--flag", CANARY, f"-x {CANARY}"],
                }
            },
        },
    },
}


@pytest.mark.parametrize("kind", sorted(OBJECTS))
def test_no_canary_comes_through(kind: str) -> None:
    found = told(kind, OBJECTS[kind])
    assert found.problem == ""
    assert found.value is not None
    for text in (msgspec.json.encode(found.object).decode(), repr(found.value)):
        assert CANARY not in text
        assert "managedFields" not in text
        assert "last-applied" not in text


@pytest.mark.parametrize("kind", sorted(OBJECTS))
def test_what_is_told_is_what_the_world_makes_of_it(kind: str) -> None:
    found = told(kind, OBJECTS[kind])
    assert kinds.decode(kind, msgspec.json.decode(msgspec.json.encode(found.object))) == (found.value, found.problem)


def test_the_version_is_beside_the_object_and_not_in_it() -> None:
    found = told(core.PODS, OBJECTS[core.PODS])
    assert (found.namespace, found.name, found.uid, found.resource_version) == ("ml", "a", "u", "7")
    assert "resourceVersion" not in found.object["metadata"]
    touched = {**OBJECTS[core.PODS], "metadata": metadata(labels={"app": "x"}, resourceVersion="8")}
    assert told(core.PODS, touched).value == found.value


@pytest.mark.parametrize(
    ("kind", "read"),
    [
        (core.PODS, {names.SKIP_INJECT: "true", names.INJECTED_BY: "ml/a"}),
        (cachebackend.CACHE_BACKENDS, {names.KERNEL_CHECK: "strict", names.REQUIRE_KV_EVENTS: "false"}),
    ],
)
def test_annotations_that_are_read_stay(kind: str, read: dict[str, str]) -> None:
    marks = {**read, "other": "x", "inferencecache.io/other": "x", "worker.gpustack.ai/other": "x"}
    found = told(kind, {"metadata": {"name": "a", "annotations": marks}, "spec": {}})
    assert found.object["metadata"]["annotations"] == read


def test_the_trigger_of_a_roll_stays_on_a_template() -> None:
    template = {"metadata": {"annotations": {names.RESTART_TRIGGER: "t", "x": CANARY}}}
    found = told(core.DEPLOYMENTS, {"metadata": {"name": "a"}, "spec": {"template": template}})
    assert found.object["spec"]["template"]["metadata"] == {"annotations": {names.RESTART_TRIGGER: "t"}}


def test_what_our_own_check_said_stays() -> None:
    check = {**ENDED, "name": names.KERNEL_CHECK_CONTAINER, "state": {"terminated": {"exitCode": 0, "message": "OK"}}}
    found = told(core.PODS, {"metadata": metadata(), "status": {"initContainerStatuses": [check, ENDED]}})
    kept, other = found.object["status"]["initContainerStatuses"]
    assert kept["state"] == {"terminated": {"message": "OK"}}
    assert other["state"] == {"terminated": {"exitCode": 1}}


def test_tokens_are_equal_for_equal_values_of_one_object_and_can_be_put_back() -> None:
    document = OBJECTS[cachebackend.CACHE_BACKENDS]
    overrides = told(cachebackend.CACHE_BACKENDS, document).object["spec"]["integration"]["engineOverrides"]
    secret = token("u", CANARY)
    assert overrides["env"][0] == {"name": "HF_TOKEN", "value": secret, "valueFrom": None}
    assert overrides["args"][:3] == [f"--api-key={secret}", "--flag", secret]
    assert overrides["args"][3].startswith("⟦")
    assert kinds.values(cachebackend.CACHE_BACKENDS, document)[secret] == CANARY
    assert kinds.values(cachebackend.CACHE_BACKENDS, document)[overrides["args"][3]] == f"-x {CANARY}"
    assert token("v", CANARY) != secret


BAD: dict[str, Any] = {"metadata": {"name": "a", "namespace": "ml", "uid": "u", "labels": {"x": 3}}, "spec": {}}


class TestWhatCannotBeTold:
    @pytest.mark.parametrize("kind", sorted(OBJECTS))
    def test_an_object_of_the_wrong_shape_exists_and_says_nothing(self, kind: str) -> None:
        found = told(kind, BAD)
        assert (found.name, found.uid, found.value) == ("a", "u", None)
        assert found.problem
        assert kinds.decode(kind, found.object) == (None, found.problem), "no default is taken for a fact"

    def test_one_that_is_too_large_too(self) -> None:
        labels = {f"k{n}": "v" * 60 for n in range(5000)}
        found = told(core.PODS, {"metadata": metadata(labels=labels), "spec": {}})
        assert found.value is None
        assert found.problem == "what is read of it is larger than 240 KiB"
        assert len(str(found.object)) < 1000

    def test_what_is_large_for_what_is_not_read_is_told(self) -> None:
        found = told(core.PODS, {"metadata": metadata(), "spec": POD_SPEC, "data": "x" * 1_000_000})
        assert found.value is not None

    @pytest.mark.parametrize("levels", [250, 990, 2_000, 100_000])
    @pytest.mark.parametrize("kind", sorted(OBJECTS))
    def test_one_that_is_nested_too_deep_exists_and_stops_nothing(self, kind: str, levels: int) -> None:
        deep = b'{"a":[' * levels + b'"]}\\""' + b"]}" * levels
        raw = b'{"metadata":{"name":"a","namespace":"ml","uid":"u"},"spec":{"template":{"affinity":' + deep + b"}}}"
        found = narrow(kind, raw)
        assert (found.name, found.uid) == ("a", "u")
        # How deep its decoder goes is a matter of the Python: 3.13 reads 2,000 levels, 3.11 does not.
        if levels > 10_000 or kind == cachebackend.CACHE_BACKENDS:
            assert found.value is None
        watch = Machine(kind)
        line = b'{"type":"ADDED","object":' + raw + b"}"
        fact, following = watch.line(line)
        assert following is None
        assert isinstance(fact, Seen)
        assert fact.object == found

    @pytest.mark.parametrize("raw", [b"{", b"[]", b"3", b'{"metadata":[]}', b"\xff\xfe"])
    def test_what_is_no_object_is_an_error(self, raw: bytes) -> None:
        with pytest.raises(msgspec.MsgspecError):
            narrow(core.PODS, raw)


ADDRESSES = {
    "a URL": f"lm://user:{CANARY}@cache:1",
    "only a name": f"redis://{CANARY}@cache:1",
    "without a scheme": f"user:{CANARY}@cache:1",
    "an @ in the password": f"lm://user:{CANARY}@{CANARY}@cache:1",
}


@pytest.mark.parametrize("address", ADDRESSES.values(), ids=ADDRESSES)
def test_an_address_that_was_stored_before_the_rule_is_told_without_its_password(address: str) -> None:
    storage = {"provider": "Redis", "ownership": "External", "endpoint": address}
    document = {"metadata": metadata(), "spec": {"runtime": "VLLM", "remoteStorage": storage}}
    found = told(cachebackend.CACHE_BACKENDS, document)
    assert CANARY not in str(found)
    assert found.object["spec"]["remoteStorage"]["endpoint"].endswith("@cache:1")
    assert found == told(cachebackend.CACHE_BACKENDS, document)
    ours = {"endpoint": found.object["spec"]["remoteStorage"]["endpoint"]}
    again = told(cachebackend.CACHE_BACKENDS, {**document, "status": ours})
    assert again.object["status"]["endpoint"] == ours["endpoint"]


def test_only_what_lies_too_deep_is_cut() -> None:
    shallow = msgspec.json.encode({"a": [{"b": "]}{["}], "c": "\\"})
    assert depth.cut(shallow) == shallow
    assert depth.of(msgspec.json.decode(shallow)) == 3
    deep = b"[" * 300 + b"1" + b"]" * 300
    assert depth.of(msgspec.json.decode(depth.cut(b'{"x":' + deep + b',"y":' + deep + b',"z":1}'))) == depth.DEEPEST


@pytest.mark.parametrize(
    "quoted",
    ["http://h,a?b:c@d", f"registry:5000/x@sha256:{'a' * 20}", "image:⟦0123456789abcdef⟧@registry/x", "u:pw@h"],
)
def test_a_condition_that_we_write_comes_back_as_it_was_written(quoted: str) -> None:
    """It may quote what a container said. If it came back otherwise it would be written for ever."""
    shown = {"Ready": conditions.Shown("False", "KernelLoadFailed", f"Pod e0: FAIL: {quoted}")}
    written = conditions.merged([], shown, now=1_700_000_000, generation=1)
    document = {"metadata": metadata(generation=1), "spec": {"runtime": "VLLM"}, "status": {"conditions": written}}
    assert told(cachebackend.CACHE_BACKENDS, document).object["status"]["conditions"] == written
