"""create, update and patch: from the bytes of a request to a new version in the store.

There is no lock: between reading an object and writing it back webhooks are awaited, and the store refuses a write
whose object moved meanwhile. A write that named the version it expects is then a conflict; any other is made again
from the object as it is now (five times, as upstream). Order of the steps: apiserver's endpoints/handlers and
registry/generic/registry/store.go: ownership of fields is settled before webhooks change them, uid and name after.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from devkube import apply, bodies, parameters, scale
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
from devkube.requests import Answer, Attributes, Request
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

_ATTEMPTS: Final = 5


@dataclass
class Write:
    """One request on its way."""

    m: Machinery
    request: Request
    options: parameters.Write
    kind: str  # CreateOptions, UpdateOptions, PatchOptions

    @property
    def warnings(self) -> list[str]:
        return self.request.warnings

    @property
    def resource(self) -> Resource:
        return self.request.resource

    def decoded(self, obj: Object, repeated: Sequence[str] = (), *, patch: bool = False) -> None:
        """Prune what the type does not know, in place, and say so as the client wants it said."""
        strict = self.options.validation == "Strict"
        told = self.resource.rules.decode(obj, validation="Warn" if strict else self.options.validation)
        if self.options.validation != "Ignore":
            told = [*repeated, *told]
        faults = [one for one in told if one.startswith(("unknown field", "duplicate field"))] if strict else []
        self.warnings.extend(one for one in told if one not in faults)
        if not faults:
            return
        why = f"strict decoding error: {', '.join(faults)}"
        if patch:
            text = encode(obj).decode()
            raise invalid(About("", "", ""), [Cause("FieldValueInvalid", f'Invalid value: "{text}": {why}', "patch")])
        kind, version = self.resource.kind, self.resource.version
        raise bad_request(f'{kind} in version "{version}" cannot be handled as a {kind}: {why}')

    def track(self, new: Object, old: Object | None) -> None:
        apply.track_update(
            new,
            old,
            manager=self.options.manager,
            schema=self.resource.rules.schema,
            subresource=self.request.subresource,
            now=self.m.clock.timestamp(),
            group_version=self.resource.group_version,
        )

    def attributes(self, new: Object, old: Object | None) -> Attributes:
        request = self.request
        kind = "CreateOptions" if old is None else "UpdateOptions"
        scaled = request.subresource == "scale" and old is not None
        if scaled and old is not None:
            new, old = scale.of(new, self.resource), scale.of(old, self.resource)
        return Attributes(
            operation="CREATE" if old is None else "UPDATE",
            resource=self.resource,
            namespace=request.namespace,
            name=request.name or new["metadata"].get("name") or "",
            object=new,
            old=old,
            user=request.user,
            subresource=request.subresource,
            dry_run=self.options.dry_run,
            options=self.options.options(kind),
            kind=scale.KIND if scaled else None,
            warnings=self.warnings,
        )

    async def admitted(self, new: Object, old: Object | None) -> Object:
        """After mutating webhooks and guards: another object when they changed it, decoded and defaulted again."""
        attributes = self.attributes(new, old)
        sent = attributes.object
        found = await self.m.admission.mutate(attributes)
        if attributes.kind is not None:
            if found is not sent:
                scale.write(new, found, self.resource)
            return new
        if found is not new:
            self.resource.rules.decode(found, validation="Ignore")
            self.resource.rules.default(found)
            dedup_owners(found, self.warnings, " after mutating admission happens")
        self.m.guard(self.resource, found, old, self.request.user, self.request.namespace)
        return found

    async def allowed(self, new: Object, old: Object | None) -> None:
        await self.m.admission.validate(self.attributes(new, old))

    def refuse(self, name: str, causes: Sequence[Cause]) -> None:
        if causes:
            raise invalid(self.resource.about(name), causes)


# --------------------------------------------------------------------------------------------------- create


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


# --------------------------------------------------------------------------------------------------- update


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
