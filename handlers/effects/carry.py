"""One intent carried out: the calls that it takes, and the event that records it.

What the log knows as tokens only is read from the reconciled object, put in for the write, and taken out again of what
the API server says to it: neither the log nor a line of ours holds it.

A foreign object of the same name is never taken over: before the first apply of an object it is read, and its
controller reference compared. Kubernetes Events have names of their own, so writing one twice is a conflict that means
done.

Rules: design.md section 5 ("two believe they lead").
"""

from collections.abc import Callable
from typing import Final

import msgspec

from eventstore import events
from handlers import canonical, moments, tokens
from handlers.effects.cluster import MANAGER, Cluster, ClusterError, Written
from handlers.outcome import Apply, Delete, Intent, Key, Object, Patch, Status, Told, event_name
from handlers.world import kinds

#: A body larger than this is recorded by its hash only.
LARGEST: Final = 16 * 1024


class Foreign(ClusterError):
    """The object belongs to somebody else."""


class Stopped(Exception):
    """We lead no more; nothing was written."""


async def carry_out(
    cluster: Cluster, intent: Intent, *, now_ns: int, may: Callable[[], bool] = lambda: True, source: Key | None = None
) -> tuple[Key, str, Object, Written]:
    """Target, verb, body and result. `may` is asked again right before a write that took a read. `source` is the object
    that values come from. Raises ClusterError, Stopped."""
    target, verb, body = described(intent)
    if verb not in ("apply", "patch") or source is None or not (wanted := tokens.found(body)):
        return await _carried(cluster, intent, now_ns=now_ns, may=may)
    values = await _values(cluster, source, wanted)
    field = "body" if isinstance(intent, Apply) else "patch"
    whole = msgspec.structs.replace(intent, **{field: tokens.filled(body, values)})
    try:
        return target, verb, body, (await _carried(cluster, whole, now_ns=now_ns, may=may))[3]
    except ClusterError as error:
        raise type(error)(error.code, error.reason, tokens.masked(error.message, values), error.retry_after) from None


async def _values(cluster: Cluster, source: Key, wanted: set[str]) -> dict[str, str]:
    """Raises ClusterError: a conflict where the object has changed since the log told of it. What looks like a token
    because its author wrote it so stands for itself."""
    live = await cluster.get(source) or {}
    found = kinds.values(source.kind, live)
    if missing := wanted - found.keys() - tokens.found(live.get("spec")):
        message = f"{len(missing)} values of {source} have changed since it was observed"
        raise ClusterError(409, "Conflict", message)
    return {token: found[token] for token in wanted & found.keys()}


async def _carried(
    cluster: Cluster, intent: Intent, *, now_ns: int, may: Callable[[], bool]
) -> tuple[Key, str, Object, Written]:
    target, verb, body = described(intent)
    written = Written("", "", 0)
    match intent:
        case Apply():
            written = await _apply(cluster, intent, may)
        case Status():
            written = await _status(cluster, intent, may)
        case Patch():
            written = await _patch(cluster, intent, may)
        case Delete():
            await cluster.delete(intent.key, uid=intent.uid, resource_version=intent.resource_version)
            written = Written(intent.uid, "", 0)
        case Told():
            target, body = event_of(intent, now_ns=now_ns)
            written = await _create(cluster, target, body)
    return target, verb, body, written


def described(intent: Intent) -> tuple[Key, str, Object]:
    """Target, verb and body of an intent, whether it succeeds or not."""
    match intent:
        case Apply():
            return intent.key, "apply", intent.body
        case Status():
            return intent.key, "status", {"status": intent.status}
        case Patch():
            return intent.key, "patch", intent.patch
        case Delete():
            return intent.key, "delete", {}
        case Told():
            key, body = event_of(intent, now_ns=0)
            return key, "event", body


async def _apply(cluster: Cluster, intent: Apply, may: Callable[[], bool]) -> Written:
    """The uid of what was read goes along: an object that took its place in between is not touched."""
    live = await cluster.get(intent.key)
    body = intent.body
    if live is not None:
        owners = live.get("metadata", {}).get("ownerReferences") or []
        if not any(one.get("controller") and one.get("uid") == intent.owner for one in owners):
            raise Foreign(409, "Foreign", f"{intent.key} exists and is not owned by {intent.owner}; it is left alone")
        body = {**body, "metadata": {**body.get("metadata", {}), "uid": live["metadata"]["uid"]}}
    _still(may)
    return await cluster.apply(intent.key, body)


