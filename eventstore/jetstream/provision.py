"""Making a stream as `streams` declares it, or proving that it is: every wanted setting is read back and compared.

A difference is refused with the field, what is wanted, what was found and what to do; nothing is changed behind an
operator's back. With `change=True` the changes that cannot lose anything are made (more room, longer ages, protections
switched on) and read back like the rest.

Rules: design.md section 2 ("every setting read back"); spec/eventstore-nats.md measurement 2; JS-03, JS-07.
"""

from typing import Any, Final, NamedTuple

import structlog

from eventstore import store, streams
from eventstore.jetstream import api, connect

log = structlog.get_logger(__name__)

#: Settings that would break a promise of the log when somebody switches them on.
_MUST_BE_OFF: Final = (
    "sealed",
    "no_ack",
    "mirror",
    "sources",
    "subject_transform",
    "republish",
    "discard_new_per_subject",
    "allow_rollup_hdrs",
    "allow_msg_ttl",
    "allow_msg_counter",
)
_MAY_GROW: Final = frozenset({"max_age", "max_bytes", "duplicate_window", "num_replicas", "max_msg_size"})
_MAY_GO_ON: Final = frozenset({"allow_direct", "deny_delete", "deny_purge"})


class Drift(NamedTuple):
    """One setting that is not as wanted."""

    field: str
    wanted: Any
    found: Any

    @property
    def safe(self) -> bool:
        """Whether setting it right cannot lose a message or a promise."""
        if self.field in _MAY_GO_ON:
            return bool(self.wanted)
        if self.field in _MAY_GROW:
            # 0 and -1 say "without limit".
            return bool(self.found > 0 and (self.wanted <= 0 or self.wanted > self.found))
        return False


def drift(wanted: streams.Stream, found: dict[str, Any]) -> list[Drift]:
    """Every difference between a declaration and a configuration as the server tells it."""
    differences = []
    for field, value in wanted.config().items():
        has = found.get(field, _ABSENT.get(field))
        if field == "subjects":
            value, has = sorted(value), sorted(has or [])
        if field == "num_replicas" and isinstance(has, int) and has >= value:
            continue
        if has != value:
            differences.append(Drift(field, value, has))
    for field in _MUST_BE_OFF:
        if found.get(field):
            differences.append(Drift(field, None, found[field]))
    if not wanted.any_persist_mode and found.get("persist_mode") not in (None, "", "default"):
        differences.append(Drift("persist_mode", "default", found["persist_mode"]))
    return differences


#: What the server leaves out of its answer when it is switched off.
_ABSENT: Final[dict[str, Any]] = {"deny_delete": False, "deny_purge": False, "allow_direct": False, "max_age": 0}


async def provision(
    connection: connect.Connection, wanted: streams.Stream, *, create: bool = True, change: bool = False
) -> None:
    """The stream is as wanted when this returns.

    `create` makes a missing one; never over one that is known to have existed: a role that holds a position checks it
    first (EventStore.verify). Raises Misconfigured with one line otherwise, Unavailable when JetStream does not answer.
    """
    connection.check()
    info = await api.stream_info(connection, wanted.name)
    if info is None:
        if not create:
            raise api.missing(wanted.name)
        info = await _made(connection, wanted)
    differences = drift(wanted, info["config"])
    if differences and change and all(one.safe for one in differences):
        info = await _changed(connection, info["config"], differences)
        log.info("stream changed", stream=wanted.name, fields=[one.field for one in differences])
        differences = drift(wanted, info["config"])
    if differences:
        raise store.Misconfigured(refusal(wanted.name, differences))


async def _made(connection: connect.Connection, wanted: streams.Stream) -> dict[str, Any]:
    try:
        info = await api.call(connection, f"STREAM.CREATE.{wanted.name}", wanted.config(), timeout=5.0)
        log.info("stream made", stream=wanted.name)
    except api.ApiError as error:
        if error.err_code != api.NAME_IN_USE:
            raise store.Misconfigured(
                f"cannot make stream {wanted.name}: {error}; "
                "check the server's JetStream limits and this role's permissions"
            ) from error
        info = await api.stream_info(connection, wanted.name) or {}  # another role was first
    if not info:
        raise api.missing(wanted.name)
    return info


async def _changed(connection: connect.Connection, config: dict[str, Any], differences: list[Drift]) -> dict[str, Any]:
    """Written back whole: a setting that we do not know stays as it is."""
    wanted = {**config, **{one.field: one.wanted for one in differences}}
    try:
        return await api.call(connection, f"STREAM.UPDATE.{wanted['name']}", wanted, timeout=5.0)
    except api.ApiError as error:
        raise store.Misconfigured(f"cannot change stream {wanted['name']}: {error}") from error


def refusal(name: str, differences: list[Drift]) -> str:
    """One line: which stream, each field with wanted and found, what to do."""
    listed = "; ".join(f"{one.field}: wanted {_shown(one.wanted)}, found {_shown(one.found)}" for one in differences)
    options = " ".join(_option(one) for one in differences if one.field in _OPTIONS)
    remedy = (
        f"set them with `{' '.join(['nats stream edit', name, options]).rstrip()}` or change this role's flags to match"
    )
    if not all(one.safe for one in differences):
        remedy += "; what the server refuses to change needs another stream: move this one away, a new one is made"
    return f"stream {name} is not as Warmlog needs it: {listed}; {remedy}"


#: How the nats command line calls what a stream may be edited in.
_OPTIONS: Final = {
    "max_bytes": "max-bytes",
    "max_age": "max-age",
    "max_msg_size": "max-msg-size",
    "duplicate_window": "dupe-window",
    "num_replicas": "replicas",
    "discard": "discard",
}


def _option(one: Drift) -> str:
    """`--name=value` as that command line takes it."""
    value = one.wanted
    if one.field in ("max_age", "duplicate_window"):
        value = f"{value / 1e9:g}s"
    return f"--{_OPTIONS[one.field]}={value}"


def _shown(value: Any) -> str:
    if isinstance(value, list) and len(value) > 4:
        return f"{value[0]}, {value[1]} … {value[-1]} ({len(value)})"
    return "off" if value is None else repr(value)
