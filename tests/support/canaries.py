"""Custom resources of ours, and Pods, with a canary in every field that may hold a secret, made from the CRDs.

Planted: values of environments, arguments and commands, annotations, user information in addresses with a scheme and
without, free parts, data of ConfigMaps and Secrets. Names, labels and enums stay what they are.
"""

import copy
from pathlib import Path
from typing import Any

import msgspec
import yaml

Object = dict[str, Any]
CANARY = "c4n4ry"
ROOT = Path(__file__).parent.parent.parent
LAUNCH = ("args", "suppressArgs", "extraArgs", "command")
LABELS = ("nodeSelector", "matchLabels")
WORDS = [
    f"{CANARY}-program", "--flag", f"{CANARY}-value", f"--key={CANARY}-inline", f"-x {CANARY}-spaced",
    f"https://user:{CANARY}-url@host/x", f"user:{CANARY}-bare@host",
]  # fmt: skip
USERS = (
    f"https://user:{CANARY}@host/x", f"user:{CANARY}@host:1", f"https://user:p@{CANARY}@host", f"https://{CANARY}@host",
    f"https://user:{CANARY}/{CANARY}@host:1/x",
)  # fmt: skip
ADDRESSES = (
    f"user:{CANARY}@host:1", f"{CANARY}@host:1", f"lm://user:{CANARY}@host:1",
    f"user:{CANARY}@host/x@sha256:{'a' * 64}",
)  # fmt: skip
ADDRESSED = ("image", "imageReference", "targetImage", "workerImage", "address", "endpoint", "clientEndpoint")
ANNOTATIONS = {
    "kubectl.kubernetes.io/last-applied-configuration": CANARY,
    **{
        f"{group}/{CANARY[:0]}note": f"{CANARY}-annotation"
        for group in (
            "inferencecache.io",
            "worker.gpustack.ai",
            "kvcache.gpustack.ai",
            "serving.kserve.io",
            "example.com",
        )
    },
}


def definitions() -> dict[str, Object]:
    """`<plural>.<group>` -> CRD."""
    made = (yaml.safe_load(path.read_text()) for path in sorted((ROOT / "crds").glob("*.yaml")))
    return {one["metadata"]["name"]: one for one in made}


def metadata(name: str, namespace: str = "ml") -> Object:
    return {
        "name": name,
        "namespace": namespace,
        "uid": f"uid-{name}",
        "annotations": dict(ANNOTATIONS),
        "managedFields": [{"manager": CANARY, "fieldsV1": {f"f:{CANARY}": {}}}],
    }


def strange(definition: Object, turn: int) -> Object:
    """Everything that the schema knows, with user information in every text. `turn` chooses among forms and enums."""
    spec = definition["spec"]
    schema = spec["versions"][0]["schema"]["openAPIV3Schema"]
    made = {
        part: _made(schema["properties"][part], part, turn) for part in ("spec", "status") if part in _known(schema)
    }
    space = "ml" if spec["scope"] == "Namespaced" else ""
    kind, version = spec["names"]["kind"], f"{spec['group']}/{spec['versions'][0]['name']}"
    return {"apiVersion": version, "kind": kind, "metadata": metadata(f"strange-{turn}", space), **made}


def _known(schema: Object) -> Object:
    found: Object = schema.get("properties", {})
    return found


def _made(schema: Object, name: str, turn: int) -> Any:
    if schema.get("x-kubernetes-int-or-string"):
        return "1Gi"
    match schema.get("type"):
        case "object":
            made = {key: _made(one, key, turn) for key, one in _known(schema).items()}
            extra = schema.get("additionalProperties")
            if isinstance(extra, dict):
                made["a"] = "b" if name in LABELS else _made(extra, name, turn)
            if schema.get("x-kubernetes-preserve-unknown-fields"):
                made["x"] = USERS[turn % len(USERS)]
            return made
        case "array":
            if name in LAUNCH:
                return list(WORDS)
            return [_made(schema["items"], name, turn)]
        case "integer" | "number":
            return max(1, int(schema.get("minimum", 1)))
        case "boolean":
            return True
        case "string":
            return _text(schema, name, turn)
    return {"x": USERS[turn % len(USERS)]}


def _text(schema: Object, name: str, turn: int) -> str:
    if enum := schema.get("enum"):
        return str(enum[turn % len(enum)])
    if schema.get("format") in ("date-time", "duration"):
        return "2026-11-30T15:00:00Z" if schema["format"] == "date-time" else "5m"
    if name == "value":
        return f"{CANARY}-value"
    if name in ("name", "kind", "key"):
        return "plain"
    if name == "crypto":
        return CANARY
    forms = ADDRESSES if name in ADDRESSED else USERS
    return forms[turn % len(forms)]


def broken(definition: Object, turn: int) -> Object:
    """One that was stored before a rule existed: texts where the schema has none, choices that are none."""
    made = strange(definition, turn)
    made["metadata"] = metadata(f"broken-{turn}", made["metadata"]["namespace"])
    text = USERS[turn % len(USERS)]
    spec = made.get("spec")
    if turn == 0 or not spec:
        made["spec"] = text
    elif turn == 1:
        made["spec"] = dict.fromkeys(spec, text)
    elif turn == 2:
        made["spec"] = _misshapen(spec)
    elif turn == 3:
        made["status"] = dict.fromkeys(made.get("status", {"conditions": 1}), text)
    else:
        made["metadata"]["labels"] = {"a": [text]}
    return made


