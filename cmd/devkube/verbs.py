"""All verbs of all resources: which function answers a request.

    Verbs(store, catalog, clock).handle(request) -> Answer | Stream

The verbs themselves are in `reading`, `writing`, `patching` and `deleting`; what is answered by other modules
(TokenRequest, reviews, …) is put into `virtual`.
"""

from devkube import bodies, deleting, patching, reading, writing
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
        if request.body.strip():
            sub = request.resource.subresources.get(request.subresource)
            kind = sub.kind if sub else request.resource.kind
            obj, _ = bodies.decode_object(request.body, request.content_type, request.resource, kind=kind)
        return await other(request, obj)
