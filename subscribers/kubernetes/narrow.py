"""From an object's bytes to what handlers read of it, and nothing else.

The Struct of the kind (handlers.world.kinds) is decoded straight from the wire, so what it does not name is never
built. Annotations stay where a handler reads them. Values that an operator wrote for environments, arguments and
commands, and user information in addresses, are replaced by tokens (handlers.tokens): they may be secrets, and who
needs them reads the object itself. What nobody reads yet is left out.

`resourceVersion` is not part of the narrow object: it changes with every touch, and what did not change is not told.

Rules: design.md section 2, "Privacy", "Shapes".
"""

from typing import Any, Final, NamedTuple

import msgspec

from crds import cachebackend, core, inferencecache, kernelcache, kvcache, schema
from handlers.cachebackend import names
from handlers.kernelcache import telling
from handlers.outcome import Object
from handlers.tokens import Hider
from handlers.world import kinds
from handlers.world.state import Rest
from subscribers.kubernetes import depth, unreadable

#: Annotations that are read, by kind.
ANNOTATIONS: Final[dict[str, frozenset[str]]] = {
    core.PODS: frozenset((names.INJECTED_BY, names.INJECTED_BY_UID, names.INJECT_SKIPPED, names.SKIP_INJECT)),
    cachebackend.CACHE_BACKENDS: frozenset((names.KERNEL_CHECK, names.REQUIRE_KV_EVENTS, names.SKIP_PROBE)),
}
#: Fields that nobody reads and that may say anything: where they stand, and their names. `*` is each one of a list.
_UNREAD: Final[dict[str, tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]]] = {
    inferencecache.CACHE_TENANTS: ((("spec",), ("crypto",)),),
    kvcache.BACKENDS: (
        (("spec", "connection", "managed", "leader"), ("extraArgs", "extraEnv")),
        (("spec", "connection", "managed", "members", "*"), ("extraArgs", "extraEnv", "securityContext", "hostPaths")),
        (("status",), ("members", "phaseMessage")),
    ),
    kvcache.POOLS: ((("status",), ("phaseMessage",)),),
    kvcache.BINDINGS: ((("status",), ("phaseMessage",)),),
    kernelcache.CAPTURES: ((("status",), ("runtimeResult",)),),
}
#: Bytes of a narrow object; an event may have a little more (eventstore.envelope.MAX_BYTES).
LARGEST: Final = 240 * 1024
_DEEP: Final = f"it is nested deeper than {depth.DEEPEST} levels"


class Narrow(NamedTuple):
    """`value` is None where the object does not decode; `problem` says why. `object` is what is told."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    object: Object
    value: msgspec.Struct | None
    problem: str = ""
    rest: Rest | None = None


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Any(msgspec.Struct):
    metadata: _Meta = _Meta()


_encode = msgspec.json.Encoder().encode
_identity = msgspec.json.Decoder(_Any).decode
_decoders: dict[str, msgspec.json.Decoder[Any]] = {}


def narrow(kind: str, raw: bytes | msgspec.Raw, *, cut: bool = False, values: dict[str, str] | None = None) -> Narrow:
    """Raises msgspec.MsgspecError for what is no object at all. `cut`: what lay too deep in these bytes was cut out.
    `values` gets what tokens stand for."""
    try:
        if not cut or depth.CUT not in bytes(raw):
            return _narrow(kind, raw, values)
    except RecursionError:
        pass
    return _blank(kind, depth.cut(bytes(raw)), _DEEP)


def _narrow(kind: str, raw: bytes | msgspec.Raw, values: dict[str, str] | None) -> Narrow:
    meta = _identity(raw).metadata
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders.setdefault(kind, msgspec.json.Decoder(kinds.KINDS[kind].struct))
    try:
        value: msgspec.Struct = decoder.decode(raw)
    except msgspec.ValidationError as error:
        return _blank(kind, bytes(raw), schema.line(error))
    document = _safe(kind, msgspec.to_builtins(value))
    if "." in kind and depth.is_deep(document):  # core kinds hold nothing free
        return _blank(kind, bytes(raw), _DEEP)
    hider = Hider(meta.uid)
    document = kinds.hidden(kind, document, hider)
    if values is not None:
        values.update(hider.values)
    if memoryview(raw).nbytes > LARGEST and len(_encode(document)) > LARGEST:
        return _blank(kind, bytes(raw), f"what is read of it is larger than {LARGEST // 1024} KiB")
    told, problem = kinds.decode(kind, document)
    return Narrow(meta.namespace, meta.name, meta.uid, meta.resource_version, document, told, problem)


def _blank(kind: str, raw: bytes, problem: str) -> Narrow:
    """An object that cannot be told: it exists, and nothing in it is taken for a fact, not even a default. What is told
    of it decodes nowhere, here no more than in the world."""
    meta = _identity(raw).metadata
    document = unreadable.told(kind, raw, problem, most=LARGEST - 1024)
    value, said = kinds.decode(kind, document)
    rest = kinds.rest(document)
    return Narrow(meta.namespace, meta.name, meta.uid, meta.resource_version, document, value, said, rest)


def _safe(kind: str, document: Object) -> Object:
    metadata = document.get("metadata", {})
    metadata.pop("resourceVersion", None)
    if annotations := metadata.pop("annotations", None):
        allowed = ANNOTATIONS.get(kind, frozenset())
        if kept := {name: value for name, value in annotations.items() if name in allowed}:
            metadata["annotations"] = kept
    for where, fields in _UNREAD.get(kind, ()):
        for one in _at(document, where):
            for field in fields:
                one.pop(field, None)
    if kind == core.CONFIG_MAPS:
        document["data"] = telling.told(document.get("data", {}).get("kernelcache", ""))
    if kind == core.PODS:
        _endings(document)
    if kind == core.DEPLOYMENTS:
        _template(document)
    return document


def _at(part: Any, where: tuple[str, ...]) -> list[Object]:
    if not where:
        return [part] if isinstance(part, dict) else []
    if where[0] == "*":
        return [found for one in part or () for found in _at(one, where[1:])]
    return _at(part.get(where[0]), where[1:]) if isinstance(part, dict) else []


def _endings(document: Object) -> None:
    """What a container said when it ended may be anything; read is what our own check said."""
    status = document.get("status") or {}
    for one in (*status.get("containerStatuses", ()), *status.get("initContainerStatuses", ())):
        if one["name"] != names.KERNEL_CHECK_CONTAINER:
            for state in (one.get("state") or {}, one.get("lastState") or {}):
                (state.get("terminated") or {}).pop("message", None)


def _template(document: Object) -> None:
    """Of a Pod template only the trigger of a roll is read."""
    metadata = document.get("spec", {}).get("template", {}).get("metadata", {})
    trigger = (metadata.get("annotations") or {}).get(names.RESTART_TRIGGER)
    metadata.pop("annotations", None)
    if trigger is not None:
        metadata["annotations"] = {names.RESTART_TRIGGER: trigger}
