"""docs/asyncapi.yaml: it is current, its examples are what the product writes and reads, its addresses our subjects.

Excluded: whether it is AsyncAPI at all, which their own schema says (tests/contract/test_asyncapi.py).
"""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from eventstore import asyncapi, events, examples, kvwire, store, subjects

PAGE = Path(__file__).parents[3] / "docs" / "asyncapi.yaml"
DOCUMENT: dict[str, Any] = asyncapi.document()


def test_the_page_is_what_the_types_say() -> None:
    assert PAGE.read_text() == asyncapi.page(), "run  python -m eventstore.asyncapi > docs/asyncapi.yaml"


def test_the_page_is_yaml_that_says_the_document() -> None:
    assert yaml.safe_load(asyncapi.page()) == msgspec.json.decode(msgspec.json.encode(DOCUMENT))


@pytest.mark.parametrize("name", events.TYPES)
def test_every_type_has_a_message_whose_example_decodes_to_what_it_was_made_of(name: str) -> None:
    struct = events.TYPES[name]
    (message,) = [one for one in DOCUMENT["components"]["messages"].values() if one["name"] == name]
    (example,) = message["examples"]
    body = msgspec.json.encode(example["payload"])
    decoded = events.decode(store.Stored(1, 1, example["payload"]["subject"], body))
    assert isinstance(decoded, events.Decoded), decoded
    assert decoded.data == examples.EXAMPLES[struct][2]
    assert decoded.envelope.type == name


def test_the_messages_of_warmlog_kv_are_the_bytes_that_the_product_reads() -> None:
    kinds = {type(message) for message in asyncapi.KV_EXAMPLES}
    assert kinds == set(kvwire.AnyMessage.__args__)  # type: ignore[attr-defined]
    for message in asyncapi.KV_EXAMPLES:
        told = DOCUMENT["components"]["messages"][f"kv{type(message).__name__}"]
        assert kvwire.decode(bytes.fromhex(told["x-example-hex"])) == message
        assert told["examples"][0]["payload"] == msgspec.to_builtins(message)


def test_orders_are_what_a_subscriber_reads() -> None:
    told = DOCUMENT["components"]["messages"]["control"]["examples"][0]["payload"]
    assert msgspec.json.decode(msgspec.json.encode(told), type=kvwire.Control) == asyncapi.CONTROL_EXAMPLE


#: Channel, what to fill in, and the subject that the product makes of the same names.
ADDRESSES = {
    "settings": ({"role": "server"}, subjects.settings_subject("server")),
    "object": (
        {"group-plural": "cachepolicies.inferencecache.io", "namespace": "", "name": "a.b"},
        subjects.object_subject("cachepolicies.inferencecache.io", "", "a.b"),
    ),
    "kind": (
        {"group-plural": "cachetenants.inferencecache.io"},
        subjects.kind_subject("cachetenants.inferencecache.io"),
    ),
    "replica": ({"tenant": "team.a", "replica": "e_1"}, subjects.replica_subject("team.a", "e_1")),
    "index": ({"shard": "0"}, subjects.index_subject("0")),
    "moment": ({}, subjects.MOMENT),
    "watch": ({}, subjects.WATCH),
    "leader": ({}, subjects.LEADER),
    "admission": (
        {"webhook": "mpod.inferencecache.io", "namespace": "a", "name": "b-"},
        subjects.admission_subject("mpod.inferencecache.io", "a", "b-"),
    ),
    "effect": (
        {"group-plural": "services", "namespace": "a", "name": "b"},
        subjects.effect_subject("services", "a", "b"),
    ),
    "timer": ({"handler": "cachebackend"}, subjects.timer_subject("cachebackend")),
    "kv": (
        {"partition": str(subjects.partition_of("t", "m")), "tenant": "t", "replica": "r"},
        subjects.kv_subject("t", "m", "r"),
    ),
    "orders": ({"tenant": "t", "replica": "r"}, subjects.kv_control_subject("t", "r")),
    "lookup": ({}, subjects.LOOKUP),
}


@pytest.mark.parametrize("channel", ADDRESSES)
def test_an_address_with_its_parameters_filled_in_is_our_subject(channel: str) -> None:
    names, subject = ADDRESSES[channel]
    told = DOCUMENT["channels"][channel]
    assert set(told.get("parameters", {})) == set(names)
    assert re.sub(r"{([a-z-]+)}", lambda match: subjects.escape(names[match[1]]), told["address"]) == subject


def test_every_channel_is_checked_against_our_subjects() -> None:
    assert set(DOCUMENT["channels"]) - {"lookupReply"} == set(ADDRESSES)


def references(node: Any) -> list[str]:
    if isinstance(node, dict):
        own = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
        return own + [found for value in node.values() for found in references(value)]
    return [found for value in node for found in references(value)] if isinstance(node, list) else []


def test_every_reference_leads_somewhere() -> None:
    found = references(DOCUMENT)
    assert len(found) > 50
    for pointer in found:
        at: Any = DOCUMENT
        for part in pointer.removeprefix("#/").split("/"):
            at = at[part]


def test_every_message_is_sent_or_received_by_an_operation() -> None:
    used = {
        one["$ref"].rpartition("/")[2] for operation in DOCUMENT["operations"].values() for one in operation["messages"]
    }
    used |= {one["$ref"].rpartition("/")[2] for one in DOCUMENT["operations"]["answerLookup"]["reply"]["messages"]}
    assert used == set(DOCUMENT["components"]["messages"])
