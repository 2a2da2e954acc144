"""Area defaulting: the schema's literal defaults, then those that the webhook computes."""

from typing import Any

from crds import schema
from crds.cachebackend import CacheBackend, CacheBackendSpec
from handlers.cachebackend import default, validate
from tests.conformance import forms


def run(given: dict[str, Any]) -> dict[str, Any]:
    forms.only(given, "op", "spec", "old_spec")
    spec = schema.defaulted(given["spec"], CacheBackendSpec)
    for one in default.defaults(spec):
        *path, last = one["path"].split("/")[2:]
        at = spec
        for part in path:
            at = at[part]
        at[last] = one["value"]
    spec = schema.defaulted(spec, CacheBackendSpec)
    backend = schema.read({"metadata": {"name": "a", "namespace": "b"}, "spec": spec}, CacheBackend)
    refused = validate.violations(backend)
    return {
        "spec": spec,
        "then": f"rejected by validation at {refused[0].field}" if refused else "accepted",
    }


def compare(expect: dict[str, Any], observed: dict[str, Any]) -> list[str]:
    found = []
    for name, wanted in expect.items():
        if name == "spec_subset":
            found += _subset(wanted, observed["spec"], "spec")
        elif name == "absent":
            found += [f"{path} is there" for path in wanted if _has({"spec": observed["spec"]}, path.split("."))]
        else:
            found += forms.differences({name: wanted}, observed)
    return found


def _subset(wanted: Any, found: Any, at: str) -> list[str]:
    if not isinstance(wanted, dict):
        return [] if wanted == found else [f"{at}: expected {wanted!r}, observed {found!r}"]
    if not isinstance(found, dict):
        return [f"{at}: expected an object, observed {found!r}"]
    return [one for name, value in wanted.items() for one in _subset(value, found.get(name), f"{at}.{name}")]


def _has(value: Any, path: list[str]) -> bool:
    for part in path:
        if not isinstance(value, dict) or part not in value:
            return False
        value = value[part]
    return True
