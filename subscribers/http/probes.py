"""The functional self-test of the index, `POST /probe`: put a synthetic entry in, find it, route to it, take it out.

Everything happens between two turns of the loop and in this process, under a tenant that no lookup may name, so
nothing of it is ever seen in /snapshot, metrics or a lookup. The entry is taken out whatever happens.

    stage    ok when                                        else
    ingest   the index, asked directly, names the replica   failed; routing and t2 are skipped
    routing  the route is PREFIX_MATCH and lists it         failed; t2 is skipped
    t2       never: nothing probes the second tier yet      skipped

Not here: HTTP (admin), the index (behind `Index`).

Rules: spec/inferencecache.md section 1.9.
"""

import hashlib
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, Protocol

import msgspec
import structlog

log = structlog.get_logger(__name__)

TENANT: Final = "inferencecache.io/probe"
TOKENS: Final = 16
REQUEST_LIMIT: Final = 4 * 1024

Result = Literal["ok", "failed", "skipped"]
Stage = Literal["ingest", "routing", "t2"]


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    backend: str  # ns/name
    model: str
    hash_scheme: str
    backend_type: str = ""


class StageError(msgspec.Struct, frozen=True):
    stage: Stage
    message: str


class Response(msgspec.Struct, frozen=True, omit_defaults=True):
    backend: str
    ingest: Result
    routing: Result
    t2: Result
    errors: list[StageError] = []


class Entry(NamedTuple):
    """The synthetic chain entry: one block of 16 tokens. `key` is what `probe_hash` begins with, as the index keys."""

    tenant: str
    replica: str
    model: str
    scheme: str
    key: int
    tokens: int


class Route(NamedTuple):
    reason: str
    replicas: Sequence[str]


class Index(Protocol):
    """What a probe needs of the index. Synchronous; anything raised fails the stage with its message."""

    def put(self, entry: Entry) -> None: ...

    def holders(self, entry: Entry) -> Sequence[str]:
        """Replicas that hold the entry's key, without policies."""
        ...

    def route(self, entry: Entry) -> Route:
        """LookupRoute on the index for the entry's chain, without the probe tenant's refusal and without policies."""
        ...

    def remove(self, entry: Entry) -> None: ...


class Malformed(ValueError):
    """The request cannot be read; one line."""


_decoder = msgspec.json.Decoder(Request)


def read(body: bytes) -> Request:
    """A request of at most 4 KiB. Raises Malformed."""
    if len(body) > REQUEST_LIMIT:
        raise Malformed(f"the request is larger than {REQUEST_LIMIT} bytes")
    try:
        request = _decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed(f"not a probe request: {error}") from error
    for name, value in (
        ("backend", request.backend),
        ("model", request.model),
        ("hashScheme", request.hash_scheme),
    ):
        if not value.strip():
            raise Malformed(f"not a probe request: {name} must not be empty")
    return request


def probe_hash(backend: str, model: str, scheme: str) -> bytes:
    """32 bytes that no token content hashes to by accident; the same in every implementation."""
    digest = hashlib.sha256(b"inferencecache.io/probe/v1\n")
    for text in (scheme, model, backend):
        raw = text.encode()
        digest.update(len(raw).to_bytes(4, "big") + raw)
    return digest.digest()


def entry_of(request: Request) -> Entry:
    key = int.from_bytes(probe_hash(request.backend, request.model, request.hash_scheme)[:8], "big")
    return Entry(TENANT, f"__probe-{request.backend}", request.model, request.hash_scheme, key, TOKENS)


def run(request: Request, index: Index) -> Response:
    """Both stages; the index is as it was afterwards."""
    entry = entry_of(request)
    try:
        if (problem := _ingest_problem(entry, index)) is not None:
            return Response(request.backend, "failed", "skipped", "skipped", [StageError("ingest", problem)])
        if (problem := _routing_problem(entry, index)) is not None:
            return Response(request.backend, "ok", "failed", "skipped", [StageError("routing", problem)])
        return Response(request.backend, "ok", "ok", "skipped")
    finally:
        index.remove(entry)


def _ingest_problem(entry: Entry, index: Index) -> str | None:
    try:
        index.put(entry)
        holders = index.holders(entry)
    except Exception as error:
        log.exception("the probe's entry could not be put into the index")
        return f"the index raised {type(error).__name__}: {error}"
    return None if entry.replica in holders else "the index does not return the entry that was just put in"


def _routing_problem(entry: Entry, index: Index) -> str | None:
    try:
        route = index.route(entry)
    except Exception as error:
        log.exception("the probe's entry could not be routed to")
        return f"LookupRoute raised {type(error).__name__}: {error}"
    if route.reason != "PREFIX_MATCH":
        return f"LookupRoute answered {route.reason} instead of PREFIX_MATCH"
    return None if entry.replica in route.replicas else "LookupRoute does not list the replica that was just put in"
