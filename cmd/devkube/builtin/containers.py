"""The rules of one container, of any of a Pod's three lists. Rule: upstream's `pkg/apis/core/validation`.

What the schema demands (required fields, values out of a list) is not repeated here: see `demands`.
"""

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from devkube.builtin import downward, names
from devkube.builtin.causes import NOT_NEGATIVE, absent, between, duplicate, forbidden, invalid, required
from devkube.builtin.scalars import quantity_value
from devkube.errors import Cause

Json = Mapping[str, Any]
HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_STANDARD = frozenset(("cpu", "memory", "ephemeral-storage"))
_COUNTS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
BLOCK = ("persistentVolumeClaim", "ephemeral")


def common(container: Json, at: str, volumes: Mapping[str, Json]) -> Iterator[Cause]:
    """What holds for every container; `volumes` are the Pod's, by name."""
    if container.get("name"):
        yield from names.check(f"{at}.name", container["name"], names.dns_label)
    if not container.get("image"):
        yield required(f"{at}.image")
    if found := container.get("ports"):
        yield from _ports(found, f"{at}.ports")
    for index, one in enumerate(container.get("env") or ()):
        if one.get("name"):
            yield from names.check(f"{at}.env[{index}].name", one["name"], names.env_name)
        if "valueFrom" in one:
            yield from _value_from(one, f"{at}.env[{index}].valueFrom")
    for index, one in enumerate(container.get("envFrom") or ()):
        yield from _env_from(one, f"{at}.envFrom", index)
    if container.get("volumeMounts") or container.get("volumeDevices"):
        yield from _mounts(container, at, volumes)
    if found := container.get("resources"):
        yield from resources(found, f"{at}.resources")
    for key in ("runAsUser", "runAsGroup"):
        yield from identity(container.get("securityContext") or {}, key, f"{at}.securityContext")
    for index, one in enumerate(container.get("resizePolicy") or ()):
        if one.get("resourceName") not in ("cpu", "memory"):
            yield invalid(f"{at}.resizePolicy[{index}]", one.get("resourceName"), "must be cpu or memory")


def identity(context: Json, key: str, at: str) -> Iterator[Cause]:
    """A user's or a group's number."""
    if not 0 <= context.get(key, 0) < 2**31:
        yield invalid(f"{at}.{key}", context[key], between(0, 2**31 - 1))


