"""get, list and watch.

A list's pages all show the same version: the store undoes its history for those who still page through an older one.
Rules: apiserver's pkg/storage (continue tokens, expiry) and pkg/endpoints/handlers/get.go.
"""

import base64
import itertools
import json
from typing import Any

from devkube import parameters, scale, watching
from devkube.errors import Cause, StatusError, bad_request, expired
from devkube.kinds import Resource
from devkube.machinery import Machinery
from devkube.parameters import Read
from devkube.requests import Answer, Listing, Request, Stream
from devkube.store import Gone, Stored
from devkube.watching import Predicate

_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)


def get(m: Machinery, request: Request) -> Answer:
    stored = m.of(request)
    version = request.query.get("resourceVersion", "")
    if version and not version.isdecimal():
        raise bad_request(f'resourceVersion: Invalid value: "{version}": it must be a number')
    _not_ahead(m, version)
    if request.subresource == "scale":
        return Answer(200, scale.of(m.read(stored, request.resource), request.resource))
    return Answer(200, m.view(stored, request.resource), request.resource)


def list_(m: Machinery, request: Request) -> Answer:
    resource = request.resource
    options = parameters.read(request.query, resource)
    at, after = m.store.version, None
    exact = options.match == "Exact"
    if options.token:
        version, after = decode_token(options.token)
        at = m.store.version if version < 0 else version
        exact = version > 0
    elif exact:
        _not_ahead(m, options.version)
        at = int(options.version)
    else:
        _not_ahead(m, options.version)
    try:
        found = m.store.select(
            resource.key, request.namespace, predicate(options), after=after, at=at if exact else None
        )
        if options.limit <= 0:
            page, more = list(found), False
        else:
            page = list(itertools.islice(found, options.limit + 1))
            more = len(page) > options.limit
            page = page[: options.limit]
    except Gone:
        raise _too_old(m, options, after) from None
    metadata: dict[str, Any] = {"resourceVersion": str(at)}
    if more:
        metadata["continue"] = encode_token(at, page[-1])
        if not options.selective:
            metadata["remainingItemCount"] = sum(1 for _ in found) + 1
    return Answer(200, Listing(resource, metadata, [m.view(one, resource) for one in page]), resource)


def watch(m: Machinery, request: Request) -> Stream:
    options = parameters.read(request.query, request.resource, name=request.name, watch=True)
    if options.initial:
        _not_ahead(m, options.version)
    return watching.watch(m, request.resource, request.namespace, options, predicate(options))


def predicate(options: Read) -> Predicate | None:
    """Which objects the selectors choose; None: all."""
    labels, fields = options.labels, options.fields
    if labels is None and not fields.terms:
        return None
    return lambda one: (labels is None or labels(one.labels)) and fields.matches(one.namespace, one.name, one.fields)


def encode_token(version: int, last: Stored) -> str:
    """Where the next page begins: upstream's form, though clients take it as it comes."""
    start = f"{last.namespace}/{last.name}\0"
    text = json.dumps({"v": "meta.k8s.io/v1", "rv": version, "start": start})
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode_token(token: str) -> tuple[int, tuple[str, str]]:
    """The version of the list (-1: whatever there is now) and the last object that was sent."""
    try:
        text = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        found = json.loads(text)
        version, start = int(found["rv"]), str(found["start"]).removesuffix("\0")
        namespace, slash, name = start.partition("/")
        if not slash or found["v"] != "meta.k8s.io/v1" or version == 0:
            raise ValueError(start)
    except (ValueError, KeyError, TypeError, RecursionError):
        raise bad_request("continue key is not valid: take the one that the last page of the list brought") from None
    return version, (namespace, name)


def _too_old(m: Machinery, options: Read, after: tuple[str, str] | None) -> StatusError:
    if after is None:
        return expired(f"The resourceVersion for the provided list is too old: {options.version}")
    error = expired(_EXPIRED)
    start = f"{after[0]}/{after[1]}\0"
    text = json.dumps({"v": "meta.k8s.io/v1", "rv": -1, "start": start})
    error.metadata = {"continue": base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")}
    return error


def _not_ahead(m: Machinery, version: str) -> None:
    """A version that this server has not come to yet is somebody else's."""
    if version and int(version) > m.store.version:
        told = f"Too large resource version: {version}, current: {m.store.version}"
        cause = Cause("ResourceVersionTooLarge", "Too large resource version", "")
        raise StatusError(504, "Timeout", f"Timeout: {told}", causes=[cause], retry_after=1)


def matching(m: Machinery, request: Request, resource: Resource) -> list[Stored]:
    """What deletecollection is about."""
    options = parameters.read(request.query, resource)
    return list(m.store.select(resource.key, request.namespace, predicate(options)))
