"""What a ModelDeployment's roles are given to use a cache, and to hand blocks from prefill to decode.

Rendering is shared with the Pod injection; such Pods are not injected a second time. A role with a command of its own
is taken over by its author and gets nothing. Arguments go before the author's extraArgs: what is later on a line wins.
Not here: the model, ports of the API, routers, images, instance types.

Rules: spec/worker-gpustack.md section 7.
"""

from typing import Any, Final, NamedTuple

from crds.modeldeployment import ModelDeployment, Role
from handlers.admission import flags
from handlers.kvcachepool import names, transport
from handlers.kvcachepool.engines import ENGINES, vllm, vllm_ascend
from handlers.kvcachepool.engines.base import Engine, Store, dtype, literal
from handlers.outcome import Object

BOOTSTRAP: Final = 8998
RETRACTION: Final = "--disaggregation-decode-retraction-backup"
EVENTS: Final = {
    "enable_kv_cache_events": True,
    "publisher": "zmq",
    "endpoint": "tcp://*:5557",
    "replay_endpoint": "tcp://*:5558",
    "buffer_steps": 10000,
    "hwm": 100000,
    "max_queue_size": 100000,
    "topic": "kv@",
}


class Given(NamedTuple):
    """`unmanaged`: the role's command is its author's, and nothing is added."""

    args: tuple[str, ...] = ()
    env: tuple[Object, ...] = ()
    config: dict[str, Any] | None = None
    annotations: tuple[tuple[str, str], ...] = ()
    limits: tuple[tuple[str, str], ...] = ()
    ports: tuple[tuple[str, int], ...] = ()
    unmanaged: bool = False


def engine_of(deployment: ModelDeployment, manufacturer: str = "") -> Engine:
    """The renderer: vLLM on accelerators of `ascend` is another one. Raises KeyError for an unknown engine."""
    family = deployment.spec.engine.name if deployment.spec.engine else ""
    return ENGINES[{"vLLM": "vllm-ascend" if manufacturer == "ascend" else "vllm", "SGLang": "sglang"}[family]]


def half(deployment: ModelDeployment, role: Role) -> str:
    """Prefill or Decode where both are there; a lone half is no half."""
    kinds = {one.kind for one in deployment.spec.roles or ()}
    return role.kind if {"Prefill", "Decode"} <= kinds else ""


def leg(deployment: ModelDeployment) -> str:
    """The transport between prefill and decode."""
    given = deployment.spec.kv_transfer
    return transport.SPELLED[given.protocol if given else "Auto"]


def rendered(deployment: ModelDeployment, role: Role, store: Store | None, manufacturer: str = "") -> Given:
    """`store` is None where no cache is attached."""
    if role.command:
        return Given(unmanaged=True, limits=interfaces(deployment, role, store))
    engine = engine_of(deployment, manufacturer)
    made = _sglang(deployment, role, store) if engine.name == "sglang" else _vllm(deployment, role, store, engine)
    toggles = tuple(literal(name, "1") for name in names.TOGGLES) if store is not None else ()
    declared = {one.name for one in role.env or ()}
    env = (*made.env, *(one for one in toggles if one["name"] not in declared))
    return made._replace(env=env, limits=interfaces(deployment, role, store))


def interfaces(deployment: ModelDeployment, role: Role, store: Store | None) -> tuple[tuple[str, str], ...]:
    """Fabric devices of the effective transport."""
    count = role.resources.interface if role.resources else None
    if not count:
        return ()
    legs = {store.protocol if store else "", leg(deployment) if half(deployment, role) else ""}
    if "efa" in legs:
        return (("vpc.amazonaws.com/efa", str(count)),)
    if "rdma" in legs:
        return (("device.gpustack.ai/rdma.shared" if count == 1 else "device.gpustack.ai/rdma", str(count)),)
    return ()


