"""How the areas of worker-gpustack are driven: every object goes through the webhook that would be called for it, as
the webhook sees it. Objects that are there make the world; statuses in them are what tests set."""

import json
from typing import Any

import msgspec

from crds import core, definitions, kvcache, modeldeployment, schema
from devkube.patches import json_patch
from handlers.admission import patches, review
from handlers.admission.decision import Decision, Question, Violation
from handlers.kvcachepool import admit, names
from handlers.kvcachepool.inject import Settings
from handlers.system import Admitter
from handlers.world import kinds
from handlers.world.reader import Reader
from handlers.world.state import Known, Listed, World
from tests.conformance import forms

KINDS = {
    "KVCacheBackend": kvcache.BACKENDS,
    "KVCachePool": kvcache.POOLS,
    "KVCachePoolBinding": kvcache.BINDINGS,
    "ModelDeployment": modeldeployment.DEPLOYMENTS,
    "Pod": core.PODS,
}
SPECS = {one.name: one.spec for one in definitions.DEFINITIONS}


def settings_of(given: dict[str, Any]) -> Settings:
    said = given.get("settings") or {}
    forms.only(said, names.SETTING)
    return Settings(dtype_owned=said.get(names.SETTING, True))


def world_of(objects: list[dict[str, Any]]) -> Reader:
    world = World(sequence=1)
    for kind in (kvcache.BACKENDS, kvcache.POOLS, kvcache.BINDINGS):
        world.listed[kind] = Listed(1, 1, 0)
    for one in objects:
        kind, metadata = KINDS[one["kind"]], one["metadata"]
        value, problem = kinds.decode(kind, schema.without_nulls(one))
        known = Known(metadata["name"], "1", 1, 1, 1, value, problem)
        world.objects.setdefault(kind, {}).setdefault(metadata.get("namespace", ""), {})[metadata["name"]] = known
    return Reader(world)


def asked(admitter: Admitter, new: dict[str, Any], old: dict[str, Any] | None, reader: Reader) -> Any:
    """(decision or None where nothing of ours is concerned, the object afterwards)."""
    metadata = new["metadata"]
    seen = admitter.see(new)
    question = Question(
        uid="u",
        operation="CREATE" if old is None else "UPDATE",
        kind=KINDS[new["kind"]],
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        view=seen.object,
        old=admitter.see(old).object if old is not None else None,
    )
    if not admitter.concerned(question, reader):
        return None, new
    decision = admitter.decide(question, reader)
    patch = patches.effective(seen.fill(list(decision.patch)), new)
    return decision, json_patch(new, patch)


def message(new: dict[str, Any], decision: Decision) -> str:
    request = review.Request(uid="u", operation="CREATE", name=new["metadata"]["name"])
    return str(review.refusal(request, decision)["message"])


def validators(settings: Settings) -> dict[str, Admitter]:
    return {
        "KVCacheBackend": admit.backends(settings),
        "KVCachePool": admit.pools(settings),
        "KVCachePoolBinding": admit.bindings(settings),
        "ModelDeployment": admit.deployments(settings),
    }


def validated(given: dict[str, Any]) -> dict[str, Any]:
    """The schema first, as an API server does, then the webhook."""
    new, old = given["object"], given.get("old")
    new = {**new, "spec": schema.defaulted(new["spec"], SPECS[KINDS[new["kind"]]])}
    found = [Violation(*one) for one in schema.violations(new["spec"], SPECS[KINDS[new["kind"]]], "spec")]
    decision = Decision(verdict="refused", check="schema", violations=tuple(found))
    if not found:
        admitter = validators(settings_of(given))[new["kind"]]
        decision, _ = asked(admitter, new, old, world_of(given.get("objects") or []))
    return {
        "decision": "refuse" if decision.verdict == "refused" else "allow",
        "fields": [one.field for one in decision.violations],
        "message": message(new, decision) if decision.verdict == "refused" else "",
        "warnings": decision.warnings,
    }


def near(wanted: str, found: str) -> bool:
    """Equal, below or directly above."""
    return found == wanted or found.startswith((f"{wanted}.", f"{wanted}[")) or _above(wanted) == found


def _above(field: str) -> str:
    return field[: field.rindex("[")] if field.endswith("]") else field.rpartition(".")[0]


def of_json(text: str | None) -> Any:
    return None if text is None else json.loads(text)


def same_bytes(one: Any, other: Any) -> bool:
    return msgspec.json.encode(one) == msgspec.json.encode(other)
