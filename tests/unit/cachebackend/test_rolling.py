"""Engines are rolled when the server behind them was replaced, and only then."""

import pytest

from crds import core
from handlers.cachebackend import names
from handlers.outcome import Key
from tests.support.backends import (
    KEY,
    MANAGED,
    backend,
    change,
    deployment,
    engine,
    owned_by,
    patches,
    replica_set,
    rolled_world,
    server,
    settle,
)


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
