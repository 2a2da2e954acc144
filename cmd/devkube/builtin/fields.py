"""What must hold of single fields: those that the schema requires, and what a value may be.

`FIELDS` are by Go struct, so that a rule of containers holds in every Pod and every template. The published schema has
the required fields but not the lists of values; both this table and `rules.STRUCTS` come from upstream's validation.
Neither `metadata` (see there) nor `status` is looked at: upstream trusts controllers there, and so does this.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from devkube.builtin import names
from devkube.builtin.metadata import labels
from devkube.builtin.types import Json, structs
from devkube.causes import NOT_NEGATIVE, between, invalid, required, unsupported
from devkube.errors import Cause
from devkube.schema import Node

Rule = Callable[[Any, str], Iterable[Cause]]
# Of a struct: its value, its path, and the object that it is in.
StructRule = Callable[[Json, str, Json], Iterable[Cause]]


def one_of(*accepted: str) -> Rule:
    """Of a list every item."""

    def rule(value: Any, at: str) -> Iterator[Cause]:
        if isinstance(value, list):
            for index, one in enumerate(value):
                yield from rule(one, f"{at}[{index}]")
        elif value and value not in accepted:
            yield unsupported(at, value, accepted)

    return rule


def text(check: names.Check) -> Rule:
    return lambda value, at: names.check(at, value, check) if value else ()


def within(low: int, high: int) -> Rule:
    return lambda value, at: () if low <= value <= high else (invalid(at, value, between(low, high)),)


def not_negative(value: int, at: str) -> Iterator[Cause]:
    if value < 0:
        yield invalid(at, value, NOT_NEGATIVE)


def port(value: int | str, at: str) -> Iterable[Cause]:
    """A number, or the name of a container's port."""
    return within(1, 65535)(value, at) if isinstance(value, int) else names.check(at, value, names.port_name)


def container_port(value: int, at: str) -> Iterable[Cause]:
    return port(value, at) if value else (required(at),)


def amount(value: int | str, at: str) -> Iterator[Cause]:
    """How many Pods of an update: a count or a percentage."""
    if isinstance(value, int):
        yield from not_negative(value, at)
    elif not re.fullmatch("[0-9]{1,9}%", value):
        yield invalid(at, value, "a valid percent string must be a numeric string followed by an ending '%'")


def part(value: int | str, at: str) -> Iterator[Cause]:
    yield from (found := list(amount(value, at)))
    if isinstance(value, str) and not found and int(value[:-1]) > 100:
        yield invalid(at, value, "must not be greater than 100%")


