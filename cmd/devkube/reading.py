"""get, list and watch.

A list's pages all show the same version: the store undoes its history for those who still page through an older one.

A watch is an async generator of batches of events. It has no queue: it stands at a version of its kind's history and
reads on when the kind changes, so that a slow client costs nothing but the history it has not read. Falling behind what
history keeps ends it with 410, as resuming from too long ago does. Rules: apiserver's pkg/storage and its cacher
(selectors: an object that leaves is DELETED under the version at which it left; bookmarks every minute and at the end).
"""

import asyncio
import base64
import itertools
from typing import Annotated, Any, Final

import msgspec

from devkube import parameters, scale
from devkube.errors import Cause, StatusError, bad_request, expired
from devkube.kinds import Resource
from devkube.machinery import Machinery
from devkube.parameters import Read
from devkube.requests import Answer, Event, Listing, Request, Stream
from devkube.store import Change, Gone, Stored, encode

DEFAULT_TIMEOUT: Final = 2700.0  # seconds of a watch; upstream takes 30 to 60 minutes at random
_Version = Annotated[int, msgspec.Meta(gt=0)]
INITIAL_END: Final = "k8s.io/initial-events-end"
_BATCH: Final = 256  # events in one write at most: others get their turn in between


def get(m: Machinery, request: Request) -> Answer:
    stored = m.of(request)
    _not_ahead(m, request.query.get("resourceVersion", ""))
    if request.subresource == "scale":
        return Answer(200, scale.of(m.read(stored, request.resource), request.resource))
    return Answer(200, m.view(stored, request.resource), request.resource)


def list_(m: Machinery, request: Request) -> Answer:
    resource, options = request.resource, parameters.read(request.query, request.resource)
    at, after, exact = m.store.version, None, options.exact or bool(options.token)
    if options.token:
        at, after = decode_token(options.token)
        _not_ahead(m, str(at))
    else:
        _not_ahead(m, options.version)
        at = int(options.version) if options.exact else at
    found = m.store.select(resource.key, request.namespace, options.predicate, after=after, at=at if exact else None)
    try:
        page = list(itertools.islice(found, options.limit + 1 if options.limit > 0 else None))
    except Gone:
        told = "the continue parameter" if options.token else f"the resourceVersion {options.version}"
        raise expired(f"{told} is too old to display a consistent list result: list anew without it") from None
    metadata: dict[str, Any] = {"resourceVersion": str(at)}
    if len(page) > options.limit > 0:
        page.pop()
        metadata["continue"] = encode_token(at, page[-1])
        if options.predicate is None:
            metadata["remainingItemCount"] = sum(1 for _ in found) + 1
    return Answer(200, Listing(resource, metadata, [m.view(one, resource) for one in page]), resource)


def watch(m: Machinery, request: Request) -> Stream:
    options = parameters.read(request.query, request.resource, watch=True)
    if options.initial:
        _not_ahead(m, options.version)
    return _events(m, request.resource, request.namespace, options)


def matching(m: Machinery, request: Request) -> list[Stored]:
    """What deletecollection is about."""
    options = parameters.read(request.query, request.resource)
    return list(m.store.select(request.resource.key, request.namespace, options.predicate))


def encode_token(version: int, last: Stored) -> str:
    """Where the next page begins; clients take it as it comes."""
    return base64.urlsafe_b64encode(encode((version, last.namespace, last.name))).decode().rstrip("=")


def decode_token(token: str) -> tuple[int, tuple[str, str]]:
    """The version of the list (one above zero) and the last object that was sent."""
    try:
        raw = base64.urlsafe_b64decode(token + "==")
        version, namespace, name = msgspec.json.decode(raw, type=tuple[_Version, str, str])
    except ValueError:
        raise bad_request("continue key is not valid: take the one that the last page of the list brought") from None
    return version, (namespace, name)


def _not_ahead(m: Machinery, version: str) -> None:
    """A version that this server has not come to yet is somebody else's."""
    if version and not parameters.is_version(version):
        raise bad_request(f'resourceVersion: Invalid value: "{version}": it must be a number')
    if version and int(version) > m.store.version:
        told = f"Too large resource version: {version}, current: {m.store.version}"
        cause = Cause("ResourceVersionTooLarge", "Too large resource version", "")
        raise StatusError(504, "Timeout", f"Timeout: {told}", causes=[cause], retry_after=1)


async def _events(m: Machinery, resource: Resource, namespace: str, options: Read) -> Stream:
    """The events of one kind from the version in `options` on, or what is there and then its changes."""
    store, key = m.store, resource.key
    fresh = options.version in ("", "0")
    position = store.version if fresh or options.initial else int(options.version)
    wake, rung = store.watcher(key), set[str]()

    def ring(what: str) -> None:
        rung.add(what)
        wake.set()

    def bookmark(**more: Any) -> Event:
        metadata = {"resourceVersion": str(position), **more}
        obj = {"kind": resource.kind, "apiVersion": resource.group_version, "metadata": metadata}
        return Event("BOOKMARK", encode(obj))

    timeout = asyncio.get_running_loop().call_later(options.timeout or DEFAULT_TIMEOUT, ring, "end")
    marks = m.clock.call_later(m.bookmark_seconds, lambda: ring("mark"))
    try:
        if options.initial or (fresh and options.initial is None):
            # Taken at once: whatever changes while these are sent comes from history afterwards.
            there = list(store.select(key, namespace, options.predicate))
            for start in range(0, len(there), _BATCH):
                yield [Event("ADDED", m.view(one, resource)) for one in there[start : start + _BATCH]]
            if options.initial and options.bookmarks:
                yield [bookmark(annotations={INITIAL_END: "true"})]
        elif not store.known(key, position):
            raise Gone
        while True:
            wake.clear()
            changes = store.since(key, position)
            for start in range(0, len(changes), _BATCH):
                chunk = changes[start : start + _BATCH]
                seen = (_seen(m, change, resource, namespace, options) for change in chunk)
                if events := [event for event in seen if event is not None]:
                    yield events
                position = chunk[-1].version
            if changes:
                continue  # more may have come while they were sent
            position = max(position, store.version)
            if rung and options.bookmarks:
                yield [bookmark()]
            if "end" in rung or m.catalog.stored_as(key) is None:
                return
            if rung:
                rung.clear()
                marks = m.clock.call_later(m.bookmark_seconds, lambda: ring("mark"))
            await wake.wait()
    except Gone:
        told = f"too old resource version: {position} ({store.version})"
        yield [Event("ERROR", encode(expired(told).body()))]
    finally:
        timeout.cancel()
        marks.cancel()
        store.forget(key, wake)


def _seen(m: Machinery, change: Change, resource: Resource, namespace: str, options: Read) -> Event | None:
    """The change as this watch's selectors see it."""
    before, after = change.before, change.after
    if namespace and after.namespace != namespace:
        return None
    was = before is not None and (options.predicate is None or options.predicate(before))
    is_ = change.type != "DELETED" and (options.predicate is None or options.predicate(after))
    if is_:
        return Event("MODIFIED" if was else "ADDED", m.view(after, resource))
    if before is None or not was:
        return None
    if change.type == "DELETED":
        return Event("DELETED", m.view(after, resource))
    # The last state that matched, under the version at which it ceased to.
    obj = m.read(before, resource)
    obj["metadata"]["resourceVersion"] = str(change.version)
    return Event("DELETED", encode(obj))
