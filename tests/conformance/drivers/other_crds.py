"""Area other_crds: what CachePolicies and CacheTenants may say, and what a tenant's quota comes to."""

from typing import Any

from crds import schema
from crds.inferencecache import CachePolicy, CachePolicySpec, CacheTenant, CacheTenantSpec
from eventstore import events, subjects
from handlers.admission.decision import Question
from handlers.cachepolicy import admit, quota
from handlers.outcome import Object
from handlers.world.reader import Reader
from tests.conformance import forms
from tests.support.worlds import Teller

KINDS: dict[str, Any] = {
    "CachePolicy": (CachePolicySpec, admit.Policies()),
    "CacheTenant": (CacheTenantSpec, admit.Tenants()),
}


def run(given: dict[str, Any]) -> dict[str, Any]:
    forms.only(given, "kind", "name", "spec", "existing", "observed")
    struct, webhook = KINDS[given["kind"]]
    name, spec = given.get("name", "a"), schema.defaulted(given["spec"], struct)
    document = {"metadata": {"name": name, "namespace": "ml"}, "spec": spec}
    problems = [(one.type, one.field) for one in schema.violations(given["spec"], struct, "spec")]
    if problems:
        return {"allowed": False, "layer": "schema", "errors": problems, "spec": spec}
    question = Question(uid="u", operation="CREATE", kind=webhook.kind, namespace="ml", name=name, view=document)
    decision = webhook.decide(question, Reader(_world(webhook.kind, given.get("existing", []))))
    found: dict[str, Any] = {
        "allowed": decision.verdict != "refused",
        "layer": "webhook",
        "errors": [(one.type, one.field) for one in decision.violations],
        "names": " ".join(one.detail for one in decision.violations),
        "spec": spec,
    }
    if given["kind"] == "CacheTenant" and "observed" in given:
        found |= _conditions(schema.read(document, CacheTenant), given["observed"])
    return found


def _world(kind: str, names: list[str]) -> Any:
    tell = Teller(kind)
    for name in names:
        one: Object = {"metadata": {"name": name, "namespace": "ml"}, "spec": {}}
        schema.read(one, CachePolicy)
        tell.seen(kind, one)
    tell.tell(subjects.WATCH, events.WatchContact(epoch=1))
    return tell.world


def _conditions(tenant: CacheTenant, entries: int) -> dict[str, list[str]]:
    owner = quota.effective([tenant]).get(tenant.spec.tenant_id)
    shown = quota.conditions(tenant, entries, owner)
    return {kind: [one.status, one.reason] for kind, one in shown.items()}


def compare(expect: dict[str, Any], observed: dict[str, Any]) -> list[str]:
    found = []
    for name, wanted in expect.items():
        if name == "spec_subset":
            found += forms.differences(wanted, observed["spec"])
        elif name == "errors":
            if {(one["type"], one["field"]) for one in wanted} != set(observed["errors"]):
                found.append(f"errors: expected {wanted}, observed {observed['errors']}")
        elif name == "names":
            if wanted not in observed["names"]:
                found.append(f"{wanted} is not named: {observed['names']}")
        elif name == "layer":
            if observed["layer"] not in wanted.split(" or "):
                found.append(f"layer: expected {wanted}, observed {observed['layer']}")
        else:
            found += forms.differences({name: wanted}, observed)
    return found
