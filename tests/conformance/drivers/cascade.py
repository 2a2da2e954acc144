"""Area cascade: when engines are rolled after their cache server was replaced."""

from typing import Any

from handlers.cachebackend import cascade
from tests.conformance import forms


def run(given: dict[str, Any]) -> dict[str, Any]:
    forms.only(given, "prior", "current", "converged", "last_cascade_age_s")
    found = cascade.judge(
        prior=given["prior"],
        current=given["current"],
        converged=given["converged"],
        last_age=given.get("last_cascade_age_s"),
    )
    return {"cascade": found.cascade, "baseline": found.baseline, "requeue_s": found.requeue}
