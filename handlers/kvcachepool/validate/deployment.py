"""ModelDeployment, as far as it touches a cache: keys that the operator renders, the cache it names, what is frozen.

What a webhook may see of one is made by `see`: the known part, with values of variables and arguments as tokens, and
digests of the parts that may not change.

Rules: spec/worker-gpustack.md section 7 and section 4.4.
"""

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from crds import kvcache, schema
from crds.kvcache import KVCacheBackend
from crds.modeldeployment import ModelDeployment, Role
from handlers import tokens
from handlers.admission import flags
from handlers.admission.decision import Violation
from handlers.admission.view import Allow, View, view
from handlers.kvcachepool import masking, names, roles, transport
from handlers.kvcachepool.engines.base import Engine
from handlers.kvcachepool.inject import Settings
from handlers.kvcachepool.refusal import Refused
from handlers.kvcachepool.validate.common import Found
from handlers.outcome import Object
from handlers.world.reader import Reader

REFERENCE: Final = "spec.kvCache.poolRef.name"
OWNED_ARGS: Final = {
    "vLLM": (names.KV_TRANSFER, names.KV_EVENTS),
    "SGLang": (
        *(names.HICACHE_BACKEND, names.HICACHE_EXTRA, "--disaggregation-mode"),
        *("--disaggregation-transfer-backend", "--disaggregation-bootstrap-port"),
    ),
}
OWNED_ENV: Final = {
    "vLLM": (names.CONFIG_PATH, "VLLM_MOONCAKE_BOOTSTRAP_PORT"),
    "SGLang": (
        *(names.SGLANG_CONFIG_PATH, names.TENANT, "MOONCAKE_MASTER", "MOONCAKE_TE_META_DATA_SERVER"),
        *("MOONCAKE_PROTOCOL", "MOONCAKE_DEVICE", "MOONCAKE_GLOBAL_SEGMENT_SIZE", "MOONCAKE_LOCAL_HOSTNAME"),
    ),
}
RESERVED_ENV: Final = ("GPUSTACK_REPLICA_LEADER_ADDRESS", "GPUSTACK_REPLICA_SIZE", "GPUSTACK_MEMBER_INDEX")
#: Parts that may not change, of the whole and of a role.
FROZEN: Final = (("model",), ("engine", "name"), ("kvCache",))
FROZEN_ROLE: Final = ("kind", "size", "instanceType", "resources", "command")


def see(document: Object) -> View:
    """Raises nothing: what does not decode is shown without its spec, and `violations` says so."""
    spec = document.get("spec")
    shown = view({key: value for key, value in document.items() if key not in ("spec", "status")}, Allow()).object
    try:
        known = msgspec.to_builtins(schema.read(document, ModelDeployment).spec)
    except msgspec.ValidationError as error:
        return View({**shown, "problem": schema.line(error)})
    for one in known.get("roles") or ():
        given = {"env": one.get("env") or [], "args": one.get("extraArgs") or [], "command": one.get("command") or []}
        made = view({"spec": {"containers": [given]}}, Allow())
        hide, (seen,) = masking.hiding(made), made.object["spec"]["containers"]
        words = zip(given["args"], seen["args"], strict=True)
        args = [masking.flagged(word, part, hide) for word, part in words]
        one |= {"env": seen["env"], "extraArgs": args, "command": seen["command"]}
    known = tokens.Hider(str((document.get("metadata") or {}).get("uid", ""))).texts(known)
    return View({**shown, "spec": known, "frozen": _frozen(spec if isinstance(spec, Mapping) else {})})


def _frozen(spec: Mapping[str, Any]) -> dict[str, str]:
    """Field -> digest of what stands there; of defaults, too."""
    found = {}
    for path in FROZEN:
        value: Any = spec
        for part in path:
            value = value.get(part) if isinstance(value, Mapping) else None
        found["spec." + ".".join(path)] = _digest(value)
    given = [one for one in spec.get("roles") or () if isinstance(one, Mapping)]
    found["spec.roles"] = _digest(sorted(str(one.get("name")) for one in given))
    for one in given:
        for field in FROZEN_ROLE:
            default = {"kind": "Server"}.get(field)
            found[f"spec.roles[{one.get('name')}].{field}"] = _digest(one.get(field) or default)
    router = spec.get("router")
    if isinstance(router, Mapping):
        found["spec.router.name"] = _digest(router.get("name"))
    return found


def _digest(value: Any) -> str:
    return hashlib.sha256(msgspec.json.encode(schema.without_nulls(value), order="deterministic")).hexdigest()[:16]


def violations(new: Object, old: Object | None, world: Reader, settings: Settings) -> list[Violation]:
    """Of two views. An object that is being deleted is only kept from changing."""
    if "problem" in new:
        return [Violation("Invalid", "spec", str(new["problem"]))]
    deployment = schema.read(new, ModelDeployment)
    found = [] if deployment.metadata.deletion_timestamp else list(_all(deployment, old is None, world, settings))
    if old is not None:
        before, after = old.get("frozen") or {}, new["frozen"]
        for field in before:
            if field in after and before[field] != after[field]:
                found.append(Violation("Forbidden", _place(field, deployment), "cannot be changed"))
    return found


def _place(field: str, deployment: ModelDeployment) -> str:
    """`spec.roles[main].size` -> `spec.roles[0].size`."""
    for number, role in enumerate(deployment.spec.roles or ()):
        field = field.replace(f"roles[{role.name}]", f"roles[{number}]")
    return field


