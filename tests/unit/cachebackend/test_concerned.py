"""A change of a Pod or a backend names every backend whose counts it changes, and few others."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from crds import core
from crds.cachebackend import CACHE_BACKENDS
from handlers.cachebackend import engines, names
from handlers.cachebackend.system import KINDS, CacheBackends
from handlers.outcome import Key
from handlers.world.reader import Reader
from tests.support.worlds import Teller

BACKENDS, PODS, LABELS = ("a", "b", "c"), ("p", "q", "r"), ("x", "y")
pod = st.tuples(st.just("pod"), st.sampled_from(PODS), st.sampled_from((*LABELS, "")), st.sampled_from((*BACKENDS, "")))
backend = st.tuples(st.just("backend"), st.sampled_from(BACKENDS), st.sampled_from((*LABELS, "")), st.just(""))
gone = st.tuples(
    st.sampled_from(("pod gone", "backend gone")), st.sampled_from((*PODS, *BACKENDS)), st.just(""), st.just("")
)
Step = tuple[str, str, str, str]


def change(teller: Teller, step: Step) -> Any:
    what, name, label, mark = step
    labels = {"serve": label} if label else {}
    metadata: dict[str, Any] = {"name": name, "namespace": "ml"}
    match what:
        case "pod":
            metadata |= {"labels": labels, "annotations": {names.INJECTED_BY: f"ml/{mark}"} if mark else {}}
            return teller.seen(core.PODS, {"metadata": metadata, "spec": {"containers": []}})
        case "backend":
            spec = {"runtime": "VLLM", "engineSelector": {"matchLabels": labels}}
            return teller.seen(CACHE_BACKENDS, {"metadata": metadata, "spec": spec})
        case "pod gone":
            return teller.gone(core.PODS, "ml", name)
    return teller.gone(CACHE_BACKENDS, "ml", name)


def counted(teller: Teller) -> dict[Key, Any]:
    world = Reader(teller.world)
    pods = engines.pods_of(world, "ml")
    return {
        key: (engines.matched(world, known.value, pods), engines.participation(world, known.value, pods))
        for key, known in world.select(CACHE_BACKENDS, "ml")
    }


@settings(max_examples=300, deadline=None)
@given(st.lists(pod | backend | gone, max_size=25), st.booleans())
def test_who_is_not_named_counts_as_before(steps: list[Step], reporting: bool) -> None:
    teller, system = Teller(*sorted(KINDS)), CacheBackends()
    if reporting:
        for name in PODS:
            teller.replica("ml", name, "first-event", blocks=3)
    for step in steps:
        before = counted(teller)
        named = set(system.concerns(change(teller, step), teller.world))
        for key, after in counted(teller).items():
            assert key in named or before.get(key) == after, (step, key)


def test_a_pod_of_one_backend_names_no_other() -> None:
    teller, system = Teller(*sorted(KINDS)), CacheBackends()
    for name, label in (("a", "x"), ("b", "y")):
        system.concerns(change(teller, ("backend", name, label, "")), teller.world)
    first = system.concerns(change(teller, ("pod", "p", "x", "")), teller.world)
    assert {key.name for key in first} == {"a", "b", "p"}, "what was there before is not known"
    again = system.concerns(change(teller, ("pod", "p", "x", "a")), teller.world)
    assert {key.name for key in again} == {"a", "p"}
    moved = system.concerns(change(teller, ("pod", "p", "y", "")), teller.world)
    assert {key.name for key in moved} == {"a", "b", "p"}


def test_a_backend_whose_selector_stays_names_itself_only() -> None:
    teller, system = Teller(*sorted(KINDS)), CacheBackends()
    teller.replica("ml", "p", "first-event")
    for name in BACKENDS:
        system.concerns(change(teller, ("backend", name, "x", "")), teller.world)
    same = system.concerns(change(teller, ("backend", "a", "x", "")), teller.world)
    assert list(same) == [Key(CACHE_BACKENDS, "ml", "a")]
    other = system.concerns(change(teller, ("backend", "a", "y", "")), teller.world)
    assert {key.name for key in other} == set(BACKENDS)


def test_another_world_is_another_memory() -> None:
    system = CacheBackends()
    for _ in range(2):
        teller = Teller(*sorted(KINDS))
        change(teller, ("backend", "b", "x", ""))
        named = system.concerns(change(teller, ("pod", "p", "y", "")), teller.world)
        assert {key.name for key in named} == {"b", "p"}
