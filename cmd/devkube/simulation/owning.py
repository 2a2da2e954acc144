"""Pods and their owners: which are whose, how one is made, which are ready, which go first."""

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from devkube.errors import StatusError
from devkube.kinds import Object
from devkube.selectors import selector_text
from devkube.simulation.client import Client, condition
from devkube.values import clone

REVISION: Final = "controller-revision-hash"  # a Pod's label: the template that it was made of


def fingerprint(template: Mapping[str, Any]) -> str:
    """Ten letters that tell one Pod template from another."""
    return hashlib.sha256(msgspec.json.encode(template, order="sorted")).hexdigest()[:10]


def controller(obj: Object) -> Mapping[str, Any]:
    return next((one for one in obj["metadata"].get("ownerReferences") or () if one.get("controller")), {})


def reference(owner: Object) -> Object:
    meta = owner["metadata"]
    own = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": meta["name"], "uid": meta["uid"]}
    return {**own, "controller": True, "blockOwnerDeletion": True}


async def claim(client: Client, owner: Object, kind: str) -> list[Object]:
    """What the owner's selector matches and it controls; what nobody controls it makes its own."""
    meta, found = owner["metadata"], []
    for one in await client.list(kind, meta["namespace"], labels=selector_text(owner["spec"].get("selector"))):
        uid = controller(one).get("uid")
        if uid is None and not meta.get("deletionTimestamp") and not one["metadata"].get("deletionTimestamp"):
            references = [*(one["metadata"].get("ownerReferences") or ()), reference(owner)]
            found.append(await client.patch(one, {"metadata": {"ownerReferences": references}}))
        elif uid == meta["uid"]:
            found.append(one)
    return found


def pod_of(owner: Object, *, name: str = "", labels: Mapping[str, str] | None = None) -> Object:
    """A Pod of the owner's template; without a name it gets one of its owner's."""
    template = owner["spec"]["template"]
    meta = template.get("metadata") or {}
    own: Object = {
        "namespace": owner["metadata"]["namespace"],
        "labels": {**(meta.get("labels") or {}), **(labels or {})},
        "annotations": dict(meta.get("annotations") or {}),
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


def expendable(pod: Object) -> tuple[bool, bool, bool, str]:
    """The order in which Pods go when there are too many: not placed, not running, not ready first."""
    return bool(pod["spec"].get("nodeName")), phase(pod) == "Running", ready(pod), pod["metadata"]["name"]
