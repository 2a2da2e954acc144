"""From an object's bytes to what handlers read of it, and nothing else.

The Struct of the kind (handlers.world.kinds) is decoded straight from the wire, so what it does not name is never
built. Annotations stay where a handler reads them. Of CacheBackends, values that an operator wrote for engines'
environments and arguments are replaced by tokens: they may be secrets, and who needs them reads the object itself.

`resourceVersion` is not part of the narrow object: it changes with every touch, and what did not change is not told.

Rules: design.md section 2, "Privacy", "Shapes".
"""

import hashlib
import re
from typing import Any, Final, NamedTuple

import msgspec

from crds import cachebackend, core, kvcache
from handlers.cachebackend import names
from handlers.outcome import Object
from handlers.world import kinds
from subscribers.kubernetes import depth

#: Annotations that are read, by kind. Of custom resources every annotation of our groups is kept.
ANNOTATIONS: Final[dict[str, frozenset[str]]] = {
    core.PODS: frozenset((names.INJECTED_BY, names.INJECTED_BY_UID, names.INJECT_SKIPPED, names.SKIP_INJECT)),
    core.DEPLOYMENTS: frozenset(),
    core.NODES: frozenset(),
    core.CONFIG_MAPS: frozenset(),
}
_OURS: Final = ("inferencecache.io/", "worker.gpustack.ai/", "kvcache.gpustack.ai/", "serving.kserve.io/")
#: Bytes of a narrow object; an event may have a little more (eventstore.envelope.MAX_BYTES).
LARGEST: Final = 240 * 1024
_FLAG: Final = re.compile(r"--?[A-Za-z][A-Za-z0-9._-]*")
#: User information in a URL: a password, as often as not. In the object's bytes, and in its texts.
_USERINFO_BYTES: Final = re.compile(rb":(?:/|\\/){2}[^/\"]*@")
_TOKEN: Final = re.compile(r"⟦[0-9a-f]{16}⟧")
_USERINFO: Final = re.compile(r"(?<=://)[^/?#\s@\"']+(?=@)")


class Narrow(NamedTuple):
    """`value` is None where the object does not decode; `problem` says why. `object` is what is told."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    object: Object
    value: msgspec.Struct | None
    problem: str = ""


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


def narrow(kind: str, raw: bytes | msgspec.Raw, *, cut: bool = False) -> Narrow:
    """Raises msgspec.MsgspecError for what is no object at all. `cut`: what lay too deep in these bytes was cut out."""
    try:
        if not cut or depth.CUT not in bytes(raw):
            return _narrow(kind, raw)
    except RecursionError:
        pass
    return _blank(kind, _identity(depth.cut(bytes(raw))).metadata)


def _narrow(kind: str, raw: bytes | msgspec.Raw) -> Narrow:
    meta = _identity(raw).metadata
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders.setdefault(kind, msgspec.json.Decoder(kinds.KINDS[kind].struct))
    try:
        value: msgspec.Struct = decoder.decode(raw)
    except msgspec.ValidationError:
        return _blank(kind, meta)
    document = _safe(kind, msgspec.to_builtins(value))
    if "." in kind and depth.of(document) > depth.DEEPEST:  # core kinds hold nothing free
        return _blank(kind, meta)
    if _USERINFO_BYTES.search(memoryview(raw)):
        document = _hidden(document, meta.uid)
    if memoryview(raw).nbytes > LARGEST and len(_encode(document)) > LARGEST:
        return _blank(kind, meta)
    told, problem = kinds.decode(kind, document)
    return Narrow(meta.namespace, meta.name, meta.uid, meta.resource_version, document, told, problem)


def _blank(kind: str, meta: _Meta) -> Narrow:
    """An object that cannot be told: it exists, and nothing in it is taken for a fact, not even a default. What is told
    of it decodes nowhere, here no more than in the world."""
    told, problem = kinds.decode(kind, {})
    return Narrow(meta.namespace, meta.name, meta.uid, meta.resource_version, {}, told, problem)


def _safe(kind: str, document: Object) -> Object:
    metadata = document.get("metadata", {})
    metadata.pop("resourceVersion", None)
    if annotations := metadata.get("annotations"):
        allowed = ANNOTATIONS.get(kind)
        metadata["annotations"] = {
            name: value
            for name, value in annotations.items()
            if (name in allowed if allowed is not None else name.startswith(_OURS))
        }
        if not metadata["annotations"]:
            del metadata["annotations"]
    if kind == cachebackend.CACHE_BACKENDS:
        _overrides(document, metadata.get("uid", ""))
        _endpoint(document, metadata.get("uid", ""))
    if kind == core.PODS:
        _endings(document)
    if kind == core.DEPLOYMENTS:
        _template(document)
    if kind == kvcache.BACKENDS:
        _store(document)
    return document


def _store(document: Object) -> None:
    """Of a store's containers nothing is read yet that an operator wrote for them."""
    managed = ((document.get("spec") or {}).get("connection") or {}).get("managed") or {}
    for one in (managed.get("leader") or {}, *(managed.get("members") or ())):
        for field in ("extraArgs", "extraEnv", "securityContext", "hostPaths"):
            one.pop(field, None)


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


def _overrides(document: Object, uid: str) -> None:
    given = ((document.get("spec") or {}).get("integration") or {}).get("engineOverrides") or {}
    for one in given.get("env") or ():
        if one.get("value"):
            one["value"] = token(uid, one["value"])
    if given.get("args"):
        given["args"] = [_argument(word, uid) for word in given["args"]]


def _endpoint(document: Object, uid: str) -> None:
    """Stored before there was a rule against it, an address may hold a password, with or without a scheme."""
    storage = (document.get("spec") or {}).get("remoteStorage") or {}
    secret, at, place = str(storage.get("endpoint") or "").rpartition("@")
    if at:
        scheme, slashes, rest = secret.rpartition("://")
        storage["endpoint"] = f"{scheme}{slashes}{_once(uid, rest)}@{place}"


def _once(uid: str, value: str) -> str:
    """A token stays what it is: it comes back in the status that we wrote."""
    return value if _TOKEN.fullmatch(value) else token(uid, value)


def _hidden(part: Any, uid: str) -> Any:
    """A copy without user information in URLs."""
    if isinstance(part, str):
        return _USERINFO.sub(lambda found: _once(uid, found[0]), part)
    if isinstance(part, dict):
        return {key: _hidden(value, uid) for key, value in part.items()}
    return [_hidden(one, uid) for one in part] if isinstance(part, list) else part


def values(document: Object) -> dict[str, str]:
    """token -> value, of a CacheBackend as the API server has it."""
    uid = str((document.get("metadata") or {}).get("uid", ""))
    given = ((document.get("spec") or {}).get("integration") or {}).get("engineOverrides") or {}
    found = [str(one["value"]) for one in given.get("env") or () if one.get("value")]
    for word in given.get("args") or ():
        flag, equals, value = str(word).partition("=")
        found += [str(word), value] if equals and _FLAG.fullmatch(flag) else [str(word)]
    return {token(uid, one): one for one in found}


def _argument(word: str, uid: str) -> str:
    flag, equals, value = word.partition("=")
    if _FLAG.fullmatch(word):
        return word
    return f"{flag}={token(uid, value)}" if equals and _FLAG.fullmatch(flag) else token(uid, word)


def token(uid: str, value: str) -> str:
    """Opaque, the same for the same value of one object for ever."""
    return f"⟦{hashlib.sha256(f'{uid}|{value}'.encode()).hexdigest()[:16]}⟧"
