"""What the mutating webhook fills in: only defaults that depend on other fields. Nothing that was set is changed.

Literal defaults are the CRD's. The floor of autoscaling is copied from the replicas on the first apply and never moves
with them afterwards: scaling is then the autoscaler's.

Rules: seed 004, "Defaulting (mutating)"; spec/inferencecache.md section 6.2.
"""

from typing import Any

FIRST_EVENT_TIMEOUT = "5m"


def defaults(spec: dict[str, Any]) -> list[dict[str, Any]]:
    """JSON Patch operations on the object whose spec this is, in order.

    Webhooks are asked before the schema is applied: what is not of its shape is left for it to refuse.
    """
    found: list[dict[str, Any]] = []
    if spec.get("integration") is None:
        found.append(_add("/spec/integration", {}))
    observation = spec.get("observation")
    if observation is None:
        found.append(_add("/spec/observation", {"firstEventTimeout": FIRST_EVENT_TIMEOUT}))
    elif isinstance(observation, dict) and observation.get("firstEventTimeout") is None:
        found.append(_add("/spec/observation/firstEventTimeout", FIRST_EVENT_TIMEOUT))
    autoscaling = spec.get("autoscaling")
    replicas = 1 if spec.get("replicas") is None else spec["replicas"]
    scaled = isinstance(autoscaling, dict) and autoscaling.get("minReplicas") is None
    if scaled and isinstance(replicas, int) and replicas >= 1:
        found.append(_add("/spec/autoscaling/minReplicas", replicas))
    return found


def _add(path: str, value: Any) -> dict[str, Any]:
    return {"op": "add", "path": path, "value": value}
