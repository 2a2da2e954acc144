"""Area admission: what may be created and changed, from the schema and handlers/cachebackend/validate.py."""

from typing import Any

from crds import schema
from crds.cachebackend import CacheBackend, CacheBackendSpec
from handlers.cachebackend import validate
from tests.conformance import forms


def run(given: dict[str, Any]) -> dict[str, Any]:
    forms.only(given, "op", "object", "old")
    document = given["object"]
    problems = schema.violations(document["spec"], CacheBackendSpec, "spec")
    backend = schema.read(document, CacheBackend)
    told = len(validate.warnings(backend))
    if problems:
        unknown = {one.type for one in problems} == {"Unknown"}
        layer = "strict-decode" if unknown else "schema"
        return answer([(one.type, one.field) for one in problems], told, layer)
    if given["op"] == "UPDATE":
        found = validate.introduced(backend, schema.read(given["old"], CacheBackend))
    else:
        found = validate.violations(backend)
    return answer([(one.type, one.field) for one in found], told, "webhook")


def answer(errors: list[tuple[str, str]], warnings: int, layer: str) -> dict[str, Any]:
    return {"allowed": not errors, "errors": errors, "warnings": warnings, "layer": layer}


def compare(expect: dict[str, Any], observed: dict[str, Any]) -> list[str]:
    """Errors are sets of (type, field). What the webhook refuses, a schema may refuse before it."""
    wanted = {**expect, "errors": {(one["type"], one["field"]) for one in expect.get("errors", [])}}
    if wanted.get("layer") == "webhook":
        del wanted["layer"]
    if "errors" not in expect:
        del wanted["errors"]
    return forms.differences(wanted, {**observed, "errors": set(observed["errors"])})
