"""Versions, history, and what a reader of either sees."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devkube.store import Change, Gone, Lost, Store, load
from tests.unit.devkube.doubles import waiting


def thing(name: str, namespace: str = "ns", **fields: Any) -> dict[str, Any]:
    meta = {"name": name, "namespace": namespace, "uid": f"uid-{name}", **fields.pop("metadata", {})}
    return {"kind": "Thing", "metadata": meta, "apiVersion": "g/v1", **fields}


def names(store: Store, **how: Any) -> list[str]:
    return [one.name for one in store.select("things", **how)]


def test_a_write_is_a_version_and_bytes_that_begin_with_the_type() -> None:
    store = Store()
    stored = store.create("things", thing("a", data=1))
    assert stored.raw.startswith(b'{"apiVersion":"g/v1","kind":"Thing",')
    assert load(stored)["metadata"]["resourceVersion"] == str(stored.version) == str(store.version)


def test_a_write_meets_the_version_it_expects_or_nothing_happens() -> None:
    store = Store()
    first = store.create("things", thing("a"))
    with pytest.raises(Lost):
        store.create("things", thing("a"))
    second = store.replace("things", thing("a", data=2), first.version)
    for stale in (
        lambda: store.replace("things", thing("a"), first.version),
        lambda: store.remove("things", "ns", "a", 1),
    ):
        with pytest.raises(Lost):
            stale()
    last = store.remove("things", "ns", "a", second.version)
    assert last.version == store.version
    assert load(last)["data"] == 2
    with pytest.raises(Lost):
        store.replace("things", thing("a"), second.version)


def test_what_selectors_need_stands_beside_the_bytes() -> None:
    store = Store(lambda key, obj: {"spec.x": obj["x"]})
    owners = [{"uid": "o1"}, {"uid": "o2"}]
    stored = store.create("things", thing("a", metadata={"labels": {"l": "1"}, "ownerReferences": owners}, x="y"))
    assert (stored.labels, stored.fields, stored.owners) == ({"l": "1"}, {"spec.x": "y"}, ("o1", "o2"))


def test_order_is_by_namespace_and_name() -> None:
    store = Store()
    for namespace, name in (("b", "a"), ("a", "z"), ("a", "b")):
        store.create("things", thing(name, namespace))
    assert names(store) == ["b", "z", "a"]
    assert names(store, namespace="a") == ["b", "z"]
    assert names(store, after=("a", "b")) == ["z", "a"]
    assert names(store, predicate=lambda one: one.name > "a") == ["b", "z"]


def test_history_goes_on_from_a_version() -> None:
    store = Store()
    store.create("others", thing("x"))
    start = store.version
    one = store.create("things", thing("a"))
    store.replace("things", thing("a"), one.version)
    store.remove("things", "ns", "a", store.version)
    seen = store.since("things", start)
    assert [change.type for change in seen] == ["ADDED", "MODIFIED", "DELETED"]
    assert [change.before is None for change in seen] == [True, False, False]
    assert store.since("things", store.version) == []
    assert store.since("others", start) == []


def test_history_is_bounded_and_says_what_is_gone() -> None:
    store = Store(limit=10)
    for number in range(30):
        store.create("things", thing(f"t{number:02}"))
    oldest = store.version - 9
    assert not store.known("things", 5)
    with pytest.raises(Gone):
        store.since("things", 5)
    assert len(store.since("things", oldest)) == 9
    with pytest.raises(Gone):
        list(store.select("things", at=5))


def test_compaction_stops_those_who_resume_but_not_those_who_keep_up() -> None:
    store = Store()
    store.create("things", thing("a"))
    position = store.version
    store.compact()
    assert not store.known("things", position)
    assert not store.known("never-seen", position)
    assert store.known("things", store.version)
    after = store.create("things", thing("b"))
    assert [change.version for change in store.since("things", position)] == [after.version]


async def test_watchers_of_a_kind_wake_with_its_next_change_only() -> None:
    store = Store()
    mine, others = store.watcher("things"), store.watcher("others")
    store.create("things", thing("a"))
    assert mine.is_set()
    assert not others.is_set()
    store.forget("others", others)
    assert waiting(store) == 1


def test_listeners_hear_each_write() -> None:
    store, heard = Store(), list[Change]()
    store.listen(heard.append)
    one = store.create("things", thing("a"))
    store.remove("things", "ns", "a", one.version)
    assert [(change.type, change.after.name) for change in heard] == [("ADDED", "a"), ("DELETED", "a")]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["put", "drop"])), max_size=30))
def test_the_past_is_what_it_was(writes: list[tuple[str, str]]) -> None:
    """Every version can be listed as it was listed then."""
    store, then = Store(), dict[int, dict[str, int]]()
    for name, what in writes:
        found = store.get("things", "ns", name)
        if what == "put" and found is None:
            store.create("things", thing(name))
        elif what == "put" and found is not None:
            store.replace("things", thing(name), found.version)
        elif found is not None:
            store.remove("things", "ns", name, found.version)
        then[store.version] = {one.name: one.version for one in store.select("things")}
    for version, listed in then.items():
        assert {one.name: one.version for one in store.select("things", at=version)} == listed
