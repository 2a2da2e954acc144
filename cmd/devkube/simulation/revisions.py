"""ControllerRevisions: the templates that a StatefulSet or a DaemonSet had, for `kubectl rollout undo` and partitions.

Their form is upstream's (pkg/controller/history): a strategic merge patch that replaces the template.
"""

from devkube.kinds import Object
from devkube.simulation import owning
from devkube.simulation.client import Client


async def record(client: Client, owner: Object, kept: str = "") -> str:
    """The name of the revision that the owner's template is, written down if it is new; one that came back becomes the
    newest. Those beyond revisionHistoryLimit go, but for `kept`."""
    meta, spec = owner["metadata"], owner["spec"]
    name = f"{meta['name']}-{owning.fingerprint(spec['template'])}"
    found = sorted(await owning.claim(client, owner, "ControllerRevision"), key=lambda one: int(one["revision"]))
    number = found[-1]["revision"] + 1 if found else 1
    own = next((one for one in found if one["metadata"]["name"] == name), None)
    if own is None:
        made: Object = {
            "metadata": {
                "name": name,
                "namespace": meta["namespace"],
                "labels": {**(spec["template"]["metadata"].get("labels") or {}), owning.REVISION: name},
                "annotations": _causes(owner),
                "ownerReferences": [owning.reference(owner)],
            },
            "data": {"spec": {"template": {**spec["template"], "$patch": "replace"}}},
            "revision": number,
        }
        await client.create("ControllerRevision", made)
    elif own is not found[-1]:
        await client.patch(own, {"revision": number})
    past = [one for one in found if one["metadata"]["name"] not in (name, kept)]
    for one in past[: max(0, len(past) - spec.get("revisionHistoryLimit", 10))]:
        await client.delete(one)
    return name


async def template(client: Client, owner: Object, name: str) -> Object:
    """The template of a revision; that of now when it is forgotten."""
    found = await client.get("ControllerRevision", owner["metadata"]["namespace"], name)
    told: Object = found["data"]["spec"]["template"] if found else owner["spec"]["template"]
    return {key: value for key, value in told.items() if key != "$patch"}


def _causes(owner: Object) -> dict[str, str]:
    own = owner["metadata"].get("annotations") or {}
    return {key: value for key, value in own.items() if key == "kubernetes.io/change-cause"}
