"""create, update and patch: from the bytes of a request to a new version in the store.

There is no lock: between reading an object and writing it back webhooks are awaited, and the store refuses a write
whose object moved meanwhile. A write that named the version it expects is then a conflict; any other is made again
from the object as it is now (five times, as upstream). Order of the steps: apiserver's endpoints/handlers and
registry/generic/registry/store.go: ownership of fields is settled before webhooks change them, uid and name after.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from devkube import bodies, parameters, scale
from devkube.builtin.metadata import validate_metadata
from devkube.errors import (
    MODIFIED,
    About,
    Cause,
    StatusError,
    already_exists,
    bad_request,
    conflict,
    invalid,
    not_found,
)
from devkube.kinds import Object, Resource
from devkube.machinery import Machinery, new_uid
from devkube.requests import Answer, Request
from devkube.store import Lost, Stored, encode
from devkube.strategies import (
    CREATED_BY_PUT,
    GENERATIONS,
    KEEPS_STATUS,
    VERSIONED_PUT,
    confine,
    count_generation,
    dedup_owners,
    finished,
    in_namespace,
    keep_system_metadata,
    keep_times,
    metadata,
    named,
)
from devkube.values import clone
from devkube.writer import Write

_ATTEMPTS: Final = 5


async def create(m: Machinery, request: Request) -> Answer:
    obj, repeated = bodies.decode_object(request.body, request.content_type, request.resource)
    write = Write(m, request, parameters.write(request, "CreateOptions"), "CreateOptions")
    metadata(obj)
    write.decoded(obj, repeated)
    in_namespace(obj, request)
    return await insert(write, obj)


async def insert(write: Write, obj: Object, *, tracked: bool = False) -> Answer:
    """The object as new. `tracked`: managedFields are settled already."""
    m, resource, request = write.m, write.resource, write.request
    meta, rules = metadata(obj), resource.rules
    if meta.get("resourceVersion"):
        raise bad_request("resourceVersion should not be set on objects to be created")
    if resource.key in m.closing:
        told = "create not allowed while custom resource definition is terminating"
        raise StatusError(405, "MethodNotAllowed", told, group=resource.group, kind=resource.plural)
    if resource.namespaced:
        m.check_namespace(resource, request.namespace, meta.get("name") or "")
    for name in ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"):
        meta.pop(name, None)
    meta.pop("resourceVersion", None)
    meta.pop("generation", None)
    if "status" in resource.subresources and resource.key not in KEEPS_STATUS:
        obj.pop("status", None)
    dedup_owners(obj, write.warnings)
    rules.default(obj)
    if not tracked:
        write.track(obj, None)
    obj = await write.admitted(obj, None)
    in_namespace(obj, request)
    meta = obj["metadata"]
    if meta.get("resourceVersion"):
        raise StatusError(500, "", "resourceVersion should not be set on objects to be created")
    if meta.get("generateName") and not meta.get("name"):
        meta["name"] = m.unused_name(resource, request.namespace, meta["generateName"])
    meta["uid"], meta["creationTimestamp"] = new_uid(), m.clock.timestamp()
    if resource.custom or resource.key in GENERATIONS:
        meta["generation"] = 1
    rules.prepare(obj, None, "")
    name = meta.get("name") or ""
    write.refuse(name, [*rules.validate(obj, None, ""), *validate_metadata(obj, None, resource)])
    await write.allowed(obj, None)
    m.complete(resource, obj)
    existing = m.store.get(resource.key, meta.get("namespace") or "", name)
    if existing is None and not write.options.dry_run:
        try:
            stored = m.store.create(resource.key, obj)
            return Answer(201, m.view(stored, resource), resource, write.warnings)
        except Lost as lost:
            existing = lost.found
    if existing is not None:
        raise _exists(m, existing, resource)
    return Answer(201, obj, resource, write.warnings)


def _exists(m: Machinery, existing: Stored, resource: Resource) -> StatusError:
    error = already_exists(resource.about(existing.name))
    if m.read(existing, resource)["metadata"].get("deletionTimestamp"):
        error.message = f"object is being deleted: {error.message}"
    return error


async def update(m: Machinery, request: Request) -> Answer:
    resource, scaled = request.resource, request.subresource == "scale"
    kind = "Scale" if scaled else ""
    body, repeated = bodies.decode_object(request.body, request.content_type, resource, kind=kind)
    write = Write(m, request, parameters.write(request, "UpdateOptions"), "UpdateOptions")
    meta = metadata(body)
    if not scaled:
        write.decoded(body, repeated)
    in_namespace(body, request)
    named(meta, request.name)
    stored = m.store.get(resource.key, request.namespace, request.name)
    if stored is None and resource.key in CREATED_BY_PUT and not request.subresource:
        m.authorize(request.user, "create", resource, request.namespace, request.name)
        return await insert(write, body)
    if not meta.get("resourceVersion") and not scaled and (resource.custom or resource.key in VERSIONED_PUT):
        if stored is None:
            raise not_found(resource.about(request.name))
        told = "Invalid value: 0: must be specified for an update"
        about = About(resource.group, resource.plural, request.name, resource.plural)
        raise invalid(about, [Cause("FieldValueInvalid", told, "metadata.resourceVersion")])

    def changed(old: Object) -> Object:
        if meta.get("uid") and meta["uid"] != old["metadata"]["uid"]:
            told = f"Precondition failed: UID in precondition: {meta['uid']}, UID in object meta: "
            raise conflict(resource.about(request.name), told + old["metadata"]["uid"])
        if not scaled:
            copy: Object = clone(body)
            return copy
        new: Object = clone(old)
        new["metadata"]["resourceVersion"] = meta.get("resourceVersion")
        scale.write(new, body, resource)
        return new

    return await guaranteed(write, changed, pinned=bool(meta.get("resourceVersion")))


async def guaranteed(
    write: Write, changed: Callable[[Object], Object], *, pinned: bool = False, tracked: bool = False
) -> Answer:
    """Write what `changed` makes of the object, again and again while others are faster. `pinned`: only once."""
    m, request, resource = write.m, write.request, write.resource
    warnings = list(write.warnings)
    for _ in range(1 if pinned else _ATTEMPTS):
        write.warnings[:] = warnings
        stored = m.of(request)
        old = m.read(stored, resource)
        new = changed(old)
        try:
            return await _replace(write, stored, old, new, tracked=tracked)
        except Lost as lost:
            if lost.found is None:
                raise not_found(resource.about(request.name)) from None
    raise conflict(resource.about(request.name), MODIFIED)


async def _replace(write: Write, stored: Stored, old: Object, new: Object, *, tracked: bool) -> Answer:
    """One attempt. Lost when somebody else wrote meanwhile."""
    m, resource, request, rules = write.m, write.resource, write.request, write.resource.rules
    sub = request.subresource
    meta = metadata(new)
    version = meta.get("resourceVersion")
    if version and str(version) != str(stored.version):
        raise conflict(resource.about(request.name), MODIFIED)
    confine(new, old, resource, sub)
    keep_system_metadata(new["metadata"], old["metadata"])
    dedup_owners(new, write.warnings)
    rules.default(new)
    if not tracked:
        write.track(new, old)
    new = await write.admitted(new, old)
    meta = new["metadata"]
    keep_system_metadata(meta, old["metadata"])
    rules.prepare(new, old, sub)
    count_generation(new, old, resource)
    write.refuse(request.name, [*rules.validate(new, old, sub), *validate_metadata(new, old, resource)])
    await write.allowed(new, old)
    m.complete(resource, new)
    unchanged = keep_times(new, old) and new == old
    emptied = bool(meta.get("deletionTimestamp")) and finished(new, old)
    if unchanged and not emptied:
        return _answer(m, write, stored, m.view(stored, resource))
    if write.options.dry_run:
        return _answer(m, write, None, encode(new))
    if emptied:
        gone = m.store.remove(resource.key, stored.namespace, stored.name, stored.version, new)
        return _answer(m, write, gone, m.view(gone, resource))
    return _answer(m, write, after := m.store.replace(resource.key, new, stored.version), m.view(after, resource))


def _answer(m: Machinery, write: Write, stored: Stored | None, raw: bytes) -> Answer:
    resource = write.resource
    if write.request.subresource == "scale":
        obj = m.read(stored, resource) if stored else msgspec.json.decode(raw)
        return Answer(200, scale.of(obj, resource), None, write.warnings)
    return Answer(200, raw, resource, write.warnings)
