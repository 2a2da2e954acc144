"""The API as one actor uses it: every write goes through admission, field ownership and watches like anybody's.

Nothing is cached: a read shows what is there now, so that no controller has to expect its own writes. Items of lists
have apiVersion and kind here. What fails is a StatusError; a missing object is None.
"""

import itertools
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from devkube.errors import StatusError
from devkube.kinds import Object
from devkube.requests import User

if TYPE_CHECKING:
    from devkube.server import DevKube

_MERGE: Final = "application/merge-patch+json"
# Names of Events, as upstream in the order of time, in which kubectl then shows those of one second.
_NUMBERS: Final = itertools.count(time.time_ns())


def stamp(seconds: float) -> str:
    """Unix time as metav1.Time."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def condition(obj: Object, kind: str) -> Mapping[str, Any]:
    """The condition of an object, empty where there is none."""
    found = (obj.get("status") or {}).get("conditions") or ()
    return next((one for one in found if one.get("type") == kind), {})


def conditions(obj: Object, now: str, *new: Object) -> list[Object]:
    """Those of an object, some renewed; the time of one moves when its status does."""
    found = {one.get("type"): one for one in (obj.get("status") or {}).get("conditions") or ()}
    for one in new:
        old = found.get(one["type"], {})
        since = old.get("lastTransitionTime", now) if old.get("status") == one["status"] else now
        found[one["type"]] = {**one, "lastTransitionTime": since}
    return list(found.values())


class Client:
    """`component` is who speaks in Events, `user` who asks, `agent` the field manager."""

    def __init__(self, api: "DevKube", component: str, *, user: str, agent: str) -> None:
        self.clock = api.clock
        self._api, self._component, self._agent = api, component, agent
        self._user = User(user, groups=("system:masters", "system:authenticated"))
        self._resources = {one.kind: one for one in api.catalog}
        self._told: set[tuple[str, ...]] = set()

    def path(self, kind: str, namespace: str, name: str = "") -> str:
        one = self._resources[kind]
        parts = ["apis" if one.group else "api", one.group_version, *(["namespaces", namespace] if namespace else [])]
        return "/" + "/".join([*parts, one.plural, *([name] if name else [])])

    def _of(self, obj: Object) -> str:
        return self.path(obj["kind"], obj["metadata"].get("namespace") or "", obj["metadata"]["name"])

    async def ask(self, method: str, path: str, body: Object | None = None, **more: Any) -> Object:
        found: Object = await self._api.request(method, path, body, user=self._user, agent=self._agent, **more)
        return found

    async def get(self, kind: str, namespace: str, name: str) -> Object | None:
        try:
            return await self.ask("GET", self.path(kind, namespace, name))
        except StatusError:  # within the process nothing else keeps a read from succeeding
            return None

    async def list(self, kind: str, namespace: str = "", *, labels: str = "") -> list[Object]:
        found = await self.ask("GET", self.path(kind, namespace), query={"labelSelector": labels})
        return [{"apiVersion": self._resources[kind].group_version, "kind": kind, **one} for one in found["items"]]

    async def create(self, kind: str, obj: Object) -> Object:
        made = {"apiVersion": self._resources[kind].group_version, "kind": kind, **obj}
        return await self.ask("POST", self.path(kind, obj["metadata"].get("namespace", "")), made)

    async def patch(self, obj: Object, change: Object) -> Object:
        return await self.ask("PATCH", self._of(obj), change, content_type=_MERGE)

    async def status(self, obj: Object, status: Mapping[str, Any]) -> None:
        """Written only where it differs. `obj` must be as it was read."""
        if (obj.get("status") or {}) != status:
            await self.ask("PUT", f"{self._of(obj)}/status", {**obj, "status": status})

    async def delete(self, obj: Object, *, grace: int | None = None) -> None:
        options: Object = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
        options["preconditions"] = {"uid": obj["metadata"]["uid"]}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        await self.ask("DELETE", self._of(obj), options)

    async def tell(self, about: Object, reason: str, message: str, *, warning: bool = False, field: str = "") -> None:
        """An Event about an object, once: what happens again is not told again. A namespace that ends takes none."""
        meta, now = about["metadata"], self.clock.timestamp()
        namespace, key = meta.get("namespace") or "default", (meta["uid"], field, reason, message)
        if key in self._told:
            return
        self._told.add(key)
        involved = {
            "kind": about["kind"],
            "apiVersion": about["apiVersion"],
            "name": meta["name"],
            "namespace": meta.get("namespace") or "",
            "uid": meta["uid"],
            "fieldPath": field,
        }
        event = {
            "metadata": {"name": f"{meta['name'][:200]}.{next(_NUMBERS):x}", "namespace": namespace},
            "involvedObject": involved,
            "reason": reason,
            "message": message[:1024],
            "type": "Warning" if warning else "Normal",
            "source": {"component": self._component},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        with suppress(StatusError):
            await self.create("Event", event)
