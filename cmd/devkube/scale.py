"""The scale subresource: an object seen as autoscaling/v1 Scale, and a Scale written back.

Where the numbers stand is a matter of the resource (`Resource.scale_paths`); for built-in kinds and CRDs alike.
"""

from typing import Any

from devkube import selectors
from devkube.errors import About, Cause, invalid
from devkube.kinds import Object, Resource
from devkube.values import clone

KIND = ("autoscaling", "v1", "Scale")


def of(obj: Object, resource: Resource) -> Object:
    spec_path, status_path, selector_path = resource.scale_paths
    replicas = _at(obj, spec_path)
    status: dict[str, Any] = {"replicas": _at(obj, status_path) or 0}
    selector = _at(obj, selector_path) if resource.custom else selectors.selector_text(_at(obj, ".spec.selector"))
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {k: obj["metadata"][k] for k in kept if k in obj["metadata"]},
        "spec": {"replicas": replicas} if replicas else {},
        "status": {**status, "selector": selector} if selector else status,
    }


def changed(old: Object, wanted: Object, resource: Resource) -> Object:
    """A copy of the object with the number that a Scale wants, of the version that it names."""
    new: Object = clone(old)
    new["metadata"]["resourceVersion"] = wanted["metadata"].get("resourceVersion")
    write(new, wanted, resource)
    return new


def write(obj: Object, wanted: Object, resource: Resource) -> None:
    """Set the number a Scale wants. StatusError 422 for a number that is none."""
    spec = wanted.get("spec") or {}
    replicas = spec.get("replicas", 0) if isinstance(spec, dict) else ""
    replicas = 0 if replicas is None else replicas
    if type(replicas) is not int or not 0 <= replicas < 2**31:
        told = f"Invalid value: {replicas}: must be an integer greater than or equal to 0, of 32 bits"
        about = About("autoscaling", "scales", obj["metadata"]["name"], "Scale")
        raise invalid(about, [Cause("FieldValueInvalid", told, "spec.replicas")])
    *parents, last = resource.scale_paths[0].strip(".").split(".")
    node = obj
    for name in parents:
        if not isinstance(node.get(name), dict):
            node[name] = {}
        node = node[name]
    node[last] = replicas


def _at(obj: Any, path: str) -> Any:
    for name in path.strip(".").split("."):
        obj = obj.get(name) if isinstance(obj, dict) else None
    return obj
