"""The self-test: its hash, its stages, and that it always cleans up."""

from collections.abc import Sequence

import msgspec
import pytest

from subscribers.http import probes

REQUEST = probes.Request("team-a/kv", "functional-self-test", "vllm")


class FakeIndex:
    """Holds what is put; each fault is a stage that goes wrong."""

    def __init__(self, fault: str = "") -> None:
        self.fault = fault
        self.entries: list[probes.Entry] = []

    def put(self, entry: probes.Entry) -> None:
        if self.fault == "put raises":
            raise RuntimeError("no room")
        self.entries.append(entry)

    def holders(self, entry: probes.Entry) -> Sequence[str]:
        return [] if self.fault == "not found" else [one.replica for one in self.entries]

    def route(self, entry: probes.Entry) -> probes.Route:
        if self.fault == "route raises":
            raise RuntimeError("broken")
        if self.fault == "no match":
            return probes.Route("NO_HINT", [])
        return probes.Route("PREFIX_MATCH", ["other"] if self.fault == "another replica" else [entry.replica])

    def remove(self, entry: probes.Entry) -> None:
        self.entries = []


def test_the_hash_is_the_same_in_every_implementation() -> None:
    digest = probes.probe_hash("team-a/kv", "functional-self-test", "vllm")
    assert digest.hex() == "344d2dee678f46d11e20482e0c5106918a8ab2c68ab6bc239d5bebd26ef45666"


def test_a_healthy_index_passes() -> None:
    index = FakeIndex()
    assert probes.run(REQUEST, index) == probes.Response("team-a/kv", "ok", "ok", "skipped")
    assert index.entries == []


STAGES = {
    "put raises": ("failed", "skipped", "no room"),
    "not found": ("failed", "skipped", "does not return the entry"),
    "route raises": ("ok", "failed", "broken"),
    "no match": ("ok", "failed", "NO_HINT instead of PREFIX_MATCH"),
    "another replica": ("ok", "failed", "does not list the replica"),
}


@pytest.mark.parametrize("fault", STAGES)
def test_a_failed_stage_is_named_and_the_entry_is_gone_all_the_same(fault: str) -> None:
    ingest, routing, says = STAGES[fault]
    index = FakeIndex(fault)
    response = probes.run(REQUEST, index)
    assert (response.ingest, response.routing, response.t2) == (ingest, routing, "skipped")
    assert says in response.errors[0].message
    assert index.entries == []


def test_the_answer_leaves_out_errors_when_there_are_none() -> None:
    answer = msgspec.json.decode(msgspec.json.encode(probes.run(REQUEST, FakeIndex())))
    assert answer == {"backend": "team-a/kv", "ingest": "ok", "routing": "ok", "t2": "skipped"}


MALFORMED = {
    "no JSON": (b"{", "not a probe request"),
    "a list": (b"[]", "not a probe request"),
    "unknown field": (b'{"backend":"a/b","model":"m","hashScheme":"s","x":1}', "unknown field"),
    "trailing JSON": (b'{"backend":"a/b","model":"m","hashScheme":"s"}{}', "trailing"),
    "no model": (b'{"backend":"a/b","hashScheme":"s"}', "missing required field `model`"),
    "blank scheme": (b'{"backend":"a/b","model":"m","hashScheme":" "}', "hashScheme must not be empty"),
    "too large": (b" " * 4097, "larger than 4096"),
    "deeply nested": (b'{"x":' + b"[" * 2000 + b"]" * 2000 + b"}", "not a probe request"),
}


@pytest.mark.parametrize(("body", "says"), MALFORMED.values(), ids=MALFORMED)
def test_what_is_no_request_is_refused_in_one_line(body: bytes, says: str) -> None:
    with pytest.raises(probes.Malformed, match=says):
        probes.read(body)