async def _status(cluster: Cluster, intent: Status, may: Callable[[], bool]) -> Written:
    """A status is replaced whole; the object is read for the version that it is written over, and compared by uid. One
    that is so already is not written: an earlier write of it was not recorded."""
    live = await _same(cluster, intent.key, intent.uid)
    if live.get("status") == intent.status:
        return _as_read(live)
    _still(may)
    return await cluster.status(intent.key, {**live, "status": intent.status})


async def _patch(cluster: Cluster, intent: Patch, may: Callable[[], bool]) -> Written:
    """Over the version that is there now: the world does not know it, for what handlers do not read is not told."""
    live = await _same(cluster, intent.key, intent.uid)
    locked = {"uid": intent.uid, "resourceVersion": live["metadata"].get("resourceVersion", "")}
    _still(may)
    metadata = {**intent.patch.get("metadata", {}), **locked}
    return await cluster.patch(intent.key, {**intent.patch, "metadata": metadata})


async def _same(cluster: Cluster, key: Key, uid: str) -> Object:
    live = await cluster.get(key)
    if live is None or live.get("metadata", {}).get("uid") != uid:
        raise ClusterError(404, "NotFound", f"{key} with uid {uid} is gone")
    return live


def _as_read(live: Object) -> Written:
    metadata = live["metadata"]
    return Written(metadata["uid"], str(metadata.get("resourceVersion", "")), int(metadata.get("generation", 0)))


def _still(may: Callable[[], bool]) -> None:
    if not may():
        raise Stopped


async def _create(cluster: Cluster, key: Key, body: Object) -> Written:
    try:
        return await cluster.create(key, body)
    except ClusterError as error:
        if error.reason != "AlreadyExists":
            raise
        return Written("", "", 0)  # told before, by us or by a leader before us


def event_of(told: Told, *, now_ns: int) -> tuple[Key, Object]:
    """A core/v1 Event, as kubectl describe reads it."""
    when = moments.text(now_ns // 1_000_000_000)
    namespace = told.about.namespace or "default"
    name = event_name(told)
    body: Object = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": {
            "apiVersion": told.api_version,
            "kind": told.object_kind,
            "namespace": told.about.namespace,
            "name": told.about.name,
            "uid": told.uid,
        },
        "type": told.type,
        "reason": told.reason,
        "message": told.message[:1024],
        "source": {"component": MANAGER},
        "reportingComponent": MANAGER,
        "firstTimestamp": when,
        "lastTimestamp": when,
        "count": 1,
    }
    return Key("events", namespace, name), body


def recorded(
    target: Key, verb: str, body: Object, written: Written, *, work_key: Key, handler: str, position: str, epoch: int,
    attempt: int,
) -> events.EffectApplied:  # fmt: skip
    """The event of a write that succeeded."""
    small = len(canonical.encode(body)) <= LARGEST
    return events.EffectApplied(
        verb=verb,  # type: ignore[arg-type]
        kind=target.kind,
        namespace=target.namespace,
        name=target.name,
        uid=written.uid,
        resource_version=written.resource_version,
        generation=written.generation,
        body=body if small or verb == "status" else {},
        desired=canonical.digest(body),
        position=position,
        handler=handler,
        key=str(work_key),
        epoch=epoch,
        attempt=attempt,
    )


def refused(
    target: Key, verb: str, body: Object, error: ClusterError, *, work_key: Key, handler: str, position: str,
    epoch: int, attempt: int,
) -> events.EffectFailed:  # fmt: skip
    return events.EffectFailed(
        verb=verb,  # type: ignore[arg-type]
        kind=target.kind,
        namespace=target.namespace,
        name=target.name,
        desired=canonical.digest(body),
        position=position,
        handler=handler,
        key=str(work_key),
        epoch=epoch,
        attempt=attempt,
        code=error.code,
        reason=error.reason,
        message=error.message[:500],
    )
