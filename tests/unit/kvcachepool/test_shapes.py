"""Whatever a file holds is judged or refused in one line; and what the log keeps of a store's objects."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from crds import kvcache
from handlers.admission.decision import Question
from handlers.kvcachepool import admit, names
from handlers.kvcachepool.inject import Settings
from subscribers.kubernetes import narrow
from tests.support.kvpools import INJECTION, STORE, backend, changed, pod, world

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 1) | st.sampled_from(["", "vllm", "true"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["name", "args", "command", "env", "containers", "volumes", "annotations", "mountPath"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)
PLACES = st.sampled_from(
    [
        "spec",
        "spec__containers",
        "spec__containers__0",
        "spec__containers__0__args",
        "spec__containers__0__command",
        "spec__containers__0__env",
        "spec__containers__0__volumeMounts",
        "spec__containers__0__resources",
        "spec__volumes",
        "spec__initContainers",
        "metadata__annotations",
        f"metadata__annotations__{names.CONTAINER}",
        "metadata",
    ]
)


@given(PLACES, JSON)
def test_any_shape_is_judged(place: str, value: Any) -> None:
    given_to = pod()
    *parts, last = place.split("__")
    at = given_to
    for part in parts:
        at = at[int(part)] if isinstance(at, list) else at[part]
    if isinstance(at, list):
        at[int(last)] = value
    else:
        at[last] = value
    for hook, operation in ((INJECTION, "CREATE"), (admit.Freeze(), "UPDATE")):
        seen = hook.see(given_to).object
        question = Question(uid="u", operation=operation, kind="pods", namespace="team", view=seen, old=seen)
        reader = world(*STORE)
        if hook.concerned(question, reader):
            decision = hook.decide(question, reader)
            assert decision.verdict in ("patched", "refused", "allowed")
            assert len(decision.reason.splitlines()) <= 1


def test_the_log_keeps_nothing_of_a_store_s_containers() -> None:
    secret = {"extraArgs": ["-a=hunter2"], "extraEnv": [{"name": "A", "value": "hunter2"}]}
    given_to = changed(
        backend(),
        spec__connection__managed__leader=secret,
        spec__connection__managed__members__0__extraEnv=secret["extraEnv"],
        spec__connection__managed__members__0__securityContext={"x": "hunter2"},
        metadata__annotations={"worker.gpustack.ai/x": "1", "other": "hunter2"},
    )
    found = narrow.narrow(kvcache.BACKENDS, msgspec.json.encode(given_to))
    assert found.problem == ""
    assert "hunter2" not in str(found.object)
    assert isinstance(found.value, kvcache.KVCacheBackend)


def test_what_cannot_be_decoded_is_told_and_not_guessed() -> None:
    found = narrow.narrow(kvcache.POOLS, b'{"metadata": {"name": "p"}, "spec": {"backends": 1}}')
    assert found.value is None
    assert found.problem


def test_every_webhook_that_decides_over_stores_says_where_they_are() -> None:
    """A kind without namespaces is read without one."""
    hooks = (INJECTION, admit.pools(Settings()), admit.bindings(Settings()), admit.deployments(Settings()))
    for hook in hooks:
        assert {kvcache.POOLS, kvcache.BACKENDS} & hook.kinds <= hook.places.keys()
