"""Admission of serving Pods: what is added, that it is added once, and that nothing ever keeps a Pod from starting."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devkube.patches import json_patch
from handlers.admission.decision import Question
from handlers.cachebackend import inject as wiring
from handlers.kernelcache import admit, config, names
from handlers.kernelcache.system import KernelCaches
from handlers.outcome import Key
from handlers.world.reader import Reader
from tests.support import kernelcaches as kc
from tests.unit.cachebackend.test_inject import BACKENDS, OPTIONS

Object = dict[str, Any]


def cluster(pod: Object, *nodes: str, **options: Any) -> kc.Cluster:
    """In which a cache fits the Pod."""
    cache = kc.cache("c1", pod)
    return kc.Cluster(**options).has(cache, *(kc.node(name, cache) for name in nodes or ("n1",)))


def test_what_a_pod_gets() -> None:
    pod = kc.pod(securityContext={"runAsUser": 1000, "runAsNonRoot": True})
    after, decision = cluster(pod).decide(pod)
    assert decision is not None
    assert (decision.verdict, decision.check, decision.warnings) == ("patched", "mounted", ())
    (linker,) = after["spec"]["initContainers"]
    assert linker["args"] == ["/var/run/gkm/kernel-cache/io.vllm.cache=/root/.cache/vllm"]
    assert linker["volumeMounts"] == [
        {"name": "kernel-cache-source", "mountPath": "/var/run/gkm/kernel-cache", "readOnly": True},
        {"name": "kernel-cache-runtime-0", "mountPath": "/root/.cache/vllm"},
    ]
    assert after["spec"]["containers"][0]["volumeMounts"] == list(reversed(linker["volumeMounts"]))
    assert [one["name"] for one in after["spec"]["volumes"]] == ["kernel-cache-source", "kernel-cache-runtime-0"]
    context = linker["securityContext"]
    assert (context["runAsUser"], context["runAsNonRoot"]) == (1000, True)
    assert context["allowPrivilegeEscalation"] is False
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert set(linker["resources"]) == {"requests", "limits"}


def preferred(pod: Object) -> list[Object]:
    affinity: Object = pod["spec"].get("affinity", {}).get("nodeAffinity", {})
    return list(affinity.get("preferredDuringSchedulingIgnoredDuringExecution", []))


def test_nodes_that_have_it_are_preferred_by_their_hostname() -> None:
    own = {"weight": 1, "preference": {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z"]}]}}
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [own]}, "podAffinity": {"x": 1}}
    pod = kc.pod(spec={"affinity": affinity})
    made = cluster(pod, "n2", "n1")
    made.has({"metadata": {"name": "n1", "labels": {"kubernetes.io/hostname": "host-1"}}})
    after, _ = made.decide(pod)
    expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["host-1", "n2"]}
    assert preferred(after) == [own, {"weight": 50, "preference": {"matchExpressions": [expression]}}]
    assert after["spec"]["affinity"]["podAffinity"] == {"x": 1}
    assert "requiredDuringSchedulingIgnoredDuringExecution" not in after["spec"]["affinity"]["nodeAffinity"]


def test_a_pod_that_has_its_node_prefers_none() -> None:
    pod = kc.pod(spec={"nodeName": "n1"})
    assert "affinity" not in cluster(pod).decide(pod)[0]["spec"]


def test_a_mount_of_the_pod_is_used() -> None:
    mounts = [{"name": "scratch", "mountPath": names.DEFAULT_ROOT}]
    pod = kc.pod(volumeMounts=mounts, spec={"volumes": [{"name": "scratch", "emptyDir": {}}]})
    after, _ = cluster(pod).decide(pod)
    assert [one["name"] for one in after["spec"]["volumes"]] == ["scratch", "kernel-cache-source"]
    assert {"name": "scratch", "mountPath": names.DEFAULT_ROOT} in after["spec"]["initContainers"][0]["volumeMounts"]


# Twice, and in any order ----------------------------------------------------------------------------------------------

WORDS = ("-tp=2", "--api-key=hunter2", "--dtype=half", "--max-num-seqs", "8", "--enforce-eager", "sk-hunter2")
VARIABLES = [
    {"name": name, "value": value}
    for name, value in (
        ("VLLM_CACHE_ROOT", "/c"), ("VLLM_CACHE_ROOT", "$(BASE)/c"), ("BASE", "/base"), ("BASE", "$$(x)"),
        ("XDG_CACHE_HOME", "/x"), ("HF_TOKEN", "hunter2"), ("VLLM_BATCH_INVARIANT", "1"), ("VLLM_X", "hunter2"),
    )
]  # fmt: skip
PODS = st.builds(
    lambda args, env, init, affinity, mount, name, probe: kc.pod(
        args=[*args], env=env,
        **({"readinessProbe": kc.PROBE} if probe else {}),
        **({"volumeMounts": [{"name": "v", "mountPath": names.DEFAULT_ROOT}]} if mount else {}),
        spec={
            **({"volumes": [{"name": "v", "emptyDir": {}}]} if mount else {}),
            **({"initContainers": [{"name": "first", "image": "i"}]} if init else {}),
            **({"affinity": {"podAffinity": {}}} if affinity else {}),
        },
        annotations={**kc.ANNOTATIONS, **({names.SIDECAR_INJECTION: name} if name else {}), "other": "x"},
    ),
    st.lists(st.sampled_from(WORDS), max_size=4),
    st.lists(st.sampled_from(VARIABLES), max_size=3),
    st.booleans(), st.booleans(), st.booleans(), st.sampled_from(["", "true", "false", "maybe"]), st.booleans(),
)  # fmt: skip


@given(PODS, st.booleans())
def test_a_second_look_changes_nothing_and_taking_it_off_gives_back_the_pod(pod: Object, fitting: bool) -> None:
    before = copy.deepcopy(pod)
    made = cluster(pod) if fitting else kc.Cluster()
    once, first = made.decide(pod)
    twice, second = made.decide(once, uid="another review")
    assert first is not None
    assert second is not None
    assert (twice, second.check, second.warnings) == (once, first.check, first.warnings)
    assert admit.bare(once) == before
    assert pod == before


@given(PODS, st.booleans())
def test_deciding_on_the_view_is_deciding_on_the_pod(pod: Object, fitting: bool) -> None:
    made = cluster(pod) if fitting else kc.Cluster()
    for _ in range(2):
        plain = admit.decide(
            Question(uid="review", operation="CREATE", kind="pods", namespace="team-a", view=pod),
            Reader(made.teller.world), config.standing(Reader(made.teller.world), "kserve"), made.admitter.options,
        )  # fmt: skip
        after, seen = made.decide(pod)
        assert seen is not None
        assert (seen.check, seen.reason, seen.warnings) == (plain.check, plain.reason, plain.warnings)
        assert after == json_patch(pod, list(plain.patch))
        pod = after


@given(PODS)
def test_no_secret_is_in_a_view(pod: Object) -> None:
    pod["metadata"]["annotations"][names.SOURCE_URI] = "s3://user:hunter2@bucket/m?X-Sig=hunter2"
    pod["spec"]["containers"][0]["env"].append({"name": "VLLM_API_KEY", "value": "hunter2"})
    made = kc.Cluster().admitter.see(pod)
    assert "hunter2" not in json.dumps(made.object)
    assert made.object[admit.FACTS]["model"] == "s3://bucket/m"


def test_a_cache_that_goes_between_two_looks_is_taken_off() -> None:
    pod = kc.pod()
    mounted, _ = cluster(pod).decide(pod)
    after, decision = kc.Cluster({"enabled": True, "defaultSidecarInjection": False}).decide(mounted)
    assert after == pod
    assert decision is not None
    assert decision.check == "no-cache"


@pytest.mark.parametrize("name", ["vllm host memory", "vllm lm", "vllm events"])
@pytest.mark.parametrize("fitting", [True, False])
def test_the_order_of_webhooks_does_not_matter(name: str, fitting: bool) -> None:
    """CacheBackend changes arguments, and with them who the Pod is: an API server calls whoever was called before it
    again."""
    pod = kc.pod(readinessProbe=kc.PROBE)
    pod["metadata"]["labels"] = {**kc.LABELS, "serve": "qwen"}

    def wired(given: Object) -> Object:
        return json_patch(given, list(wiring.decide(given, [BACKENDS[name]], OPTIONS).patch))

    made = cluster(wired(pod)) if fitting else kc.Cluster()
    one, _ = made.decide(wired(pod))
    first, _ = made.decide(pod, uid="1")
    other, decision = made.decide(wired(first), uid="2")
    assert decision is not None
    assert decision.check == ("mounted" if fitting else "capture")
    assert normal(other) == normal(one)
    assert wired(other) == other


def normal(pod: Object) -> Object:
    """Containers by name, sessions as they are: order says nothing among those that run at the same time."""
    made = copy.deepcopy(pod)
    made["spec"]["containers"].sort(key=lambda one: one["name"])
    for one in made["spec"]["containers"]:
        for variable in one.get("env", []):
            if variable["name"] == names.CAPTURE_CONFIG:
                variable["value"] = json.loads(variable["value"]) | {"capture": ""}
        for field in ("volumeMounts", "env"):
            one.get(field, []).sort(key=lambda item: item["name"])
    made["spec"].get("volumes", []).sort(key=lambda one: one["name"])
    return made


# What is wrong is a warning -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pod", "said"),
    [
        (kc.pod(image="rt/vllm@sha256:bad"), "64 lower-case hex digits"),
        (kc.pod(annotations={names.SUPPORTED: "true"}), "the model's source is unknown"),
        (kc.pod(annotations={**kc.ANNOTATIONS, names.SIDECAR_INJECTION: "yes"}), "it must be true or false"),
        (kc.pod(name="engine"), "there is no runtime container"),
        (kc.pod(image="rt/vllm", readinessProbe=kc.PROBE), "floating"),
        (kc.pod(labels={names.SERVICE: "chat"}), "names no revision"),
        (kc.pod(), "no HTTP readinessProbe"),
        (kc.pod(readinessProbe={"tcpSocket": {"port": 1}}), "no HTTP readinessProbe"),
        (kc.pod(readinessProbe={"httpGet": {"port": "nope"}}), "no port of the container"),
        (kc.pod(readinessProbe={"httpGet": {"port": 0}}), "no port of the container"),
        (kc.pod(readinessProbe={"httpGet": {"port": 70000}}), "no port of the container"),
        (kc.pod(readinessProbe={"httpGet": {"port": 80, "host": "evil.example"}}), "not this Pod"),
        (kc.pod(readinessProbe={"httpGet": {"port": 80, "host": "127.0.0.1.evil.example"}}), "not this Pod"),
        (kc.pod(readinessProbe=kc.PROBE, spec={"volumes": [{"name": "mcv-cache-0"}]}), "volume mcv-cache-0 of its own"),
        (kc.pod(readinessProbe=kc.PROBE, env=[{"name": names.CACHE_ROOT, "value": ""}]), "containerPath explicitly"),
    ],
)  # fmt: skip
def test_a_pod_that_cannot_be_helped_is_admitted_as_it_came(pod: Object, said: str) -> None:
    after, decision = kc.Cluster().decide(pod)
    assert decision is not None
    assert decision.verdict == "allowed"
    assert after == pod
    (line,) = decision.warnings
    assert said in line
    assert "\n" not in line


@pytest.mark.parametrize(
    "spec",
    [
        {"volumes": [{"name": "kernel-cache-source", "emptyDir": {}}]},
        {"volumes": [{"name": "kernel-cache-runtime-0", "emptyDir": {}}]},
        {"initContainers": [{"name": "kernel-cache-linker", "image": "mine"}]},
    ],
)
def test_names_of_ours_that_are_taken_leave_the_pod_alone(spec: Object) -> None:
    pod = kc.pod(spec=spec)
    after, decision = cluster(pod).decide(pod)
    assert decision is not None
    assert (after, decision.verdict, decision.check) == (pod, "allowed", "conflict")
    assert "of its own" in decision.warnings[0]


def test_a_mount_where_the_source_would_be_leaves_the_pod_alone() -> None:
    pod = kc.pod(volumeMounts=[{"name": "v", "mountPath": "/var/run/gkm"}])
    after, decision = cluster(pod).decide(pod)
    assert decision is not None
    assert (after, decision.check) == (pod, "conflict")


def test_a_cluster_without_image_volumes_mounts_nothing() -> None:
    pod = kc.pod()
    after, decision = cluster(pod, image_volumes=False).decide(pod)
    assert decision is not None
    assert (after, decision.check) == (pod, "image-volumes")


@pytest.mark.parametrize(
    ("probe", "url"),
    [
        ({"port": 8080}, "http://127.0.0.1:8080/"),
        ({"port": "http", "path": "health"}, "http://127.0.0.1:9000/health"),
        ({"port": "8081", "path": "/a?b=c"}, "http://127.0.0.1:8081/a?b=c"),
        ({"port": 8443, "scheme": "HTTPS", "host": "localhost"}, "https://localhost:8443/"),
        ({"port": 1, "host": "127.0.0.9"}, "http://127.0.0.9:1/"),
        ({"port": 1, "host": "::1"}, "http://[::1]:1/"),
    ],
)
def test_where_the_sidecar_asks_for_readiness(probe: Object, url: str) -> None:
    pod = kc.pod(readinessProbe={"httpGet": probe}, ports=[{"name": "http", "containerPort": 9000}])
    after, _ = kc.Cluster().decide(pod)
    env = {one["name"]: one.get("value") for one in after["spec"]["containers"][1]["env"]}
    assert json.loads(env["MCV_READINESS_CONFIG"])["url"] == url


def test_what_the_sidecar_is_told() -> None:
    roles = {"pushRoleRef": {"kind": "Role", "name": "p"}, "pullRoleRef": {"kind": "Role", "name": "q"}}
    registry = {
        "endpoint": "reg.lan:5000", "caConfigMapRef": {"name": "ca", "key": "bundle"},
        "auth": {"type": "serviceAccountToken", **roles},
    }  # fmt: skip
    after, decision = kc.Cluster({"enabled": True, "registry": registry}).decide(kc.pod(readinessProbe=kc.PROBE))
    assert decision is not None
    assert decision.check == "capture"
    sidecar = after["spec"]["containers"][1]
    env = {one["name"]: one.get("value") for one in sidecar["env"]}
    said = json.loads(env["MCV_CAPTURE_CONFIG"])
    assert said["targetImage"] == "reg.lan:5000/team-a/kernel-cache-chat:r1"
    assert said["capture"]["name"] == "chat-kcc-r1"
    assert said["cachePaths"] == [kc.PATH]
    assert json.loads(env["MCV_RUNTIME_INFO"]).keys() == {"argsHash", "modelURIHash"}
    assert env["MCV_REGISTRY_ALLOWED_ENDPOINT"] == "reg.lan:5000"
    assert env["MCV_REGISTRY_CA_FILE"] == "/var/run/secrets/mcv-registry/ca.crt"
    mounts = {one["name"]: one["mountPath"] for one in sidecar["volumeMounts"]}
    assert mounts["mcv-cache-0"] == "/workspace/cache/0"
    for one in after["spec"]["volumes"]:
        for source in one.get("projected", {}).get("sources", []):
            assert next(iter(source.values()))["optional"], "a Pod must not wait for a Secret that comes later"


def capture(phase: str, **status: Any) -> Object:
    spec = {"sourceRef": {"kind": "InferenceService", "name": "chat"}}
    metadata = {"name": "chat-kcc-r1", "namespace": "team-a"}
    return {"metadata": metadata, "spec": spec, "status": {"phase": phase, **status}}


GONE = [{"type": "Ready", "status": "False", "reason": "ProducerGone", "message": "", "lastTransitionTime": ""}]


@pytest.mark.parametrize(
    ("existing", "captured"),
    [
        (capture(""), True), (capture("Capturing"), True), (capture("Complete"), False), (capture("Unchanged"), False),
        (capture("Failed"), False), (capture("Failed", conditions=GONE), True),
    ],
)  # fmt: skip
def test_which_revisions_are_captured(existing: Object, captured: bool) -> None:
    _, decision = kc.Cluster().has(existing).decide(kc.pod(readinessProbe=kc.PROBE))
    assert decision is not None
    assert decision.check == ("capture" if captured else "no-capture-captured")
    assert decision.warnings == ()


def test_a_capture_that_exists_says_what_and_where_to() -> None:
    existing = capture("")
    existing["spec"] |= {"targetImage": "other.lan/x:y", "cachePaths": [{"containerPath": "/kc"}]}
    after, _ = kc.Cluster({"enabled": True}).has(existing).decide(kc.pod(readinessProbe=kc.PROBE))
    env = {one["name"]: one.get("value") for one in after["spec"]["containers"][1]["env"]}
    said = json.loads(env["MCV_CAPTURE_CONFIG"])
    assert (said["targetImage"], said["cachePaths"][0]["containerPath"]) == ("other.lan/x:y", "/kc")


@pytest.mark.parametrize(
    "pod",
    [kc.pod(labels={}), kc.pod(annotations={}), kc.pod(annotations={names.SUPPORTED: "True"})],
)
def test_pods_that_are_not_concerned(pod: Object) -> None:
    assert kc.Cluster().decide(pod) == (pod, None)


def test_an_update_is_not_concerned() -> None:
    assert kc.Cluster().decide(kc.pod(), operation="UPDATE")[1] is None


# Configuration --------------------------------------------------------------------------------------------------------


def test_switched_off_is_not_concerned() -> None:
    assert kc.Cluster({}).decide(kc.pod())[1] is None


def test_a_broken_configuration_keeps_the_last_good_one_and_says_so() -> None:
    pod = kc.pod()
    made = cluster(pod)
    made.configure("{not json")
    after, decision = made.decide(pod)
    assert decision is not None
    assert decision.check == "mounted"
    assert "ConfigMap kserve/inferenceservice-config cannot be used" in decision.warnings[0]
    made.configure({"enabled": True, "registry": {"endpoint": "http://x"}})
    assert made.decide(pod)[0] == after
    (told,) = told_of(made)
    assert told.reason == "KernelCacheConfigInvalid"
    assert "the last good configuration stays in force" in told.message
    assert "registry.endpoint" in told.message
    made.configure({"enabled": False})
    assert made.decide(pod)[1] is None
    assert told_of(made) == []


def told_of(made: kc.Cluster) -> list[Any]:
    outcome = KernelCaches().desired(Reader(made.teller.world), Key("configmaps", "kserve", names.CONFIG_MAP))
    return list(outcome.intents)


def test_without_a_good_configuration_kernel_cache_is_off_and_says_so() -> None:
    after, decision = kc.Cluster("[]").decide(kc.pod())
    assert after == kc.pod()
    assert decision is not None
    assert (decision.verdict, decision.check) == ("allowed", "disabled")
    assert "cannot be used" in decision.warnings[0]


def test_keys_that_nobody_knows_are_told_and_do_no_harm() -> None:
    pod = kc.pod()
    made = cluster(pod)
    made.configure({"enabled": True, "registry": {"endpoint": "r", "tls": 1}, "colour": "red"})
    _, decision = made.decide(pod)
    assert decision is not None
    assert decision.check == "mounted"
    assert "nobody knows registry.tls, colour" in decision.warnings[0]


@pytest.mark.parametrize("text", ["", "{}", '{"enabled": false}'])
def test_an_empty_configuration_is_the_default(text: str) -> None:
    assert config.read(text) == config.Config()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"registry": {"endpoint": "reg lan"}}, "registry.endpoint"),
        ({"registry": {"endpoint": "reg.lan:port"}}, "registry.endpoint"),
        ({"registry": {"caConfigMapRef": {"name": "x"}}}, "needs name and key"),
        ({"registry": {"auth": {"type": "serviceAccountToken"}}}, "registry.endpoint is required"),
        ({"artifactSecurity": {"mode": "cert"}}, "signingProfileRef"),
        ({"artifactSecurity": {"mode": "cert", "cert": {
            "signingProfileRef": "p", "trustBundle": "a/b", "subjectRegexp": "("}}}, "no regular expression"),
        ({"reconcileIntervalSeconds": 0}, "reconcileIntervalSeconds"),
        ({"jobNamespace": ""}, "jobNamespace"),
        ({"defaultMountType": "pvc"}, "defaultMountType"),
        ({"enabled": "yes"}, "enabled"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_configuration_is_one_line(given: Object, said: str) -> None:
    with pytest.raises(config.ConfigError, match=said) as error:
        config.read(json.dumps(given))
    assert "\n" not in str(error.value)


def test_the_reason_names_every_candidate() -> None:
    pod, other = kc.pod(args=["--max-model-len=8192"]), kc.pod(args=["--max-model-len=4096"])
    cache = kc.cache("c1", other)
    made = kc.Cluster({"enabled": True, "defaultSidecarInjection": False}).has(cache, kc.node("n1", cache))
    _, decision = made.decide(pod)
    assert decision is not None
    assert decision.reason == ("no kernel cache fits: c1: footprints: option.maxModelLen is 8192 here and 4096 there")
    assert decision.warnings == ()
