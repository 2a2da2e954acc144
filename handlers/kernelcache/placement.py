"""On which nodes a Pod may run, as far as it says so itself: its node's name, its selector, its required affinity.

What is not known of a node is no reason against it. Taints are not looked at: who prefers a node does not require it.

Rules: core/v1 PodSpec, NodeSelectorTerm (terms are alternatives, expressions of a term must all hold, an empty term
holds nowhere).
"""

from collections.abc import Mapping
from typing import Any, Final

from handlers.outcome import Object

HOSTNAME: Final = "kubernetes.io/hostname"


def allows(pod: Object, node: str, labels: Mapping[str, str] | None) -> bool:
    """`labels` is None where the node is not known."""
    spec = pod.get("spec") or {}
    if spec.get("nodeName") and spec["nodeName"] != node:
        return False
    wanted = spec.get("nodeSelector") or {}
    if labels is not None and not wanted.items() <= labels.items():
        return False
    required = _below(spec, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    return any(_term(one, node, labels) for one in required.get("nodeSelectorTerms") or ())


def _below(value: Any, *path: str) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _term(term: Object, node: str, labels: Mapping[str, str] | None) -> bool:
    fields, expressions = term.get("matchFields") or [], term.get("matchExpressions") or []
    if not fields and not expressions:
        return False
    if not all(_holds(one, {"metadata.name": node}) for one in fields):
        return False
    return labels is None or all(_holds(one, labels) for one in expressions)


def _holds(expression: Object, of: Mapping[str, str]) -> bool:
    value, values = of.get(str(expression.get("key"))), expression.get("values") or []
    match expression.get("operator"):
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt" as operator:
            return _compared(operator, value, values)
    return False


def _compared(operator: str, value: str | None, values: list[Any]) -> bool:
    try:
        difference = int(value or "") - int(values[0])
    except (ValueError, IndexError, TypeError):
        return False
    return difference > 0 if operator == "Gt" else difference < 0
