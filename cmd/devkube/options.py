"""Everything an instance can be told, as one value. `cli` makes it from flags, tests write it down."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Authorization = Literal["RBAC", "AlwaysAllow"]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All defaults suit a test: loopback, a free port, a directory of its own that is removed at the end."""

    listen: str = "127.0.0.1"
    port: int = 0  # 0: any free one
    # Certificates, the server's key and the kubeconfig live here; kept when named, temporary otherwise.
    directory: Path | None = None
    kubeconfig: Path | None = None  # written here too
    names: tuple[str, ...] = ()  # further host names and addresses of the server's certificate
    authorization: Authorization = "RBAC"
    admin_token: str = ""  # empty: a random one
    # "namespace/name" or "namespace/name:port" of a Service that webhooks name -> "host:port" that is really called.
    webhook_services: Mapping[str, str] = field(default_factory=dict)
    simulate: bool = False
    nodes: int = 1  # of the simulation; also the next two
    node_labels: Mapping[str, str] = field(default_factory=dict)  # beside those that every node has
    pull_seconds: float = 1.0  # that an image takes which the node does not have
    history: int = 10_000  # changes kept per kind for watches that resume; older ones end in 410
