"""What may not change on a Pod that lives."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.admission.decision import Decision, Question
from handlers.kvcachepool import admit, freeze, names
from tests.support.kvpools import changed, pod, world

WRITTEN = {names.INJECTED: '{"binding":"chat"}', names.CLIENT_CONFIG: '{"protocol":"tcp"}'}
LIVE = pod(annotations=WRITTEN)
OFF = changed(LIVE, metadata__labels={})
AT = {key: f"metadata.annotations[{key}]" for key in names.WRITTEN}
LABEL = f"metadata.labels[{names.INJECT}]"


def annotated(**values: Any) -> Any:
    made = changed(LIVE)
    for key, value in values.items():
        name = {"injected": names.INJECTED, "config": names.CLIENT_CONFIG, "engine": names.ENGINE}[key]
        made["metadata"]["annotations"] |= {name: value}
        if value is None:
            del made["metadata"]["annotations"][name]
    return made


def asked(old: Any, new: Any) -> Decision | None:
    hook = admit.Freeze()
    question = Question(
        uid="u",
        operation="UPDATE",
        kind="pods",
        namespace="team",
        view=hook.see(new).object,
        old=hook.see(old).object,
    )
    reader = world()
    return hook.decide(question, reader) if hook.concerned(question, reader) else None


TABLE: dict[str, tuple[Any, Any, list[str]]] = {
    "label removed": (LIVE, OFF, [LABEL]),
    "label added": (OFF, LIVE, [LABEL]),
    "label false": (LIVE, changed(LIVE, metadata__labels={names.INJECT: "false"}), [LABEL]),
    "record edited": (LIVE, annotated(injected="{}"), [AT[names.INJECTED]]),
    "record removed": (LIVE, annotated(injected=None), [AT[names.INJECTED]]),
    "record emptied": (LIVE, annotated(injected=""), [AT[names.INJECTED]]),
    "config edited": (LIVE, annotated(config='{"protocol":"rdma"}'), [AT[names.CLIENT_CONFIG]]),
    "user of a URL edited": (annotated(config="x://a@h"), annotated(config="x://b@h"), [AT[names.CLIENT_CONFIG]]),
    "config of SGLang added": (annotated(config=None), LIVE, [AT[names.CLIENT_CONFIG]]),
    "engine edited": (LIVE, annotated(engine="SGLang"), []),
    "image": (LIVE, changed(LIVE, spec__containers=[]), []),
    "other label": (LIVE, changed(LIVE, metadata__labels={names.INJECT: "true", "a": "b"}), []),
}


@pytest.mark.parametrize("terminating", [False, True])
@pytest.mark.parametrize("what", TABLE)
def test_change(what: str, terminating: bool) -> None:
    """A terminating Pod serves through its grace period, so it is frozen as well."""
    old, new, fields = TABLE[what]
    if terminating:
        moment = {"metadata__deletionTimestamp": "2026-01-01T00:00:00Z"}
        old, new = changed(old, **moment), changed(new, **moment)
    decision = asked(old, new)
    assert decision is not None
    assert [one.field for one in decision.violations] == fields
    assert decision.verdict == ("refused" if fields else "allowed")
    assert all("template" in one.detail for one in decision.violations)


def test_everything_at_once_is_told_together() -> None:
    decision = asked(LIVE, changed(OFF, metadata__annotations={}))
    assert decision is not None
    assert [one.field for one in decision.violations] == [LABEL, AT[names.CLIENT_CONFIG], AT[names.INJECTED]]


def test_a_finalizer_always_comes_off() -> None:
    held = changed(LIVE, metadata__finalizers=["x/hold"], metadata__deletionTimestamp="2026-01-01T00:00:00Z")
    decision = asked(held, changed(held, metadata__finalizers=[]))
    assert decision is not None
    assert decision.verdict == "allowed"


def test_a_pod_that_never_opted_in_is_nobody_s_business() -> None:
    assert asked(OFF, changed(OFF, metadata__annotations={names.INJECTED: "x"})) is None


def test_an_unreachable_webhook_is_no_reason_to_keep_a_pod() -> None:
    assert admit.Freeze().fails_open


VALUES = st.dictionaries(st.sampled_from([*names.WRITTEN, "other"]), st.sampled_from(["", "a", "x://a@h", "⟦1⟧"]))
LABELS = st.sampled_from([{}, {names.INJECT: "true"}, {names.INJECT: "True"}])


@given(VALUES, VALUES, LABELS, LABELS)
def test_deciding_on_the_view_is_deciding_on_the_pod(a: Any, b: Any, mine: Any, theirs: Any) -> None:
    old, new = ({"metadata": {"labels": one, "annotations": two}} for one, two in ((mine, a), (theirs, b)))
    seen = freeze.decide(freeze.see(old).object, freeze.see(new).object)
    plain = freeze.decide(old, new)
    assert seen == plain
    assert "x://a@h" not in str(freeze.see(old).object)