def ip(address: str, at: str) -> Iterator[Cause]:
    try:
        ipaddress.ip_address(address)
    except ValueError:
        yield invalid(at, address, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")


def _ports(ports: Sequence[Json], at: str) -> Iterator[Cause]:
    seen = set()
    for index, port in enumerate(ports):
        here, name = f"{at}[{index}]", port.get("name")
        if name:
            wrong = names.check(f"{here}.name", name, names.port_name)
            yield from wrong
            if not wrong and name in seen:
                yield duplicate(f"{here}.name", name)
            seen.add(name)
        if port.get("containerPort") == 0:
            yield required(f"{here}.containerPort")
        for key in ("containerPort", "hostPort"):
            if port.get(key):
                for text in names.port_number(port[key]):
                    yield invalid(f"{here}.{key}", port[key], text)


def host_ports(containers: Sequence[Json], at: str) -> Iterator[Cause]:
    seen = set()
    for index, container in enumerate(containers):
        for number, port in enumerate(container.get("ports") or ()):
            if port.get("hostPort"):
                key = f"{port.get('protocol')}/{port.get('hostIP', '')}/{port['hostPort']}"
                if key in seen:
                    yield duplicate(f"{at}[{index}].ports[{number}].hostPort", key)
                seen.add(key)


def _value_from(env: Json, at: str) -> Iterator[Cause]:
    source = env["valueFrom"]
    given = [name for name in _SOURCES if name in source]
    if not given:
        listed = ", ".join(f"`{name}`" for name in _SOURCES[:-1])
        yield invalid(at, "", f"must specify one of: {listed} or `fileKeyRef`")
    elif env.get("value"):
        yield invalid(at, "", "may not be specified when `value` is not empty")
    elif len(given) > 1:
        yield invalid(at, "", "may not have more than one field specified at a time")
    for name in given:
        if name == "fieldRef":
            yield from downward.field(source[name], downward.ENV, f"{at}.{name}")
        elif name == "resourceFieldRef":
            yield from downward.resource(source[name], f"{at}.{name}", file=False)
        elif name in ("configMapKeyRef", "secretKeyRef"):
            yield from names.check(f"{at}.{name}.name", source[name].get("name") or "", names.dns_subdomain)
            if source[name].get("key"):
                yield from names.check(f"{at}.{name}.key", source[name]["key"], names.config_key)


def _env_from(one: Json, above: str, index: int) -> Iterator[Cause]:
    at = f"{above}[{index}]"
    if one.get("prefix"):
        yield from names.check(f"{at}.prefix", one["prefix"], names.env_name)
    given = [name for name in ("configMapRef", "secretRef") if name in one]
    if len(given) != 1:
        text = "may not have more than one field specified at a time" if given else "must specify one of: "
        yield invalid(above, "", text if given else f"{text}`configMapRef` or `secretRef`")
    for name in given:
        if not one[name].get("name"):
            yield required(f"{at}.{name}.name")
        else:
            yield from names.check(f"{at}.{name}.name", one[name]["name"], names.dns_subdomain)


def _mounts(container: Json, at: str, volumes: Mapping[str, Json]) -> Iterator[Cause]:
    devices = {one.get("name"): one.get("devicePath") for one in container.get("volumeDevices") or ()}
    paths = set()
    mounts = container.get("volumeMounts") or ()
    for index, mount in enumerate(mounts):
        here, name, path = f"{at}.volumeMounts[{index}]", mount.get("name"), mount.get("mountPath") or ""
        if name not in volumes:
            yield absent(f"{here}.name", name or "")
        if path in paths:
            yield invalid(f"{here}.mountPath", path, "must be unique")
        paths.add(path)
        if name in devices:
            yield invalid(f"{here}.name", name, "must not already exist in volumeDevices")
        if path in devices.values():
            yield invalid(f"{here}.mountPath", path, "must not already exist as a path in volumeDevices")
        if mount.get("subPath") and mount.get("subPathExpr"):
            text = "subPathExpr and subPath are mutually exclusive"
            yield invalid(f"{here}.subPathExpr", mount["subPathExpr"], text)
        for key in ("subPath", "subPathExpr"):
            # Upstream leaves the index out of these two paths.
            yield from downward.descending(mount.get(key) or "", f"{at}.volumeMounts.{key}")
    for index, device in enumerate(container.get("volumeDevices") or ()):
        here, name, path = f"{at}.volumeDevices[{index}]", device.get("name"), device.get("devicePath")
        if name not in volumes:
            yield absent(f"{here}.name", name or "")
        elif not any(kind in volumes[name] for kind in BLOCK):
            text = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            yield invalid(f"{here}.name", name, text)
        if path in paths:
            yield invalid(f"{here}.devicePath", path, "must not already exist as a path in volumeMounts")


def resources(found: Json, at: str) -> Iterator[Cause]:
    limits, requests = found.get("limits") or {}, found.get("requests") or {}
    for kind, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            here = f"{at}.{kind}[{name}]"
            wrong = names.check(here, name, names.qualified)
            yield from wrong
            if not wrong and "/" not in name and name not in _STANDARD and not name.startswith("hugepages-"):
                yield invalid(here, name, "must be a standard resource type or fully qualified")
                yield invalid(here, name, "must be a standard resource for containers")
            if amount[:1] == "-":
                yield invalid(here, amount, NOT_NEGATIVE)
            elif "/" in name and quantity_value(amount) % 1:
                yield invalid(here, amount, "must be an integer")
    for name, amount in requests.items():
        native = "/" not in name and not name.startswith("hugepages-")
        limit = limits.get(name)
        if limit is None:
            if not native:
                yield required(f"{at}.limits", "Limit must be set for non overcommitable resources")
        elif amount != limit:
            if not native:
                yield invalid(f"{at}.requests", amount, f"must be equal to {name} limit of {limit}")
            elif quantity_value(amount) > quantity_value(limit):
                yield invalid(f"{at}.requests", amount, f"must be less than or equal to {name} limit of {limit}")


def running(container: Json, at: str) -> Iterator[Cause]:
    """Probes and hooks, for containers that may have them."""
    for hook in ("postStart", "preStop"):
        if (found := (container.get("lifecycle") or {}).get(hook)) is not None:
            yield from handler(found, f"{at}.lifecycle.{hook}")
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if (probe := container.get(name)) is not None:
            yield from _probe(probe, f"{at}.{name}", once=name != "readinessProbe")


def _probe(probe: Json, at: str, *, once: bool) -> Iterator[Cause]:
    yield from handler(probe, at)
    for key in _COUNTS:
        if probe.get(key, 0) < 0:
            yield invalid(f"{at}.{key}", probe[key], NOT_NEGATIVE)
    if probe.get("terminationGracePeriodSeconds", 1) <= 0:
        grace = probe["terminationGracePeriodSeconds"]
        yield invalid(f"{at}.terminationGracePeriodSeconds", grace, "must be greater than 0")
    if once and probe.get("successThreshold") != 1:
        yield invalid(f"{at}.successThreshold", probe.get("successThreshold", 0), "must be 1")


def handler(found: Json, at: str) -> Iterator[Cause]:
    given = [name for name in HANDLERS if name in found]
    if not given:
        yield required(at, "must specify a handler type")
        return
    for name in given[1:]:
        yield forbidden(f"{at}.{name}", "may not specify more than 1 handler type")
    here, action = f"{at}.{given[0]}", found[given[0]]
    if given[0] == "exec" and not action.get("command"):
        yield required(f"{here}.command")
    if given[0] in ("httpGet", "tcpSocket", "grpc"):
        yield from port(action.get("port", 0), f"{here}.port")


def port(value: int | str, at: str) -> Iterator[Cause]:
    for text in names.port_number(value) if isinstance(value, int) else names.port_name(value):
        yield invalid(at, value, text)