def _vllm(deployment: ModelDeployment, role: Role, store: Store | None, engine: Engine) -> Given:
    part, routed = half(deployment, role), deployment.spec.router is not None
    env: list[Object] = []
    ports: list[tuple[str, int]] = []
    config: dict[str, Any] | None = None
    if store is not None:
        env += engine.render(store).env
        name = vllm_ascend.CONNECTOR if engine.name == "vllm-ascend" else vllm.CONNECTOR
        config = vllm.connector(name, part)
    if part and routed:
        if store is not None:
            inner = "" if part == "Prefill" else part  # a prefill half reads what others stored, too
            stored = vllm.connector(config["kv_connector"] if config else "", inner)
            config = vllm.connector("MultiConnector", part)
            config["kv_connector_extra_config"] = {"connectors": [_direct(deployment, part, engine), stored]}
        else:
            config = _direct(deployment, part, engine)
        if part == "Prefill" and engine.name == "vllm":
            env.append(literal("VLLM_MOONCAKE_BOOTSTRAP_PORT", str(BOOTSTRAP)))
            ports.append(("mc-bootstrap", BOOTSTRAP))
        env += _pinned(deployment, role, store)
    args = vllm.transfer(config) if config is not None else ()
    if store is not None:
        args += dtype(store)
    if routed and part != "Decode":
        args += (names.KV_EVENTS, vllm.text(EVENTS))
    document = vllm.document(store) if store is not None else None
    return Given(args, tuple(env), document, ports=tuple(ports))


def _direct(deployment: ModelDeployment, part: str, engine: Engine) -> dict[str, Any]:
    """The connector between the two halves."""
    if engine.name == "vllm-ascend":
        sizes = {"tp_size": 1, "dp_size": 1}
        extra: dict[str, Any] = {"kv_port": BOOTSTRAP, "prefill": sizes, "decode": sizes}
        return {**vllm.connector("MooncakeConnectorV1", part), "kv_connector_extra_config": extra}
    return {
        **vllm.connector("MooncakeConnector", part),
        "kv_connector_extra_config": {"mooncake_protocol": leg(deployment)},
    }


def _pinned(deployment: ModelDeployment, role: Role, store: Store | None) -> list[Object]:
    """A direct leg over TCP keeps to it, unless the store needs another transport in the same process."""
    if leg(deployment) != "tcp" or (store is not None and store.protocol != "tcp"):
        return []
    declared = {one.name for one in role.env or ()}
    return [] if "MC_FORCE_TCP" in declared else [literal("MC_FORCE_TCP", "1")]


def _sglang(deployment: ModelDeployment, role: Role, store: Store | None) -> Given:
    engine, part = ENGINES["sglang"], half(deployment, role)
    args: tuple[str, ...] = ()
    annotations: tuple[tuple[str, str], ...] = ()
    ports: tuple[tuple[str, int], ...] = ()
    env: tuple[Object, ...] = ()
    defaults: tuple[tuple[str, ...], ...] = ()
    if part:
        backend = "mooncake_tcp" if leg(deployment) == "tcp" else "mooncake"
        args += ("--disaggregation-mode", part.lower(), "--disaggregation-transfer-backend", backend)
    if part == "Prefill":
        args += ("--disaggregation-bootstrap-port", str(BOOTSTRAP))
        annotations, ports = (("sglang.ai/bootstrap-port", str(BOOTSTRAP)),), (("bootstrap", BOOTSTRAP),)
    if store is not None:
        made = engine.render(store)
        args, env, defaults = args + made.args, made.env, made.defaulted
    if part == "Decode":  # SGLang switches its radix cache off here, and refuses the two together
        defaults = ((RETRACTION, "cpu_tensor"),)
    missing = [group for group in defaults if not _named(role, group[0], engine)]
    args += tuple(word for group in missing for word in group)
    return Given(args, env, annotations=annotations, ports=ports)


def _named(role: Role, flag: str, engine: Engine) -> bool:
    return bool(flags.hits(role.extra_args or (), (flag,), engine.dialect, (*engine.keys, RETRACTION)))
