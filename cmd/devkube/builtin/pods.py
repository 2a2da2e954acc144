"""What a Pod's spec must hold, in a Pod or in a template, and what of a Pod may change.

Rule: upstream's `pkg/apis/core/validation` (ValidatePodSpec, ValidatePodUpdate): the rules that webhooks which change
Pods run into. Left out: those of affinity, tolerations, spreading, DNS, security contexts and of single kinds of
volumes and sources; the schema still holds for all of them.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from devkube.builtin import containers, names
from devkube.builtin.metadata import labels
from devkube.causes import between, duplicate, forbidden, invalid, required, unsupported
from devkube.errors import Cause
from devkube.kinds import Object

Json = Mapping[str, Any]
CHANGEABLE = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` "
    "(only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was "
    "previously negative)"
)
_RUNNING = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
_POLICIES = ("Always", "Never", "OnFailure")


def pod(new: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    spec = new.get("spec") or {}
    yield from pod_spec(spec, "spec", template=False)
    for index, one in enumerate(spec.get("containers") or ()):
        if (image := one.get("image") or "") != image.strip():
            text = "must not have leading or trailing whitespace"
            yield invalid(f"spec.containers[{index}].image", image, text)
    if old is None:
        if spec.get("ephemeralContainers"):
            yield forbidden("spec.ephemeralContainers", "cannot be set on create")
    elif not subresource:
        yield from _update(spec, old.get("spec") or {})


def pod_spec(spec: Json, at: str, extra_volumes: Sequence[str] = (), *, template: bool = True) -> Iterator[Cause]:
    """`extra_volumes`: names that a controller adds before Pods are made (claims of a StatefulSet)."""
    volumes: dict[str, Json] = {name: {"persistentVolumeClaim": {}} for name in extra_volumes}
    for index, volume in enumerate(spec.get("volumes") or ()):
        wrong = list(_volume(volume, f"{at}.volumes[{index}]", volume.get("name") in volumes, template=template))
        yield from wrong
        if not wrong and volume.get("name"):
            volumes[volume["name"]] = volume
    yield from _containers(spec, at, volumes)
    yield from labels(spec.get("nodeSelector") or {}, f"{at}.nodeSelector")
    for key, rule in (
        ("serviceAccountName", names.dns_subdomain),
        ("nodeName", names.dns_subdomain),
        ("hostname", names.dns_label),
        ("subdomain", names.dns_label),
    ):
        if spec.get(key):
            yield from names.check(f"{at}.{key}", spec[key], rule)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline < 2**31:
        yield invalid(f"{at}.activeDeadlineSeconds", deadline, between(1, 2**31 - 1))


def _volume(volume: Json, at: str, taken: bool, *, template: bool) -> Iterator[Cause]:
    sources = [key for key in volume if key != "name"]
    for extra in sources[1:]:
        yield forbidden(f"{at}.{extra}", "may not specify more than 1 volume type")
    if (image := volume.get("image")) is not None and not image.get("reference") and not template:
        yield required(f"{at}.image.reference")
    if volume.get("name"):
        yield from names.check(f"{at}.name", volume["name"], names.dns_label)
    if taken:
        yield duplicate(f"{at}.name", volume["name"])


def _containers(spec: Json, at: str, volumes: Mapping[str, Json]) -> Iterator[Cause]:
    seen: set[str] = set()
    for kind in ("containers", "initContainers"):
        for index, one in enumerate(spec.get(kind) or ()):
            here, policy = f"{at}.{kind}[{index}]", one.get("restartPolicy")
            yield from containers.common(one, here, volumes)
            if one.get("name") in seen:
                yield duplicate(f"{here}.name", one["name"])
            seen.add(one.get("name") or "")
            seen.discard("")  # that it has none is told already
            if policy is not None and policy not in _POLICIES:
                yield unsupported(f"{here}.restartPolicy", policy, _POLICIES)
            if kind == "containers" or policy == "Always":
                yield from containers.running(one, here)
                continue
            for key in _RUNNING:
                if one.get(key) is not None:
                    yield forbidden(f"{here}.{key}", "may not be set for init containers without restartPolicy=Always")


def _update(new: Json, old: Json) -> Iterator[Cause]:
    for key in ("containers", "initContainers"):
        if len(new.get(key) or ()) != len(old.get(key) or ()):
            yield forbidden(f"spec.{key}", "pod updates may not add or remove containers")
            return
    before, after = old.get("activeDeadlineSeconds"), new.get("activeDeadlineSeconds")
    if before is not None and (after is None or before < after):
        yield invalid("spec.activeDeadlineSeconds", after, "must be less than or equal to previous value")
    kept = [_without(one, "tolerationSeconds") for one in new.get("tolerations") or ()]
    if any(_without(one, "tolerationSeconds") not in kept for one in old.get("tolerations") or ()):
        text = "existing toleration can not be modified except its tolerationSeconds"
        yield forbidden("spec.tolerations", text)
    known = {gate.get("name") for gate in old.get("schedulingGates") or ()}
    for index, gate in enumerate(new.get("schedulingGates") or ()):
        if gate.get("name") not in known:
            text = f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'"
            yield forbidden(f"spec.schedulingGates[{index}].name", text)
    fixed, was = _fixed(new, old), _fixed(old, old)
    if changed := [f"spec.{key}" for key in sorted({*fixed, *was}) if fixed.get(key) != was.get(key)]:
        # Upstream prints a diff, this the names.
        yield forbidden("spec", f"pod updates may not change fields other than {CHANGEABLE}\n{', '.join(changed)}")


def _without(one: Json, key: str) -> dict[str, Any]:
    return {name: value for name, value in one.items() if name != key}


def _fixed(spec: Json, old: Json) -> dict[str, Any]:
    """What of a spec must stay: everything but what may change."""
    free = ("tolerations", "schedulingGates", "activeDeadlineSeconds")
    fixed = {key: value for key, value in spec.items() if key not in free}
    for key in ("containers", "initContainers"):
        if key in fixed:
            fixed[key] = [_without(one, "image") for one in fixed[key]]
    if old.get("terminationGracePeriodSeconds", 0) < 0 and fixed.get("terminationGracePeriodSeconds") == 1:
        fixed["terminationGracePeriodSeconds"] = old["terminationGracePeriodSeconds"]
    return fixed
