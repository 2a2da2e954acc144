"""A Deployment's bounds and what its status tells."""

from typing import Any

import pytest

from devkube.simulation.client import stamp
from devkube.simulation.owning import amount, fingerprint
from devkube.simulation.progress import bounds, status_of

NOW = 1_800_000_000.0


def spec(replicas: int, surge: Any = "25%", unavailable: Any = "25%") -> Any:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}
    return {"replicas": replicas, "strategy": strategy, "progressDeadlineSeconds": 60}


def deployment(replicas: int = 2, **status: Any) -> Any:
    return {"metadata": {"generation": 3}, "spec": spec(replicas), "status": status}


def replicas(name: str, there: int, ready: int, **status: Any) -> Any:
    counts = {"replicas": there, "readyReplicas": ready, "availableReplicas": ready, **status}
    return {"metadata": {"name": name}, "spec": {"replicas": there}, "status": counts}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (spec(4), (1, 1)),
        (spec(3), (1, 0)),  # surge is rounded up, unavailable down
        (spec(1, 0, "50%"), (0, 1)),  # both nothing would never end
        (spec(10, 3, 20), (3, 10)),
        ({"replicas": 3, "strategy": {"type": "Recreate"}}, (0, 0)),
    ],
)
def test_bounds(given: Any, expected: Any) -> None:
    assert bounds(given) == expected


def reason(status: Any, kind: str = "Progressing") -> str:
    return str(next(one["reason"] for one in status["conditions"] if one["type"] == kind))


def test_from_the_first_replicaset_to_completion() -> None:
    found, new = deployment(), replicas("new", 0, 0)
    status, again, complete = status_of(found, new, [new], NOW, made=True)
    assert (reason(status), again, complete) == ("NewReplicaSetReason", 60, False)
    assert reason(status, "Available") == "MinimumReplicasUnavailable"
    new = replicas("new", 2, 1)
    status, again, _ = status_of(deployment(**status), new, [new], NOW + 10, made=False)
    assert (reason(status), status["unavailableReplicas"]) == ("ReplicaSetUpdated", 1)
    stuck, again, _ = status_of(deployment(**status), new, [new], NOW + 40, made=False)
    assert (reason(stuck), again) == ("ReplicaSetUpdated", 30)
    late, again, _ = status_of(deployment(**stuck), new, [new], NOW + 70, made=False)
    assert (reason(late), again) == ("ProgressDeadlineExceeded", None)
    new = replicas("new", 2, 2)
    done, _, complete = status_of(deployment(**late), new, [new], NOW + 80, made=False)
    assert (reason(done), complete, done["observedGeneration"]) == ("NewReplicaSetAvailable", True, 3)
    lost = replicas("new", 2, 1)
    after, again, _ = status_of(deployment(**done), lost, [lost], NOW + 500, made=False)
    assert (reason(after), again) == ("NewReplicaSetAvailable", None)


def test_an_old_replicaset_keeps_it_from_being_complete() -> None:
    new, old = replicas("new", 2, 2), replicas("old", 1, 1)
    status, _, complete = status_of(deployment(), new, [new, old], NOW, made=False)
    assert (status["replicas"], status["updatedReplicas"], complete) == (3, 2, False)


def test_times_move_only_with_the_status() -> None:
    new = replicas("new", 2, 2)
    first, _, _ = status_of(deployment(), new, [new], NOW, made=False)
    second, _, _ = status_of(deployment(**first), new, [new], NOW + 100, made=False)
    assert second == first
    assert first["conditions"][0]["lastTransitionTime"] == stamp(NOW)


def test_amounts_and_fingerprints() -> None:
    assert [amount("25%", 10, up=True), amount("25%", 10, up=False), amount(3, 10, up=True)] == [3, 2, 3]
    one, same, other = ({"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 1, "b": 3})
    assert fingerprint(one) == fingerprint(same) != fingerprint(other)
    assert fingerprint(one) != fingerprint(one, 1)
    assert len(fingerprint(one)) == 10
