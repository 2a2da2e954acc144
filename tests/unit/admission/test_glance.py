"""Views of Pods made from bytes are the views made from the object, whatever the Pod and whatever is remembered."""

import copy
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.admission import cache, glance, view
from handlers.admission.glance import Glancer
from handlers.cachebackend.admit import ALLOW
from tests.support import reviews
from tests.unit.admission.test_view import CANARY, JSON, PLACES
from tests.unit.cachebackend.test_inject import PODS

GLANCER = Glancer(ALLOW)


def agrees(document: dict[str, Any]) -> bool:
    """Whether a glance was enough; what it saw is what `view` sees."""
    seen = GLANCER.look(msgspec.json.encode(document))
    if seen is None:
        return False
    whole = view.view(document, ALLOW)
    assert msgspec.json.decode(seen.view) == whole.object
    assert seen.values == whole.values
    assert seen.likeness == cache.likeness(whole.object)
    assert whole.fill(whole.object) == {**document, "metadata": without_managed(document["metadata"])}
    return True


def without_managed(metadata: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in metadata.items() if name != "managedFields"}


@given(PODS)
def test_any_pod(pod: dict[str, Any]) -> None:
    for _ in range(2):
        agrees(pod)


@given(st.dictionaries(st.sampled_from(["metadata", "spec", "kind"]), JSON, max_size=3))
def test_anything(document: dict[str, Any]) -> None:
    agrees(document)


def test_an_engine_of_a_deployment_is_seen_at_a_glance() -> None:
    for number in range(3):
        text = json.dumps(reviews.ENGINE).replace("kube-api-access-x7k2p", f"kube-api-access-{number}abcd")
        assert agrees(json.loads(text))
    likenesses = {GLANCER.look(msgspec.json.encode(pod(number))).likeness for number in range(3)}  # type: ignore[union-attr]
    assert len(likenesses) == 1


def test_a_pod_that_spells_what_another_was_remembered_by_is_looked_at_whole() -> None:
    text = json.dumps(reviews.ENGINE, ensure_ascii=False)
    assert agrees(json.loads(text))
    assert GLANCER.look(text.replace("kube-api-access-x7k2p", view.ACCESS_TOKEN).encode()) is None


def test_a_large_pod_is_not_remembered() -> None:
    large = pod(1)
    large["spec"]["containers"][0]["env"].append({"name": "LONG", "value": "x" * glance.LARGEST})
    assert not agrees(large)


def pod(number: int) -> dict[str, Any]:
    found = copy.deepcopy(reviews.ENGINE)
    found["metadata"] |= {"name": f"qwen-{number}", "uid": str(number)}
    found["spec"]["containers"][0]["env"].append({"name": "KEY", "value": f"secret {number}"})
    return found


def test_the_name_of_the_accounts_volume_may_be_in_a_value() -> None:
    """It is put back there too, and is no token of its own where there are two such names."""
    found = pod(1)
    found["spec"]["containers"][0]["args"] += ["--mount=kube-api-access-x7k2p", "kube-api-access-x7k2p"]
    assert agrees(found)
    found["spec"]["containers"][0]["args"] += ["kube-api-access-other"]
    assert agrees(found)


@pytest.mark.parametrize("place", PLACES)
def test_a_secret_is_in_no_view(place: str) -> None:
    document = {"metadata": {}, "spec": {}, **PLACES[place]}
    seen = GLANCER.look(msgspec.json.encode(document))
    assert seen is None or CANARY.encode() not in seen.view
    assert seen is None or CANARY.encode() not in seen.likeness


@pytest.mark.parametrize("spelled", ["hunter2\\u0040host", "\\u27e61\\u27e7", "https:\\/\\/u:hunter2@h"])
def test_what_is_spelled_with_escapes_is_looked_at_whole(spelled: str) -> None:
    """In what is remembered, and beside it."""
    for place in ("image", "generateName"):
        metadata = f'{{"{place}":"{spelled}"}}' if place == "generateName" else "{}"
        image = spelled if place == "image" else "i"
        raw = f'{{"metadata":{metadata},"spec":{{"containers":[{{"name":"a","image":"{image}"}}]}}}}'
        seen = GLANCER.look(raw.encode())
        if seen is not None:
            assert msgspec.json.decode(seen.view) == view.view(json.loads(raw), ALLOW).object


@pytest.mark.parametrize("raw", [b"", b"null", b"[]", b'{"metadata":[]}', b'{"spec":{}}', b"{", b"[" * 10_000])
def test_what_is_no_pod_is_nothing_to_glance_at(raw: bytes) -> None:
    assert GLANCER.look(raw) is None
