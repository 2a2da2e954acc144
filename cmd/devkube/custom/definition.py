"""A CustomResourceDefinition: its defaults, what its status says, and every reason why a real server would refuse it.

Rules and words of apiextensions' validation. Two reasons are devkube's own: conversion by webhook is not built, and a
rule that uses a CEL function which devkube lacks cannot be evaluated. Both are refused here, never ignored later.
Left out: estimated costs of rules, and approval of groups under k8s.io.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from devkube import causes
from devkube.builtin import names
from devkube.custom import schemas, versions
from devkube.errors import Cause
from devkube.kinds import Object


def default(crd: Object) -> None:
    spec = crd.get("spec")
    if not isinstance(spec, dict):
        return
    called = spec.setdefault("names", {})
    kind = called.get("kind") or ""
    if kind and not called.get("singular"):
        called["singular"] = kind.lower()
    if kind and not called.get("listKind"):
        called["listKind"] = f"{kind}List"
    if not spec.get("conversion"):
        spec["conversion"] = {"strategy": "None"}


def prepare(new: Object, old: Object | None, subresource: str) -> None:
    """On a write of the CRD its status stays (storedVersions gains the storage version), on one of /status its spec."""
    if subresource == "status":
        if old is not None:
            new["spec"] = old["spec"]
        return
    status = dict((old or {}).get("status") or {})
    stored = list(status.get("storedVersions") or ())
    storage = next((v.get("name") for v in new.get("spec", {}).get("versions") or () if v.get("storage")), None)
    if storage and storage not in stored:
        stored.append(storage)
    new["status"] = {**status, "storedVersions": stored} if stored else status


def is_established(crd: Object) -> bool:
    conditions = (crd.get("status") or {}).get("conditions") or ()
    return any(one.get("type") == "Established" and one.get("status") == "True" for one in conditions)


def validate(new: Object, old: Object | None, subresource: str) -> list[Cause]:
    """Every violation of a create (old None) or an update."""
    accepted = list(_names((new.get("status") or {}).get("acceptedNames") or {}, "status.acceptedNames", full=False))
    if subresource == "status":
        return accepted
    spec = new.get("spec")
    if not isinstance(spec, dict):
        return [causes.required("spec")]
    return [
        *_name(new),
        *_spec(spec),
        *accepted,
        *_stored(new, spec),
        *(_unchanged(spec, old) if old is not None else ()),
    ]


def warnings(crd: Object) -> list[str]:
    """Formats that constrain nothing."""
    served = (crd.get("spec") or {}).get("versions") or ()
    found = [name for version in served for name in schemas.unrecognized(schemas.of(version))]
    return [f"unrecognized format {causes.quoted(name)}" for name in found]


def _name(crd: Object) -> Iterator[Cause]:
    spec, name = crd["spec"], (crd.get("metadata") or {}).get("name") or ""
    if name != f"{(spec.get('names') or {}).get('plural', '')}.{spec.get('group', '')}":
        yield causes.invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')


def _stored(crd: Object, spec: Mapping[str, Any]) -> Iterator[Cause]:
    path, known = "status.storedVersions", spec.get("versions") or ()
    stored = (crd.get("status") or {}).get("storedVersions") or []
    if not stored:
        yield causes.invalid(path, None, "must have at least one stored version")
        return
    for version in known:
        if version.get("storage") and version.get("name") not in stored:
            yield causes.invalid(path, stored, f"must have the storage version {version.get('name')}")
    for index, name in enumerate(stored):
        if name not in [version.get("name") for version in known]:
            detail = (
                f"missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions"
                f" until a storage migration ensures no data remains persisted in {name} and removes {name} from "
                "status.storedVersions"
            )
            yield causes.invalid(f"{path}[{index}]", name, detail)


def _unchanged(spec: Mapping[str, Any], old: Object) -> Iterator[Cause]:
    before, called = old["spec"], spec.get("names") or {}
    fields = [("group", spec.get("group"), before.get("group"))]
    fields.append(("names.plural", called.get("plural"), before["names"].get("plural")))
    if is_established(old):
        fields.append(("scope", spec.get("scope"), before.get("scope")))
        fields.append(("names.kind", called.get("kind"), before["names"].get("kind")))
    for path, value, was in fields:
        if value != was:
            yield causes.invalid(f"spec.{path}", value, "field is immutable")


def _spec(spec: Mapping[str, Any]) -> Iterator[Cause]:
    group, scope = spec.get("group") or "", spec.get("scope") or ""
    if not group:
        yield causes.required("spec.group")
    elif wrong := ",".join(names.dns_subdomain(group)):
        yield causes.invalid("spec.group", group, wrong)
    elif "." not in group:
        yield causes.invalid("spec.group", group, "should be a domain with at least one dot")
    if not scope:
        yield causes.required("spec.scope")
    elif scope not in ("Cluster", "Namespaced"):
        yield causes.unsupported("spec.scope", scope, ("Cluster", "Namespaced"))
    if spec.get("preserveUnknownFields"):
        detail = (
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        )
        yield causes.invalid("spec.preserveUnknownFields", True, detail)
    yield from versions.validate(spec.get("versions") or [])
    yield from _names(spec.get("names") or {}, "spec.names")
    yield from _conversion(spec.get("conversion") or {})


def _names(called: Mapping[str, Any], path: str, full: bool = True) -> Iterator[Cause]:
    """`full`: none may be missing."""
    for name in ("plural", "singular", "kind", "listKind"):
        value = called.get(name) or ""
        kind = name in ("kind", "listKind")
        if not value:
            if full:
                yield causes.required(f"{path}.{name}")
        elif wrong := ",".join(names.dns_1035_label(value.lower() if kind else value)):
            prefix = "may have mixed case, but should otherwise match: " if kind else ""
            yield causes.invalid(f"{path}.{name}", value, prefix + wrong)
    if called.get("kind") and called.get("kind") == called.get("listKind"):
        yield causes.invalid(f"{path}.listKind", called["listKind"], "kind and listKind may not be the same")
    for field in ("shortNames", "categories"):
        for index, value in enumerate(called.get(field) or ()):
            if wrong := ",".join(names.dns_1035_label(value)):
                yield causes.invalid(f"{path}.{field}[{index}]", value, wrong)


def _conversion(conversion: Mapping[str, Any]) -> Iterator[Cause]:
    strategy = conversion.get("strategy") or ""
    if strategy not in ("None", "Webhook"):
        yield causes.unsupported("spec.conversion.strategy", strategy, ("None", "Webhook"))
    elif strategy == "Webhook":
        yield causes.forbidden("spec.conversion.strategy", "devkube does not convert by webhook; use None")
    elif conversion.get("webhook") is not None:
        detail = "should not be set when strategy is not set to Webhook"
        yield causes.forbidden("spec.conversion.webhookClientConfig", detail)
