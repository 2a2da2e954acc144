"""The rules of one container, init or not. Rule: upstream's `pkg/apis/core/validation`.

Those that a webhook breaks: names, images, mounts, ports, resources, probes. What the schema demands (required fields,
values out of a list) is not repeated here: see `demands`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from devkube.builtin import names
from devkube.builtin.scalars import quantity_value
from devkube.causes import NOT_NEGATIVE, absent, duplicate, forbidden, invalid, required
from devkube.errors import Cause

Json = Mapping[str, Any]
HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_STANDARD = frozenset(("cpu", "memory", "ephemeral-storage"))


def common(container: Json, at: str, volumes: Mapping[str, Json]) -> Iterator[Cause]:
    """What holds for every container; `volumes` are the Pod's, by name."""
    if container.get("name"):
        yield from names.check(f"{at}.name", container["name"], names.dns_label)
    if not container.get("image"):
        yield required(f"{at}.image")
    yield from _ports(container.get("ports") or (), f"{at}.ports")
    for index, one in enumerate(container.get("env") or ()):
        here, sources = f"{at}.env[{index}].valueFrom", one.get("valueFrom")
        if sources is not None and one.get("value"):
            yield invalid(here, "", "may not be specified when `value` is not empty")
        elif sources is not None and len(sources) != 1:
            yield invalid(here, "", "must have exactly one source")
    yield from _mounts(container, at, volumes)
    yield from _resources(container.get("resources") or {}, f"{at}.resources")


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
                yield from port_or_name(port[key], f"{here}.{key}")


def _mounts(container: Json, at: str, volumes: Mapping[str, Json]) -> Iterator[Cause]:
    paths = set()
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        here, name, path = f"{at}.volumeMounts[{index}]", mount.get("name"), mount.get("mountPath") or ""
        if name not in volumes:
            yield absent(f"{here}.name", name or "")
        if path in paths:
            yield invalid(f"{here}.mountPath", path, "must be unique")
        paths.add(path)
        below = mount.get("subPath") or ""  # upstream leaves the index out of its path
        if below.startswith("/"):
            yield invalid(f"{at}.volumeMounts.subPath", below, "must be a relative path")
        if ".." in below.split("/"):
            yield invalid(f"{at}.volumeMounts.subPath", below, "must not contain '..'")
    for index, device in enumerate(container.get("volumeDevices") or ()):
        if device.get("name") not in volumes:
            yield absent(f"{at}.volumeDevices[{index}].name", device.get("name") or "")


def _resources(found: Json, at: str) -> Iterator[Cause]:
    limits, requests = found.get("limits") or {}, found.get("requests") or {}
    for kind, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            here = f"{at}.{kind}[{name}]"
            if "/" not in name and name not in _STANDARD and not name.startswith("hugepages-"):
                yield invalid(here, name, "must be a standard resource for containers")
            if amount[:1] == "-":
                yield invalid(here, amount, NOT_NEGATIVE)
            elif "/" in name and quantity_value(amount) % 1:
                yield invalid(here, amount, "must be an integer")
    for name, amount in requests.items():
        limit, native = limits.get(name), "/" not in name
        if limit is None:
            if not native:
                yield required(f"{at}.limits", "Limit must be set for non overcommitable resources")
        elif not native and amount != limit:
            yield invalid(f"{at}.requests", amount, f"must be equal to {name} limit of {limit}")
        elif quantity_value(amount) > quantity_value(limit):
            yield invalid(f"{at}.requests", amount, f"must be less than or equal to {name} limit of {limit}")


def running(container: Json, at: str) -> Iterator[Cause]:
    """Probes and hooks, for containers that may have them."""
    for hook in ("postStart", "preStop"):
        if (found := (container.get("lifecycle") or {}).get(hook)) is not None:
            yield from _handler(found, f"{at}.lifecycle.{hook}")
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if (probe := container.get(name)) is not None:
            yield from _handler(probe, f"{at}.{name}")
            if name != "readinessProbe" and probe.get("successThreshold") != 1:
                yield invalid(f"{at}.{name}.successThreshold", probe.get("successThreshold", 0), "must be 1")


def _handler(found: Json, at: str) -> Iterator[Cause]:
    given = [name for name in HANDLERS if name in found]
    if not given:
        yield required(at, "must specify a handler type")
        return
    for name in given[1:]:
        yield forbidden(f"{at}.{name}", "may not specify more than 1 handler type")
    if given[0] in ("httpGet", "tcpSocket", "grpc"):
        yield from port_or_name(found[given[0]].get("port", 0), f"{at}.{given[0]}.port")


def port_or_name(value: int | str, at: str) -> Iterator[Cause]:
    for text in names.port_number(value) if isinstance(value, int) else names.port_name(value):
        yield invalid(at, value, text)
