"""All verbs of all resources: which function answers a request.

    Verbs(store, catalog, clock).handle(request) -> Answer | Stream

The verbs themselves are in `reading`, `writing`, `patching` and `deleting`; what is answered by other modules
(TokenRequest, reviews, …) is put into `virtual`.
"""

from dataclasses import replace

from devkube import bodies, deleting, kinds, patching, reading, writing
from devkube.errors import method_not_allowed
from devkube.kinds import Object
from devkube.machinery import Machinery
from devkube.requests import (
    ADMIN,
    Admission,
    Answer,
    Attributes,
    Event,
    Listing,
    NoAdmission,
    Request,
    Stream,
    Subresource,
    User,
)

__all__ = [
    "ADMIN",
    "Admission",
    "Answer",
    "Attributes",
    "Event",
    "Listing",
    "NoAdmission",
    "Request",
    "Stream",
    "Subresource",
    "User",
    "Verbs",
]


class Verbs(Machinery):
    async def handle(self, request: Request) -> Answer | Stream:
        other = self.virtual.get((request.resource.key, request.subresource))
        if other is not None:
            return await self._elsewhere(other, request)
        match request.verb:
            case "get":
                return reading.get(self, request)
            case "list":
                return reading.list_(self, request)
            case "watch":
                return reading.watch(self, request)
            case "create":
                return await writing.create(self, request)
            case "update":
                return await writing.update(self, request)
            case "patch":
                return await patching.patch(self, request)
            case "delete":
                return await deleting.delete(self, request)
            case "deletecollection":
                return await deleting.delete_collection(self, request)
        raise method_not_allowed(request.verb)

    async def _elsewhere(self, other: Subresource, request: Request) -> Answer:
        """A body that is sent must be of the subresource's kind; a version it need not have."""
        obj: Object = {}
        sub = request.resource.subresources.get(request.subresource)
        if request.body.strip():
            kind = sub.kind if sub else request.resource.kind
            obj, _ = bodies.decode_object(request.body, request.content_type, request.resource, kind=kind)
        attributes = self._created(request, obj, sub)
        obj = await self.admission.mutate(attributes)
        await self.admission.validate(attributes)
        answer = await other(request, obj)
        return replace(answer, warnings=(*request.warnings, *answer.warnings))

    @staticmethod
    def _created(request: Request, obj: Object, sub: kinds.Subresource | None) -> Attributes:
        """What webhooks are told of an eviction, a token or a review."""
        resource, kind = request.resource, None
        if sub is not None:
            kind = (sub.group, sub.version, sub.kind) if sub.version else (resource.group, resource.version, sub.kind)
        return Attributes(
            operation="CREATE",
            resource=resource,
            namespace=request.namespace,
            name=request.name or (obj.get("metadata") or {}).get("name") or "",
            object=obj,
            old=None,
            user=request.user,
            subresource=request.subresource,
            dry_run="All" in request.query.get("dryRun", ""),
            kind=kind,
            warnings=request.warnings,
        )
