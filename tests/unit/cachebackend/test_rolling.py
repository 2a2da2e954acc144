"""Engines are rolled when the server behind them was replaced, and only then."""

import pytest

from crds import core
from handlers.cachebackend import names
from handlers.outcome import Key, Outcome
from handlers.world.reader import Reader
from tests.support.backends import (
    KEY,
    MANAGED,
    backend,
    change,
    deployment,
    engine,
    look,
    owned_by,
    patches,
    replica_set,
    rolled_world,
    server,
    settle,
)
from tests.support.worlds import SECOND, Teller


def test_engines_are_rolled_when_their_server_was_replaced() -> None:
    told = rolled_world()
    told.seen(core.PODS, server("s0"))
    assert settle(told)[0]["observedServerInstance"] == "uid-s0:0"
    assert patches(told) == []
    told.seen(core.PODS, server("s0", restarts=1))
    (patch,) = patches(told)
    assert patch.key == Key(core.DEPLOYMENTS, "ml", "engine")
    trigger = patch.patch["spec"]["template"]["metadata"]["annotations"]
    assert trigger == {names.RESTART_TRIGGER: "uid-s0:1"}
    assert settle(told)[0]["observedServerInstance"] == "uid-s0:1"


def test_no_ready_server_keeps_what_was_known() -> None:
    told = rolled_world()
    told.seen(core.PODS, server("s0"))
    settle(told)
    told.gone(core.PODS, "ml", "s0")
    assert settle(told)[0]["observedServerInstance"] == "uid-s0:0"
    told.seen(core.PODS, server("s1"))
    assert len(patches(told)) == 1


def test_a_pod_that_only_copies_the_labels_is_no_server() -> None:
    told = rolled_world()
    told.seen(core.PODS, server("s0"))
    settle(told)
    stray = server("a-stray", owner="nobody")
    told.seen(core.PODS, stray)
    assert settle(told)[0]["observedServerInstance"] == "uid-s0:0"
    told.gone(core.PODS, "ml", "a-stray")
    assert patches(told) == []


def test_a_foreign_deployment_of_the_name_has_no_servers() -> None:
    told = rolled_world()
    told.seen(core.DEPLOYMENTS, deployment(owner=[]))
    told.seen(core.PODS, server("s0"))
    assert "observedServerInstance" not in settle(told)[0]


def test_a_restart_of_somebody_else_s_container_rolls_nothing() -> None:
    told = rolled_world()
    told.seen(core.PODS, server("s0"))
    settle(told)
    crashed = server("s0")
    crashed["status"]["containerStatuses"][1]["restartCount"] = 41
    told.seen(core.PODS, crashed)
    assert patches(told) == []


def test_a_scale_up_widens_what_is_watched_once_it_has_converged() -> None:
    told = rolled_world()
    told.seen(KEY.kind, backend(**MANAGED, replicas=2))
    told.seen(core.PODS, server("s0"))
    settle(told)
    told.seen(core.PODS, server("s1"))
    assert settle(told)[0]["observedServerInstance"] == "uid-s0:0"
    grown = deployment(available=2, replicas=2)
    grown["status"] |= {"replicas": 2, "updatedReplicas": 2}
    told.seen(core.DEPLOYMENTS, grown)
    assert settle(told)[0]["observedServerInstance"] == "uid-s0:0,uid-s1:0"
    told.gone(core.PODS, "ml", "s1")
    assert len(patches(told)) == 1


@pytest.mark.parametrize("uid", ["uid-kv", "uid-older", ""])
def test_only_engines_that_were_wired_to_this_very_backend_are_rolled(uid: str) -> None:
    told = rolled_world()
    told.seen(core.PODS, server("s0"))
    settle(told)
    other = engine("e1", owner=owned_by("ReplicaSet", "rs2"))
    other["metadata"]["annotations"][names.INJECTED_BY_UID] = uid
    told.seen(core.DEPLOYMENTS, deployment(name="second", owner=[]))
    told.seen(core.REPLICA_SETS, replica_set("rs2", "second"))
    told.seen(core.PODS, other)
    told.seen(core.PODS, server("s0", restarts=1))
    rolled = [one.key.name for one in patches(told)]
    assert rolled == (["engine", "second"] if uid == "uid-kv" else ["engine"])


def test_a_backend_without_a_server_forgets_it_and_comes_back_with_a_new_baseline() -> None:
    told = rolled_world()
    told.seen(core.PODS, server("s0"))
    settle(told)
    change(told, 2)
    assert "observedServerInstance" not in settle(told)[0]
    told.gone(core.PODS, "ml", "s0")
    told.seen(core.PODS, server("s1"))
    change(told, 3, **MANAGED)
    assert patches(told) == []
    assert settle(told)[0]["observedServerInstance"] == "uid-s1:0"


def second_engine(told: Teller) -> None:
    told.seen(core.DEPLOYMENTS, deployment(name="second", owner=[]))
    told.seen(core.REPLICA_SETS, replica_set("rs2", "second"))
    told.seen(core.PODS, engine("e1", owner=owned_by("ReplicaSet", "rs2")))


def test_the_baseline_moves_only_when_every_engine_was_rolled() -> None:
    """One that could not be patched is tried again, at once, and the others are not rolled a second time."""
    told = rolled_world()
    second_engine(told)
    told.seen(core.PODS, server("s0"))
    settle(told)
    told.seen(core.PODS, server("s0", restarts=1))
    outcome = look(told)
    first, second = patches(told)
    told.carry_out(KEY, Outcome(intents=tuple(one for one in outcome.intents if one is not second and one != second)))
    assert Reader(told.world).status(KEY, {})["observedServerInstance"] == "uid-s0:0"
    assert patches(told) == [second]
    assert first.key != second.key
    assert settle(told)[0]["observedServerInstance"] == "uid-s0:1"
    assert patches(told) == []


def test_a_server_that_flaps_rolls_its_engines_once_in_thirty_seconds() -> None:
    told = rolled_world()
    told.seen(core.PODS, server("s0"))
    settle(told)
    told.seen(core.PODS, server("s0", restarts=1))
    settle(told)
    told.seen(core.PODS, server("s0", restarts=2))
    assert patches(told) == []
    assert 0 < look(told).again_ns - told.world.now_ns <= 30 * SECOND
    assert settle(told)[0]["observedServerInstance"] == "uid-s0:1"
    told.passed(30)
    assert [one.patch["spec"]["template"]["metadata"]["annotations"] for one in patches(told)] == [
        {names.RESTART_TRIGGER: "uid-s0:2"}
    ]


def test_a_server_without_engines_moves_its_baseline_at_once() -> None:
    told = rolled_world()
    told.seen(core.PODS, server("s0"))
    settle(told)
    told.gone(core.PODS, "ml", "e0")
    told.seen(core.PODS, server("s0", restarts=1))
    assert settle(told)[0]["observedServerInstance"] == "uid-s0:1"