def _all(deployment: ModelDeployment, new: bool, world: Reader, settings: Settings) -> Found:
    spec = deployment.spec
    if spec.engine is None or spec.engine.name not in OWNED_ARGS:
        yield Violation("NotSupported", "spec.engine.name", 'supported values: "vLLM", "SGLang"', None)
        return
    yield from _kinds(spec.roles or [])
    for number, role in enumerate(spec.roles or ()):
        yield from _owned(deployment, role, f"spec.roles[{number}]", settings)
    if spec.kv_cache is not None and not spec.kv_cache.binding:
        yield Violation("Required", REFERENCE, "must name a KVCachePoolBinding of this namespace")
    backend = _backend(deployment, world)
    if new and backend is not None:
        yield from _fits(deployment, backend)
    yield from _interfaces(deployment, backend)


def _kinds(given: list[Role]) -> Found:
    """A plain server stands alone; of a pair each half once."""
    kinds, seen = [one.kind for one in given], set[str]()
    for number, one in enumerate(given):
        at = f"spec.roles[{number}]"
        if one.name in seen:
            yield Violation("Duplicate", f"{at}.name", "a role's name is its identity", one.name)
        seen.add(one.name)
        if one.kind == "Server" and set(kinds) - {"Server"}:
            yield Violation("Invalid", f"{at}.kind", "Server cannot stand beside Prefill or Decode", one.kind)
        if one.kind != "Server" and one.kind in kinds[:number]:
            yield Violation("Invalid", f"{at}.kind", f"{one.kind} stands here twice: one role of a kind", one.kind)


def _owned(deployment: ModelDeployment, role: Role, at: str, settings: Settings) -> Found:
    """Keys that the operator renders. A command of the role's own is the way out: nothing is rendered then."""
    engine = roles.engine_of(deployment)
    family, own = engine.family, bool(role.command)
    for number, variable in enumerate(role.env or ()):
        if variable.name in RESERVED_ENV or (variable.name in OWNED_ENV[family] and not own):
            way_out = (
                "" if variable.name in RESERVED_ENV else "; to set it, take the whole command over in roles[].command"
            )
            detail = f"{variable.name} is set by the operator on {family}: remove it{way_out}"
            yield Violation("Forbidden", f"{at}.env[{number}]", detail)
    if own:
        return
    words = role.extra_args or []
    known = (*engine.keys, *OWNED_ARGS[family])
    for hit in flags.hits(words, OWNED_ARGS[family], engine.dialect, known):
        detail = (
            f"{hit} is set by the operator on {family}: remove it, or take the whole command over in roles[].command"
        )
        yield Violation("Forbidden", f"{at}.extraArgs[{hit.at}]", detail)
    if deployment.spec.kv_cache is not None and settings.dtype_owned:
        for hit in flags.hits(words, (names.DTYPE,), engine.dialect, known):
            detail = (
                f"{hit} is the spec.domain.dtype of the KVCachePoolBinding on {family}: remove it, use another "
                f"Binding, take the whole command over in roles[].command, or switch the setting {names.SETTING} off"
            )
            yield Violation("Forbidden", f"{at}.extraArgs[{hit.at}]", detail)


def _backend(deployment: ModelDeployment, world: Reader) -> KVCacheBackend | None:
    """The store behind its Binding, None while any part of the way is not there: the status says so then."""
    cache = deployment.spec.kv_cache
    name = cache.binding if cache else ""
    binding = world.get(kvcache.BINDINGS, deployment.metadata.namespace, name) if name else None
    pool = world.get(kvcache.POOLS, "", binding.value.spec.pool) if binding and binding.value else None
    backend = world.get(kvcache.BACKENDS, "", pool.value.spec.backend) if pool and pool.value else None
    found: KVCacheBackend | None = backend.value if backend else None
    return found


def _fits(deployment: ModelDeployment, backend: KVCacheBackend) -> Found:
    """A new binding only: what is stored keeps the first transport offered."""
    engine: Engine = roles.engine_of(deployment)
    try:
        transport.chosen(engine, backend, REFERENCE)
    except Refused as refused:
        yield refused.violation


def _interfaces(deployment: ModelDeployment, backend: KVCacheBackend | None) -> Found:
    """Fabric interfaces need a transport that uses them, one for all."""
    stored = set(transport.offers(backend)) if backend is not None else set()
    for number, role in enumerate(deployment.spec.roles or ()):
        if not role.resources or not role.resources.interface:
            continue
        at = f"spec.roles[{number}].resources.interface"
        legs = stored | ({roles.leg(deployment)} if roles.half(deployment, role) else set())
        if len(stored) > 1:
            offered = ", ".join(sorted(stored))
            detail = f"the member groups of the cache's backend differ ({offered}): give them one transport"
            yield Violation("Invalid", at, detail, role.resources.interface)
        elif {"rdma", "efa"} <= legs:
            detail = "the cache and the transfer between roles mix rdma and efa: give them one transport"
            yield Violation("Invalid", at, detail, role.resources.interface)
        elif not legs & {"rdma", "efa"} and (backend is not None or deployment.spec.kv_cache is None):
            detail = "no transport here uses fabric interfaces: set it to 0, or use RDMA or EFA"
            yield Violation("Invalid", at, detail, role.resources.interface)
