"""docs/events.md, written from the types: `python -m eventstore.describe > docs/events.md`.

A test compares the checked-in page with what this prints. What a type's fields are comes from its Struct, what it
means from its docstring; where it is stored and who appends it stands in the table below, once.
"""

import inspect
import sys
import types
import typing
from typing import Any, Final, NamedTuple

import msgspec

from eventstore import envelope, events, streams

_WATCHER: Final = "the leading controller, or `warmlog server --policies`"


class Home(NamedTuple):
    subject: str
    by: str


HOMES: Final[dict[type[events.Event], Home]] = {
    events.SettingsSeen: Home("wl.settings.<role>", "every role, at its start and on change"),
    events.ObjectSeen: Home("wl.object.<group-plural>.<namespace or _>.<name>", _WATCHER),
    events.ObjectGone: Home("wl.object.<group-plural>.<namespace or _>.<name>", _WATCHER),
    events.KindListed: Home("wl.kind.<group-plural>", _WATCHER),
    events.ReplicaObserved: Home("wl.replica.<tenant>.<replica>", "the server, from WARMLOG_KV"),
    events.IndexSummarised: Home("wl.index.<shard>", "the server"),
    events.Moment: Home("wl.moment", "the server, every 10 s"),
    events.WatchContact: Home("wl.watch", "the leading controller, every 2 s at most"),
    events.LeaderElected: Home("wl.leader", "a controller that got the Lease"),
    events.AdmissionDecided: Home("wl.admission.<webhook>.<namespace>.<name>", "the webhook, before it answers"),
    events.EffectApplied: Home("wl.effect.<group-plural>.<namespace>.<name>", "the leading controller"),
    events.EffectFailed: Home("wl.effect.<group-plural>.<namespace>.<name>", "the leading controller"),
    events.TimerFired: Home("wl.timer.<handler>", "the leading controller"),
}

_HEAD = f"""# Events

<!-- Written by `python -m eventstore.describe > docs/events.md`; edit the types, not this page. -->

Everything that Warmlog learns or decides is an event on the JetStream stream `{streams.CONTROL_LOG}`. Events are
immutable and totally ordered: the stream sequence names a moment. What engines hold travels on `{streams.KV_LOG}`
in a form of its own ([design 0001](design/0001-kv-wire.md)) and is not described here. All messages on NATS, with
schemas and examples, as an AsyncAPI document: [asyncapi.yaml](asyncapi.yaml).

## The envelope

An event is a [CloudEvents 1.0](https://cloudevents.io) JSON object in structured mode, at most
{envelope.MAX_BYTES // 1024} KiB. Any NATS client can read it whole: `nats sub 'wl.>'`.

| attribute | says |
|---|---|
| `specversion` | always `{envelope.SPECVERSION}` |
| `id` | the fact's identity: the same fact appended twice is stored once. Equal to the header `Nats-Msg-Id` |
| `source` | which part of which installation says it |
| `type` | one of the names below; a name's data never changes, a change is a new version |
| `time` | when it was observed, RFC 3339 in UTC. The stream's own time decides where time matters |
| `subject` | the NATS subject that the event is stored under |
| `datacontenttype` | always `application/json` |
| `causationid` | the id of the event that this one follows from, when there is one |
| `actor` | the role, and verified identity, that appended it |
| `data` | as below |

In subjects every byte of a name outside `A-Z a-z 0-9 -` is written as `%XX`; an absent name is `_`.
In those of decisions and effects, a name of more than 88 such bytes is `=` and the first 32 digits of its SHA-256.
Readers ignore attributes and fields that they do not know. A type that they do not know is skipped and counted.

```json
{{example}}
```

## Reading along

[examples/audit_subscriber.py](examples/audit_subscriber.py) follows the log from its first event, across reconnects and
without a hole. Permissions that it needs: publish `$JS.API.STREAM.INFO.{streams.CONTROL_LOG}`,
`$JS.API.CONSUMER.CREATE.{streams.CONTROL_LOG}.>`, `$JS.API.CONSUMER.DELETE.{streams.CONTROL_LOG}.>`,
`$JS.API.CONSUMER.MSG.NEXT.{streams.CONTROL_LOG}.>`; subscribe `<inbox prefix>.>`.

## Types
"""


def page() -> str:
    """The whole of docs/events.md."""
    parts = [_HEAD.replace("{example}", _example())]
    parts += [_chapter(name, struct) for name, struct in events.TYPES.items()]
    return "\n".join(parts).rstrip() + "\n"


def _example() -> str:
    moment = events.Moment(kv_sequence=48213, kv_incarnation="20261130T071727.123456789.0")
    event = events.event(
        moment,
        id="moment:20261130T071727.123456789.0:48213:1796024000000000000",
        source="warmlog/server",
        subject="wl.moment",
        time_ns=1_796_024_000_000_000_000,
        actor="server/warmlog-0",
    )
    return msgspec.json.format(msgspec.json.encode(event), indent=2).decode()


def _chapter(name: str, struct: type[events.Event]) -> str:
    home = HOMES[struct]
    lines = [
        f"### `{name}`",
        "",
        inspect.cleandoc(struct.__doc__ or ""),
        "",
        f"Subject `{home.subject}`, appended by {home.by}.",
        "",
    ]
    nested: list[type[msgspec.Struct]] = []
    lines += _fields(struct, nested)
    for inner in nested:
        lines += [f"Each `{inner.__name__}`:", "", *_fields(inner, nested)]
    return "\n".join(lines)


def _fields(struct: type[msgspec.Struct], nested: list[type[msgspec.Struct]]) -> list[str]:
    hints = typing.get_type_hints(struct)
    rows = ["| field | type | absent means |", "|---|---|---|"]
    for field in msgspec.structs.fields(struct):
        shown = _shown(hints[field.name], nested)
        rows.append(f"| `{field.encode_name}` | {shown} | {_absent(field)} |")
    return [*rows, ""]


def _absent(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "(required)"
    value = field.default
    if value is msgspec.NODEFAULT:
        value = field.default_factory() if field.default_factory is not msgspec.NODEFAULT else None
    return f"`{msgspec.json.encode(value).decode()}`"


_PLAIN: Final = {str: "string", int: "integer", float: "number", bool: "boolean", Any: "anything"}


def _shown(hint: Any, nested: list[type[msgspec.Struct]]) -> str:
    """A type in words that do not need Python."""
    if hint in _PLAIN:
        return _PLAIN[hint]
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return " \\| ".join(f"`{value}`" for value in arguments)
    if origin is list:
        return f"list of {_shown(arguments[0], nested)}"
    if origin is dict:
        return f"object of {_shown(arguments[1], nested)}"
    if origin is types.UnionType:
        return " or ".join("null" if one is types.NoneType else _shown(one, nested) for one in arguments)
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        if hint not in nested:
            nested.append(hint)
        return f"`{hint.__name__}`"
    raise TypeError(f"eventstore.describe has no words for {hint!r}: add them")


if __name__ == "__main__":
    sys.stdout.write(page())
