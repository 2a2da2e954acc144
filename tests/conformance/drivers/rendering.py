"""Area rendering: the workload of a managed backend."""

from typing import Any

from crds import schema
from crds.cachebackend import CacheBackend
from handlers.cachebackend import modes, providers, readiness
from tests.conformance import forms


def run(given: dict[str, Any]) -> dict[str, Any]:
    forms.only(given, "object")
    backend = schema.read(given["object"], CacheBackend)
    mode = modes.mode_of(backend.spec)
    if mode != "Managed":
        assessed = readiness.assess(readiness.Observed(mode=mode, now=0))
        return {"deployment": None, "service": None, "endpoint": "", "conditions": sorted(assessed.conditions)}
    made = providers.render(backend)
    (one,) = made.deployment["spec"]["template"]["spec"]["containers"]
    args = one.get("args", [])
    labels = made.deployment["spec"]["template"]["metadata"]["labels"]
    chosen = made.deployment["spec"]["selector"]["matchLabels"]
    assert chosen == made.service["spec"]["selector"]
    return {
        "container": one["name"],
        "image": one["image"],
        "command": one.get("command", []),
        "args": args,
        "resources": one["resources"],
        "service_ports": [port["port"] for port in made.service["spec"]["ports"]],
        "selector": chosen,
        "extra_label": {key: value for key, value in labels.items() if key not in chosen},
        "endpoint": providers.endpoint(backend),
        "replicas": made.deployment["spec"]["replicas"],
        "strategy": made.deployment["spec"].get("strategy", {}).get("type", "default"),
        "hpa": made.autoscaler,
        "maxmemory": int(args[args.index("--maxmemory") + 1]) if "--maxmemory" in args else None,
    }
