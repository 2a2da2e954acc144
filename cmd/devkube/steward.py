"""How devkube's own controllers ask: through the verbs, as a client that may do anything."""

from collections.abc import Iterable
from typing import Any, Final

from devkube.errors import StatusError
from devkube.kinds import Object, Resource
from devkube.requests import Request, User
from devkube.store import Stored, encode, load
from devkube.verbs import Verbs

COLLECTOR: Final = User(
    "system:serviceaccount:kube-system:generic-garbage-collector", groups=("system:masters", "system:authenticated")
)


class Steward:
    def __init__(self, verbs: Verbs) -> None:
        self._verbs, self._store = verbs, verbs.store

    async def delete_all(self, resource: Resource, objects: Iterable[Stored]) -> bool:
        """Whether some are left."""
        found = tuple(objects)
        for one in found:
            if b'"deletionTimestamp":' not in one.raw or not load(one)["metadata"].get("deletionTimestamp"):
                await self.delete(resource, one, "Background")
        return any(self._store.get(one.key, one.namespace, one.name) for one in found)

    async def delete(self, resource: Resource, stored: Stored, policy: str) -> None:
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": policy,
            "preconditions": {"uid": stored.uid},
        }
        try:
            await self.ask("delete", resource, stored.namespace, stored.name, options)
        except StatusError as error:
            if error.code != 404:
                raise

    async def patch(self, resource: Resource, stored: Stored, metadata: dict[str, Any]) -> None:
        """Of the version seen: a conflict means that somebody else was faster, and the task is done again."""
        metadata = {**metadata, "resourceVersion": str(stored.version)}
        body, how = {"metadata": metadata}, "application/merge-patch+json"
        await self.ask("patch", resource, stored.namespace, stored.name, body, content_type=how)

    async def ask(
        self,
        verb: str,
        resource: Resource,
        namespace: str,
        name: str,
        body: Object,
        *,
        subresource: str = "",
        content_type: str = "application/json",
    ) -> None:
        await self._verbs.handle(
            Request(
                verb=verb,
                resource=resource,
                namespace=namespace,
                name=name,
                subresource=subresource,
                body=encode(body),
                content_type=content_type,
                user=COLLECTOR,
                agent="devkube",
            )
        )
