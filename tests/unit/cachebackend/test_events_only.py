"""What is wired beside every pair, or alone: the subscriber, and who opts out."""

import json
from typing import Any

import pytest

from crds import core
from handlers.admission.decision import Decision, Question
from handlers.cachebackend import admit, inject, names
from handlers.outcome import Object
from handlers.world.reader import Reader
from tests.support.backends import KEY, backend, teller
from tests.support.wiring import CONNECTOR, EVENTS, OPTIONS, VLLM, after

# EventsOnly -----------------------------------------------------------------------------------------------------------


def test_events_only_needs_no_engine_s_name_and_leaves_every_container_alone() -> None:
    two = [{"name": "a", "args": ["x"]}, {"name": "b", "env": [{"name": "LMCACHE_REMOTE_URL", "value": "lm://x:1"}]}]
    now, decision = after(EVENTS | {"integration": {"mode": "EventsOnly", "engineOverrides": {"args": ["--n"]}}}, *two)
    assert decision.check == "injected"
    assert [one["name"] for one in now["spec"]["containers"]] == ["a", "b", names.SUBSCRIBER]
    assert now["spec"]["containers"][:2] == [{"image": "engine:1", **one} for one in two]
    assert not any("block-removed" in word for word in now["spec"]["containers"][2]["args"])


@pytest.mark.parametrize(
    ("spec", "options", "pod"),
    [
        (EVENTS, inject.Options(), {}),
        (EVENTS | {"observation": {}}, OPTIONS, {}),
        (EVENTS, OPTIONS, {"initContainers": [{"name": names.SUBSCRIBER, "image": "i"}]}),
    ],
)
def test_events_only_without_a_subscriber_changes_nothing(spec: Object, options: inject.Options, pod: Object) -> None:
    older = {"initContainers": [{"name": names.KERNEL_CHECK_CONTAINER, "image": "i"}]}
    _, decision = after(spec, options=options, **(pod or older))
    assert (decision.check, decision.patch) == ("no-subscriber", ())


def test_events_only_takes_out_a_kernel_check_of_a_time_with_a_connector() -> None:
    now, _ = after(EVENTS, initContainers=[{"name": names.KERNEL_CHECK_CONTAINER, "image": "i"}, {"name": "mine"}])
    assert [one["name"] for one in now["spec"]["initContainers"]] == ["mine"]


# The subscriber -------------------------------------------------------------------------------------------------------

PROFILE = {"type": "RuntimeDefault"}


@pytest.mark.parametrize(
    ("container", "pod", "wanted"),
    [
        ({}, {}, None),
        ({"securityContext": {"seccompProfile": PROFILE}}, {}, PROFILE),
        ({"securityContext": {"seccompProfile": PROFILE}}, {"securityContext": {"seccompProfile": PROFILE}}, None),
    ],
)
def test_a_subscriber_has_a_seccomp_profile_where_the_pod_gives_them_one_by_one(
    container: Object, pod: Object, wanted: Object | None
) -> None:
    now, _ = after(VLLM | {"observation": {"modelID": "m"}}, container, **pod)
    made = now["spec"]["containers"][1]
    assert made["securityContext"].get("seccompProfile") == wanted
    assert made["securityContext"]["runAsUser"] == 65532


# Marks and opting out -------------------------------------------------------------------------------------------------

WORDS = {
    False: ["", "0", "f", "F", "false", "FALSE", "False", "no", "No", "OFF", "disable", "Disabled"],
    True: ["1", "t", "T", "true", "TRUE", "True", "yes", "on", "fAlse ", " ", "please", "nope"],
}


@pytest.mark.parametrize(("value", "wanted"), [(word, out) for out, words in WORDS.items() for word in words])
def test_which_words_opt_out(value: str, wanted: bool) -> None:
    assert inject.opts_out(value) == wanted


def test_an_engine_s_wiring_is_compact_json_that_vllm_reads() -> None:
    assert json.loads(CONNECTOR) == {"kv_connector": "LMCacheConnectorV1", "kv_role": "kv_both"}


# The cluster ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "taken"),
    [
        ({"major": "1", "minor": "28"}, False),
        ({"major": "1", "minor": "28+"}, False),
        ({"major": "1", "minor": "29"}, True),
        ({"major": "1", "minor": "36+"}, True),
        ({"major": "2", "minor": "0"}, True),
        ({}, True),
        ({"major": "v1", "minor": None}, True),
    ],
)
def test_native_sidecars_begin_with_kubernetes_1_29(version: Object, taken: bool) -> None:
    assert inject.takes_native_sidecars(version) == taken


def test_other_options_forget_what_was_decided_under_the_old_ones() -> None:
    told = teller()
    told.seen(KEY.kind, backend(runtime="SGLang"))
    pods = admit.Pods(OPTIONS)
    view = {"metadata": {"labels": {"serve": "qwen"}}, "spec": {"containers": [{"name": "e", "image": "i:1"}]}}
    question = Question(uid="u", operation="CREATE", kind=core.PODS, namespace="ml", view=view)
    assert pods.decide(question, Reader(told.world)).check == "injected"
    pods.settle(OPTIONS._replace(native_sidecars=False))
    assert pods.decide(question, Reader(told.world)).check == "cluster-version"


def test_marks_go_where_nothing_could_be_decided() -> None:
    marks = {names.INJECTED_BY: "ml/kv", names.INJECT_SKIPPED: "x"}
    undecided = Decision(verdict="allowed", check="failed-open", warnings=("why",))
    pods = admit.Pods(OPTIONS)

    def asked(operation: Any, annotations: Object) -> Decision:
        view: Object = {"metadata": {"annotations": annotations}, "spec": {}}
        return pods.undecided(
            Question(uid="u", operation=operation, kind=core.PODS, namespace="ml", view=view), undecided
        )

    told = asked("CREATE", {"mine": "1", **marks})
    assert (told.verdict, told.check, told.warnings) == ("patched", "failed-open", ("why",))
    assert {one["op"] for one in told.patch} == {"remove"}
    assert asked("CREATE", {"mine": "1"}) is undecided
    assert asked("UPDATE", marks) is undecided
