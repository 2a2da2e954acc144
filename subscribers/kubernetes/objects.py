"""Single objects, read and written: `handlers.effects.cluster.Cluster` over one client."""

from typing import Any

import msgspec

from handlers.effects.cluster import MANAGER, ClusterError, Written
from handlers.outcome import Key, Object
from subscribers.kubernetes.client import Answer, Client
from subscribers.kubernetes.routes import ROUTES


class _Meta(msgspec.Struct):
    uid: str = ""
    resourceVersion: str = ""
    generation: int = 0


class _Written(msgspec.Struct):
    metadata: _Meta


_decode = msgspec.json.Decoder(_Written).decode


class Objects:
    """`dry_run` sends every write with dryRun=All: it is judged and not kept."""

    def __init__(self, client: Client, *, dry_run: bool = False) -> None:
        self.client = client
        self._query = {"fieldManager": MANAGER, **({"dryRun": "All"} if dry_run else {})}

    async def get(self, key: Key) -> Object | None:
        try:
            answer = await self.client.request("GET", _path(key))
        except ClusterError as error:
            if error.code == 404:
                return None
            raise
        found: Object = _decoded(answer.body)
        return found

    async def apply(self, key: Key, body: Object, *, force: bool = True) -> Written:
        query = {**self._query, "force": str(force).lower()}
        return await self._send("PATCH", _path(key), body, query, "application/apply-patch+yaml")

    async def status(self, key: Key, body: Object) -> Written:
        return await self._send("PUT", _path(key, "status"), body, self._query)

    async def patch(self, key: Key, body: Object) -> Written:
        return await self._send("PATCH", _path(key), body, self._query, "application/merge-patch+json")

    async def replace(self, key: Key, body: Object) -> Written:
        return await self._send("PUT", _path(key), body, self._query)

    async def create(self, key: Key, body: Object) -> Written:
        return await self._send("POST", _path(Key(key.kind, key.namespace, "")), body, self._query)

    async def delete(self, key: Key, *, uid: str, resource_version: str = "") -> None:
        preconditions = {"uid": uid, **({"resourceVersion": resource_version} if resource_version else {})}
        body = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": preconditions}
        try:
            await self.client.request("DELETE", _path(key), query=self._query, body=body)
        except ClusterError as error:
            if error.code != 404:
                raise

    async def list(self, kind: str, namespace: str = "", *, deadline: float = 10.0, **query: str) -> list[Object]:
        """All objects of a kind, page by page, as they are."""
        found: list[Object] = []
        more: dict[str, str] = {"limit": "500", **ROUTES[kind].query, **query}
        while True:
            answer = await self.client.request("GET", ROUTES[kind].path(namespace), query=more, deadline=deadline)
            page = _decoded(answer.body)
            found += page.get("items", [])
            token = page.get("metadata", {}).get("continue", "")
            if not token:
                return found
            more["continue"] = token

    async def _send(
        self, method: str, path: str, body: Object, query: dict[str, str], content_type: str = "application/json"
    ) -> Written:
        answer = await self.client.request(method, path, query=query, body=body, content_type=content_type)
        return _written(answer)


def _path(key: Key, subresource: str = "") -> str:
    return ROUTES[key.kind].path(key.namespace, key.name, subresource)


def _decoded(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ClusterError(0, "NoAnswer", f"an answer that cannot be read: {error}") from None


def _written(answer: Answer) -> Written:
    try:
        metadata = _decode(answer.body).metadata
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ClusterError(0, "NoAnswer", f"an answer that is no object: {error}") from None
    return Written(metadata.uid, metadata.resourceVersion, metadata.generation)
