"""Objects that were stored before a rule existed, or are of another type than today's: told where an operator looks."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from crds import core, schema
from crds.cachebackend import CACHE_BACKENDS
from eventstore import events, subjects
from handlers import canonical, reconcile, unusable
from handlers.cachebackend.system import CacheBackends
from handlers.outcome import Key, Outcome, Status, Told
from handlers.world import keyframe, kinds
from handlers.world.reader import Reader
from subscribers.kubernetes import narrow
from tests.support.worlds import Teller

Object = dict[str, Any]
KEY = Key(CACHE_BACKENDS, "ml", "a")
SYSTEM = CacheBackends()
GOOD: Object = {"runtime": "VLLM", "type": "LMCache"}
#: Spec -> what its author reads.
BAD: dict[str, tuple[Object, str]] = {
    "a number": ({**GOOD, "replicas": "three"}, "spec.replicas: expected `int | null`, got `str`"),
    "an object": ({**GOOD, "remoteStorage": "redis"}, "spec.remoteStorage: expected `object | null`, got `str`"),
    "inside a list": (
        {**GOOD, "integration": {"engineOverrides": {"env": [{"name": 3}]}}},
        "spec.integration.engineOverrides.env[0].name: expected `str`, got `int`",
    ),
    "a provider that is none": (
        {**GOOD, "remoteStorage": {"provider": "Memcached", "ownership": "Managed"}},
        "spec.remoteStorage.provider",
    ),
}


def seen(teller: Teller, spec: Any, status: Any = None, *, generation: int = 1, key: Key = KEY) -> Any:
    """As a watch would tell it."""
    document = {
        "metadata": {"name": key.name, "namespace": key.namespace, "uid": f"uid-{key.name}", "generation": generation},
        "spec": spec,
        **({} if status is None else {"status": status}),
    }
    one = narrow.narrow(key.kind, msgspec.json.encode(document))
    teller.versions += 1
    told = events.ObjectSeen(
        uid=one.uid, resource_version=str(teller.versions), shape=kinds.KINDS[key.kind].shape, object=one.object
    )
    teller.tell(subjects.object_subject(*key), told)
    known = teller.world.find(key)
    assert known is not None
    assert (known.value, known.problem, known.rest) == (one.value, one.problem, one.rest), "the fold says the same"
    return known


@pytest.fixture
def teller() -> Teller:
    return Teller(CACHE_BACKENDS, core.PODS, core.DEPLOYMENTS, core.REPLICA_SETS, core.SERVICES, core.AUTOSCALERS)


def wanted(teller: Teller, key: Key = KEY) -> Outcome:
    return reconcile.wanted(SYSTEM, Reader(teller.world), key)


def condition(status: Object, kind: str = "Ready") -> Object:
    (found,) = [one for one in status["conditions"] if one["type"] == kind]
    return dict(found)


def status_of(outcome: Outcome) -> Object:
    (found,) = [one.status for one in outcome.intents if isinstance(one, Status)]
    return found


@pytest.mark.parametrize(("spec", "said"), BAD.values(), ids=BAD)
def test_its_status_says_which_field_and_what_to_do(teller: Teller, spec: Object, said: str) -> None:
    seen(teller, spec, generation=4)
    status = status_of(wanted(teller))
    ready = condition(status)
    assert (ready["status"], ready["reason"], ready["observedGeneration"]) == ("False", "Invalid", 4)
    assert ready["message"].startswith(said)
    assert "correct it" in ready["message"]
    assert status["observedGeneration"] == 4
    (event,) = [one for one in wanted(teller).intents if isinstance(one, Told)]
    assert (event.type, event.reason, event.message) == ("Warning", "Invalid", ready["message"])


def test_it_is_written_once_and_seen_again_it_is_as_it_should_be(teller: Teller) -> None:
    spec, _ = BAD["a number"]
    seen(teller, spec)
    status = status_of(wanted(teller))
    teller.carry_out(KEY, wanted(teller))
    assert [one for one in wanted(teller).intents if isinstance(one, Status)] == []
    teller.passed(60)
    seen(teller, spec, status)
    assert [one for one in wanted(teller).intents if isinstance(one, Status)] == []
    seen(teller, {**spec, "type": 7}, status, generation=2)
    later = status_of(wanted(teller))
    assert condition(later)["lastTransitionTime"] == condition(status)["lastTransitionTime"]
    assert condition(later)["message"] != condition(status)["message"]


def test_what_was_right_before_stays_and_it_recovers(teller: Teller) -> None:
    seen(teller, GOOD)
    first = status_of(wanted(teller))
    teller.carry_out(KEY, wanted(teller))
    seen(teller, {**GOOD, "replicas": "three"}, first, generation=2)
    broken = status_of(wanted(teller))
    assert condition(broken)["reason"] == "Invalid"
    assert condition(broken, "Progressing")["status"] == "False"
    assert {key: broken[key] for key in first if key not in ("conditions", "observedGeneration")} == {
        key: first[key] for key in first if key not in ("conditions", "observedGeneration")
    }
    teller.carry_out(KEY, wanted(teller))
    seen(teller, GOOD, broken, generation=3)
    again = status_of(wanted(teller))
    assert condition(again)["reason"] == condition(first)["reason"]
    assert "Invalid" not in str(again)


def test_a_status_that_does_not_decode_is_replaced(teller: Teller) -> None:
    seen(teller, GOOD, {"conditions": "none"})
    status = status_of(wanted(teller))
    assert condition(status)["message"].startswith("status.conditions: expected `array | null`")
    teller.carry_out(KEY, wanted(teller))
    seen(teller, GOOD, status)
    assert "Invalid" not in str(status_of(wanted(teller)))


def test_other_objects_are_not_touched_and_one_that_goes_is_left_alone(teller: Teller) -> None:
    other = Key(CACHE_BACKENDS, "ml", "b")
    seen(teller, BAD["an object"][0])
    seen(teller, GOOD, key=other)
    assert condition(status_of(wanted(teller, other)))["reason"] != "Invalid"
    loop = reconcile.Loop([SYSTEM], teller.world)
    for kind in loop.kinds:
        loop.listed(kind)
    while (work := loop.look()) is not None:
        assert not work.defect
    raw = {"metadata": {"name": "a", "uid": "u", "deletionTimestamp": "2026-11-30T15:00:00Z"}, "spec": 3}
    one = narrow.narrow(CACHE_BACKENDS, msgspec.json.encode(raw))
    assert one.rest is not None
    assert one.rest.deleting


HICACHE = yaml.safe_load(Path("deploy/samples/cachebackend-sglang-hicache.yaml").read_text())["spec"]


@pytest.mark.parametrize("spec", [HICACHE, GOOD])
def test_what_breaks_no_rule_shows_what_its_system_says(teller: Teller, spec: Object) -> None:
    seen(teller, spec)
    assert wanted(teller) == SYSTEM.desired(Reader(teller.world), KEY)


def test_a_rule_that_is_broken_is_told_once_too(teller: Teller) -> None:
    spec, _ = BAD["a provider that is none"]
    seen(teller, spec)
    status = status_of(wanted(teller))
    teller.carry_out(KEY, wanted(teller))
    teller.passed(60)
    seen(teller, spec, status)
    assert [one for one in wanted(teller).intents if isinstance(one, Status)] == []
    seen(teller, GOOD, status, generation=2)
    assert "Invalid" not in str(status_of(wanted(teller)))


def test_a_system_that_fails_at_what_breaks_a_rule_is_no_defect(
    teller: Teller, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen(teller, BAD["a provider that is none"][0])
    monkeypatch.setattr("handlers.cachebackend.desired.desired", lambda world, key: 1 // 0)
    assert condition(status_of(wanted(teller)))["reason"] == "Invalid"


def test_a_defect_of_ours_stays_one(teller: Teller, monkeypatch: pytest.MonkeyPatch) -> None:
    seen(teller, GOOD)
    monkeypatch.setattr("handlers.cachebackend.desired.desired", lambda world, key: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        wanted(teller)


def test_a_keyframe_keeps_it(teller: Teller) -> None:
    seen(teller, BAD["a number"][0], {"matchedEnginePods": 3})
    lines = list(keyframe.cut(keyframe.rows(keyframe.freeze(teller.world))))
    loaded, digest = keyframe.load(lines, incarnation="i")
    assert digest == keyframe.digest(teller.world)
    assert loaded.find(KEY) == teller.world.find(KEY)
    assert canonical.encode(status_of(reconcile.wanted(SYSTEM, Reader(loaded), KEY))) == canonical.encode(
        status_of(wanted(teller))
    )


@pytest.mark.parametrize(
    ("raised", "line"),
    [
        ("Invalid enum value 'hunter2'", "Invalid enum value"),
        ("Invalid enum value 'hunter2' - at `$.spec.x`", "spec.x: invalid enum value"),
        ("Expected `int`, got `str` - at `$.spec.a[...].b`", "spec.a[...].b: expected `int`, got `str`"),
        ("Expected `object`, got `array`", "Expected `object`, got `array`"),
        ("Invalid enum value 'hun - at ter2' - at `$.spec.x`", "spec.x: invalid enum value"),
    ],
)
def test_a_line_names_the_field_and_no_value(raised: str, line: str) -> None:
    assert schema.line(msgspec.ValidationError(raised)) == line


def test_a_system_that_writes_no_status_has_none_to_say_so_in() -> None:
    assert unusable.statuses(object()) == {}


@pytest.mark.parametrize("label", ["u:p@h", "redis://u:p@h:1", "x://h,a?b:c@d"])
def test_a_status_that_quotes_a_label_is_written_once(teller: Teller, label: str) -> None:
    """Whoever may create a backend chose the label; written for ever it would fill the log."""
    spec = {**GOOD, "engineSelector": {"matchLabels": {"a": label}}}
    seen(teller, spec)
    status = status_of(wanted(teller))
    assert "matches no Pod" in status["engineSelectorMessage"]
    seen(teller, spec, status)
    assert wanted(teller).intents == ()
