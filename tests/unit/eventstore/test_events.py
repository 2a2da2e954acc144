"""Decoding is total, old versions are lifted, the page of events is current, the official SDK reads the envelope."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from eventstore import describe, envelope, events, store, upcast
from tests.support.eventstores import moment

ROOT = Path(__file__).parents[3]


def stored(body: bytes, subject: str = "wl.moment") -> store.Stored:
    return store.Stored(7, 1, subject, body)


def encoded(**change: Any) -> bytes:
    return msgspec.json.encode(msgspec.structs.replace(moment(5), **change))


def test_an_event_comes_back_as_it_was_given() -> None:
    found = events.decode(stored(encoded()))
    assert isinstance(found, events.Decoded)
    assert found.data == events.Moment(kv_sequence=5, kv_incarnation="x")
    assert found.stored.sequence == 7


def test_attributes_and_fields_of_a_newer_minor_are_ignored() -> None:
    body = msgspec.json.decode(encoded())
    body["newextension"] = 1
    body["data"]["newer"] = {"a": 1}
    assert isinstance(events.decode(stored(msgspec.json.encode(body))), events.Decoded)


UNREADABLE = {
    "nothing": (b"", "not-an-event", "no CloudEvent of ours"),
    "no JSON": (b"\xff\x00", "not-an-event", "no CloudEvent of ours"),
    "another JSON": (b"[1]", "not-an-event", "no CloudEvent of ours"),
    "deep nesting": (b"[" * 100_000, "not-an-event", "no CloudEvent of ours"),
    "another CloudEvents": (encoded(specversion="0.3"), "not-an-event", "0.3"),
    "stored elsewhere": (encoded(subject="wl.other"), "not-an-event", "stored elsewhere"),
    "a newer version": (encoded(type="io.warmlog.moment.v9"), "unknown-type", "upgrade this program"),
    "somebody else's type": (encoded(type="com.example.x"), "unknown-type", "none of Warmlog's"),
    "a missing field": (encoded(data=msgspec.Raw(b"{}")), "bad-data", "kv_sequence"),
    "a field of another type": (encoded(data=msgspec.Raw(b'{"kv_sequence":"x"}')), "bad-data", "io.warmlog.moment.v1"),
    "data that is no object": (encoded(data=msgspec.Raw(b"[]")), "bad-data", "object"),
    "deep data": (encoded(data=msgspec.Raw(b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"}")), "bad-data", ""),
}


@pytest.mark.parametrize(("body", "kind", "says"), UNREADABLE.values(), ids=UNREADABLE)
def test_what_cannot_be_read_says_why(body: bytes, kind: str, says: str) -> None:
    found = events.decode(stored(body))
    assert isinstance(found, events.Undecodable)
    assert found.kind == kind or (kind == "bad-data" and found.kind == "not-an-event" and not says)
    assert says in found.reason


QUICK = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@QUICK
@given(st.binary(max_size=200))
def test_any_bytes_have_an_answer(body: bytes) -> None:
    assert isinstance(events.decode(stored(body)), events.Undecodable)


@QUICK
@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=8,
    )
)
def test_any_data_has_an_answer(data: Any) -> None:
    body = encoded(data=msgspec.Raw(msgspec.json.encode(data)))
    assert isinstance(events.decode(stored(body)), events.Decoded | events.Undecodable)


# Upcasts: an old version that this test invents -----------------------------------------------------------------------

OLD = {
    "io.warmlog.moment.v-1": upcast.Upcast("io.warmlog.moment.v0", lambda data: {"position": data["at"]}),
    "io.warmlog.moment.v0": upcast.Upcast(
        "io.warmlog.moment.v1", lambda data: {"kv_sequence": data["position"], "kv_incarnation": ""}
    ),
    "io.warmlog.lost.v1": upcast.Upcast("io.warmlog.lost.v2", dict),
    "io.warmlog.circle.v1": upcast.Upcast("io.warmlog.circle.v2", dict),
    "io.warmlog.circle.v2": upcast.Upcast("io.warmlog.circle.v1", dict),
}


@pytest.mark.parametrize(("version", "data"), [("v0", b'{"position":9}'), ("v-1", b'{"at":9}')])
def test_old_versions_are_lifted_step_by_step(version: str, data: bytes) -> None:
    body = encoded(type=f"io.warmlog.moment.{version}", data=msgspec.Raw(data))
    found = events.decode(stored(body), upcasts=OLD)
    assert isinstance(found, events.Decoded)
    assert found.data == events.Moment(kv_sequence=9, kv_incarnation="")
    assert found.envelope.type == f"io.warmlog.moment.{version}"


UNLIFTABLE = {
    "a step that fails": ("io.warmlog.moment.v0", b"{}", "the upcast of io.warmlog.moment.v0 failed: KeyError"),
    "a chain to nowhere": ("io.warmlog.lost.v1", b"{}", "no upcast leads on from io.warmlog.lost.v2"),
    "a circle": ("io.warmlog.circle.v1", b"{}", "go in a circle"),
    "a result of the wrong shape": ("io.warmlog.moment.v0", b'{"position":"x"}', "kv_sequence"),
    "old data that is no object": ("io.warmlog.moment.v0", b"[]", "object"),
}


@pytest.mark.parametrize(("name", "data", "says"), UNLIFTABLE.values(), ids=UNLIFTABLE)
def test_what_cannot_be_lifted_says_why(name: str, data: bytes, says: str) -> None:
    found = events.decode(stored(encoded(type=name, data=msgspec.Raw(data))), upcasts=OLD)
    assert isinstance(found, events.Undecodable)
    assert found.kind == "bad-data"
    assert says in found.reason


def test_no_upcast_hides_a_current_type() -> None:
    assert not set(upcast.UPCASTS) & set(events.TYPES)


# Names and the page ---------------------------------------------------------------------------------------------------


def test_names_are_unique_versioned_and_ours() -> None:
    assert len(set(events.TYPES.values())) == len(events.TYPES)
    for name in events.TYPES:
        assert name.startswith(envelope.PREFIX)
        assert name.rpartition(".v")[2].isdigit()


def test_the_page_of_events_is_current() -> None:
    written = (ROOT / "docs" / "events.md").read_text()
    assert written == describe.page(), "run: python -m eventstore.describe > docs/events.md"


def test_the_page_names_every_type_with_its_home() -> None:
    assert set(describe.HOMES) == set(events.TYPES.values())
    page = describe.page()
    assert all(f"### `{name}`" in page for name in events.TYPES)


# The official SDK -----------------------------------------------------------------------------------------------------

EXAMPLES: dict[str, events.Event] = {
    "settings": events.SettingsSeen(role="server", instance="a", version="0.1", settings={"http": ":8080"}),
    "seen": events.ObjectSeen(uid="u", resource_version="1", shape=1, object={"spec": {"ä": [1, None]}}),
    "gone": events.ObjectGone(uid="u"),
    "listed": events.KindListed(list_version="9", shape=1, count=3),
    "replica": events.ReplicaObserved(
        tenant="t",
        replica="r",
        model="m",
        scheme="s",
        uid="u",
        session="x",
        edge="gap",
        kv_sequence=1,
        kv_incarnation="i",
    ),
    "summary": events.IndexSummarised(
        shard="0",
        kv_sequence=1,
        kv_incarnation="i",
        blocks=2,
        replicas=[events.ReplicaSummary("t", "r", "m", "complete", 2)],
    ),
    "moment": events.Moment(kv_sequence=1, kv_incarnation="i"),
    "contact": events.WatchContact(epoch=1),
    "leader": events.LeaderElected(epoch=1, instance="a"),
    "decided": events.AdmissionDecided(
        review="r",
        webhook="w",
        operation="CREATE",
        kind="pods",
        namespace="n",
        position="i:1",
        logic="1",
        settings="s",
        view={"metadata": {}},
        reads={},
        verdict="allowed",
        check="nothing-matches",
    ),
    "applied": events.EffectApplied(
        verb="apply",
        kind="services",
        namespace="n",
        name="s",
        desired="d",
        position="i:1",
        handler="h",
        key="k",
        epoch=1,
    ),
    "failed": events.EffectFailed(
        verb="apply",
        kind="services",
        namespace="n",
        name="s",
        desired="d",
        position="i:1",
        handler="h",
        key="k",
        epoch=1,
    ),
    "timer": events.TimerFired(handler="h", key="k", due_ns=1, epoch=1),
}


@pytest.mark.parametrize("data", EXAMPLES.values(), ids=EXAMPLES)
@pytest.mark.parametrize("cause", [None, "io.warmlog.cause:1"])
def test_the_official_sdk_reads_every_event(data: events.Event, cause: str | None) -> None:
    """Its constructor validates required attributes, their types and the names of extensions."""
    made = events.event(
        data,
        id="a:1",
        source="/warmlog/test",
        subject="wl.x",
        time_ns=1_796_024_000_123_456_000,
        actor="server/one",
        cause=cause,
    )
    read = JSONFormat().read(CloudEvent, msgspec.json.encode(made))
    assert read.get_specversion() == "1.0"
    assert read.get_id() == "a:1"
    assert read.get_source() == "/warmlog/test"
    assert read.get_type() == events.name_of(data)
    assert read.get_subject() == "wl.x"
    assert read.get_time() == datetime(2026, 11, 30, 7, 33, 20, 123456, tzinfo=UTC)
    assert read.get_datacontenttype() == "application/json"
    assert read.get_extension("actor") == "server/one"
    assert read.get_extension("causationid") == cause
    assert read.get_data() == msgspec.to_builtins(data)


def test_examples_cover_every_type() -> None:
    assert {type(data) for data in EXAMPLES.values()} == set(events.TYPES.values())


def test_a_summary_of_an_older_version_says_nothing_of_tenants() -> None:
    data = events.IndexSummarised(shard="0", kv_sequence=1, kv_incarnation="k", blocks=5, replicas=[], tenants={"a": 5})
    made = events.event(data, id="1", source="s", subject="wl.index.0", time_ns=1, actor="t")
    assert made.type == "io.warmlog.index.summarised.v2"
    old = msgspec.json.decode(msgspec.json.encode(made))
    del old["data"]["tenants"]
    old["type"] = "io.warmlog.index.summarised.v1"
    found = events.decode(store.Stored(1, 1, "wl.index.0", msgspec.json.encode(old)))
    assert isinstance(found, events.Decoded)
    assert found.data == msgspec.structs.replace(data, tenants=None)
