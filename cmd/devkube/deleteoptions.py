"""DeleteOptions, from the body of a request or from its query; rules of apimachinery's meta/v1/validation."""

from typing import Any, Final

import msgspec

from devkube import bodies
from devkube.causes import invalid, unsupported
from devkube.errors import bad_request
from devkube.parameters import flag, number, refused
from devkube.requests import Request

_POLICIES: Final = ("Foreground", "Background", "Orphan")


class Preconditions(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    uid: str | None = None
    resource_version: str | None = None


class DeleteOptions(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """`propagation_policy` is None where the client leaves it open."""

    grace_period_seconds: int | None = None
    preconditions: Preconditions | None = None
    propagation_policy: str | None = None
    orphan_dependents: bool | None = None  # the policy's older form; `read` has made one of it
    dry_run: list[str] | None = None

    def options(self) -> dict[str, Any]:
        return {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", **msgspec.to_builtins(self)}


def read(request: Request) -> DeleteOptions:
    query = request.query
    if request.body.strip():
        found, _ = bodies.decode_object(request.body, request.content_type, request.resource, kind="DeleteOptions")
    else:
        orphan = flag(query["orphanDependents"]) if "orphanDependents" in query else None
        grace = number(query, "gracePeriodSeconds")
        policy = query.get("propagationPolicy")
        found = {"gracePeriodSeconds": grace, "propagationPolicy": policy, "orphanDependents": orphan}
    if query.get("dryRun"):
        found.setdefault("dryRun", [query["dryRun"]])
    try:
        options = msgspec.convert(found, DeleteOptions)
    except msgspec.ValidationError as error:
        raise bad_request(f"DeleteOptions cannot be decoded: {error}") from None
    policy, orphan, grace = options.propagation_policy, options.orphan_dependents, options.grace_period_seconds
    causes = []
    if orphan is not None and policy:
        told = "orphanDependents and deletionPropagation cannot be both set"
        causes.append(invalid("propagationPolicy", policy, told))
    if policy and policy not in _POLICIES:
        causes.append(unsupported("propagationPolicy", policy, _POLICIES))
    if any(one != "All" for one in options.dry_run or ()):
        causes.append(unsupported("dryRun", options.dry_run, ["All"]))
    if causes:
        raise refused("DeleteOptions", causes)
    if orphan is not None:
        policy = "Orphan" if orphan else "Background"
    grace = 1 if grace is not None and grace < 0 else grace
    return msgspec.structs.replace(
        options, propagation_policy=policy, grace_period_seconds=grace, orphan_dependents=None
    )