def _misshapen(part: Any, name: str = "") -> Any:
    """As people write them who forget that a launch is a list."""
    if name in LAUNCH:
        return f"run --key {CANARY}"
    if name in ("env", "extraEnv"):
        return {f"{CANARY}": CANARY, "b": [CANARY, 3, {"value": CANARY}]}
    if isinstance(part, dict):
        return {key: _misshapen(value, key) for key, value in part.items()}
    return [_misshapen(one) for one in part] if isinstance(part, list) else part


# What is admitted and reconciled --------------------------------------------------------------------------------------


def backend(name: str, storage: Object) -> Object:
    """A CacheBackend that works, with secrets where an operator may write some."""
    return {
        "apiVersion": "inferencecache.io/v1alpha1",
        "kind": "CacheBackend",
        "metadata": metadata(name),
        "spec": {
            "runtime": "VLLM",
            "type": "LMCache",
            "engineSelector": {"matchLabels": {"serve": name}},
            "observation": {"modelID": "m"},
            "integration": {
                "engineOverrides": {
                    "env": [{"name": "SECRET", "value": f"{CANARY}-override"}],
                    "args": [f"--override={CANARY}-argument", "--api-key", f"{CANARY}-key"],
                    "suppressArgs": [f"--other={CANARY}-suppressed"],
                }
            },
            "remoteStorage": storage,
        },
    }


STORAGES: dict[str, Object] = {
    "server": {
        "provider": "LMCacheServer",
        "ownership": "Managed",
        "lmCacheServer": {"command": ["lmcache_server", "--token", f"{CANARY}-command", f"--auth={CANARY}-inline"]},
    },
    "mooncake": {
        "provider": "Mooncake",
        "ownership": "Managed",
        "mooncake": {"command": ["sh", "-c", f"exec mooncake_master --key {CANARY}-script"]},
    },
    "redis": {"provider": "Redis", "ownership": "Managed", "redis": {"image": f"user:{CANARY}@registry/redis:7"}},
    "address": {"provider": "Redis", "ownership": "External", "endpoint": f"user:{CANARY}@cache:1"},
    "url": {"provider": "LMCacheServer", "ownership": "External", "endpoint": f"lm://u:{CANARY}@cache:1"},
}


def pod(base: Object, name: str, labels: dict[str, str]) -> Object:
    made = copy.deepcopy(base)
    made["metadata"] |= {"name": name, "labels": labels, "annotations": dict(ANNOTATIONS)}
    (container, *_) = made["spec"]["containers"]
    container["env"] = [
        *container.get("env", []),
        {"name": "TOKEN", "value": f"{CANARY}-env"},
        {"name": "LMCACHE_REMOTE_URL", "value": f"user:{CANARY}@host:1"},
    ]
    container["args"] = [*container.get("args", []), *WORDS[1:]]
    container["livenessProbe"] = {"httpGet": {"port": 1, "httpHeaders": [{"name": "A", "value": f"{CANARY}-header"}]}}
    container["lifecycle"] = {"preStop": {"exec": {"command": ["sh", "-c", f"curl {CANARY}-hook"]}}}
    made["spec"].setdefault("initContainers", []).append(
        {
            "name": "before",
            "image": f"{CANARY}@registry/x",
            "command": list(WORDS),
            "env": [{"name": "A", "value": CANARY}],
        }
    )
    made["spec"].setdefault("volumes", []).append(
        {"name": "v", "csi": {"driver": "d", "volumeAttributes": {"key": f"{CANARY}-volume"}}}
    )
    ended = {"terminated": {"exitCode": 1, "message": f"{CANARY}-said"}}
    made["status"] = {"containerStatuses": [{"name": container["name"], "state": ended, "lastState": ended}]}
    return made


def config(text: Any) -> Object:
    data = {"kernelcache": text if isinstance(text, str) else msgspec.json.encode(text).decode(), "other": CANARY}
    return {"metadata": metadata("inferenceservice-config", "kserve"), "data": data}


CONFIGS = (
    "{",
    f"{CANARY}",
    '{"enabled": "' + CANARY + '"}',
    {"enabled": True, "token": CANARY, "registry": {"endpoint": f"user:{CANARY}@registry:5000", "password": CANARY}},
    {
        "enabled": True,
        "mcvImage": f"user:{CANARY}@registry/x",
        "defaultMountType": CANARY,
        "jobNamespace": f"a {CANARY}",
    },
    {"abandonedCapturePolicy": CANARY},
    {"artifactSecurity": {"mode": "cert", "cert": {"subjectRegexp": f"({CANARY}", "trustBundle": f"a/u:{CANARY}@b"}}},
    {"registry": {"endpoint": "registry:5000", "auth": {"type": CANARY, "pushRoleRef": {"kind": CANARY, "name": "x"}}}},
)
