"""CustomResourceDefinitions for tests: one group, one kind, any schema."""

from typing import Any

from devkube.custom import definition


def version(schema: Any, name: str = "v1", *, storage: bool = True, served: bool = True, **rest: Any) -> dict[str, Any]:
    return {"name": name, "served": served, "storage": storage, "schema": {"openAPIV3Schema": schema}, **rest}


def crd(*versions: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """With defaults and the status that a server gives it before it validates."""
    made = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "pools.example.com", "uid": "1"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "pools", "kind": "Pool"},
            "versions": list(versions),
            **spec,
        },
    }
    definition.default(made)
    definition.prepare(made, None, "")
    return made


def spec_of(properties: dict[str, Any], **rest: Any) -> dict[str, Any]:
    """A root schema with a spec of these properties."""
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": properties, **rest}}}


def pool(spec: Any = None, **rest: Any) -> dict[str, Any]:
    made = {"apiVersion": "example.com/v1", "kind": "Pool", "metadata": {"name": "a", "namespace": "default"}, **rest}
    return made if spec is None else {**made, "spec": spec}
