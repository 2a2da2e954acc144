"""What the annotations of an opted-in Pod ask for. Nothing is guessed, and nothing unknown is passed over.

Rules: seed 003, "The contract"; spec/worker-gpustack.md section 2, order 1-5; refusals R1, R2, R8, R9, R28-R30.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from handlers.kvcachepool import names
from handlers.kvcachepool.refusal import Refused, listed

#: The engine annotation's values, and the manufacturers that each takes ("" is none named) -> the renderer.
ENGINES = {
    "vLLM": {"": "vllm", "ascend": "vllm-ascend"},
    "SGLang": {"": "sglang"},
}
ROLES = ("Prefill", "Decode")


class Asked(NamedTuple):
    """`role` and `container` are "" when the Pod says nothing; `forwarded` is None then."""

    binding: str
    engine: str  # the renderer's name: vllm, vllm-ascend, sglang
    role: str = ""
    container: str = ""
    forwarded: str | None = None


def opted_in(labels: Any) -> bool:
    return isinstance(labels, Mapping) and labels.get(names.INJECT) == "true"


def read(annotations: Mapping[str, str]) -> Asked:
    """Raises Refused."""
    for key in sorted(annotations):
        if key.startswith(names.PREFIX) and key != names.DOMAIN:
            known(key)
    domain(annotations)
    engine = engine_of(annotations)
    role = role_of(annotations)
    return Asked(
        binding_of(annotations), engine, role, annotations.get(names.CONTAINER, ""), annotations.get(names.FORWARDED)
    )


def known(key: str) -> None:
    """R28: a mistyped key would be ignored in silence. R29: what we write is no input."""
    if key in names.WRITTEN:
        detail = f"{key} is written by the injection and is no input: remove it from the Pod template"
        raise Refused("annotation-written", names.annotation(key), detail)
    if key not in names.ACCEPTED:
        detail = f"{key} is not known: correct or remove it; known annotations are {', '.join(names.ACCEPTED)}"
        raise Refused("annotation-unknown", names.annotation(key), detail)


def domain(annotations: Mapping[str, str]) -> None:
    """R30: only a Binding registers a domain, with a ceiling."""
    if names.DOMAIN in annotations:
        detail = (
            f"{names.DOMAIN} does not exist: the reuse domain is the one of the KVCachePoolBinding; remove the "
            f"annotation and name a Binding with the wanted spec.domain.name in {names.BINDING}"
        )
        raise Refused("domain-annotation", names.annotation(names.DOMAIN), detail)


def engine_of(annotations: Mapping[str, str]) -> str:
    """R8: declared, never inferred from an image."""
    engine, manufacturer = annotations.get(names.ENGINE), annotations.get(names.MANUFACTURER)
    at = names.annotation(names.ENGINE)
    if not engine:
        detail = f"{names.ENGINE} must be set to one of {listed(ENGINES)}: the engine is never guessed from the image"
        raise Refused("engine", at, detail, "Required")
    if engine not in ENGINES:
        hint = ""
        if engine.lower() in ("vllm-ascend", "ascend"):
            hint = f'; for vLLM-Ascend use "vLLM" with {names.MANUFACTURER}: ascend'
        elif same := next((one for one in ENGINES if one.lower() == engine.strip().lower()), ""):
            hint = f'; write "{same}"'
        detail = f'{names.ENGINE} "{engine}" is no engine: one of {listed(ENGINES)}, exactly so{hint}'
        raise Refused("engine", at, detail)
    found = ENGINES[engine]
    if manufacturer is None:
        return found[""]
    if manufacturer and manufacturer in found:
        return found[manufacturer]
    takes = [one for one in found if one]
    fix = f'set it to "{takes[0]}" exactly, or remove it' if takes else "remove it"
    detail = f'{names.MANUFACTURER} "{manufacturer}" is not taken with {names.ENGINE} "{engine}": {fix}'
    raise Refused("manufacturer", names.annotation(names.MANUFACTURER), detail)


def role_of(annotations: Mapping[str, str]) -> str:
    """R9: a half of a pair, or nothing. `Server` is right on a ModelDeployment and wrong here."""
    role = annotations.get(names.ROLE)
    if role is None or role in ROLES:
        return role or ""
    detail = f'{names.ROLE} "{role}" is none of {listed(ROLES)}: leave the annotation off for a plain server'
    raise Refused("role", names.annotation(names.ROLE), detail)


def binding_of(annotations: Mapping[str, str]) -> str:
    """R1, R2: a plain name; the namespace is the Pod's own."""
    binding = annotations.get(names.BINDING, "")
    at = names.annotation(names.BINDING)
    if not binding:
        detail = f"{names.BINDING} must name a KVCachePoolBinding of the Pod's namespace"
        raise Refused("binding", at, detail, "Required")
    if "/" in binding:
        detail = f'{names.BINDING} "{binding}" must be a plain name: a Binding of another namespace cannot be used'
        raise Refused("binding-name", at, detail)
    return binding
