"""What differs between kinds in how they are written, and the rules of metadata that are the same for all.

Upstream spreads this over the strategies in pkg/registry/*/strategy.go and apiserver's registry/rest. Pure functions
over decoded objects; `writing` and `deleting` call them.
"""

from typing import Any, Final

from devkube.errors import bad_request
from devkube.kinds import Object, Resource
from devkube.requests import Request
from devkube.values import clone, go_type

# Kinds whose strategies count generations; those of CRDs all do.
GENERATIONS: Final = frozenset(
    (
        *(
            "daemonsets.apps",
            "deployments.apps",
            "replicasets.apps",
            "statefulsets.apps",
            "cronjobs.batch",
            "jobs.batch",
        ),
        *("pods", "cronjobs.batch", "poddisruptionbudgets.policy"),
        *("ingresses.networking.k8s.io", "networkpolicies.networking.k8s.io"),
        "customresourcedefinitions.apiextensions.k8s.io",
        "mutatingwebhookconfigurations.admissionregistration.k8s.io",
        "validatingwebhookconfigurations.admissionregistration.k8s.io",
    )
)
# A PUT to a name that is not there makes the object (AllowCreateOnUpdate).
CREATED_BY_PUT: Final = frozenset(
    (
        *("leases.coordination.k8s.io", "endpoints", "events", "services"),
        *(
            f"{kind}.rbac.authorization.k8s.io"
            for kind in ("roles", "rolebindings", "clusterroles", "clusterrolebindings")
        ),
    )
)
# A PUT must name the version it replaces (AllowUnconditionalUpdate is false); so it is for CRs.
VERSIONED_PUT: Final = frozenset(
    (
        "mutatingwebhookconfigurations.admissionregistration.k8s.io",
        "validatingwebhookconfigurations.admissionregistration.k8s.io",
        *(
            "leases.coordination.k8s.io",
            "poddisruptionbudgets.policy",
            "customresourcedefinitions.apiextensions.k8s.io",
        ),
    )
)
KEEPS_STATUS: Final = frozenset(["nodes"])  # kubelets register with one
_STATUS_META: Final = frozenset(["pods", "nodes", "namespaces"])  # whose /status may change labels and annotations


def metadata(obj: Object) -> dict[str, Any]:
    meta = obj.setdefault("metadata", {})
    if meta is None:
        meta = obj["metadata"] = {}
    if not isinstance(meta, dict):
        raise bad_request(f"metadata must be an object, not {go_type(meta)}")
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
        told = "name must be provided"
        raise bad_request(f"the name of the object ({name} based on URL) was undeterminable: {told}")
    if found != name:
        raise bad_request(f"the name of the object ({found}) does not match the name on the URL ({name})")


def confine(new: Object, old: Object, resource: Resource, sub: str) -> None:
    """Leave only what this subresource may write: all else is as it was (of what nobody touches, the same objects)."""
    if sub == "":
        if "status" in resource.subresources:
            _take(new, old, "status")
        return
    if sub == "status":
        meta = new["metadata"]
        kept = dict(old["metadata"])
        if resource.key in _STATUS_META:
            kept |= {k: meta[k] for k in ("labels", "annotations") if k in meta}
        if "managedFields" in meta:
            kept["managedFields"] = meta["managedFields"]
        for name in {*new, *old} - {"status", "metadata"}:
            _take(new, old, name)
        new["metadata"] = clone(kept)
    elif sub == "finalize":
        finalizers = (new.get("spec") or {}).get("finalizers") or []
        for name in {*new, *old} - {"metadata"}:
            _take(new, old, name)
        new["spec"] = {**(old.get("spec") or {}), "finalizers": finalizers}
    else:
        _take(new, old, "status")


def _take(new: Object, old: Object, name: str) -> None:
    if name in old:
        new[name] = clone(old[name])
    else:
        new.pop(name, None)


def keep_system_metadata(meta: dict[str, Any], before: dict[str, Any]) -> None:
    """What no update changes; the resourceVersion becomes that of the object read."""
    for name in ("resourceVersion", "creationTimestamp", "deletionTimestamp", "generation", "selfLink"):
        if name in before:
            meta[name] = before[name]
        else:
            meta.pop(name, None)
    if meta.get("deletionGracePeriodSeconds") is None:
        meta.pop("deletionGracePeriodSeconds", None)
    for name in ("deletionGracePeriodSeconds", "uid"):
        if name in before:
            meta.setdefault(name, before[name])


def dedup_owners(obj: Object, warnings: list[str], when: str = "") -> None:
    """Equal ownerReferences count once; upstream warns."""
    owners = obj["metadata"].get("ownerReferences")
    if not isinstance(owners, list):
        return
    kept = [one for at, one in enumerate(owners) if one not in owners[:at]]
    if len(kept) != len(owners):
        obj["metadata"]["ownerReferences"] = kept
        twice = sorted({str(one.get("uid")) for at, one in enumerate(owners) if one in owners[:at]})
        warnings.append(
            f".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in "
            "1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) "
            f"observed: {' '.join(twice)}"
        )


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


def keep_times(new: Object, old: Object) -> bool:
    """Keep the times of managedFields where nothing else of them changed: then a write may be none at all."""
    entries, before = new["metadata"].get("managedFields"), old["metadata"].get("managedFields")
    if entries == before:
        return True
    bare = [[{k: v for k, v in one.items() if k != "time"} for one in some or ()] for some in (entries, before)]
    if bare[0] != bare[1]:
        return False
    rest = [{**obj, "metadata": {**obj["metadata"], "managedFields": None}} for obj in (new, old)]
    if rest[0] != rest[1]:
        return False
    new["metadata"]["managedFields"] = before
    return True


def finished(new: Object, old: Object) -> bool:
    """Whether an object that is being deleted is held by nothing any more (ShouldDeleteDuringUpdate)."""
    meta, before = new["metadata"], old["metadata"]
    if meta.get("finalizers") or meta.get("deletionGracePeriodSeconds") or before.get("deletionGracePeriodSeconds"):
        return False
    return not (new["kind"] == "Namespace" and (new.get("spec") or {}).get("finalizers"))
