"""A container of ours that stands in a Pod already: left alone where it is what we want, but for what the API server
filled in since. Webhooks that run later make it call us again, and the second answer must be empty.

Rules: seed 004, pod webhook, "Idempotency"; Kubernetes SetDefaults_Container, SetDefaults_Probe.
"""

from typing import Any, Final

from handlers.admission import podedit
from handlers.outcome import Object

#: What API servers fill in where it was left out.
DEFAULTED: Final = frozenset(
    ("apiVersion", "divisor", "imagePullPolicy", "protocol", "successThreshold", "terminationMessagePath",
     "terminationMessagePolicy", "timeoutSeconds")
)  # fmt: skip


def upsert(parent: Object, field: str, item: Object) -> None:
    """As `podedit.upsert`; nothing changes where only defaults were filled in."""
    there = podedit.named(parent.get(field), item["name"])
    if there is None or not _is_so(there, item):
        podedit.upsert(parent, field, item)


def _is_so(there: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict) and isinstance(there, dict):
        return there.keys() - wanted.keys() <= DEFAULTED and all(
            key in there and _is_so(there[key], value) for key, value in wanted.items()
        )
    if isinstance(wanted, list) and isinstance(there, list):
        return len(there) == len(wanted) and all(map(_is_so, there, wanted))
    return bool(there == wanted)
