"""The API as one actor uses it: every write goes through admission, field ownership and watches like anybody's.

Nothing is cached: a read shows what is there now, so that no controller has to expect its own writes. Items of lists
have apiVersion and kind here. What fails is a StatusError; a missing object is None.
"""

import itertools
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, Protocol

from devkube.clock import Clock
from devkube.errors import StatusError
from devkube.kinds import Object
from devkube.requests import JSON, User

MERGE: Final = "application/merge-patch+json"
KINDS: Final[Mapping[str, tuple[str, str]]] = {
    "Event": ("v1", "events"),
    "Node": ("v1", "nodes"),
    "PersistentVolumeClaim": ("v1", "persistentvolumeclaims"),
    "Pod": ("v1", "pods"),
    "DaemonSet": ("apps/v1", "daemonsets"),
    "Deployment": ("apps/v1", "deployments"),
    "ReplicaSet": ("apps/v1", "replicasets"),
    "StatefulSet": ("apps/v1", "statefulsets"),
    "Job": ("batch/v1", "jobs"),
}
_ORDER: Final = itertools.count()
_REMEMBERED: Final = 4096  # Events that may still be counted up, per actor


class Api(Protocol):
    """DevKube.request."""

    async def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = JSON,
        user: User = ...,
        agent: str = ...,
    ) -> Any: ...


def stamp(seconds: float) -> str:
    """Unix time as metav1.Time."""
    return datetime.fromtimestamp(seconds + 1e-6, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def unix(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def condition(obj: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """The condition of an object, empty where there is none."""
    found = (obj.get("status") or {}).get("conditions") or ()
    return next((one for one in found if one["type"] == kind), {})


def set_condition(conditions: list[dict[str, Any]], new: dict[str, Any], now: str) -> None:
    """Put a condition into a list, in place; its time moves when its status does. Empty fields are left out."""
    new = {key: value for key, value in new.items() if value not in ("", None)}
    old = next((one for one in conditions if one["type"] == new["type"]), None)
    same = old is not None and old.get("status") == new["status"]
    new["lastTransitionTime"] = old["lastTransitionTime"] if old and same and "lastTransitionTime" in old else now
    if old is None:
        conditions.append(new)
    else:
        conditions[conditions.index(old)] = new


class Client:
    """`component` is who speaks in Events, `user` who asks, `agent` the field manager."""

    def __init__(self, api: Api, clock: Clock, component: str, *, user: str, agent: str) -> None:
        self.clock, self.component = clock, component
        self._api, self._agent = api, agent
        self._user = User(user, groups=("system:masters", "system:authenticated"))
        self._told: dict[tuple[str, ...], tuple[str, int]] = {}

    def now(self) -> float:
        return self.clock.now().timestamp()

    def timestamp(self) -> str:
        return self.clock.timestamp()

    async def ask(self, method: str, path: str, body: Any = None, **more: Any) -> Any:
        return await self._api.request(method, path, body, user=self._user, agent=self._agent, **more)

    async def get(self, kind: str, namespace: str, name: str) -> Object | None:
        try:
            found: Object = await self.ask("GET", _path(kind, namespace, name))
        except StatusError as error:
            if error.code == 404:
                return None
            raise
        return found

    async def list(self, kind: str, namespace: str = "", *, labels: str = "", fields: str = "") -> list[Object]:
        query = {"labelSelector": labels, "fieldSelector": fields}
        found = await self.ask("GET", _path(kind, namespace), query=query)
        return [{"apiVersion": KINDS[kind][0], "kind": kind, **one} for one in found["items"]]

    async def create(self, kind: str, obj: Object) -> Object:
        made = {"apiVersion": KINDS[kind][0], "kind": kind, **obj}
        found: Object = await self.ask("POST", _path(kind, obj["metadata"].get("namespace", "")), made)
        return found

    async def patch(self, obj: Object, change: Object) -> Object:
        """A merge patch of the version seen: a conflict means that somebody was faster."""
        change = {**change, "metadata": {"resourceVersion": _version(obj), **change.get("metadata", {})}}
        found: Object = await self.ask("PATCH", _of(obj), change, content_type=MERGE)
        return found

    async def status(self, obj: Object, status: Mapping[str, Any]) -> Object:
        """Written only where it differs. `obj` must be as it was read."""
        if (obj.get("status") or {}) == status:
            return obj
        found: Object = await self.ask("PUT", f"{_of(obj)}/status", {**obj, "status": status})
        return found

    async def delete(self, obj: Object, *, grace: int | None = None) -> None:
        options: Object = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
        options["preconditions"] = {"uid": obj["metadata"]["uid"]}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        try:
            await self.ask("DELETE", _of(obj), options)
        except StatusError as error:
            if error.code not in (404, 409):
                raise

    async def tell(
        self, about: Object, reason: str, message: str, *, warning: bool = False, field: str = "", host: str = ""
    ) -> None:
        """An Event about an object, counted up when the same is told again. A namespace that ends takes none."""
        meta, now, kind = about["metadata"], self.timestamp(), "Warning" if warning else "Normal"
        namespace = meta.get("namespace") or "default"
        key = (meta["uid"], field, reason, message)
        name, count = self._told.pop(key, ("", 0))
        source = {"component": self.component, **({"host": host} if host else {})}
        try:
            if count:
                change = {"count": count + 1, "lastTimestamp": now}
                await self.ask("PATCH", _path("Event", namespace, name), change, content_type=MERGE)
            else:
                # As upstream names them: in the order of time, in which kubectl then shows those of one second.
                name = f"{meta['name'][:200]}.{int(self.now() * 1e9) + next(_ORDER):x}"
                event = {
                    "metadata": {"name": name, "namespace": namespace},
                    "involvedObject": {
                        "kind": about["kind"],
                        "apiVersion": about["apiVersion"],
                        "name": meta["name"],
                        "uid": meta["uid"],
                        "resourceVersion": _version(about),
                        **({"namespace": meta["namespace"]} if meta.get("namespace") else {}),
                        **({"fieldPath": field} if field else {}),
                    },
                    "reason": reason,
                    "message": message[:1024],
                    "type": kind,
                    "source": source,
                    "firstTimestamp": now,
                    "lastTimestamp": now,
                    "count": 1,
                    "reportingComponent": self.component,
                    "reportingInstance": host,
                }
                await self.create("Event", event)
        except StatusError:
            return
        self._told[key] = name, count + 1
        if len(self._told) > _REMEMBERED:
            del self._told[next(iter(self._told))]


def _version(obj: Object) -> str:
    return str(obj["metadata"]["resourceVersion"])


def _of(obj: Object) -> str:
    return _path(obj["kind"], obj["metadata"].get("namespace") or "", obj["metadata"]["name"])


def _path(kind: str, namespace: str, name: str = "") -> str:
    version, plural = KINDS[kind]
    parts = ["apis" if "/" in version else "api", version]
    parts += ["namespaces", namespace] if namespace else []
    return "/" + "/".join([*parts, plural, *([name] if name else [])])
