"""Answers that are not objects of the store: evictions, bindings, tokens; and the rules of the CRD kind."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from devkube import wiring
from devkube.deleting import CRDS
from devkube.errors import StatusError
from devkube.options import Settings
from devkube.requests import Admission, Attributes
from devkube.server import DevKube

NS = "/api/v1/namespaces/default"
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}


@pytest.fixture
async def api() -> AsyncIterator[DevKube]:
    async with DevKube(Settings()) as api:
        await api.request("POST", f"{NS}/pods", POD)
        yield api


def binding(name: str = "p", node: str = "n1") -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": {"kind": "Node", "name": node}}


async def test_a_binding_gives_the_pod_its_node_once(api: DevKube) -> None:
    done = await api.request("POST", f"{NS}/pods/p/binding", binding())
    assert (done["kind"], done["status"]) == ("Status", "Success")
    pod = await api.request("GET", f"{NS}/pods/p")
    assert pod["spec"]["nodeName"] == "n1"
    assert {"type": "PodScheduled", "status": "True"}.items() <= pod["status"]["conditions"][-1].items()
    with pytest.raises(StatusError, match='already assigned to node "n1"'):
        await api.request("POST", f"{NS}/pods/p/binding", binding(node="n2"))


async def test_a_binding_without_a_node_is_none(api: DevKube) -> None:
    with pytest.raises(StatusError) as caught:
        await api.request("POST", f"{NS}/pods/p/binding", binding(node=""))
    assert caught.value.code == 422


async def test_what_a_webhook_makes_of_a_binding_is_decoded_too(api: DevKube) -> None:
    class Bending(Admission):
        async def mutate(self, attributes: Attributes) -> Any:
            return {**(attributes.object or {}), "target": 7}

    api.verbs.admission = Bending()
    with pytest.raises(StatusError, match="cannot unmarshal number 7 into field target") as caught:
        await api.request("POST", f"{NS}/pods/p/binding", binding())
    assert caught.value.code == 400


async def test_an_eviction_is_a_deletion(api: DevKube) -> None:
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    with pytest.raises(StatusError, match="name in URL does not match"):
        await api.request("POST", f"{NS}/pods/p/eviction", {**eviction, "metadata": {"name": "q"}})
    stale = {**eviction, "deleteOptions": {"preconditions": {"uid": "other"}}}
    with pytest.raises(StatusError, match="does not match the UID in record"):
        await api.request("POST", f"{NS}/pods/p/eviction", stale)
    await api.request("POST", f"{NS}/pods/p/eviction", eviction)
    with pytest.raises(StatusError) as caught:
        await api.request("GET", f"{NS}/pods/p")
    assert caught.value.code == 404


async def test_a_token_is_good_where_it_was_made(api: DevKube) -> None:
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    made = await api.request("POST", f"{NS}/serviceaccounts/default/token", asked)
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": made["status"]}
    found = await api.request("POST", "/apis/authentication.k8s.io/v1/tokenreviews", review)
    assert found["status"]["user"]["username"] == "system:serviceaccount:default:default"


def test_crds_have_rules_of_their_own_and_nobody_else() -> None:
    own = [one.key for one in wiring.builtins() if isinstance(one.rules, wiring._DefinitionRules)]
    assert own == [CRDS]
