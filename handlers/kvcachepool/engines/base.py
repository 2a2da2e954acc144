"""What an engine is to the injection, and what it is given.

Rules: seed 003, "Injection per engine"; spec/worker-gpustack.md sections 3 and 4.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from handlers.admission.flags import Dialect
from handlers.kvcachepool import names
from handlers.outcome import Object


class Store(NamedTuple):
    """The store as an engine joins it. `tenant` is None when the store keeps no ledger, `dtype` when it is not ours."""

    master: str
    protocol: str
    tenant: str | None
    dtype: str | None
    role: str = ""  # Prefill, Decode, "" for a plain server


class Rendered(NamedTuple):
    """`defaulted` are switches that the author's own, in any spelling, replace. `config` is the document that the Pod
    projects from its own annotation, None where the environment carries everything."""

    args: tuple[str, ...]
    env: tuple[Object, ...]
    config: dict[str, Any] | None = None
    defaulted: tuple[tuple[str, ...], ...] = ()


class Engine(NamedTuple):
    """`owned` are keys that we write and an author may not; `sources` select another configuration than ours."""

    name: str
    family: str  # as the annotation and ModelDeployment spell it
    starts: Callable[[tuple[str, ...], str], bool]  # (argv, program's basename)
    launch: str  # how it is started, for people
    dialect: Dialect
    owned_args: tuple[str, ...]
    owned_env: tuple[str, ...]
    source_args: tuple[str, ...]
    source_env: tuple[str, ...]
    staging_mib: int
    render: Callable[[Store], Rendered]
    file: bool = False  # the vehicle: a projected file, or the environment alone
    transports: tuple[str, ...] = ()  # () takes any
    measured: str = ""  # where the transports are known from

    @property
    def keys(self) -> tuple[str, ...]:
        """Every flag of this engine that is known here: an exact one is no abbreviation of another."""
        return (*self.owned_args, *self.source_args, names.DTYPE, names.HIERARCHICAL)


def literal(name: str, value: str) -> Object:
    return {"name": name, "value": value}


def dtype(store: Store) -> tuple[str, ...]:
    return (names.DTYPE, store.dtype) if store.dtype is not None else ()
