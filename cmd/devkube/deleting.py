"""delete and deletecollection: preconditions, grace, finalizers, propagation.

What a deletion leaves to others: dependents, orphans and the content of namespaces and CRDs are `lifecycle`'s, and a
Pod on a node stays until its grace is over and somebody (a kubelet, the simulation) deletes it with grace 0, as on a
cluster. Rules: apiserver's registry/rest/delete.go and registry/generic/registry/store.go.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from devkube import deleteoptions, reading
from devkube.deleteoptions import DeleteOptions
from devkube.errors import About, StatusError, conflict, forbidden
from devkube.kinds import Object, Resource
from devkube.machinery import Machinery
from devkube.requests import Answer, Attributes, Listing, Request
from devkube.store import Lost, Stored

ORPHAN: Final = "orphan"
FOREGROUND: Final = "foregroundDeletion"
CRD_CLEANUP: Final = "customresourcecleanup.apiextensions.k8s.io"
CRDS: Final = "customresourcedefinitions.apiextensions.k8s.io"
# Whose deletion is answered by the object and not by a Status (ReturnDeletedObject).
_RETURNED: Final = frozenset(
    ("pods", "services", "serviceaccounts", "persistentvolumes", "persistentvolumeclaims", "resourcequotas")
)


async def delete(m: Machinery, request: Request) -> Answer:
    options = deleteoptions.read(request)
    warnings = request.warnings
    stored = m.of(request)
    obj, gone = await remove(m, request, stored, options, warnings)
    resource = request.resource
    if gone and resource.key not in _RETURNED:
        return Answer(200, success(resource, obj), None, warnings)
    status = 202 if not gone and options.orphan is False else 200
    return Answer(status, obj, resource, warnings)


async def delete_collection(m: Machinery, request: Request) -> Answer:
    """Each object by itself; what others deleted meanwhile is no matter. Answered by the list of what it was about."""
    options = deleteoptions.read(request)
    warnings = request.warnings
    found = reading.matching(m, request, request.resource)
    for stored in found:
        try:
            await remove(m, request, stored, options, warnings)
        except StatusError as error:
            if error.code != 404:
                raise
    resource = request.resource
    items = [m.view(one, resource) for one in found]
    return Answer(200, Listing(resource, {"resourceVersion": str(m.store.version)}, items), resource, warnings)


def success(resource: Resource, obj: Object) -> Object:
    meta = obj["metadata"]
    details = {"name": meta["name"], "group": resource.group, "kind": resource.plural, "uid": meta.get("uid", "")}
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {k: v for k, v in details.items() if v},
    }


async def remove(
    m: Machinery, request: Request, stored: Stored, options: DeleteOptions, warnings: list[str]
) -> tuple[Object, bool]:
    """Delete one object, or mark it as being deleted. Returns its last state and whether it is gone."""
    resource = request.resource
    for _ in range(10):
        obj = m.read(stored, resource)
        _check_preconditions(obj, options, resource)
        await _admit(m, request, obj, options, warnings)
        marked = _marked(m, obj, options, resource)
        try:
            if marked is None:
                last = obj if options.dry_run else _final(m, obj, stored, resource)
                return last, True
            if marked == obj or options.dry_run:
                return marked, False
            return m.read(m.store.replace(resource.key, marked, stored.version), resource), False
        except Lost as lost:
            if lost.found is None:
                return obj, True
            stored = lost.found
    raise conflict(resource.about(stored.name), "it keeps being modified while it is deleted; please try again")


def _final(m: Machinery, obj: Object, stored: Stored, resource: Resource) -> Object:
    return m.read(m.store.remove(resource.key, stored.namespace, stored.name, stored.version, obj), resource)


async def _admit(m: Machinery, request: Request, obj: Object, options: DeleteOptions, warnings: list[str]) -> None:
    if request.resource.key == "namespaces" and obj["metadata"]["name"] in ("default", "kube-system", "kube-public"):
        raise forbidden(request.resource.about(obj["metadata"]["name"]), "this namespace may not be deleted")
    attributes = Attributes(
        operation="DELETE",
        resource=request.resource,
        namespace=request.namespace,
        name=obj["metadata"]["name"],
        object=None,
        old=obj,
        user=request.user,
        dry_run=options.dry_run,
        options=options.options(),
        warnings=warnings,
    )
    await m.admission.mutate(attributes)
    await m.admission.validate(attributes)


def _check_preconditions(obj: Object, options: DeleteOptions, resource: Resource) -> None:
    meta = obj["metadata"]
    about = About(resource.group, resource.kind, meta["name"])
    if options.uid is not None and options.uid != meta["uid"]:
        told = f"the UID in the precondition ({options.uid}) does not match the UID in record ({meta['uid']}). "
        raise conflict(about, told + "The object might have been deleted and then recreated")
    if options.version is not None and options.version != meta["resourceVersion"]:
        told = f"the ResourceVersion in the precondition ({options.version}) does not match the ResourceVersion in "
        raise conflict(about, f"{told}record ({meta['resourceVersion']}). The object might have been modified")


def _marked(m: Machinery, obj: Object, options: DeleteOptions, resource: Resource) -> Object | None:
    """The object as it waits for its end (equal to `obj`: it waits already), or None: nothing keeps it."""
    meta = dict(obj["metadata"])
    marked = {**obj, "metadata": meta}
    if resource.key == "pods":
        pending = meta.get("deletionTimestamp") and meta.get("deletionGracePeriodSeconds")
        if pending and not (options.grace is not None and options.grace < meta["deletionGracePeriodSeconds"]):
            return obj
        grace = options.grace if pending else _grace(obj, options)
        if grace and meta.get("deletionGracePeriodSeconds") != 0:
            _set_grace(m, meta, grace)
            meta["finalizers"] = _finalizers(meta, options)
            return _without_empty(marked)
    meta["finalizers"] = _finalizers(meta, options)
    if resource.key == CRDS and CRD_CLEANUP not in meta["finalizers"]:
        meta["finalizers"] = [*meta["finalizers"], CRD_CLEANUP]
    namespace = resource.key == "namespaces"
    if not meta["finalizers"] and not (namespace and (obj.get("spec") or {}).get("finalizers")):
        return None
    if not meta.get("deletionTimestamp"):
        if "generation" in meta:
            meta["generation"] += 1
        meta["deletionTimestamp"] = m.clock.timestamp()
    if namespace:
        marked["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}
    else:
        meta["deletionGracePeriodSeconds"] = 0
        if meta["deletionTimestamp"] > (now := m.clock.timestamp()):
            meta["deletionTimestamp"] = now
    return _without_empty(marked)


def _without_empty(obj: Object) -> Object:
    if not obj["metadata"].get("finalizers"):
        obj["metadata"].pop("finalizers", None)
    return obj


def _grace(pod: Object, options: DeleteOptions) -> int:
    """A Pod's grace: none where no kubelet has it or it has ended (podStrategy.CheckGracefulDelete)."""
    spec = pod.get("spec") or {}
    if not spec.get("nodeName") or (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return 0
    if options.grace is not None:
        return options.grace
    grace: int = spec.get("terminationGracePeriodSeconds", 30)
    return max(grace, 1) if grace < 0 else grace


def _set_grace(m: Machinery, meta: dict[str, Any], grace: int) -> None:
    old = meta.get("deletionTimestamp")
    if old:
        # A pending deletion is only made shorter, and never ends before now.
        began = datetime.fromisoformat(old) - timedelta(seconds=meta["deletionGracePeriodSeconds"])
        ends, now = began + timedelta(seconds=grace), m.clock.now()
        if ends < now:
            ends, grace = now, 1
        meta["deletionTimestamp"] = ends.strftime("%Y-%m-%dT%H:%M:%SZ")
    else:
        meta["deletionTimestamp"] = m.clock.after(grace)
        if "generation" in meta:
            meta["generation"] += 1
    meta["deletionGracePeriodSeconds"] = grace


def _finalizers(meta: dict[str, Any], options: DeleteOptions) -> list[str]:
    """With those that garbage collection works on: what the client asks for, else what the object has."""
    found: Sequence[str] = meta.get("finalizers") or ()
    rest = [one for one in found if one not in (ORPHAN, FOREGROUND)]
    policy = options.policy
    if not policy:
        policy = {ORPHAN: "Orphan", FOREGROUND: "Foreground"}.get(
            next((one for one in found if one in (ORPHAN, FOREGROUND)), ""), ""
        )
    return rest + {"Orphan": [ORPHAN], "Foreground": [FOREGROUND]}.get(policy, [])
