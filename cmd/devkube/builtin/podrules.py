"""Rules of Pods, alone or in a template: those that webhooks which change them run into.

Rule: upstream's `pkg/apis/core/validation`. Left out are those of affinity, tolerations, spreading, DNS, security
contexts and of single kinds of volumes and sources; the schema and `fields` still hold for all of them.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from devkube.builtin.fields import StructRule
from devkube.builtin.scalars import quantity_value
from devkube.builtin.types import Json
from devkube.causes import NOT_NEGATIVE, absent, duplicate, forbidden, invalid, required
from devkube.errors import Cause
from devkube.kinds import Object

HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
CHANGEABLE = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` "
    "(only additions to existing tolerations)"
)
_RUNNING = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
_STANDARD = frozenset(("cpu", "memory", "ephemeral-storage"))


def repeated(items: list[Json], at: str, key: str = "name") -> Iterator[Cause]:
    """Values of a key that an earlier item has already; nothing is no value."""
    seen = set()
    for index, one in enumerate(items):
        if (value := one.get(key)) and value in seen:
            yield duplicate(f"{at}[{index}].{key}", value)
        seen.add(value)


def _pod_spec(spec: Json, at: str, root: Object) -> Iterator[Cause]:
    main, first, volumes = (spec.get(key) or [] for key in ("containers", "initContainers", "volumes"))
    # A StatefulSet adds its claims as volumes before Pods are made.
    claims = [one.get("metadata") or {} for one in (root.get("spec") or {}).get("volumeClaimTemplates") or ()]
    known = {one.get("name") for one in (*claims, *volumes)}
    taken = {one.get("name") for one in main}
    yield from repeated(volumes, f"{at}.volumes")
    yield from repeated(main, f"{at}.containers")
    for index, one in enumerate(first):
        here = f"{at}.initContainers[{index}]"
        if one.get("name") in taken:
            yield duplicate(f"{here}.name", one.get("name"))
        taken.add(one.get("name"))
        for key in _RUNNING if one.get("restartPolicy") != "Always" else ():
            if one.get(key) is not None:
                yield forbidden(f"{here}.{key}", "may not be set for init containers without restartPolicy=Always")
    for kind, containers in (("containers", main), ("initContainers", first)):
        for index, one in enumerate(containers):
            for uses in ("volumeMounts", "volumeDevices"):
                for number, use in enumerate(one.get(uses) or ()):
                    if use.get("name") not in known:
                        yield absent(f"{at}.{kind}[{index}].{uses}[{number}].name", use.get("name") or "")


def _container(container: Json, at: str, root: Object) -> Iterator[Cause]:
    yield from repeated(container.get("ports") or [], f"{at}.ports")
    paths = set()
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        path, below = mount.get("mountPath"), mount.get("subPath") or ""
        if path in paths:
            yield invalid(f"{at}.volumeMounts[{index}].mountPath", path, "must be unique")
        paths.add(path)
        if below.startswith("/") or ".." in below.split("/"):  # upstream leaves the index out of its path
            yield invalid(f"{at}.volumeMounts.subPath", below, "must be a relative path and must not contain '..'")


def _variable(one: Json, at: str, root: Object) -> Iterator[Cause]:
    sources = one.get("valueFrom")
    if sources is not None and (one.get("value") or len(sources) != 1):
        yield invalid(f"{at}.valueFrom", "", "must have exactly one source, and none where `value` is not empty")


def _resources(found: Json, at: str, root: Object) -> Iterator[Cause]:
    limits = found.get("limits") or {}
    for kind in ("limits", "requests"):
        for name, amount in (found.get(kind) or {}).items():
            here, limit = f"{at}.{kind}[{name}]", limits.get(name)
            if "/" not in name and name not in _STANDARD and not name.startswith("hugepages-"):
                yield invalid(here, name, "must be a standard resource for containers")
            if amount[:1] == "-":
                yield invalid(here, amount, NOT_NEGATIVE)
            elif limit is not None and quantity_value(amount) > quantity_value(limit):
                yield invalid(f"{at}.requests", amount, f"must be less than or equal to {name} limit of {limit}")


def _handler(found: Json, at: str, root: Object) -> Iterator[Cause]:
    given = [name for name in HANDLERS if name in found]
    if not given:
        yield required(at, "must specify a handler type")
    for name in given[1:]:
        yield forbidden(f"{at}.{name}", "may not specify more than 1 handler type")


def _volume(volume: Json, at: str, root: Object) -> Iterator[Cause]:
    for extra in [key for key in volume if key != "name"][1:]:
        yield forbidden(f"{at}.{extra}", "may not specify more than 1 volume type")
    if root["kind"] == "Pod" and "image" in volume and not volume["image"].get("reference"):
        yield required(f"{at}.image.reference")  # in templates something else may fill it in


def _needs(key: str) -> StructRule:
    """What a Go struct's own rule asks for, where the schema does not."""

    def rule(found: Json, at: str, root: Object) -> Iterator[Cause]:
        if not found.get(key):
            yield required(f"{at}.{key}")

    return rule


