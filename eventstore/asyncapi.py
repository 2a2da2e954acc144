"""docs/asyncapi.yaml, written from the types: `python -m eventstore.asyncapi > docs/asyncapi.yaml`. AsyncAPI 3.0.0.

Operations are told from Warmlog's point of view: what it appends and publishes is `send`, what it answers and follows
is `receive`. Every message has one example; tests decode them with the product's own decoders, compare the page with
what this prints, and validate it with AsyncAPI's own schema.

Not here: prose (docs/events.md), the wire form of `WARMLOG_KV` in words (docs/design/0001-kv-wire.md), the fields of a
lookup (README; they belong to a layer above this one).

Rules: design.md section 2 (table of types), section 3, section 4 (`wlq.lookup`); AsyncAPI 3.0.0 and its NATS bindings.
"""

import inspect
import re
import sys
from typing import Any, Final

import msgspec
import yaml

from eventstore import describe, envelope, events, examples, kvwire, streams, subjects

Document = dict[str, Any]
_EVENT_TYPE: Final = "application/cloudevents+json"
_KV_TYPE: Final = "application/vnd.msgpack"
_BINDING: Final = {"nats": {"bindingVersion": "0.1.0"}}
_TIME_NS: Final = 1_796_024_000_000_000_000

_PARAMETERS: Final = {
    "role": "controller, webhook, server …",
    "group-plural": "kind and API group, escaped, as in cachepolicies%2Einferencecache%2Eio",
    "namespace": "namespace, escaped; _ for none",
    "name": "the object's name, escaped",
    "tenant": "the tenant, escaped",
    "replica": "the engine replica, escaped",
    "webhook": "which admission webhook answered, escaped",
    "handler": "the system whose deadline passed, escaped",
    "shard": "of the prefix index; 0 where there is one",
    "partition": f"FNV-1a of tenant and model, modulo {subjects.PARTITIONS}",
}

_GROUP: Final = kvwire.Group("", 16, kvwire.pack_keys([7, 8]), b"\1\3")
KV_EXAMPLES: Final[tuple[kvwire.AnyMessage, ...]] = (
    kvwire.Begin(1, "8f0c", "s-1", 0, 0, 0, "demo-model", "vllm", "complete", "start", {"window": "100ms"}),
    kvwire.Ops(1, "8f0c", "s-1", 3, [_GROUP]),
    kvwire.Chunk(1, "8f0c", "s-1", 1, 0, [_GROUP]),
    kvwire.End(1, "8f0c", "s-1", 2, 0, "complete", 2, 15),
    kvwire.Beat(1, "8f0c", "s-1", 4, "complete", 2, 15, kvwire.Stats(1796024000.0, 1 << 30, 0.5, 0.25, 10, 20)),
    kvwire.Bye(1, "8f0c", "s-1", 5, "stopped"),
)
CONTROL_EXAMPLE: Final = kvwire.Control("keyframe", "s-1", "1 messages before n 7 are missing")
LOOKUP_EXAMPLE: Final = {"tenant_id": "team-a", "model_id": "demo-model", "hash_scheme": "vllm", "token_ids": [1, 2, 3]}


def document() -> Document:
    """The whole description, as plain dictionaries and lists."""
    messages = {**_event_messages(), **_kv_messages(), **_other_messages()}
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Warmlog",
            "version": "1",
            "description": (
                f"Events of the control log (stream {streams.CONTROL_LOG}), what engines hold "
                f"(stream {streams.KV_LOG}), orders to subscribers and lookups, over NATS. "
                "Written by `python -m eventstore.asyncapi`; edit the types, not this page."
            ),
            "license": {"name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0"},
        },
        "defaultContentType": "application/json",
        "servers": {"nats": {"host": "nats:4222", "protocol": "nats", "description": "nats-server 2.12 or newer"}},
        "channels": _channels(),
        "operations": _operations(),
        "components": {"messages": messages, "schemas": _schemas()},
    }


def page() -> str:
    """docs/asyncapi.yaml."""
    return yaml.dump(document(), Dumper=_Plain, sort_keys=False, allow_unicode=True, width=118)


class _Plain(yaml.SafeDumper):
    """Without aliases: the page is for people too."""

    def ignore_aliases(self, data: object) -> bool:
        return True


# Messages ------------------------------------------------------------------------------------------------------------


def _event_messages() -> dict[str, Document]:
    return {_message_name(struct): _event_message(name, struct) for name, struct in events.TYPES.items()}


