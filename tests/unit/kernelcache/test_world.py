"""What the log and the world keep of Kernel Cache's objects."""

import json
from typing import Any

import pytest

from crds import core, kernelcache
from handlers.kernelcache import config, names
from handlers.world import keyframe
from handlers.world.reader import Reader
from subscribers.kubernetes.narrow import narrow
from subscribers.kubernetes.routes import ROUTES
from tests.support import kernelcaches as kc

GOOD, BAD = {"enabled": True, "jobNamespace": "jobs"}, '{"enabled": true, "jobNamespace": ""}'


def test_a_keyframe_keeps_the_last_good_configuration_and_what_is_wrong_with_the_newest() -> None:
    made = kc.Cluster(GOOD)
    made.configure(BAD)
    world = made.teller.world
    lines = list(keyframe.cut(keyframe.rows(keyframe.freeze(world))))
    loaded, digest = keyframe.load(lines, incarnation="i")
    assert digest == keyframe.digest(world)
    for one in (world, loaded):
        standing = config.standing(Reader(one), "kserve")
        assert standing.config.job_namespace == "jobs"
        assert "jobNamespace must not be empty" in standing.problem


def test_a_good_configuration_takes_the_problem_away() -> None:
    made = kc.Cluster(BAD)
    assert not config.standing(Reader(made.teller.world), "kserve").config.enabled
    made.configure(GOOD)
    assert config.standing(Reader(made.teller.world), "kserve") == (config.read(json.dumps(GOOD)), "")


def test_of_a_config_map_one_key_is_told_and_of_a_node_its_labels() -> None:
    document: dict[str, Any] = {
        "metadata": {"name": names.CONFIG_MAP, "namespace": "kserve", "uid": "u", "annotations": {"a": "hunter2"}},
        "data": {names.CONFIG_KEY: "{}", "credentials": "hunter2", "storageInitializer": "hunter2"},
    }
    found = narrow(core.CONFIG_MAPS, json.dumps(document).encode())
    assert found.object["data"] == {names.CONFIG_KEY: "{}"}
    assert "hunter2" not in json.dumps(found.object)
    node = {
        "metadata": {"name": "n", "uid": "u", "labels": {"a": "b"}, "annotations": {"x": "hunter2"}},
        "spec": {"providerID": "hunter2"},
        "status": {"images": [{"names": ["hunter2"]}]},
    }
    told = narrow(core.NODES, json.dumps(node).encode())
    assert told.object == {"metadata": {"name": "n", "uid": "u", "labels": {"a": "b"}}}


def test_no_other_config_map_is_listed_or_watched() -> None:
    assert ROUTES[core.CONFIG_MAPS].query == {"fieldSelector": f"metadata.name={names.CONFIG_MAP}"}


@pytest.mark.parametrize("kind", [kernelcache.NODE_GROUPS, kernelcache.NODES, kernelcache.CAPTURES, kernelcache.CACHES])
def test_what_is_seen_of_a_custom_resource_is_read_back(kind: str) -> None:
    cache = kc.cache("c1", kc.pod())
    documents = {
        kernelcache.NODE_GROUPS: {"metadata": {"name": "g"}, "spec": {"nodeSelector": {"gpu": "h100"}}},
        kernelcache.NODES: kc.node("n1", cache),
        kernelcache.CAPTURES: {
            "metadata": {"name": "c", "namespace": "n"},
            "spec": {"sourceRef": {"kind": "InferenceService", "name": "chat"}},
            "status": {"phase": "Capturing", "runtimeResult": {"state": "Capturing"}},
        },
        kernelcache.CACHES: cache,
    }
    first = narrow(kind, json.dumps(documents[kind]).encode())
    assert first.problem == ""
    again = narrow(kind, json.dumps(first.object).encode())
    assert (again.object, again.value) == (first.object, first.value)
