"""Addresses of an engine's ranks. Excluded: whether anything answers there."""

import pytest

from subscribers.kvevents import endpoints

BAD = {
    "port left to chance": ("tcp://*:0", None, 1, "fixed port"),
    "port left to chance by a star": ("tcp://*:*", None, 1, "fixed port"),
    "replay port left to chance": ("tcp://127.0.0.1:5557", "tcp://127.0.0.1:0", 1, "replay endpoint"),
    "adjacent ports with two ranks": ("tcp://*:5557", "tcp://*:5558", 2, "port 5558"),
    "replay below events": ("tcp://h:5560", "tcp://h:5558", 4, "port 5560"),
    "the same port twice": ("tcp://h:5557", "tcp://h:5557", 1, "port 5557"),
    "the same port under two names": ("tcp://localhost:5557", "tcp://127.0.0.1:5557", 1, "port 5557"),
    "beyond the last port": ("tcp://h:65535", None, 2, "65536"),
    "no port": ("tcp://h", None, 1, "tcp://HOST:PORT"),
    "no host": ("tcp://:5557", None, 1, "tcp://HOST:PORT"),
    "no scheme": ("h:5557", None, 1, "tcp://HOST:PORT"),
    "inproc": ("inproc://events", None, 1, "inside the engine's own process"),
    "ipc with two ranks": ("ipc:///run/kv", None, 2, "one rank only"),
    "ipc twice": ("ipc:///run/kv", "ipc:///run/kv", 1, "both"),
    "no ranks": ("tcp://h:5557", None, 0, "at least 1"),
}


@pytest.mark.parametrize(("events", "replay", "ranks", "says"), BAD.values(), ids=BAD)
def test_what_cannot_work_is_refused_with_what_to_do(events: str, replay: str | None, ranks: int, says: str) -> None:
    with pytest.raises(endpoints.EndpointError, match=says):
        endpoints.plan(events, replay, ranks)


def test_the_collision_is_named_exactly_and_a_free_port_is_offered() -> None:
    with pytest.raises(endpoints.EndpointError) as refusal:
        endpoints.plan("tcp://*:5557", "tcp://*:5558", 2)
    assert str(refusal.value) == (
        "port 5558 would be both the event port of rank 1 and the replay port of rank 0: "
        "put the replay endpoint at port 5657"
    )


def test_each_rank_has_its_own_ports() -> None:
    plan = endpoints.plan("tcp://10.0.0.7:5557", "tcp://10.0.0.7:5657", 4)
    assert [(rank.events[-4:], (rank.replay or "")[-4:]) for rank in plan.ranks] == [
        ("5557", "5657"),
        ("5558", "5658"),
        ("5559", "5659"),
        ("5560", "5660"),
    ]
    assert plan.hints == ()


WILDCARDS = {
    "*": "tcp://127.0.0.1:5557",
    "0.0.0.0": "tcp://127.0.0.1:5557",
    "[::]": "tcp://[::1]:5557",
}


@pytest.mark.parametrize(("host", "dialled"), WILDCARDS.items())
def test_the_engines_own_wildcard_is_dialled_on_this_machine_and_said(host: str, dialled: str) -> None:
    plan = endpoints.plan(f"tcp://{host}:5557", None)
    assert plan.ranks[0].events == dialled
    assert "dialling" in plan.hints[0]


def test_an_ipc_path_serves_one_rank() -> None:
    assert endpoints.plan("ipc:///run/kv", "ipc:///run/replay").ranks == (
        endpoints.RankEndpoints(0, "ipc:///run/kv", "ipc:///run/replay"),
    )
    assert endpoints.plan("ipc:///run/kv", "tcp://*:5657").ranks[0].replay == "tcp://127.0.0.1:5657"


def test_far_enough_apart_is_no_collision() -> None:
    assert len(endpoints.plan("tcp://h:5557", "tcp://h:5561", 4).ranks) == 4
    assert len(endpoints.plan("tcp://a:5557", "tcp://b:5557", 1).ranks) == 1
