"""Pods: what becomes of one at creation, what may change of one that lives, and what its record says."""

import copy
import json
from collections.abc import Iterator
from typing import Any

from handlers.kvcachepool import admit, names, record
from tests.conformance import forms
from tests.conformance.drivers.worker_gpustack import desk

ANNOTATIONS = "kvcache.gpustack.ai/"


def run(given: dict[str, Any]) -> dict[str, Any]:
    if given["operation"] == "READ_RECORD":
        forms.only(given, "operation", "record")
        found = record.read(json.dumps(given["record"]))
        return {"decision": "allow", "parsed": record.shown(found) if found else None}
    if given["operation"] == "UPDATE":
        forms.only(given, "operation", "old", "new")
        decision, _ = desk.asked(admit.Freeze(), given["new"], given["old"], desk.world_of([]))
        refused = decision is not None and decision.verdict == "refused"
        return {
            "decision": "refuse" if refused else "allow",
            "status": "Invalid" if refused else "",
            "fields_forbidden": [one.field for one in decision.violations if one.type == "Forbidden"]
            if refused
            else [],
            "message": desk.message(given["new"], decision) if refused else "",
        }
    forms.only(given, "operation", "pod", "objects", "settings")
    before = copy.deepcopy(given["pod"])
    admitter = admit.Injection(desk.settings_of(given))
    decision, after = desk.asked(admitter, given["pod"], None, desk.world_of(given["objects"]))
    assert desk.same_bytes(given["pod"], before)
    verdict = decision.verdict if decision is not None else "allowed"
    return {
        "decision": {"patched": "inject", "refused": "refuse", "allowed": "untouched"}[verdict],
        "before": before,
        "after": after,
        "message": desk.message(after, decision) if verdict == "refused" else "",
    }


def compare(expect: dict[str, Any], observed: dict[str, Any]) -> list[str]:
    return [line for key, wanted in expect.items() for line in _one(key, wanted, expect, observed)]


def _one(key: str, wanted: Any, expect: dict[str, Any], observed: dict[str, Any]) -> Iterator[str]:
    if key == "message_contains":
        yield from (f"{one!r} is not in {observed['message']!r}" for one in wanted if one not in observed["message"])
    elif key in CHECKS:
        found = CHECKS[key](wanted, Pods(expect, observed["before"], observed["after"]))
        yield from (f"{key}: {line}" for line in found)
    elif key == "fields_forbidden":
        yield from forms.differences({key: set(wanted)}, {key: set(observed[key])})
    elif key != "container":
        yield from forms.differences({key: wanted}, observed)


class Pods:
    """A Pod before and after; `target` are its container's two states."""

    def __init__(self, expect: dict[str, Any], before: dict[str, Any], after: dict[str, Any]) -> None:
        self.before, self.after = before, after
        containers = after["spec"]["containers"]
        number = next((n for n, one in enumerate(containers) if one["name"] == expect.get("container")), 0)
        self.old = before["spec"]["containers"][number] if containers else {}
        self.new = containers[number] if containers else {}

    @property
    def args(self) -> list[str]:
        return self.new.get("args") or []

    @property
    def added(self) -> list[str]:
        return self.args[len(self.old.get("args") or []) :]

    @property
    def env(self) -> list[dict[str, Any]]:
        return self.new.get("env") or []

    @property
    def names(self) -> list[str]:
        return [one["name"] for one in self.env]

    def annotation(self, name: str) -> Any:
        return desk.of_json((self.after["metadata"].get("annotations") or {}).get(name))


def env(wanted: dict[str, Any], pods: Pods) -> Iterator[str]:
    for name, value in wanted.items():
        found = [one for one in pods.env if one["name"] == name]
        entry = {"name": name, "value": value}
        if isinstance(value, dict):
            entry = {"name": name, "valueFrom": {"fieldRef": {"fieldPath": value["fieldRef"]}}}
        if found != [entry]:
            yield f"{name} is {found}, not {entry}"


def pairs(wanted: list[list[Any]], pods: Pods) -> Iterator[str]:
    for flag, value in wanted:
        at = [number for number, word in enumerate(pods.added) if word == flag]
        follows = pods.added[at[0] + 1] if len(at) == 1 else None
        fits = json.loads(follows or "null") == value["json_equals"] if isinstance(value, dict) else follows == value
        if not fits:
            yield f"{flag} is followed by {follows!r} in {pods.added}"


def after_injected(wanted: list[str], pods: Pods) -> Iterator[str]:
    found = pods.added[4:]  # two pairs are rendered
    if found != wanted:
        yield f"{found} come last"


