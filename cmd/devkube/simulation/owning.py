"""Pods and their owners: which are whose, how one is made, which count as ready or available, which go first."""

import hashlib
import math
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from devkube.errors import StatusError
from devkube.kinds import Object
from devkube.selectors import selector_text
from devkube.simulation.client import Client, unix
from devkube.simulation.podstatus import condition
from devkube.values import clone

_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
REVISION = "controller-revision-hash"


def fingerprint(template: Mapping[str, Any], salt: int = 0) -> str:
    """Ten letters that tell one Pod template from another."""
    text = msgspec.json.encode([template, salt], order="sorted")
    number, found = int.from_bytes(hashlib.sha256(text).digest()[:8]), ""
    for _ in range(10):
        number, letter = divmod(number, len(_LETTERS))
        found += _LETTERS[letter]
    return found


def controller(obj: Object) -> Mapping[str, Any]:
    return next((one for one in obj["metadata"].get("ownerReferences") or () if one.get("controller")), {})


def reference(owner: Object) -> Object:
    meta = owner["metadata"]
    own = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": meta["name"], "uid": meta["uid"]}
    return {**own, "controller": True, "blockOwnerDeletion": True}


async def claim(client: Client, owner: Object, kind: str) -> list[Object]:
    """What the owner's selector matches and it controls; what nobody controls it makes its own."""
    meta, selector = owner["metadata"], owner["spec"].get("selector")
    found = []
    for one in await client.list(kind, meta["namespace"], labels=selector_text(selector)):
        uid = controller(one).get("uid")
        if uid is None and not meta.get("deletionTimestamp") and not one["metadata"].get("deletionTimestamp"):
            references = [*(one["metadata"].get("ownerReferences") or ()), reference(owner)]
            found.append(await client.patch(one, {"metadata": {"ownerReferences": references}}))
        elif uid == meta["uid"]:
            found.append(one)
    return found


def pod_of(
    owner: Object, template: Mapping[str, Any], *, name: str = "", labels: Mapping[str, str] | None = None
) -> Object:
    """A Pod of a template; without a name it gets one of its owner's."""
    meta = template.get("metadata") or {}
    own: Object = {
        "namespace": owner["metadata"]["namespace"],
        "labels": {**(meta.get("labels") or {}), **(labels or {})},
        "annotations": dict(meta.get("annotations") or {}),
        "finalizers": list(meta.get("finalizers") or ()),
        "ownerReferences": [reference(owner)],
        **({"name": name} if name else {"generateName": f"{owner['metadata']['name']}-"}),
    }
    return {"metadata": {k: v for k, v in own.items() if v}, "spec": clone(template["spec"])}


async def make(client: Client, owner: Object, pod: Object) -> None:
    """With its Event; a refusal is one too, and goes on."""
    try:
        made = await client.create("Pod", pod)
    except StatusError as error:
        await client.tell(owner, "FailedCreate", f"Error creating: {error}", warning=True)
        raise
    await client.tell(owner, "SuccessfulCreate", f"Created pod: {made['metadata']['name']}")


async def drop(client: Client, owner: Object, pod: Object) -> None:
    await client.delete(pod)
    await client.tell(owner, "SuccessfulDelete", f"Deleted pod: {pod['metadata']['name']}")


def over(pod: Object) -> bool:
    return phase(pod) in ("Succeeded", "Failed")


def active(pod: Object) -> bool:
    return not pod["metadata"].get("deletionTimestamp") and not over(pod)


def phase(pod: Object) -> str:
    return str((pod.get("status") or {}).get("phase") or "")


def ready(pod: Object) -> bool:
    return condition(pod, "Ready").get("status") == "True"


def available_in(pod: Object, least: float, now: float) -> float:
    """In how many seconds a Pod has been ready for `least` seconds: 0 or less, it has; infinite, it is not ready."""
    if not ready(pod):
        return math.inf
    return unix(condition(pod, "Ready")["lastTransitionTime"]) + least - now if least else 0.0


def count_available(pods: Iterable[Object], least: float, now: float) -> tuple[int, float | None]:
    """How many are available, and in how many seconds the next one will be."""
    left = [available_in(one, least, now) for one in pods]
    return sum(one <= 0 for one in left), min((one for one in left if 0 < one < math.inf), default=None)


def expendable(pod: Object) -> tuple[bool, bool, bool, float, str]:
    """The order in which Pods go when there are too many: not placed, not running, not ready, younger ones first."""
    since = condition(pod, "Ready").get("lastTransitionTime") if ready(pod) else None
    made = pod["metadata"]["creationTimestamp"]
    age = unix(since or made)
    return bool(pod["spec"].get("nodeName")), phase(pod) == "Running", ready(pod), -age, pod["metadata"]["name"]


def amount(value: Any, whole: int, *, up: bool) -> int:
    """A number, or a percentage of `whole`."""
    if isinstance(value, str) and value.endswith("%"):
        part = whole * int(value[:-1])
        return -(-part // 100) if up else part // 100
    return int(value or 0)
