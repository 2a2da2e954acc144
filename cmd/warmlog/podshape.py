"""Whether a manifest has the shape of a Pod, as far as admission looks at one. An API server sends no webhook a Pod
that has not; the tools that need no server must say so themselves.

Rules: k8s.io/api/core/v1. Absent and null are the same; what is not named here may be anything.
"""

from typing import Any

import msgspec


class _Part(msgspec.Struct, rename="camel"):
    pass


class _Variable(_Part):
    name: str
    value: str | None = None
    value_from: dict[str, Any] | None = None


class _Mount(_Part):
    name: str
    mount_path: str


class _Resources(_Part):
    limits: dict[str, Any] | None = None
    requests: dict[str, Any] | None = None


class _Container(_Part):
    name: str
    image: str | None = None
    command: list[str] | None = None
    args: list[str] | None = None
    env: list[_Variable] | None = None
    env_from: list[dict[str, Any]] | None = None
    ports: list[dict[str, Any]] | None = None
    resources: _Resources | None = None
    volume_mounts: list[_Mount] | None = None
    security_context: dict[str, Any] | None = None
    readiness_probe: dict[str, Any] | None = None


class _Named(_Part):
    name: str


class _Spec(_Part):
    containers: list[_Container]
    init_containers: list[_Container] | None = None
    volumes: list[_Named] | None = None
    node_selector: dict[str, str] | None = None
    affinity: dict[str, Any] | None = None
    security_context: dict[str, Any] | None = None


class _Metadata(_Part):
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[dict[str, Any]] | None = None


class _Pod(_Part):
    metadata: _Metadata
    spec: _Spec


def problem(body: Any) -> str:
    """One line, "" for a Pod."""
    try:
        msgspec.convert(body, _Pod)
    except msgspec.ValidationError as error:
        return str(error)
    return ""
