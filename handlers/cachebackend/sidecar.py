"""The KV-event subscriber beside an engine, and what must be true of the engine for it to hear anything.

Rules: seed 004, "Events-only mode"; spec/inferencecache.md section 3.5.
"""

import json
from typing import Any

from crds.cachebackend import CacheBackendSpec
from handlers.admission import podedit
from handlers.cachebackend import names
from handlers.outcome import Object


def container(spec: CacheBackendSpec, *, image: str, server: str, scheme: str) -> Object | None:
    """The container, or None where no image or no model id is known. Arguments in the contract's order."""
    model = spec.observation.model_id if spec.observation else ""
    if not image or not model:
        return None
    words = [
        "--engine-endpoint=tcp://127.0.0.1:5557",
        f"--server={server}",
        "--replica-id=$(POD_NAME)",
        "--tenant-id=$(POD_NAMESPACE)",
        f"--model-id={model}",
        f"--hash-scheme={scheme}",
    ]
    if spec.offload:
        words.append("--ignore-block-removed=true")  # the tier below still holds what the engine evicts
    return {
        "name": names.SUBSCRIBER,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "args": words,
        "env": [
            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
        ],
        "resources": {
            "requests": {"cpu": "10m", "memory": "64Mi"},
            "limits": {"cpu": "200m", "memory": "128Mi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "runAsUser": 65532,
        },
    }


def hears_nothing(engine: Object) -> str:
    """Why a subscriber would hear nothing of this engine, or lose events: one line, "" when all is well.

    The engine publishes only with --kv-events-config, and a subscriber that was away can ask again only where the
    configuration has a replay endpoint.
    """
    given = podedit.flags([*(engine.get("command") or []), *(engine.get("args") or [])]).get("--kv-events-config")
    if not given:
        return "the engine has no --kv-events-config: it publishes no KV events and routing knows nothing of it"
    try:
        found: Any = json.loads(given[-1] or "")
    except ValueError:
        return ""
    if isinstance(found, dict) and found.get("publisher", "zmq") != "null" and not found.get("replay_endpoint"):
        return "--kv-events-config has no replay_endpoint: events lost in a restart cannot be asked for again"
    return ""
