"""Configurations -> hooks, in the order in which they are called: configurations by name, hooks as written.

From upstream: `admission/configuration/*_webhook_manager.go` (order, uid) and the defaults of admissionregistration/v1,
which are applied here as well, so that an object that never met its rules is read the same.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from devkube.admission.conditions import Condition
from devkube.kinds import Object

MUTATING = "mutatingwebhookconfigurations.admissionregistration.k8s.io"
VALIDATING = "validatingwebhookconfigurations.admissionregistration.k8s.io"
_SECONDS = 10


@dataclass(frozen=True)
class Rule:
    operations: tuple[str, ...]
    groups: tuple[str, ...]
    versions: tuple[str, ...]
    resources: tuple[str, ...]
    scope: str = "*"  # *, Cluster or Namespaced


@dataclass(frozen=True)
class Hook:
    name: str
    configuration: str
    uid: str  # configuration/name/number: tells hooks of the same name apart
    client: Mapping[str, Any]  # clientConfig as written
    rules: tuple[Rule, ...]
    namespaces: Mapping[str, Any] = field(default_factory=dict)  # LabelSelector
    objects: Mapping[str, Any] = field(default_factory=dict)  # LabelSelector
    conditions: tuple[Condition, ...] = ()
    failures: Literal["Fail", "Ignore"] = "Fail"
    equivalent: bool = True  # matchPolicy Equivalent
    reinvoked: bool = False  # reinvocationPolicy IfNeeded
    side_effects: str = ""
    review_versions: tuple[str, ...] = ("v1",)
    timeout: int = _SECONDS  # seconds


def hooks(configurations: Iterable[Object]) -> tuple[Hook, ...]:
    ordered = sorted(configurations, key=lambda one: str(one["metadata"]["name"]))
    return tuple(hook for one in ordered for hook in _hooks(one))


def _hooks(configuration: Object) -> list[Hook]:
    own = configuration["metadata"]["name"]
    met: dict[str, int] = {}
    found = []
    for one in configuration.get("webhooks") or ():
        name = one.get("name") or ""
        number = met[name] = met.get(name, -1) + 1
        found.append(
            Hook(
                name=name,
                configuration=own,
                uid=f"{own}/{name}/{number}",
                client=one.get("clientConfig") or {},
                rules=tuple(map(_rule, one.get("rules") or ())),
                namespaces=one.get("namespaceSelector") or {},
                objects=one.get("objectSelector") or {},
                conditions=tuple(
                    Condition(c.get("name") or "", c.get("expression") or "") for c in one.get("matchConditions") or ()
                ),
                failures="Ignore" if one.get("failurePolicy") == "Ignore" else "Fail",
                equivalent=one.get("matchPolicy") != "Exact",
                reinvoked=one.get("reinvocationPolicy") == "IfNeeded",
                side_effects=one.get("sideEffects") or "",
                review_versions=tuple(one.get("admissionReviewVersions") or ()),
                timeout=one.get("timeoutSeconds") or _SECONDS,
            )
        )
    return found


def _rule(rule: Object) -> Rule:
    return Rule(
        operations=tuple(rule.get("operations") or ()),
        groups=tuple(rule.get("apiGroups") or ()),
        versions=tuple(rule.get("apiVersions") or ()),
        resources=tuple(rule.get("resources") or ()),
        scope=rule.get("scope") or "*",
    )