def _message_name(struct: type[msgspec.Struct]) -> str:
    return struct.__name__[0].lower() + struct.__name__[1:]


def example(struct: type[events.Event]) -> envelope.Envelope:
    """One event of a type, as it lies in the log."""
    id, subject, data = examples.EXAMPLES[struct]
    return events.event(
        data, id=id, source="warmlog/server", subject=subject, time_ns=_TIME_NS, actor="server/warmlog-0"
    )


def _event_message(name: str, struct: type[events.Event]) -> Document:
    return {
        "name": name,
        "title": struct.__name__,
        "summary": _first_line(struct),
        "contentType": _EVENT_TYPE,
        "headers": {
            "type": "object",
            "required": ["Nats-Msg-Id"],
            "properties": {
                "Nats-Msg-Id": {"type": "string", "description": "equal to `id`: the same fact is stored once"},
                "Nats-Expected-Last-Subject-Sequence": {"type": "string", "pattern": "^[0-9]+$"},
            },
        },
        "correlationId": {"location": "$message.payload#/causationid", "description": "the event that caused this one"},
        "payload": {
            "allOf": [
                _ref("Envelope"),
                {
                    "type": "object",
                    "required": ["type", "data"],
                    "properties": {"type": {"const": name}, "data": _ref(struct.__name__)},
                },
            ]
        },
        "bindings": _BINDING,
        "examples": [
            {"name": _message_name(struct), "payload": msgspec.json.decode(msgspec.json.encode(example(struct)))}
        ],
    }


def _kv_messages() -> dict[str, Document]:
    made = {}
    for message in KV_EXAMPLES:
        struct = type(message)
        made[f"kv{struct.__name__}"] = {
            "name": f"kv.{struct.__name__.lower()}",
            "title": struct.__name__,
            "summary": _KV_SAYS[struct],
            "contentType": _KV_TYPE,
            "payload": _ref(struct.__name__),
            "bindings": _BINDING,
            "examples": [{"name": struct.__name__.lower(), "payload": msgspec.to_builtins(message)}],
            "x-example-hex": kvwire.encode(message).hex(),
        }
    return made


_KV_SAYS: Final[dict[type[kvwire.Message], str]] = {
    kvwire.Begin: "A keyframe starts; the first one of a session is the session's start.",
    kvwire.Ops: "Changes since the last message, as states: per key the final set of tiers, 0 = not held any more.",
    kvwire.Chunk: "A part of a keyframe: keys and the tiers that they are held in.",
    kvwire.End: "The keyframe is complete: count and sum of the keys held.",
    kvwire.Beat: "A heartbeat: count and sum of the keys held, engine statistics when there are some.",
    kvwire.Bye: "The session ended.",
}


def _other_messages() -> dict[str, Document]:
    return {
        "control": {
            "name": "control",
            "title": "Control",
            "summary": _first_line(kvwire.Control),
            "payload": _ref("Control"),
            "bindings": _BINDING,
            "examples": [{"name": "keyframe", "payload": msgspec.to_builtins(CONTROL_EXAMPLE)}],
        },
        "lookupRequest": {
            "name": "LookupRouteRequest",
            "summary": "Which replica holds this prompt? proto3 JSON, as on POST /v1/lookup.",
            "payload": {"type": "object"},
            "bindings": _BINDING,
            "examples": [{"name": "tokens", "payload": LOOKUP_EXAMPLE}],
        },
        "lookupResponse": {
            "name": "LookupRouteResponse",
            "summary": "Scores and a reason code, or `error` with one line for bytes that are no question.",
            "payload": {"type": "object"},
            "bindings": _BINDING,
            "examples": [{"name": "miss", "payload": {"replica_scores": [], "reason_code": "NO_HINT"}}],
        },
    }


def _first_line(struct: type[msgspec.Struct]) -> str:
    return inspect.cleandoc(struct.__doc__ or "").partition("\n\n")[0].replace("\n", " ")


# Channels and operations ---------------------------------------------------------------------------------------------


def _address(subject: str) -> str:
    """`wl.object.<group-plural>.<namespace or _>.<name>` as `wl.object.{group-plural}.{namespace}.{name}`."""
    return re.sub(r"<([a-z-]+)[^>]*>", r"{\1}", subject)


def _channel_name(address: str) -> str:
    return address.split(".")[1]


def _channel(address: str, messages: list[str], description: str) -> Document:
    names = re.findall(r"{([a-z-]+)}", address)
    made: Document = {
        "address": address,
        "description": description,
        "messages": {name: {"$ref": f"#/components/messages/{name}"} for name in messages},
    }
    if names:
        made["parameters"] = {name: {"description": _PARAMETERS[name]} for name in names}
    return {**made, "bindings": _BINDING}


