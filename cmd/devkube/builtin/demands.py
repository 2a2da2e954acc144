"""What a schema demands beside types: fields that must be there, and values out of a list.

The published schema has the required fields but not the lists of values; those that matter to Pods, workloads, webhooks
and roles are in `VALUES`, taken from upstream's validation. Like decoding, a first pass without paths says whether all
is well. `status` is not looked at: upstream trusts controllers there, and so does this.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from devkube.builtin.types import ListOf, MapOf, Struct, Type
from devkube.causes import required, unsupported
from devkube.errors import Cause

PROTOCOLS = ("SCTP", "TCP", "UDP")
PULL = ("Always", "IfNotPresent", "Never")
# "struct.field" of the Go type (group's package, version left out). A list's values are meant item by item.
VALUES: Mapping[str, tuple[str, ...]] = {
    "core.Container.imagePullPolicy": PULL,
    "core.Container.terminationMessagePolicy": ("FallbackToLogsOnError", "File"),
    "core.ImageVolumeSource.pullPolicy": PULL,
    "core.ContainerPort.protocol": PROTOCOLS,
    "core.ServicePort.protocol": PROTOCOLS,
    "core.HTTPGetAction.scheme": ("HTTP", "HTTPS"),
    "core.PodSpec.restartPolicy": ("Always", "OnFailure", "Never"),
    "core.PodSpec.dnsPolicy": ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"),
    "core.PodSpec.preemptionPolicy": ("Never", "PreemptLowerPriority"),
    "core.Taint.effect": ("NoSchedule", "NoExecute", "PreferNoSchedule"),
    "core.ServiceSpec.type": ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort"),
    "core.PersistentVolumeClaimSpec.accessModes": (
        *("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"),
    ),
    "apps.DeploymentStrategy.type": ("Recreate", "RollingUpdate"),
    "apps.DaemonSetUpdateStrategy.type": ("RollingUpdate", "OnDelete"),
    "apps.StatefulSetUpdateStrategy.type": ("RollingUpdate", "OnDelete"),
    "apps.StatefulSetSpec.podManagementPolicy": ("OrderedReady", "Parallel"),
    "batch.JobSpec.completionMode": ("Indexed", "NonIndexed"),
    "rbac.Subject.kind": ("ServiceAccount", "User", "Group"),
    "admissionregistration.RuleWithOperations.operations": ("*", "CONNECT", "CREATE", "DELETE", "UPDATE"),
    "admissionregistration.RuleWithOperations.scope": ("*", "Cluster", "Namespaced"),
    **{
        f"admissionregistration.{hook}.{name}": values
        for hook in ("MutatingWebhook", "ValidatingWebhook")
        for name, values in (
            ("failurePolicy", ("Fail", "Ignore")),
            ("matchPolicy", ("Equivalent", "Exact")),
            ("sideEffects", ("None", "NoneOnDryRun")),
            ("reinvocationPolicy", ("IfNeeded", "Never")),
        )
    },
}
# Required by the schema, yet upstream takes their zero value, or tells it in other words.
OPTIONAL = frozenset(
    (
        *("HTTPHeader.value", "Sysctl.value", "ISCSIVolumeSource.lun", "TokenReviewSpec.token", "SleepAction.seconds"),
        *("ServicePort.port", "EventSeries.count", "HTTPGetAction.port", "TCPSocketAction.port", "GRPCAction.port"),
        *("RoleRef.kind", "PodSchedulingGate.name", "HTTPIngressPath.backend"),
    )
)
WHY = {
    "PolicyRule.verbs": "verbs must contain at least one value",
    "MutatingWebhook.admissionReviewVersions": "must specify one of v1, v1beta1",
    "ValidatingWebhook.admissionReviewVersions": "must specify one of v1, v1beta1",
    "MutatingWebhook.sideEffects": "must specify one of None, NoneOnDryRun",
    "ValidatingWebhook.sideEffects": "must specify one of None, NoneOnDryRun",
}


class Demands:
    """Of one struct: `met` is the fast pass, `unmet` tells what is missing."""

    def __init__(self, struct: Struct) -> None:
        self._struct = struct
        self.bare = True  # nothing is demanded at or below this struct
        self.required: tuple[str, ...] = ()
        self.values: dict[str, tuple[str, ...]] = {}
        self.below: dict[str, tuple[Demands, str]] = {}
        self._settled = False

    def compile(self) -> None:
        struct, package = self._struct, self._struct.name.split(".")[-3]
        self.required = tuple(k for k in struct.required if f"{struct.short}.{k}" not in OPTIONAL)
        self.values = {k: v for k in struct.fields if (v := VALUES.get(f"{package}.{struct.short}.{k}"))}
        top = "apiVersion" in struct.fields and "kind" in struct.fields and "metadata" in struct.fields
        for key, child in struct.fields.items():
            inner, shape = _inner(child)
            if isinstance(inner, Struct) and not (top and key == "status"):
                self.below[key] = (demands(inner), shape)
        self.bare = not (self.required or self.values)

    def settle(self) -> bool:
        """Whether anything is demanded here or below; drops fields below which nothing is. Recursion counts as yes."""
        if not self._settled:
            self._settled = True  # what is asked of it from within is answered by `bare`, which is False until the end
            was, self.bare = self.bare, False
            self.below = {k: (d, shape) for k, (d, shape) in self.below.items() if d.settle()}
            self.bare = was and not self.below
        return not self.bare

    def met(self, value: Any) -> bool:
        for key in self.required:
            one = value.get(key)
            if one is None or one == "" or one == []:
                return False
        for key, values in self.values.items():
            one = value.get(key)
            if one and (one not in values if type(one) is str else not set(one) <= set(values)):
                return False
        for key, (below, shape) in self.below.items():
            one = value.get(key)
            if one is None:
                continue
            if shape == "list":
                if not all(map(below.met, one)):
                    return False
            elif shape == "map":
                if not all(map(below.met, one.values())):
                    return False
            elif not below.met(one):
                return False
        return True

    def unmet(self, value: Mapping[str, Any], at: str) -> Iterator[Cause]:
        dot = f"{at}." if at else ""
        for key in self.required:
            if value.get(key) in (None, "", []):
                yield required(f"{dot}{key}", WHY.get(f"{self._struct.short}.{key}", ""))
        for key, values in self.values.items():
            one = value.get(key) or ()
            if isinstance(one, str) and one not in values:
                yield unsupported(f"{dot}{key}", one, values)
            elif not isinstance(one, str):
                for index, item in enumerate(one):
                    if item not in values:
                        # Upstream leaves the index out here.
                        where = key if key == "accessModes" else f"{key}[{index}]"
                        yield unsupported(f"{dot}{where}", item, values)
        for key, (below, shape) in self.below.items():
            one = value.get(key)
            if shape == "list":
                for index, item in enumerate(one or ()):
                    yield from below.unmet(item, f"{dot}{key}[{index}]")
            elif shape == "map":
                for name, item in (one or {}).items():
                    yield from below.unmet(item, f"{dot}{key}[{name}]")
            elif one is not None:
                yield from below.unmet(one, f"{dot}{key}")


def _inner(child: Type) -> tuple[Type, str]:
    if isinstance(child, ListOf):
        return child.items, "list"
    return (child.values, "map") if isinstance(child, MapOf) else (child, "")


_known: dict[str, Demands] = {}


def demands(struct: Struct) -> Demands:
    found = _known.get(struct.name)
    if found is None:
        found = _known[struct.name] = Demands(struct)
        found.compile()
    return found


def unmet(kind: Type, obj: Mapping[str, Any]) -> list[Cause]:
    """Every demand of the schema that `obj` (decoded and defaulted) does not meet."""
    if not isinstance(kind, Struct):
        return []
    found = demands(kind)
    found.settle()
    return [] if found.met(obj) else list(found.unmet(obj, ""))
