"""What differs between kinds in how they are written, and the rules of metadata that are the same for all.

Upstream spreads this over the strategies in pkg/registry/*/strategy.go and apiserver's registry/rest. Pure functions
over decoded objects; `writing` and `deleting` call them.
"""

from typing import Any, Final

from devkube.errors import bad_request, conflict
from devkube.kinds import Object, Resource
from devkube.requests import Request
from devkube.values import clone, go_type

CRDS: Final = "customresourcedefinitions.apiextensions.k8s.io"
_DEFINING: Final = ("apiextensions.k8s.io", "admissionregistration.k8s.io")
# Groups whose strategies count generations, beside Pods'; those of CRDs all do.
_COUNTING: Final = ("apps", "batch", "policy", "networking.k8s.io", *_DEFINING)
# A PUT to a name that is not there makes the object (AllowCreateOnUpdate), so it is in RBAC.
_CREATED_BY_PUT: Final = frozenset(["leases.coordination.k8s.io", "endpoints", "events", "services"])
# A PUT must name the version it replaces (AllowUnconditionalUpdate is false); so it is for CRs and these groups.
_VERSIONED: Final = ("policy", "coordination.k8s.io", *_DEFINING)
OF_THE_SERVER: Final = ("resourceVersion", "creationTimestamp", "generation", "selfLink")
ONCE: Final = ("uid", "deletionTimestamp", "deletionGracePeriodSeconds")  # may be named, and stay as they are
_KEEPS_STATUS: Final = frozenset(["nodes"])  # kubelets register with one
# What of metadata a /status may not change, beside the server's own; that of CRDs and of their objects may change none.
_STATUS_KEEPS: Final = {"deployments.apps": ("labels",), "pods": ("ownerReferences",)}


def counts_generations(resource: Resource) -> bool:
    return resource.custom or resource.key == "pods" or resource.group in _COUNTING


def created_by_put(resource: Resource) -> bool:
    return resource.key in _CREATED_BY_PUT or resource.group == "rbac.authorization.k8s.io"


def versioned_put(resource: Resource) -> bool:
    return resource.custom or resource.group in _VERSIONED


def metadata(obj: Object) -> dict[str, Any]:
    meta = obj["metadata"] = {} if obj.get("metadata") is None else obj["metadata"]
    if not isinstance(meta, dict):
        raise bad_request(f"metadata must be an object, not {go_type(meta)}")
    if meta.get("resourceVersion") == "0":  # no version in particular
        del meta["resourceVersion"]
    return meta


def in_namespace(obj: Object, request: Request) -> None:
    meta = metadata(obj)
    namespace = meta.get("namespace")
    if not request.resource.namespaced:
        meta.pop("namespace", None)
    elif not namespace:
        meta["namespace"] = request.namespace
    elif namespace != request.namespace:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
            f" ({namespace} and {request.namespace})"
        )


def named(meta: dict[str, Any], name: str) -> None:
    found = meta.get("name")
    if not found:
        raise bad_request(f"the name of the object ({name} based on URL) was undeterminable: name must be provided")
    if found != name:
        raise bad_request(f"the name of the object ({found}) does not match the name on the URL ({name})")


def check_uid(meta: dict[str, Any], old: Object, resource: Resource) -> None:
    """409 for what is meant for another object of this name, one that is gone."""
    before = old["metadata"]
    if meta.get("uid") and meta["uid"] != before["uid"]:
        told = f"Precondition failed: UID in precondition: {meta['uid']}, UID in object meta: {before['uid']}"
        raise conflict(resource.about(before["name"]), told)


def confine(new: Object, old: Object, resource: Resource, sub: str) -> None:
    """Leave only what this subresource may write: all else is as it was."""
    if sub == "status":
        meta, before = new["metadata"], old["metadata"]
        for name in {*new, *old} - {"status", "metadata"}:
            _take(new, old, name)
        fixed = {*meta, *before} - {"managedFields"} if resource.custom or resource.key == CRDS else ()
        for name in fixed or _STATUS_KEEPS.get(resource.key, ()):
            _take(meta, before, name)
    elif sub == "finalize":
        finalizers = (new.get("spec") or {}).get("finalizers") or []
        for name in {*new, *old} - {"metadata"}:
            _take(new, old, name)
        new["spec"] = {**(old.get("spec") or {}), "finalizers": finalizers}
    elif sub or ("status" in resource.subresources and (old or resource.key not in _KEEPS_STATUS)):
        _take(new, old, "status")


def _take(new: Object, old: Object, name: str) -> None:
    new.pop(name, None)
    if name in old:
        new[name] = clone(old[name])


def keep_system_metadata(meta: dict[str, Any], before: dict[str, Any]) -> None:
    """What no update changes; the resourceVersion becomes that of the object read."""
    for name in OF_THE_SERVER:
        _take(meta, before, name)
    for name in ONCE:
        if meta.get(name) is None:
            _take(meta, before, name)


def count_generation(new: Object, old: Object, resource: Resource) -> None:
    """One more when the desired state changed."""
    before = old["metadata"].get("generation")
    if before is None:
        return
    outside = {"metadata", "apiVersion", "kind"} | ({"status"} if "status" in resource.subresources else set())
    changed = any(new.get(k) != old.get(k) for k in {*new, *old} - outside)
    if resource.key == "deployments.apps":  # its annotations are copied to ReplicaSets, so they count
        changed = changed or new["metadata"].get("annotations") != old["metadata"].get("annotations")
    new["metadata"]["generation"] = before + 1 if changed else before


def unchanged(new: Object, old: Object) -> bool:
    """Whether this is no write at all: nothing differs but times in managedFields."""
    return _timeless(new) == _timeless(old)


def _timeless(obj: Object) -> Object:
    meta = obj["metadata"]
    entries = [{**one, "time": None} for one in meta.get("managedFields") or ()]
    return {**obj, "metadata": {**meta, "managedFields": entries}}


def finished(new: Object, old: Object) -> bool:
    """Whether an object that is being deleted is held by nothing any more (ShouldDeleteDuringUpdate)."""
    meta, before = new["metadata"], old["metadata"]
    if meta.get("finalizers") or meta.get("deletionGracePeriodSeconds") or before.get("deletionGracePeriodSeconds"):
        return False
    return not (new["kind"] == "Namespace" and (new.get("spec") or {}).get("finalizers"))
