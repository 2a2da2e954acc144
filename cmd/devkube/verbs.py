"""All verbs of all resources: which function answers a request.

    Verbs(store, catalog, clock).handle(request) -> Answer | Stream

The verbs themselves are in `reading`, `writing`, `patching` and `deleting`; what is answered by other modules
(TokenRequest, reviews, …) is put into `virtual`.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Final

from devkube import bodies, deleting, kinds, parameters, patching, reading, strategies, writing
from devkube.builtin.catalog import BuiltinRules
from devkube.machinery import Machinery
from devkube.requests import Answer, Request, Stream, Subresource

Read = Callable[[Machinery, Request], Answer | Stream]
READS: Final[Mapping[str, Read]] = {"get": reading.get, "list": reading.list_, "watch": reading.watch}
WRITES: Final[Mapping[str, Callable[[Machinery, Request], Awaitable[Answer]]]] = {
    "create": writing.create,
    "update": writing.update,
    "patch": patching.patch,
    "delete": deleting.delete,
    "deletecollection": deleting.delete_collection,
}


class Verbs(Machinery):
    async def handle(self, request: Request) -> Answer | Stream:
        if other := self.virtual.get((request.resource.key, request.subresource)):
            return await self._elsewhere(other, request)
        if read := READS.get(request.verb):
            return read(self, request)
        return await WRITES[request.verb](self, request)

    async def _elsewhere(self, other: Subresource, request: Request) -> Answer:
        """A body must be of the subresource's kind; a version it need not have."""
        own = _kind_of(request)
        kind = own.kind if request.subresource else ""
        obj, _ = bodies.decode_object(request.body, request.content_type, own, kind=kind)
        options = parameters.write(request, "CreateOptions")
        request.warnings.extend(own.rules.decode(obj, validation=options.validation))
        strategies.in_namespace(obj, request)
        attributes = writing.Write(self, request, options).attributes(obj, None)
        attributes.kind = (own.group, own.version, own.kind) if request.subresource else None
        obj = await self.admission.mutate(attributes)
        own.rules.decode(obj, validation="Ignore")  # what webhooks made of it
        await self.admission.validate(attributes)
        return await other(request, obj)


def _kind_of(request: Request) -> kinds.Resource:
    """What a POST to this subresource (or to a kind that is not stored) holds."""
    resource, sub = request.resource, request.resource.subresources.get(request.subresource)
    if sub is None:
        return resource
    group, version = (sub.group, sub.version) if sub.version else (resource.group, resource.version)
    return replace(resource, group=group, version=version, kind=sub.kind, rules=BuiltinRules(group, version, sub.kind))
