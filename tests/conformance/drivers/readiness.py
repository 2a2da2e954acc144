"""Area readiness: conditions, latches and Events of a backend."""

from typing import Any

from handlers.cachebackend import narrate, readiness
from tests.conformance import forms


def run(given: dict[str, Any]) -> dict[str, Any]:
    forms.only(
        given, "mode", "annotations", "now", "firstAvailableAt", "firstKVEventObservedAt", "provider", "endpoint",
        "deployment", "prior_ready_reason", "lastEventAt", "timeout_s", "had_server",
    )  # fmt: skip
    rollout = None
    if "deployment" in given:
        one = given["deployment"]
        forms.only(one, "desired", "updated", "available", "generation", "observedGeneration")
        rollout = readiness.Rollout(
            one["desired"], one["updated"], one["available"], one["generation"], one["observedGeneration"]
        )
    observed = readiness.Observed(
        mode=given["mode"],
        now=given.get("now", 0),
        timeout=given.get("timeout_s", readiness.DEFAULT_TIMEOUT),
        annotations=given.get("annotations", {}),
        rollout=rollout,
        provider=given.get("provider", ""),
        endpoint=given.get("endpoint", ""),
        prior_reason=given.get("prior_ready_reason", ""),
        first_available=given.get("firstAvailableAt"),
        first_event=given.get("firstKVEventObservedAt"),
        last_event=given.get("lastEventAt"),
    )
    assessed = readiness.assess(observed)
    events = narrate.of_readiness(observed.prior_reason, observed.first_event, assessed)
    return {
        **{name: [state.status, state.reason] for name, state in assessed.conditions.items()},
        "conditions": set(assessed.conditions),
        "latch": {"firstAvailableAt": assessed.first_available, "firstKVEventObservedAt": assessed.first_event},
        "endpoint": given.get("endpoint", "").strip() if given["mode"] == "External" else "",
        "events": [one.reason for one in events],
    }


def compare(expect: dict[str, Any], observed: dict[str, Any]) -> list[str]:
    found = []
    for name, wanted in expect.items():
        if name == "absent_conditions":
            found += [f"{one} is there" for one in wanted if one in observed["conditions"]]
        elif name == "latch":
            found += forms.differences(wanted, observed["latch"])
        else:
            found += forms.differences({name: wanted}, observed)
    return found