def subset(wanted: dict[str, Any], found: Any) -> Iterator[str]:
    for key, value in wanted.items():
        if not isinstance(found, dict) or key not in found or found[key] != value:
            yield f"{key} is {found}"


def unchanged(wanted: list[str], pods: Pods) -> Iterator[str]:
    for path in wanted:
        if _at(pods.before, path.split(".")) != _at(pods.after, path.split(".")):
            yield path


def _at(value: Any, path: list[str]) -> Any:
    for number, part in enumerate(path):
        if part.endswith("[*]"):
            return [_at(one, path[number + 1 :]) for one in value.get(part[:-3]) or []]
        value = value.get(part) if isinstance(value, dict) else None
    return value


def same(wanted: Any, found: Any) -> Iterator[str]:
    if wanted != found:
        yield f"{found!r}, not {wanted!r}"


def tenant(wanted: str, pods: Pods) -> Iterator[str]:
    assert wanted == "absent-or-empty"
    yield from same("", (pods.annotation(names.CLIENT_CONFIG) or {}).get("tenant_id", ""))


def added(field: str, wanted: list[Any], old: dict[str, Any], new: dict[str, Any]) -> Iterator[str]:
    before = old.get(field) or []
    yield from same([*before, *wanted], new.get(field) or [])


def others(wanted: list[str], pods: Pods) -> Iterator[str]:
    for name in wanted:
        old, new = (
            [one for one in pod["spec"]["containers"] if one["name"] == name] for pod in (pods.before, pods.after)
        )
        if not desk.same_bytes(old, new):
            yield name


def absent(wanted: list[str], found: Any) -> Iterator[str]:
    yield from (f"{one} is there" for one in wanted if one in (found or ()))


CHECKS: dict[str, Any] = {
    "pod_unchanged": lambda wanted, pods: same(wanted, desk.same_bytes(pods.before, pods.after)),
    "env": env,
    "env_absent": lambda wanted, pods: absent(wanted, pods.names),
    "env_count": lambda wanted, pods: [
        f"{name}: {pods.names.count(name)}" for name, count in wanted.items() if pods.names.count(name) != count
    ],
    "env_order_prefix": lambda wanted, pods: same(wanted, pods.names[: len(wanted)]),
    "env_names_prefix": lambda wanted, pods: same(wanted, pods.names[: len(wanted)]),
    "args_pairs_appended": pairs,
    "args_absent": lambda wanted, pods: absent(wanted, pods.args),
    "args_count": lambda wanted, pods: [
        f"{flag}: {pods.args.count(flag)}" for flag, count in wanted.items() if pods.args.count(flag) != count
    ],
    "args_flags_after_injected": after_injected,
    "args_last": lambda wanted, pods: same(wanted, pods.args[-1]),
    "original_args_kept_as_prefix": lambda wanted, pods: same(
        wanted, pods.args[: len(pods.old.get("args") or [])] == (pods.old.get("args") or [])
    ),
    "volumes_added": lambda wanted, pods: added("volumes", wanted, pods.before["spec"], pods.after["spec"]),
    "mounts_added": lambda wanted, pods: added("volumeMounts", wanted, pods.old, pods.new),
    "annotations_absent": lambda wanted, pods: absent(wanted, pods.after["metadata"].get("annotations")),
    "annotations_kept": lambda wanted, pods: subset(wanted, pods.after["metadata"].get("annotations")),
    "client_config_json_equals": lambda wanted, pods: same(wanted, pods.annotation(names.CLIENT_CONFIG)),
    "client_config_json_subset": lambda wanted, pods: subset(wanted, pods.annotation(names.CLIENT_CONFIG)),
    "client_config_tenant": tenant,
    "injected_json_equals": lambda wanted, pods: same(wanted, pods.annotation(names.INJECTED)),
    "injected_json_subset": lambda wanted, pods: subset(wanted, pods.annotation(names.INJECTED)),
    "injected_json_absent": lambda wanted, pods: absent(wanted, pods.annotation(names.INJECTED)),
    "unchanged": unchanged,
    "containers_unchanged": others,
    "resources_equal": lambda wanted, pods: same(wanted, pods.new.get("resources")),
    "resources_unchanged": lambda wanted, pods: same(wanted, pods.new.get("resources") == pods.old.get("resources")),
    "host_network_unchanged": lambda wanted, pods: same(
        wanted, pods.after["spec"].get("hostNetwork") == pods.before["spec"].get("hostNetwork")
    ),
    "objects_created": lambda wanted, pods: same(wanted, []),  # a decision is a patch of its object and nothing else
}
