"""What a Pod's spec must hold, in a Pod or in a template.

Rule: upstream's `pkg/apis/core/validation` (ValidatePodSpec). Checked are the rules that a person or
a webhook breaks; those of Windows, AppArmor, sysctls, resource claims and of single volume drivers are left out.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from devkube.builtin import containers, downward, names
from devkube.builtin.causes import absent, between, duplicate, forbidden, invalid, required, unsupported
from devkube.builtin.metadata import labels
from devkube.builtin.scheduling import scheduling
from devkube.errors import Cause

Json = Mapping[str, Any]
_RUNNING = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
_NOT_EPHEMERAL = ("ports", "lifecycle", "livenessProbe", "readinessProbe", "startupProbe", "resizePolicy")
_POLICIES = ("Always", "Never", "OnFailure")


def pod_spec(spec: Json, at: str, extra_volumes: Sequence[str] = (), *, template: bool = True) -> Iterator[Cause]:
    """`extra_volumes`: names that a controller adds before Pods are made (claims of a StatefulSet)."""
    volumes: dict[str, Json] = {name: {"persistentVolumeClaim": {}} for name in extra_volumes}
    for index, volume in enumerate(spec.get("volumes") or ()):
        wrong = list(_volume(volume, f"{at}.volumes[{index}]", volume.get("name") in volumes, template=template))
        yield from wrong
        if not wrong:
            volumes[volume["name"]] = volume
    yield from _containers(spec, at, volumes)
    yield from labels(spec.get("nodeSelector") or {}, f"{at}.nodeSelector")
    for key, rule in (
        ("serviceAccountName", names.dns_subdomain),
        ("nodeName", names.dns_subdomain),
        ("priorityClassName", names.dns_subdomain),
        ("runtimeClassName", names.dns_subdomain),
        ("hostname", names.dns_label),
        ("subdomain", names.dns_label),
    ):
        if spec.get(key):
            yield from names.check(f"{at}.{key}", spec[key], rule)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline < 2**31:
        yield invalid(f"{at}.activeDeadlineSeconds", deadline, between(1, 2**31 - 1))
    yield from scheduling(spec, at)
    yield from _network(spec, at)
    if spec.get("dnsPolicy") == "None" and not (spec.get("dnsConfig") or {}).get("nameservers"):
        text = "must provide at least one DNS nameserver when `dnsPolicy` is None"
        yield required(f"{at}.dnsConfig.nameservers", text)
    if spec.get("hostNetwork"):
        yield from _host_network(spec.get("containers") or (), f"{at}.containers")
    for key in ("runAsUser", "runAsGroup", "fsGroup"):
        yield from containers.identity(spec.get("securityContext") or {}, key, f"{at}.securityContext")


def _network(spec: Json, at: str) -> Iterator[Cause]:
    for index, alias in enumerate(spec.get("hostAliases") or ()):
        yield from containers.ip(alias.get("ip") or "", f"{at}.hostAliases[{index}].ip")
        for number, name in enumerate(alias.get("hostnames") or ()):
            yield from names.check(f"{at}.hostAliases[{index}].hostnames[{number}]", name, names.dns_subdomain)
    for index, address in enumerate((spec.get("dnsConfig") or {}).get("nameservers") or ()):
        yield from containers.ip(address, f"{at}.dnsConfig.nameservers[{index}]")


def _volume(volume: Json, at: str, taken: bool, *, template: bool) -> Iterator[Cause]:
    sources = [key for key in volume if key != "name"]
    for extra in sources[1:]:
        yield forbidden(f"{at}.{extra}", "may not specify more than 1 volume type")
    if not sources:
        yield required(at, "must specify a volume type")
    if (image := volume.get("image")) is not None and not image.get("reference") and not template:
        yield required(f"{at}.image.reference")
    for key, field in (("secret", "secretName"), ("configMap", "name")):
        if key in volume and not volume[key].get(field):
            yield required(f"{at}.{key}.{field}")
    for key in ("secret", "configMap", "projected", "downwardAPI"):
        mode = (volume.get(key) or {}).get("defaultMode")
        if mode is not None and not 0 <= mode <= 0o777:
            text = "must be a number between 0 and 0777 (octal), both inclusive"
            yield invalid(f"{at}.{key}.defaultMode", mode, text)
    yield from downward.files((volume.get("downwardAPI") or {}).get("items"), f"{at}.downwardAPI")
    for index, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
        items = (source.get("downwardAPI") or {}).get("items")
        yield from downward.files(items, f"{at}.projected.sources[{index}].downwardAPI")
        if "serviceAccountToken" in source and not source["serviceAccountToken"].get("path"):
            yield required(f"{at}.projected.path")
    if volume.get("name"):
        yield from names.check(f"{at}.name", volume["name"], names.dns_label)
    else:
        yield required(f"{at}.name")
    if taken:
        yield duplicate(f"{at}.name", volume["name"])


def _containers(spec: Json, at: str, volumes: Mapping[str, Json]) -> Iterator[Cause]:
    regular, init = spec.get("containers") or (), spec.get("initContainers") or ()
    seen: set[str] = set()
    for index, one in enumerate(regular):
        here = f"{at}.containers[{index}]"
        yield from containers.common(one, here, volumes)
        yield from _unique(one, here, seen)
        yield from containers.running(one, here)
        yield from _restart(one, here)
    yield from containers.host_ports(regular, f"{at}.containers")
    for index, one in enumerate(init):
        here = f"{at}.initContainers[{index}]"
        yield from containers.common(one, here, volumes)
        yield from _restart(one, here)
        yield from _unique(one, here, seen)
        yield from containers.host_ports([one], f"{at}.initContainers")
        if one.get("restartPolicy") == "Always":
            yield from containers.running(one, here)
            continue
        for key in _RUNNING:
            if one.get(key) is not None:
                text = "may not be set for init containers without restartPolicy=Always"
                yield forbidden(f"{here}.{key}", text)
    others = frozenset(seen)
    for index, one in enumerate(spec.get("ephemeralContainers") or ()):
        here = f"{at}.ephemeralContainers[{index}]"
        yield from containers.common(one, here, volumes)
        yield from _unique(one, here, seen)
        if (target := one.get("targetContainerName")) and target not in others:
            yield absent(f"{here}.targetContainerName", target)
        for key in (*_NOT_EPHEMERAL, "resources"):
            if one.get(key):
                yield forbidden(f"{here}.{key}", "cannot be set for an Ephemeral Container")


def _unique(container: Json, at: str, seen: set[str]) -> Iterator[Cause]:
    name = container.get("name") or ""
    if name in seen:
        yield duplicate(f"{at}.name", name)
    elif name:
        seen.add(name)


def _restart(container: Json, at: str) -> Iterator[Cause]:
    policy = container.get("restartPolicy")
    if policy is None and container.get("restartPolicyRules"):
        yield required(f"{at}.restartPolicy", "must specify restartPolicy when restart rules are used")
    if policy is not None and policy not in _POLICIES:
        yield unsupported(f"{at}.restartPolicy", policy, _POLICIES)


def _host_network(found: Sequence[Json], at: str) -> Iterator[Cause]:
    for index, container in enumerate(found):
        for number, port in enumerate(container.get("ports") or ()):
            if port.get("hostPort") and port["hostPort"] != port.get("containerPort"):
                text = "must match `containerPort` when `hostNetwork` is true"
                yield invalid(f"{at}[{index}].ports[{number}].hostPort", port["hostPort"], text)
