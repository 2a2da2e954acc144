"""Wiring one engine Pod, for tests: a CacheBackend's spec and containers in, the Pod and the decision out."""

from typing import Any

from crds import schema
from crds.cachebackend import CacheBackend
from devkube.patches import json_patch
from handlers.admission.decision import Decision
from handlers.cachebackend import inject, names
from handlers.outcome import Object

OPTIONS = inject.Options(subscriber_image="sub:1", server="ic:9090")
VLLM: Object = {"runtime": "VLLM"}
SGLANG: Object = {"runtime": "SGLang"}
HICACHE: Object = {"runtime": "SGLang", "type": "SGLangHiCache", "hiCache": {"ratio": "1.5"}}
EVENTS: Object = {"runtime": "VLLM", "integration": {"mode": "EventsOnly"}, "observation": {"modelID": "m"}}
CONNECTOR = '{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}'


def managed(provider: str, **more: Any) -> Object:
    return {"remoteStorage": {"provider": provider, "ownership": "Managed"}, **more}


def after(
    spec: Object, *containers: Object, endpoint: str = "kv:1", kernel: str = "", options: inject.Options = OPTIONS,
    **pod: Any,
) -> tuple[Object, Decision]:  # fmt: skip
    document = {
        "metadata": {"name": "kv", "namespace": "ml", "uid": "u", "annotations": {names.KERNEL_CHECK: kernel}},
        "spec": {"engineSelector": {"matchLabels": {"serve": "qwen"}}, **spec},
        "status": {"endpoint": endpoint},
    }
    given = [{"name": "engine", "image": "engine:1", **one} for one in containers or ({},)]
    before = {"metadata": {"name": "e", "labels": {"serve": "qwen"}}, "spec": {"containers": given, **pod}}
    decision = inject.decide(before, [schema.read(document, CacheBackend)], options)
    return json_patch(before, list(decision.patch)), decision


def engine(pod: Object) -> Object:
    found: Object = pod["spec"]["containers"][0]
    return found
