"""Who a serving Pod is: its workload, its runtime, its model, as factors and two footprints.

`of` reads a real Pod: hashes of arguments are hashes of what is there, not of tokens. What it returns is safe to keep:
factors, hashes and names, no value of an argument or variable that is no factor.

Rules: seed 000; spec/kernelcache.md section 2. No identity is no error: the Pod is served without a cache.
"""

from typing import Any

import msgspec

from crds.kernelcache import Footprints
from handlers.admission import podedit
from handlers.kernelcache import digest, factors, footprint, imageclass, modeluri, names
from handlers.outcome import Object


class Identity(msgspec.Struct, frozen=True, omit_defaults=True):
    """`missing` says in one line why there is none: then no footprint is set. `code` is its short name."""

    workload_kind: str = ""
    workload_name: str = ""
    container: str = ""
    image_class: str = ""
    model: str = ""  # the model's address without credentials
    factors: dict[str, str] = {}
    sources: dict[str, str] = {}
    opaque: tuple[str, ...] = ()
    footprints: Footprints = Footprints()
    missing: str = ""
    code: str = ""


def workload(metadata: Object) -> tuple[str, str]:
    """Kind and name of the serving workload; empty where it is none that is known."""
    labels = metadata.get("labels") or {}
    if name := labels.get(names.SERVICE):
        return "InferenceService", str(name)
    if labels.get(names.LLM_PART_OF) == names.LLM_PART and labels.get(names.LLM_NAME):
        return "LLMInferenceService", str(labels[names.LLM_NAME])
    return "", ""


def runtime_container(pod: Object, kind: str = "InferenceService") -> Object | None:
    order = names.RUNTIME_CONTAINERS if kind != "LLMInferenceService" else reversed(names.RUNTIME_CONTAINERS)
    found = (podedit.named(podedit.containers(pod), name) for name in order)
    return next((one for one in found if one is not None), None)


def of(pod: Object, namespace: str) -> Identity:
    """Of a real Pod. Never raises for what a Pod may hold."""
    metadata = pod.get("metadata") or {}
    kind, name = workload(metadata)
    container = runtime_container(pod, kind)
    if not kind:
        return _without("workload", "no label names a serving workload")
    if container is None:
        wanted = " nor ".join(names.RUNTIME_CONTAINERS)
        return _without("container", f"there is no runtime container: neither {wanted}", workload_kind=kind)
    uri = (metadata.get("annotations") or {}).get(names.SOURCE_URI)
    return of_container(container, namespace=namespace, kind=kind, name=name, uri=uri)


def of_container(container: Object, *, namespace: str, kind: str, name: str, uri: str | None) -> Identity:
    """Of a runtime container whose workload and model are known; `uri` is None or blank where the model is not."""
    known: dict[str, Any] = {"workload_kind": kind, "workload_name": name, "container": str(container.get("name", ""))}
    try:
        image = imageclass.read(str(container.get("image") or ""))
    except imageclass.ImageError as error:
        return _without(error.code, str(error), **known)
    model = modeluri.normalised(uri) if uri and uri.strip() else None
    if model is None:
        said = "cannot be read as a URI" if uri and uri.strip() else "is missing"
        return _without("model-source", f"the model's source is unknown: annotation {names.SOURCE_URI} {said}", **known)
    runtime = factors.of(container)
    base = {
        "namespace": namespace,
        "workloadKind": kind,
        "workloadName": name,
        "runtimeImage": image.reference,
        "modelURIHash": digest.of_strings([model]),
        "commandHash": digest.of_strings([str(word) for word in container.get("command") or ()]),
        "argsHash": digest.of_strings([str(word) for word in container.get("args") or ()]),
    }
    found = {**{key: value for key, value in base.items() if value}, **runtime.factors}
    return Identity(
        **known,
        image_class=image.class_,
        model=model,
        factors=found,
        sources=runtime.sources,
        opaque=runtime.opaque,
        footprints=footprint.of(found, image.class_),
    )


def placed(found: Identity, namespace: str) -> Identity:
    """The same in another namespace: an object may be seen before it is told which one it is in."""
    if not found.factors or found.factors.get("namespace") == namespace:
        return found
    factors_ = {**found.factors, "namespace": namespace}
    footprints = footprint.of(factors_, imageclass.read(found.factors["runtimeImage"]).class_)
    return msgspec.structs.replace(found, factors=factors_, footprints=footprints)


def _without(code: str, why: str, **known: Any) -> Identity:
    return Identity(**known, missing=why, code=code)
