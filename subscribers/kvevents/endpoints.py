"""Which sockets a subscriber opens for an engine: the rules of KV event endpoints and data-parallel ranks. Pure.

Rank r publishes at port + r and replays at replay port + r. An engine is configured with a wildcard (`tcp://*:5557`)
because that makes it bind; a subscriber that was given the same text dials 127.0.0.1 instead and says so. What cannot
work raises EndpointError with one line for the author of the flag.

Not here: whether anything answers there. Rules: TR-07, TR-08, TR-09, TR-10.
"""

from typing import Final

import msgspec

_LOOPBACK: Final = {"*": "127.0.0.1", "0.0.0.0": "127.0.0.1", "[::]": "[::1]", "::": "[::1]"}
_APART: Final = 100  # a distance of ports that no engine's rank count reaches


class EndpointError(ValueError):
    """An endpoint that cannot work; the message says what to give instead."""


class RankEndpoints(msgspec.Struct, frozen=True):
    """The two addresses of one rank, as a client dials them."""

    rank: int
    events: str
    replay: str | None


class Plan(msgspec.Struct, frozen=True):
    """One entry per rank; hints are lines for the log."""

    ranks: tuple[RankEndpoints, ...]
    hints: tuple[str, ...]


class _Address(msgspec.Struct, frozen=True):
    host: str
    port: int

    def at(self, rank: int) -> str:
        return f"tcp://{self.host}:{self.port + rank}"


def plan(events: str, replay: str | None, ranks: int = 1) -> Plan:
    """The sockets of an engine with `ranks` data-parallel ranks. Raises EndpointError."""
    if ranks < 1:
        raise EndpointError(f"{ranks} data-parallel ranks: there is at least 1")
    if events.startswith("ipc://"):
        return _ipc_plan(events, replay, ranks)
    hints: list[str] = []
    publish = _take_apart(events, "the engine endpoint", ranks, hints)
    again = None if replay is None else _take_apart(replay, "the replay endpoint", ranks, hints)
    if again is not None:
        _refuse_overlap(publish, again, ranks)
    return Plan(
        ranks=tuple(
            RankEndpoints(rank, publish.at(rank), None if again is None else again.at(rank)) for rank in range(ranks)
        ),
        hints=tuple(hints),
    )


def _ipc_plan(events: str, replay: str | None, ranks: int) -> Plan:
    """An ipc path has no port to add a rank to, and engines raise for rank 1 there."""
    if ranks > 1:
        raise EndpointError(f"{events} serves one rank only: use tcp://HOST:PORT for {ranks} data-parallel ranks")
    if replay is not None and not replay.startswith("ipc://"):
        return Plan((RankEndpoints(0, events, plan(replay, None).ranks[0].events),), plan(replay, None).hints)
    if replay == events:
        raise EndpointError(f"{events} cannot be both the engine endpoint and the replay endpoint")
    return Plan((RankEndpoints(0, events, replay),), ())


def _take_apart(text: str, what: str, ranks: int, hints: list[str]) -> _Address:
    if text.startswith("inproc://"):
        raise EndpointError(f"{what} {text} exists only inside the engine's own process: use tcp://HOST:PORT")
    host, _, port = text.removeprefix("tcp://").rpartition(":")
    number = port.isascii() and port.isdigit() and len(port) <= 9
    if not text.startswith("tcp://") or not host or not (port == "*" or number):
        raise EndpointError(f"{what} {text!r} is no address: give tcp://HOST:PORT, as in tcp://127.0.0.1:5557")
    if port == "*" or int(port) == 0:
        raise EndpointError(f"{what} {text} leaves the port to the engine's machine: give the engine a fixed port")
    if int(port) + ranks - 1 > 65535:
        raise EndpointError(f"{what} {text} with {ranks} ranks reaches port {int(port) + ranks - 1}, above 65535")
    if (dialled := _LOOPBACK.get(host)) is not None:
        hints.append(f"{what} {text} is where an engine binds; dialling {dialled}:{port} on this machine")
        host = dialled
    return _Address("127.0.0.1" if host == "localhost" else host, int(port))


def _refuse_overlap(events: _Address, replay: _Address, ranks: int) -> None:
    """Rank r binds both bases + r, so the bases must lie at least the number of ranks apart."""
    if events.host != replay.host or abs(events.port - replay.port) >= ranks:
        return
    collision = max(events.port, replay.port)
    raise EndpointError(
        f"port {collision} would be both the event port of rank {collision - events.port} and the replay port of rank "
        f"{collision - replay.port}: put the replay endpoint at port {events.port + max(_APART, ranks)}"
    )
