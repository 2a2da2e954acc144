"""create, update and patch: from the bytes of a request to a new version in the store.

There is no lock: between reading an object and writing it back webhooks are awaited, and the store refuses a write
whose object moved meanwhile. It is then made again from the object as it is now (five times, as upstream): a conflict
where it named the version it expects. Order of the steps: apiserver's endpoints/handlers and
registry/generic/registry/store.go: ownership of fields is settled before webhooks change them, uid and name after.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from devkube import bodies, parameters, scale, strategies
from devkube.builtin.metadata import validate_metadata
from devkube.errors import MODIFIED, Cause, StatusError, already_exists, bad_request, conflict, forbidden, invalid
from devkube.kinds import Object, Resource
from devkube.machinery import Machinery, new_uid
from devkube.managedfields import Author, track_update
from devkube.requests import Answer, Attributes, Request
from devkube.store import Lost, Stored, encode
from devkube.values import clone

_ATTEMPTS: Final = 5
_VERSION: Final = "metadata.resourceVersion"


@dataclass
class Write:
    """One request on its way."""

    m: Machinery
    request: Request
    options: parameters.Write
    audit: dict[str, str] = field(default_factory=dict)  # what webhooks of both kinds note

    @property
    def resource(self) -> Resource:
        return self.request.resource

    def decoded(self, obj: Object, repeated: Sequence[str] = (), *, patch: bool = False) -> None:
        """Prune what the type does not know, in place, and say so as the client wants it said."""
        kind, validation = self.resource.kind, self.options.validation
        try:
            if repeated and validation == "Strict":
                told = f"strict decoding error: {', '.join(repeated)}"
                raise bad_request(f'{kind} in version "{self.resource.version}" cannot be handled as a {kind}: {told}')
            warnings = self.resource.rules.decode(obj, validation=validation)
        except StatusError as error:
            if not patch:
                raise
            # What a patch made is not of its type: the patch is at fault.
            cause = Cause("FieldValueInvalid", f"Invalid value: {error.message}", "patch")
            raise invalid(self.resource.about(), [cause]) from None
        self.request.warnings.extend(warnings if validation == "Ignore" else [*repeated, *warnings])

    @property
    def author(self) -> Author:
        resource, now = self.resource, self.m.clock.timestamp()
        sub = self.request.subresource
        return Author(self.options.manager, resource.rules.schema, resource.group_version, now, sub)

    def attributes(self, new: Object, old: Object | None) -> Attributes:
        request = self.request
        kind = None
        if request.subresource == "scale" and old is not None:
            kind, new, old = scale.KIND, scale.of(new, self.resource), scale.of(old, self.resource)
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
            options=self.options.options("CreateOptions" if old is None else "UpdateOptions"),
            kind=kind,
            warnings=request.warnings,
            audit=self.audit,
        )

    async def admitted(self, new: Object, old: Object | None) -> Object:
        """After mutating webhooks: another object when they changed it, decoded and defaulted again."""
        attributes = self.attributes(new, old)
        sent = attributes.object
        found = await self.m.admission.mutate(attributes)
        if found is sent:
            return new
        if attributes.kind is not None:
            scale.write(new, found, self.resource)
            return new
        self.resource.rules.decode(found, validation="Ignore")
        strategies.confine(found, old or {}, self.resource, self.request.subresource)  # no more than the client may
        self.resource.rules.default(found)
        return found

    async def checked(self, new: Object, old: Object | None, name: str) -> None:
        """Validation, then validating webhooks, then what controllers would fill in."""
        sub = self.request.subresource
        causes = [*self.resource.rules.validate(new, old, sub), *validate_metadata(new, old, self.resource)]
        if causes:
            raise invalid(self.resource.about(name), causes)
        await self.m.admission.validate(self.attributes(new, old))
        self.m.complete(self.resource, new)

    def answer(self, status: int, raw: bytes) -> Answer:
        if self.request.subresource == "scale":
            return Answer(status, scale.of(msgspec.json.decode(raw), self.resource))
        return Answer(status, raw, self.resource)


async def create(m: Machinery, request: Request) -> Answer:
    obj, repeated = bodies.decode_object(request.body, request.content_type, request.resource)
    write = Write(m, request, parameters.write(request, "CreateOptions"))
    strategies.metadata(obj)
    write.decoded(obj, repeated)
    strategies.in_namespace(obj, request)
    return await insert(write, obj)


async def insert(write: Write, obj: Object, *, tracked: bool = False) -> Answer:
    """The object as new. `tracked`: managedFields are settled already."""
    m, resource, request = write.m, write.resource, write.request
    meta, rules = strategies.metadata(obj), resource.rules
    if meta.get("resourceVersion"):
        raise bad_request("resourceVersion should not be set on objects to be created")
    if resource.key in m.closing:
        told = "create not allowed while custom resource definition is terminating"
        raise forbidden(resource.about(meta.get("name") or ""), told)
    if resource.namespaced:
        m.check_namespace(resource, request.namespace, meta.get("name") or "")
    for name in (*strategies.OF_THE_SERVER, *strategies.ONCE):
        meta.pop(name, None)
    strategies.confine(obj, {}, resource, "")
    rules.default(obj)
    if not tracked:
        track_update(obj, None, write.author)
    obj = await write.admitted(obj, None)
    strategies.in_namespace(obj, request)
    meta = obj["metadata"]
    if meta.get("generateName") and not meta.get("name"):
        meta["name"] = m.unused_name(resource, request.namespace, meta["generateName"])
    name = meta.get("name") or ""
    meta["uid"], meta["creationTimestamp"] = new_uid(), m.clock.timestamp()
    if strategies.counts_generations(resource):
        meta["generation"] = 1
    rules.prepare(obj, None, "")
    await write.checked(obj, None, name)
    existing = m.store.get(resource.key, meta.get("namespace") or "", name)
    if existing is not None:
        error = already_exists(resource.about(name))
        if m.read(existing, resource)["metadata"].get("deletionTimestamp"):
            error.message = f"object is being deleted: {error.message}"
        raise error
    if write.options.dry_run:
        return write.answer(201, encode(obj))
    return write.answer(201, m.view(m.store.create(resource.key, obj), resource))


async def update(m: Machinery, request: Request) -> Answer:
    resource, scaled = request.resource, request.subresource == "scale"
    kind = "Scale" if scaled else ""
    body, repeated = bodies.decode_object(request.body, request.content_type, resource, kind=kind)
    write = Write(m, request, parameters.write(request, "UpdateOptions"))
    meta = strategies.metadata(body)
    if not scaled:
        write.decoded(body, repeated)
    strategies.in_namespace(body, request)
    strategies.named(meta, request.name)
    there = m.store.get(resource.key, request.namespace, request.name) is not None
    if not there and strategies.created_by_put(resource) and not request.subresource:
        m.authorize(request.user, "create", resource, request.namespace, request.name)
        return await insert(write, body)
    if not meta.get("resourceVersion") and not scaled and strategies.versioned_put(resource):
        m.of(request)  # what is not there needs no version
        cause = Cause("FieldValueInvalid", "Invalid value: 0: must be specified for an update", _VERSION)
        raise invalid(resource.about(request.name), [cause])

    def changed(old: Object) -> Object:
        strategies.check_uid(meta, old, resource)
        copy: Object = scale.changed(old, body, resource) if scaled else clone(body)
        return copy

    return await guaranteed(write, changed)


async def guaranteed(write: Write, changed: Callable[[Object], Object], *, tracked: bool = False) -> Answer:
    """Write what `changed` makes of the object, again and again while others are faster."""
    m, request, resource = write.m, write.request, write.resource
    warnings = list(request.warnings)
    for _ in range(_ATTEMPTS):
        request.warnings[:] = warnings
        stored = m.of(request)
        old = m.read(stored, resource)
        new = changed(old)
        try:
            return write.answer(200, await _replace(write, stored, old, new, tracked=tracked))
        except Lost:
            continue
    raise conflict(resource.about(request.name), MODIFIED)


async def _replace(write: Write, stored: Stored, old: Object, new: Object, *, tracked: bool) -> bytes:
    """One attempt. Lost when somebody else wrote meanwhile."""
    m, resource, request, rules = write.m, write.resource, write.request, write.resource.rules
    version = strategies.metadata(new).get("resourceVersion")
    if version and str(version) != str(stored.version):
        raise conflict(resource.about(request.name), MODIFIED)
    strategies.confine(new, old, resource, request.subresource)
    strategies.keep_system_metadata(new["metadata"], old["metadata"])
    rules.default(new)
    if not tracked:
        track_update(new, old, write.author)
    new = await write.admitted(new, old)
    strategies.keep_system_metadata(new["metadata"], old["metadata"])
    rules.prepare(new, old, request.subresource)
    strategies.count_generation(new, old, resource)
    await write.checked(new, old, request.name)
    emptied = bool(new["metadata"].get("deletionTimestamp")) and strategies.finished(new, old)
    if strategies.unchanged(new, old) and not emptied:
        return m.view(stored, resource)
    if write.options.dry_run:
        return encode(new)
    if emptied:  # watchers see what was stored, the finalizer included; the client sees what he wrote
        last = m.store.remove(resource.key, stored.namespace, stored.name, stored.version)
        new["metadata"]["resourceVersion"] = str(last.version)
        return encode(new)
    return m.view(m.store.replace(resource.key, new, stored.version), resource)
