"""delete and deletecollection: preconditions, grace, finalizers, propagation.

What a deletion leaves to others: dependents, orphans and the content of namespaces and CRDs are `lifecycle`'s, and a
Pod on a node stays until its grace is over and somebody (a kubelet, the simulation) deletes it with grace 0, as on a
cluster. Rules: apiserver's registry/rest/delete.go and registry/generic/registry/store.go.
"""

from dataclasses import replace
from typing import Annotated, Any, Final

import msgspec

from devkube import bodies, reading
from devkube.causes import unsupported
from devkube.errors import About, StatusError, bad_request, conflict, forbidden
from devkube.kinds import Object, Resource
from devkube.machinery import Machinery
from devkube.parameters import number, refused
from devkube.requests import Answer, Attributes, Listing, Request
from devkube.store import Lost
from devkube.strategies import CRDS

ORPHAN: Final = "orphan"
FOREGROUND: Final = "foregroundDeletion"
CRD_CLEANUP: Final = "customresourcecleanup.apiextensions.k8s.io"
_COLLECTED: Final = {"Orphan": ORPHAN, "Foreground": FOREGROUND}  # by policy
# Whose deletion is answered by the object and not by a Status (ReturnDeletedObject).
_RETURNED: Final = frozenset(("pods", "services", "serviceaccounts", "persistentvolumes", "persistentvolumeclaims"))
_POLICY: Final = {"jobs.batch": "Orphan"}  # where the client leaves it open (DefaultGarbageCollectionPolicy)
_POLICIES: Final = ("Foreground", "Background", "Orphan")


