"""Small Kubernetes objects for tests, as dicts; each is the least that a real server takes, plus what is asked for."""

from typing import Any

Object = dict[str, Any]


def configmap(name: str, data: dict[str, str] | None = None, **metadata: Any) -> Object:
    made: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}}
    return made if data is None else {**made, "data": data}


def container(name: str = "main", **fields: Any) -> Object:
    return {"name": name, "image": "registry.example/app:1", **fields}


def pod(name: str, *containers: Object, spec: Object | None = None, **metadata: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **metadata},
        "spec": {"containers": list(containers) or [container()], **(spec or {})},
    }


def deployment(name: str, *, replicas: int = 1, spec: Object | None = None, **metadata: Any) -> Object:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container()]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, **metadata},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template, **(spec or {})},
    }


def lease(name: str, holder: str = "a") -> Object:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15},
    }


def version(name: str = "v1", *, storage: bool = True, schema: Object | None = None, **fields: Any) -> Object:
    """One version of a CRD; `schema` are the properties beside metadata."""
    properties = (
        schema if schema is not None else {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}
    )
    return {
        "name": name,
        "served": True,
        "storage": storage,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
        **fields,
    }


def crd(group: str, *versions: Object, kind: str = "Widget", **spec: Any) -> Object:
    plural = f"{kind.lower()}s"
    names = {
        "plural": plural,
        "singular": kind.lower(),
        "kind": kind,
        "listKind": f"{kind}List",
        **spec.pop("names", {}),
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{names['plural']}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": names,
            "versions": list(versions) or [version()],
            **spec,
        },
    }


def custom(
    group: str, name: str, spec: Object | None = None, *, kind: str = "Widget", version: str = "v1", **rest: Any
) -> Object:
    metadata = {"name": name, **rest.pop("metadata", {})}
    made: Object = {"apiVersion": f"{group}/{version}", "kind": kind, "metadata": metadata, **rest}
    return made if spec is None else {**made, "spec": spec}


def owner(of: Object, *, blocks: bool = False, controller: bool = False) -> Object:
    """A reference to an object as the server returned it."""
    reference = {"apiVersion": of["apiVersion"], "kind": of["kind"], "name": of["metadata"]["name"]}
    reference["uid"] = of["metadata"]["uid"]
    if blocks:
        reference["blockOwnerDeletion"] = True
    if controller:
        reference["controller"] = True
    return reference
