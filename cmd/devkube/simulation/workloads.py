"""What controllers share: whose Pods are whose, how one is made, which are ready."""

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from devkube.errors import StatusError
from devkube.kinds import Object
from devkube.selectors import selector_text
from devkube.simulation.client import Client, condition
from devkube.values import clone


def fingerprint(template: Mapping[str, Any]) -> str:
    """Ten letters that tell one Pod template from another."""
    return hashlib.sha256(msgspec.json.encode(template, order="sorted")).hexdigest()[:10]


def reference(owner: Object) -> Object:
    meta = owner["metadata"]
    own = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": meta["name"], "uid": meta["uid"]}
    return {**own, "controller": True, "blockOwnerDeletion": True}


async def owned(client: Client, owner: Object, kind: str = "Pod") -> list[Object]:
    """What the owner's selector matches and it controls. What nobody controls is not taken in."""
    labels = selector_text(owner["spec"].get("selector"))
    found = await client.list(kind, owner["metadata"]["namespace"], labels=labels)
    uid = owner["metadata"]["uid"]
    return [one for one in found if any(of["uid"] == uid for of in one["metadata"].get("ownerReferences") or ())]


def pod_of(owner: Object, *, name: str = "", labels: Mapping[str, str] | None = None) -> Object:
    """A Pod of the owner's template; without a name it gets one of its owner's."""
    template = owner["spec"]["template"]
    meta = template.get("metadata") or {}
    own: Object = {
        "namespace": owner["metadata"]["namespace"],
        "labels": {**(meta.get("labels") or {}), **(labels or {})},
        "annotations": meta.get("annotations") or {},
        "ownerReferences": [reference(owner)],
        **({"name": name} if name else {"generateName": f"{owner['metadata']['name']}-"}),
    }
    return {"metadata": own, "spec": clone(template["spec"])}


async def make(client: Client, owner: Object, pod: Object) -> None:
    """With its Event; a refusal is one too, and goes on."""
    try:
        made = await client.create("Pod", pod)
    except StatusError as error:
        await client.tell(owner, "FailedCreate", f"Error creating: {error}", warning=True)
        raise
    await client.tell(owner, "SuccessfulCreate", f"Created pod: {made['metadata']['name']}")


async def drop(client: Client, owner: Object, pod: Object) -> None:
    if not pod["metadata"].get("deletionTimestamp"):
        await client.delete(pod)
        await client.tell(owner, "SuccessfulDelete", f"Deleted pod: {pod['metadata']['name']}")


def phase(pod: Object) -> str:
    return str((pod.get("status") or {}).get("phase") or "")


def over(pod: Object) -> bool:
    return phase(pod) in ("Succeeded", "Failed")


def active(pod: Object) -> bool:
    return not pod["metadata"].get("deletionTimestamp") and not over(pod)


def ready(pod: Object) -> bool:
    return active(pod) and condition(pod, "Ready").get("status") == "True"
