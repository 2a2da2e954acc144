"""Views of Pods: nothing secret is in them, nothing is lost, and decisions come out the same."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from devkube.patches import json_patch
from handlers.admission import patches
from handlers.admission.view import Allow, resource, view
from handlers.cachebackend import inject
from handlers.cachebackend.admit import ALLOW
from tests.unit.cachebackend.test_inject import BACKENDS, OPTIONS, PODS

CANARY = "hunter2"


def pod(**container: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "vllm", **container}]}}


PLACES = {
    "environment": pod(env=[{"name": "TOKEN", "value": CANARY}]),
    "argument": pod(args=["serve", CANARY]),
    "value of a flag": pod(args=["--api-key", CANARY]),
    "value after =": pod(args=[f"--api-key={CANARY}"]),
    "value of a short flag": pod(args=["-k", CANARY, f"-k={CANARY}"]),
    "command": pod(command=["/run", CANARY]),
    "script": pod(command=["sh", "-c", f"export A={CANARY} && vllm serve m --api-key {CANARY}"]),
    "quoted in a script": pod(command=["sh", "-c", f"vllm serve m --api-key '{CANARY} {CANARY}x'"]),
    "allowed flag, user information": pod(args=["--kv-transfer-config", f'{{"url":"redis://u:{CANARY}@h:1"}}']),
    "allowed variable, user information": pod(env=[{"name": "LMCACHE_REMOTE_URL", "value": f"lm://u:{CANARY}@h:1"}]),
    "annotation": {"metadata": {"annotations": {"x": CANARY}}, "spec": {}},
    "last applied": {"metadata": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": CANARY}}},
    "managed fields": {"metadata": {"managedFields": [{"manager": CANARY}]}},
    "probe": pod(livenessProbe={"exec": {"command": ["curl", CANARY]}}),
    "header": pod(readinessProbe={"httpGet": {"httpHeaders": [{"name": "Authorization", "value": CANARY}]}}),
    "hook": pod(lifecycle={"preStop": {"exec": {"command": [CANARY]}}}),
    "volume": {"spec": {"volumes": [{"name": "v", "csi": {"volumeAttributes": {"key": CANARY}}}]}},
    "flex volume": {"spec": {"volumes": [{"name": "v", "flexVolume": {"options": {"key": CANARY}}}]}},
    "image user": pod(image=f"https://u:{CANARY}@reg/i"),
    "init container": {"spec": {"initContainers": [{"name": "i", "env": [{"name": "T", "value": CANARY}]}]}},
    "ephemeral container": {"spec": {"ephemeralContainers": [{"name": "i", "args": [CANARY]}]}},
}


@pytest.mark.parametrize("place", PLACES)
def test_a_secret_is_in_no_view(place: str) -> None:
    made = view(PLACES[place], ALLOW)
    assert CANARY not in json.dumps(made.object)
    if place != "managed fields":
        assert made.fill(made.object) == PLACES[place]


def test_what_decisions_read_stays_readable() -> None:
    kept = pod(
        command=["python3", "-m", "vllm.entrypoints.openai.api_server"],
        args=["--kv-events-config", '{"publisher": "zmq"}', "--enable-lmcache", "--hicache-ratio=2.0"],
        env=[{"name": "PYTHONHASHSEED", "value": "0"}, {"name": "A", "valueFrom": {"secretKeyRef": {"name": "s"}}}],
    )
    assert view(kept, ALLOW).object == kept


def test_equal_values_have_equal_tokens() -> None:
    shown = view(pod(args=["x", "y", "x"]), ALLOW).object["spec"]["containers"][0]["args"]
    assert shown == ["⟦1⟧", "⟦2⟧", "⟦1⟧"]


def test_a_value_that_looks_like_a_token_is_not_taken_for_one() -> None:
    given = pod(args=["secret", "⟦1⟧"], env=[{"name": "PYTHONHASHSEED", "value": "⟦1⟧"}])
    made = view(given, ALLOW)
    assert made.fill(made.object) == given


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["metadata", "spec", "containers", "env", "args", "command", "value", "name", "annotations",
                         "volumes", "options", "httpHeaders", "managedField"]), inner, max_size=4
    ),
    max_leaves=15,
)  # fmt: skip


@given(st.dictionaries(st.sampled_from(["metadata", "spec", "kind"]), JSON, max_size=3), st.booleans())
def test_any_object_has_a_view_that_can_be_undone(document: dict[str, Any], allowed: bool) -> None:
    before = msgspec.json.encode(document)
    made = view(document, ALLOW if allowed else Allow())
    annotations = document.get("metadata")
    if isinstance(annotations, dict) and isinstance(annotations.get("annotations"), dict):
        annotations["annotations"] = {k: str(v) for k, v in annotations["annotations"].items()}
        before = msgspec.json.encode(document)
    assert made.fill(made.object) == document
    assert msgspec.json.encode(document) == before


@given(PODS, st.sampled_from(sorted(BACKENDS)))
def test_deciding_on_the_view_is_deciding_on_the_pod(real: dict[str, Any], name: str) -> None:
    """A second pass over a wired Pod included: what was injected is recognised through the tokens."""
    for _ in range(2):
        plain = inject.decide(real, [BACKENDS[name]], OPTIONS)
        made = view(real, ALLOW)
        seen = inject.decide(made.object, [BACKENDS[name]], OPTIONS)
        assert seen.check == plain.check
        patch = patches.effective(made.fill(list(seen.patch)), real)
        assert bool(patch) == bool(plain.patch)
        real, expected = json_patch(real, patch), json_patch(real, list(plain.patch))
        assert real == expected


def test_replacements_of_the_same_are_dropped_unless_places_have_shifted() -> None:
    document = {"a": [1, 2], "b": {"c": "x"}}
    same = {"op": "replace", "path": "/b/c", "value": "x"}
    other = {"op": "replace", "path": "/b/c", "value": "y"}
    missing = {"op": "replace", "path": "/b/d", "value": "x"}
    assert patches.effective([same, other, missing], document) == [other, missing]
    shifted = [{"op": "remove", "path": "/a/0"}, {"op": "replace", "path": "/a/0", "value": 1}]
    assert patches.effective(shifted, document) == shifted


@given(JSON, JSON)
def test_a_patch_leads_from_one_to_the_other(before: Any, after: Any) -> None:
    wrapped = {"x": before}, {"x": after}
    assert json_patch(wrapped[0], patches.diff(*wrapped)) == wrapped[1]


def test_a_variable_whose_name_is_no_name_hides_its_value() -> None:
    """Custom resources come to mutating webhooks before their schema is judged."""
    names: tuple[Any, ...] = ({}, [], None, 5)
    for name in names:
        made = view(
            {"spec": {"containers": [{"env": [{"name": name, "value": "hunter2"}]}]}}, Allow(env=frozenset("A"))
        )
        assert made.object["spec"]["containers"][0]["env"] == [{"name": name, "value": "⟦1⟧"}]


@pytest.mark.parametrize(
    "field",
    [
        {"args": "run --key s3cr3t"},
        {"command": ["run", {"s3cr3t": "s3cr3t"}, "--key=s3cr3t"]},
        {"env": {"TOKEN": "s3cr3t", "s3cr3t": ["s3cr3t", {"a": "s3cr3t"}]}},
        {
            "extraEnv": [
                "TOKEN=s3cr3t",
                {"name": ["s3cr3t"], "value": {"a": "s3cr3t"}},
                {"name": "A", "value": "s3cr3t"},
            ]
        },
        {"crypto": {"key": "s3cr3t"}},
        {"image": "s3cr3t@registry/x"},
        {"anything": "user:s3cr3t@host"},
    ],
)
def test_of_a_custom_resource_a_launch_is_hidden_in_whatever_shape(field: dict[str, Any]) -> None:
    """Mutating webhooks see objects before their schema is judged."""
    document = {"metadata": {"name": "a", "annotations": {"x": "s3cr3t"}}, "spec": {"deep": [field]}}
    seen = resource(document, Allow())
    assert "s3cr3t" not in str(seen.object)
    assert [type(one) for one in seen.object["spec"]["deep"][0].values()] == [type(one) for one in field.values()]
    if "env" not in field and "command" not in field and "extraEnv" not in field:
        assert seen.fill(seen.object) == document