class Preconditions(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    uid: str | None = None
    resource_version: str | None = None


class DeleteOptions(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """`propagation_policy` is None where the client leaves it open."""

    grace_period_seconds: Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)] | None = None
    preconditions: Preconditions | None = None
    propagation_policy: str | None = None
    dry_run: list[str] | None = None

    def options(self) -> dict[str, Any]:
        return {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", **msgspec.to_builtins(self)}


async def delete(m: Machinery, request: Request) -> Answer:
    resource, options = request.resource, options_of(request)
    obj, gone = await _remove(m, request, options)
    if not gone or resource.key in _RETURNED:
        return Answer(200, obj, resource)
    meta = obj["metadata"]
    details = {"name": meta["name"], "group": resource.group, "kind": resource.plural, "uid": meta.get("uid", "")}
    success = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    return Answer(200, {**success, "details": {k: v for k, v in details.items() if v}})


async def delete_collection(m: Machinery, request: Request) -> Answer:
    """Each object by itself; what others deleted meanwhile is no matter. Answered by the list of what it was about."""
    options, resource = options_of(request), request.resource
    found = reading.matching(m, request)
    for stored in found:
        try:
            await _remove(m, replace(request, namespace=stored.namespace, name=stored.name), options)
        except StatusError as error:
            if error.code != 404:
                raise
    items = [m.view(one, resource) for one in found]
    listing = Listing(resource, {"resourceVersion": str(m.store.version)}, items)
    return Answer(200, listing, resource)


def options_of(request: Request) -> DeleteOptions:
    """Those of the body; the query counts where there is none, dryRun too."""
    query = request.query
    if request.body.strip():
        found, _ = bodies.decode_object(request.body, request.content_type, request.resource, kind="DeleteOptions")
    else:
        grace, policy = number(query, "gracePeriodSeconds"), query.get("propagationPolicy")
        found = {"gracePeriodSeconds": grace, "propagationPolicy": policy}
        if "dryRun" in query:
            found["dryRun"] = [query["dryRun"]]
    try:
        options = msgspec.convert(found, DeleteOptions)
    except msgspec.ValidationError as error:
        raise bad_request(f"DeleteOptions cannot be decoded: {error}") from None
    causes = []
    if options.propagation_policy not in (None, *_POLICIES):
        causes.append(unsupported("propagationPolicy", options.propagation_policy, _POLICIES))
    if any(one != "All" for one in options.dry_run or ()):
        causes.append(unsupported("dryRun", options.dry_run, ["All"]))
    if causes:
        raise refused("DeleteOptions", causes)
    return options


async def _remove(m: Machinery, request: Request, options: DeleteOptions) -> tuple[Object, bool]:
    """Delete one object, or mark it as being deleted. Returns its last state and whether it is gone."""
    resource = request.resource
    for _ in range(10):
        stored = m.of(request)
        obj = m.read(stored, resource)
        _check_preconditions(obj, options.preconditions or Preconditions(), resource)
        await _admit(m, request, obj, options)
        marked = _marked(m, obj, options, resource)
        if options.dry_run or marked == obj:
            return marked or obj, marked is None
        try:
            if marked is not None:
                return m.read(m.store.replace(resource.key, marked, stored.version), resource), False
            last = m.store.remove(resource.key, stored.namespace, stored.name, stored.version)
            return m.read(last, resource), True
        except Lost:
            continue
    raise conflict(resource.about(request.name), "it keeps being modified while it is deleted; please try again")


async def _admit(m: Machinery, request: Request, obj: Object, options: DeleteOptions) -> None:
    name = request.name
    if request.resource.key == "namespaces" and name in ("default", "kube-system", "kube-public"):
        raise forbidden(request.resource.about(name), "this namespace may not be deleted")
    attributes = Attributes(
        operation="DELETE",
        resource=request.resource,
        namespace=request.namespace,
        name=name,
        object=None,
        old=obj,
        user=request.user,
        dry_run=bool(options.dry_run),
        options=options.options(),
        warnings=request.warnings,
    )
    await m.admission.mutate(attributes)
    await m.admission.validate(attributes)


def _check_preconditions(obj: Object, wanted: Preconditions, resource: Resource) -> None:
    meta = obj["metadata"]
    about = About(resource.group, resource.kind, meta["name"])
    for told, asked, found in (
        ("UID", wanted.uid, meta.get("uid")),
        ("ResourceVersion", wanted.resource_version, meta["resourceVersion"]),
    ):
        if asked is not None and asked != found:
            why = f"the {told} in the precondition ({asked}) does not match the {told} in record ({found})"
            raise conflict(about, f"{why}. The object might have been deleted and recreated, or modified")


def _marked(m: Machinery, obj: Object, options: DeleteOptions, resource: Resource) -> Object | None:
    """The object as it waits for its end (equal to `obj`: it waits already), or None: nothing keeps it."""
    meta = dict(obj["metadata"])
    marked = {**obj, "metadata": meta}
    left, grace = meta.get("deletionGracePeriodSeconds"), 0
    if resource.key == "pods":
        asked = options.grace_period_seconds
        if left and (asked is None or asked >= left):
            return obj
        grace = left if left == 0 else _grace(obj, asked)
    finalizers = _finalizers(meta, options.propagation_policy or _POLICY.get(resource.key))
    if resource.key == CRDS and CRD_CLEANUP not in finalizers:
        finalizers.append(CRD_CLEANUP)
    namespace = resource.key == "namespaces"
    if not grace and not finalizers and not (namespace and (obj.get("spec") or {}).get("finalizers")):
        return None
    meta.pop("finalizers", None)
    if finalizers:
        meta["finalizers"] = finalizers
    if not meta.get("deletionTimestamp") and "generation" in meta:
        meta["generation"] += 1
    if namespace:
        meta.setdefault("deletionTimestamp", m.clock.timestamp())
        marked["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}
    else:
        meta["deletionTimestamp"] = min(m.clock.after(grace), meta.get("deletionTimestamp") or "~")  # never later
        meta["deletionGracePeriodSeconds"] = grace
    return marked


def _grace(pod: Object, asked: int | None) -> int:
    """A Pod's grace: none where no kubelet has it or it has ended (podStrategy.CheckGracefulDelete)."""
    spec = pod.get("spec") or {}
    if not spec.get("nodeName") or (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return 0
    grace: int = spec.get("terminationGracePeriodSeconds", 30) if asked is None else asked
    return 1 if grace < 0 else grace


def _finalizers(meta: dict[str, Any], policy: str | None) -> list[str]:
    """With the one that garbage collection works on: what the client asks for, else what the object has."""
    found = meta.get("finalizers") or ()
    if not policy:
        return list(found)
    asked = _COLLECTED.get(policy)
    return [one for one in found if one not in _COLLECTED.values()] + ([asked] if asked else [])