def pod(new: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    spec = new.get("spec") or {}
    for index, one in enumerate(spec.get("containers") or ()):
        if (image := one.get("image") or "") != image.strip():
            yield invalid(f"spec.containers[{index}].image", image, "must not have leading or trailing whitespace")
    if old is None:
        if spec.get("ephemeralContainers"):
            yield forbidden("spec.ephemeralContainers", "cannot be set on create")
    elif not subresource:
        yield from _update(spec, old.get("spec") or {})


def _update(new: Json, old: Json) -> Iterator[Cause]:
    for key in ("containers", "initContainers"):
        if len(new.get(key) or ()) != len(old.get(key) or ()):
            yield forbidden(f"spec.{key}", "pod updates may not add or remove containers")
            return
    before, after = old.get("activeDeadlineSeconds"), new.get("activeDeadlineSeconds")
    if before is not None and (after is None or before < after):
        yield invalid("spec.activeDeadlineSeconds", after, "must be less than or equal to previous value")
    kept = [without(one, "tolerationSeconds") for one in new.get("tolerations") or ()]
    if any(without(one, "tolerationSeconds") not in kept for one in old.get("tolerations") or ()):
        yield forbidden("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")
    known = {gate.get("name") for gate in old.get("schedulingGates") or ()}
    for index, gate in enumerate(new.get("schedulingGates") or ()):
        if gate.get("name") not in known:
            text = f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'"
            yield forbidden(f"spec.schedulingGates[{index}].name", text)
    fixed, was = _fixed(new), _fixed(old)
    if changed := [f"spec.{key}" for key in sorted({*fixed, *was}) if fixed.get(key) != was.get(key)]:
        # Upstream prints a diff, this the names.
        yield forbidden("spec", f"pod updates may not change fields other than {CHANGEABLE}\n{', '.join(changed)}")


def without(one: Json, *keys: str) -> dict[str, Any]:
    return {name: value for name, value in one.items() if name not in keys}


def _fixed(spec: Json) -> dict[str, Any]:
    """What of a spec must stay: everything but what may change."""
    fixed = without(spec, "tolerations", "schedulingGates", "activeDeadlineSeconds")
    for key in ("containers", "initContainers"):
        if key in fixed:
            fixed[key] = [without(one, "image") for one in fixed[key]]
    return fixed


STRUCTS: Mapping[str, StructRule] = {
    "core.PodSpec": _pod_spec,
    "core.Container": _container,
    "core.EnvVar": _variable,
    "core.ResourceRequirements": _resources,
    "core.Probe": _handler,
    "core.LifecycleHandler": _handler,
    "core.Volume": _volume,
    "core.ExecAction": _needs("command"),
    "core.ConfigMapVolumeSource": _needs("name"),
    "core.SecretVolumeSource": _needs("secretName"),
    "core.EphemeralVolumeSource": _needs("volumeClaimTemplate"),
}