def _channels() -> Document:
    channels: Document = {}
    by_address: dict[str, list[type[events.Event]]] = {}
    for struct in events.TYPES.values():
        by_address.setdefault(_address(describe.HOMES[struct].subject), []).append(struct)
    for address, structs in by_address.items():
        by = ", ".join(dict.fromkeys(describe.HOMES[struct].by for struct in structs))
        told = f"Stored in {streams.CONTROL_LOG}; appended by {by}."
        channels[_channel_name(address)] = _channel(address, [_message_name(struct) for struct in structs], told)
    kinds = [f"kv{type(message).__name__}" for message in KV_EXAMPLES]
    channels["kv"] = _channel(
        "wlkv.{partition}.{tenant}.{replica}",
        kinds,
        f"Stored in {streams.KV_LOG}: what one engine replica holds. Tenant and replica are read from here alone.",
    )
    channels["orders"] = _channel("wlkv.ctl.{tenant}.{replica}", ["control"], "Never stored.")
    channels["lookup"] = _channel(subjects.LOOKUP, ["lookupRequest"], "Request and reply; one of the servers answers.")
    channels["lookupReply"] = {
        "address": None,
        "description": "The inbox that the asker names.",
        "messages": {"lookupResponse": {"$ref": "#/components/messages/lookupResponse"}},
        "bindings": _BINDING,
    }
    return channels


def _operation(action: str, channel: str, messages: list[str], summary: str, **more: Any) -> Document:
    return {
        "action": action,
        "channel": {"$ref": f"#/channels/{channel}"},
        "summary": summary,
        "messages": [{"$ref": f"#/channels/{channel}/messages/{name}"} for name in messages],
        "bindings": _BINDING,
        **more,
    }


def _operations() -> Document:
    made: Document = {}
    for struct in events.TYPES.values():
        name = _message_name(struct)
        channel = _channel_name(_address(describe.HOMES[struct].subject))
        summary = f"Appended by {describe.HOMES[struct].by}."
        made[f"append{struct.__name__}"] = _operation("send", channel, [name], summary)
    kinds = [f"kv{type(message).__name__}" for message in KV_EXAMPLES]
    made["publishHolds"] = _operation("send", "kv", kinds, "A subscriber tells what its engine holds.")
    made["followHolds"] = _operation("receive", "kv", kinds, "Every server folds all of it into the prefix index.")
    made["giveOrder"] = _operation("send", "orders", ["control"], "A server asks for a keyframe, or fences a session.")
    made["takeOrder"] = _operation("receive", "orders", ["control"], "A subscriber obeys those for its own session.")
    made["answerLookup"] = _operation(
        "receive",
        "lookup",
        ["lookupRequest"],
        "Servers that are ready share the questions in one queue group.",
        bindings={"nats": {"queue": "lookup", "bindingVersion": "0.1.0"}},
        reply={
            "channel": {"$ref": "#/channels/lookupReply"},
            "messages": [{"$ref": "#/channels/lookupReply/messages/lookupResponse"}],
        },
    )
    return made


# Schemas -------------------------------------------------------------------------------------------------------------


def _ref(name: str) -> Document:
    return {"$ref": f"#/components/schemas/{name}"}


def _schemas() -> Document:
    kinds = [type(message) for message in KV_EXAMPLES]
    types: list[Any] = [envelope.Envelope, *events.TYPES.values(), *kinds, kvwire.Control]
    _, components = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    for struct in (*kinds, kvwire.Group, kvwire.Stats):
        kind = [] if struct in (kvwire.Group, kvwire.Stats) else ["kind"]
        fields = [field.encode_name for field in msgspec.structs.fields(struct)]
        components[struct.__name__]["description"] = f"An array of: {', '.join([*kind, *fields])}."
    return {name: _draft_07(components[name]) for name in sorted(components)}


def _draft_07(node: Any) -> Any:
    """AsyncAPI's schemas are draft 07, where the items of a tuple are `items` and what follows `additionalItems`."""
    if isinstance(node, list):
        return [_draft_07(item) for item in node]
    if not isinstance(node, dict):
        return node
    made = {key: _draft_07(value) for key, value in node.items()}
    if "prefixItems" in made:
        made["items"] = made.pop("prefixItems")
        made["additionalItems"] = True  # a newer minor may have added some
    return made


if __name__ == "__main__":
    sys.stdout.write(page())
