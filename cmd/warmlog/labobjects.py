"""What stands in a laptop's Kubernetes: a CacheBackend for vLLM, and the engines as their owners write them."""

import json
from typing import Any, Final

import yaml

from handlers.outcome import Object
from warmlog import lab

BACKEND: Final = "chat"
MANIFEST: Final = f"""
apiVersion: inferencecache.io/v1alpha1
kind: CacheBackend
metadata: {{name: {BACKEND}, namespace: {lab.TENANT}}}
spec:
  runtime: VLLM
  type: LMCache
  engineSelector: {{matchLabels: {{app: vllm}}}}
"""


def backend() -> Object:
    found: Object = yaml.safe_load(MANIFEST)
    return found


def template(spec: lab.EngineSpec) -> Object:
    """An engine as its owner would write it; nothing in it knows of a cache."""
    vllm = spec.form.startswith("vllm")
    events: dict[str, Any] = {"enable_kv_cache_events": True} if vllm else {}
    events |= {"publisher": "zmq", "endpoint": "tcp://*:5557"}
    if spec.replay:
        events["replay_endpoint"] = "tcp://*:5657"
    container = {
        "name": "vllm" if vllm else "sglang",
        "image": "vllm/vllm-openai" if vllm else "lmsysorg/sglang",
        "args": [f"{'--model' if vllm else '--model-path'}={lab.MODEL}", "--kv-events-config", json.dumps(events)],
    }
    labels = {"app": "vllm" if vllm else "sglang", "engine": spec.name}
    return {"metadata": {"labels": labels}, "spec": {"containers": [container]}}


def deployment(spec: lab.EngineSpec, *, replicas: int = 1) -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": spec.name, "namespace": lab.TENANT},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"engine": spec.name}},
            "template": template(spec),
        },
    }


def pod(spec: lab.EngineSpec) -> Object:
    made = template(spec)
    metadata = {**made["metadata"], "name": spec.name, "namespace": lab.TENANT}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": made["spec"]}
