"""Area model-deployment: its webhook, and what the cache part of a role is given."""

import json
from typing import Any

from crds import modeldeployment, schema
from handlers.kvcachepool import names, resolve, roles, transport
from handlers.kvcachepool.engines.base import Store
from tests.conformance import forms
from tests.conformance.drivers.worker_gpustack import desk, resources


def run(given: dict[str, Any]) -> dict[str, Any]:
    if given["operation"] != "RENDER":
        return resources.run(given)
    forms.only(given, "operation", "object", "objects", "settings")
    deployment = schema.read(given["object"], modeldeployment.ModelDeployment)
    reader, settings = desk.world_of(given["objects"]), desk.settings_of(given)
    found = resolve.resolve(deployment.spec.kv_cache.binding, deployment.metadata.namespace, reader)
    protocol = transport.chosen(roles.engine_of(deployment), found.backend, "spec")
    dtype = found.dtype if settings.dtype_owned else None
    given_to = {}
    for role in deployment.spec.roles:
        store = Store(found.endpoint, protocol, found.tenant, dtype, roles.half(deployment, role))
        given_to[role.name] = roles.rendered(deployment, role, store)
    return {"roles": given_to}


def compare(expect: dict[str, Any], observed: dict[str, Any]) -> list[str]:
    if "roles" not in observed:
        return resources.compare(expect, observed)
    role = observed["roles"][expect.get("role") or next(iter(observed["roles"]))]
    seen = shown(role)
    found = []
    for key, wanted in expect.items():
        if key.endswith("_absent"):
            found += [f"{one} is there" for one in wanted if one in seen[key.removesuffix("_absent")]]
        elif key == "args_pairs":
            found += [f"{pair} is not in {seen['args']}" for pair in wanted if not adjacent(pair, seen["args"])]
        elif key == "args_flags":
            found += [f"{flag} is not in {seen['args']}" for flag in wanted if flag not in seen["args"]]
        elif key == "inner":
            found += [] if inner(seen["transfer_config"], wanted) else [f"{seen['transfer_config']}"]
        elif key != "role":
            name = key.removesuffix("_subset")
            found += forms.differences(wanted, seen[name] or {})
    return found


def shown(role: roles.Given) -> dict[str, Any]:
    args = list(role.args)
    config = json.loads(args[args.index(names.KV_TRANSFER) + 1]) if names.KV_TRANSFER in args else None
    return {
        "args": args,
        "env": {one["name"]: one.get("value") for one in role.env},
        "annotations": dict(role.annotations),
        "limits": dict(role.limits),
        "transfer_config": config,
        "status": {"unmanaged": role.unmanaged},
    }


def adjacent(pair: list[str], args: list[str]) -> bool:
    return any(args[at : at + 2] == pair for at in range(len(args)))


def inner(config: Any, wanted: list[dict[str, Any]]) -> bool:
    """Connectors of a MultiConnector in order; their extra settings stand beside their names in the cases."""
    found = [
        {**one, **one.get("kv_connector_extra_config", {})} for one in config["kv_connector_extra_config"]["connectors"]
    ]
    return len(found) == len(wanted) and all(
        want.items() <= one.items() for want, one in zip(wanted, found, strict=True)
    )
