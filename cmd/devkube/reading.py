"""get, list and watch.

A list's pages all show the same version: the store undoes its history for those who still page through an older one.
Rules: apiserver's pkg/storage (expiry) and pkg/endpoints/handlers/get.go.
"""

import base64
import itertools
from typing import Any

import msgspec

from devkube import parameters, scale, watching
from devkube.errors import Cause, StatusError, bad_request, expired
from devkube.kinds import Resource
from devkube.machinery import Machinery
from devkube.requests import Answer, Listing, Request, Stream
from devkube.store import Gone, Stored, encode


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
    options = parameters.read(request.query, request.resource, name=request.name, watch=True)
    if options.initial:
        _not_ahead(m, options.version)
    return watching.watch(m, request.resource, request.namespace, options)


def matching(m: Machinery, request: Request, resource: Resource) -> list[Stored]:
    """What deletecollection is about."""
    options = parameters.read(request.query, resource)
    return list(m.store.select(resource.key, request.namespace, options.predicate))


def encode_token(version: int, last: Stored) -> str:
    """Where the next page begins; clients take it as it comes."""
    return base64.urlsafe_b64encode(encode((version, last.namespace, last.name))).decode()


def decode_token(token: str) -> tuple[int, tuple[str, str]]:
    """The version of the list and the last object that was sent."""
    try:
        raw = base64.urlsafe_b64decode(token)
        version, namespace, name = msgspec.json.decode(raw, type=tuple[int, str, str])
    except ValueError:
        raise bad_request("continue key is not valid: take the one that the last page of the list brought") from None
    return version, (namespace, name)


def _not_ahead(m: Machinery, version: str) -> None:
    """A version that this server has not come to yet is somebody else's."""
    if version and not version.isdecimal():
        raise bad_request(f'resourceVersion: Invalid value: "{version}": it must be a number')
    if version and int(version) > m.store.version:
        told = f"Too large resource version: {version}, current: {m.store.version}"
        cause = Cause("ResourceVersionTooLarge", "Too large resource version", "")
        raise StatusError(504, "Timeout", f"Timeout: {told}", causes=[cause], retry_after=1)