_COUNTS = ("replicas", "minReadySeconds", "revisionHistoryLimit", "parallelism", "completions", "backoffLimit")
PULL = one_of("Always", "IfNotPresent", "Never")
# Of fields that mean the same in every struct.
ANYWHERE: Mapping[str, Rule] = {
    **dict.fromkeys(_COUNTS, not_negative),
    "protocol": one_of("SCTP", "TCP", "UDP"),
    "matchLabels": labels,
    "imagePullPolicy": PULL,
    "pullPolicy": PULL,
}
_ROLLING: Mapping[str, Rule] = {"maxUnavailable": part, "maxSurge": amount, "partition": not_negative}
_UPDATES = {"type": one_of("RollingUpdate", "OnDelete")}
_ROLLED = ("Deployment", "DaemonSet", "StatefulSetStrategy")
_HOOK = {
    "failurePolicy": one_of("Fail", "Ignore"),
    "matchPolicy": one_of("Equivalent", "Exact"),
    "sideEffects": one_of("None", "NoneOnDryRun"),
    "reinvocationPolicy": one_of("IfNeeded", "Never"),
    "timeoutSeconds": within(1, 30),
}
FIELDS: Mapping[str, Mapping[str, Rule]] = {
    "core.PodSpec": {
        "restartPolicy": one_of("Always", "OnFailure", "Never"),
        "dnsPolicy": one_of("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"),
        "nodeSelector": labels,
        "serviceAccountName": text(names.dns_subdomain),
        "hostname": text(names.dns_label),
        "activeDeadlineSeconds": within(1, 2**31 - 1),
    },
    "core.Container": {
        "name": text(names.dns_label),
        "terminationMessagePolicy": one_of("FallbackToLogsOnError", "File"),
        "restartPolicy": one_of("Always", "Never", "OnFailure"),
    },
    "core.ContainerPort": {
        "name": text(names.port_name),
        "containerPort": container_port,
        "hostPort": lambda value, at: port(value, at) if value else (),
    },
    "core.HTTPGetAction": {"scheme": one_of("HTTP", "HTTPS"), "port": port},
    "core.TCPSocketAction": {"port": port},
    "core.GRPCAction": {"port": port},
    "admissionregistration.ServiceReference": {"port": port},
    "core.Volume": {"name": text(names.dns_label)},
    "core.ServiceSpec": {
        "type": one_of("ClusterIP", "ExternalName", "LoadBalancer", "NodePort"),
        "sessionAffinity": one_of("ClientIP", "None"),
        "selector": labels,
    },
    "core.ServicePort": {"name": text(names.dns_label), "port": port, "targetPort": port},
    "meta.LabelSelectorRequirement": {"key": text(names.qualified)},
    "apps.DeploymentStrategy": {"type": one_of("Recreate", "RollingUpdate")},
    "apps.DaemonSetUpdateStrategy": _UPDATES,
    **dict.fromkeys((f"apps.RollingUpdate{kind}" for kind in _ROLLED), _ROLLING),
    "apps.StatefulSetSpec": {"podManagementPolicy": one_of("OrderedReady", "Parallel")},
    "apps.StatefulSetUpdateStrategy": _UPDATES,
    "batch.JobSpec": {"completionMode": one_of("Indexed", "NonIndexed")},
    "coordination.LeaseSpec": {"leaseDurationSeconds": within(1, 2**31 - 1), "leaseTransitions": not_negative},
    "rbac.Subject": {"kind": one_of("ServiceAccount", "User", "Group")},
    "admissionregistration.MutatingWebhook": _HOOK,
    "admissionregistration.ValidatingWebhook": _HOOK,
    "admissionregistration.RuleWithOperations": {
        "operations": one_of("*", "CONNECT", "CREATE", "DELETE", "UPDATE"),
        "scope": one_of("*", "Cluster", "Namespaced"),
    },
}
# Required by upstream beside the schema, and by the schema where upstream takes the zero value.
REQUIRED: Mapping[str, tuple[str, ...]] = {
    "core.Container": ("image",),
    "admissionregistration.RuleWithOperations": ("operations", "apiGroups", "apiVersions", "resources"),
}
OPTIONAL = (
    *("core.HTTPHeader.value", "core.SleepAction.seconds", "authentication.TokenReviewSpec.token"),
    "meta.LabelSelectorRequirement.operator",  # rules says more
)


def problems(obj: Json, node: Node, rules: Mapping[str, StructRule]) -> Iterator[Cause]:
    """Of an object that is decoded and defaulted; `rules` are those of whole structs."""
    for go, found, value, at in structs({k: v for k, v in obj.items() if k not in ("metadata", "status")}, node):
        dot = f"{at}." if at else ""
        for key in (*found.get("required", ()), *REQUIRED.get(go, ())):
            if value.get(key) in (None, "", []) and (dot, key) != ("", "metadata") and f"{go}.{key}" not in OPTIONAL:
                yield required(f"{dot}{key}")
        checks = FIELDS.get(go, {})
        for key, one in value.items():
            if check := checks.get(key) or ANYWHERE.get(key):
                yield from check(one, f"{dot}{key}")
        if rule := rules.get(go):
            yield from rule(value, at, obj)
