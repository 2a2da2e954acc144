"""DeleteOptions, from the body of a request or from its query; rules and texts of apimachinery's meta/v1/validation."""

from dataclasses import dataclass
from typing import Any, Final

from devkube import bodies
from devkube.errors import Cause, bad_request
from devkube.parameters import flag, number, refused, unsupported
from devkube.requests import Request
from devkube.values import go_type

_JSON_NAMES: Final = {list: "an array", dict: "an object", str: "a string", bool: "a boolean", int: "a whole number"}
_POLICIES: Final = ("Foreground", "Background", "Orphan")


@dataclass(frozen=True)
class DeleteOptions:
    """DeleteOptions, from the body or from the query. `policy` is empty where the client leaves it open."""

    dry_run: bool = False
    grace: int | None = None
    policy: str = ""
    uid: str | None = None
    version: str | None = None
    orphan: bool | None = None

    def options(self) -> dict[str, Any]:
        found: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"}
        if self.grace is not None:
            found["gracePeriodSeconds"] = self.grace
        conditions = {k: v for k, v in (("uid", self.uid), ("resourceVersion", self.version)) if v is not None}
        if conditions:
            found["preconditions"] = conditions
        if self.policy:
            found["propagationPolicy"] = self.policy
        if self.dry_run:
            found["dryRun"] = ["All"]
        return found


def read(request: Request) -> DeleteOptions:
    query = request.query
    if request.body.strip():
        found, _ = bodies.decode_object(request.body, request.content_type, request.resource, kind="DeleteOptions")
    else:
        found = {k: query[k] for k in ("propagationPolicy",) if k in query}
        if (grace := number(query, "gracePeriodSeconds")) is not None:
            found["gracePeriodSeconds"] = grace
        if "orphanDependents" in query:
            found["orphanDependents"] = flag(query["orphanDependents"])
    found = {key: value for key, value in found.items() if value is not None}
    dry = found.get("dryRun", [query["dryRun"]] if query.get("dryRun") else [])
    conditions = found.get("preconditions", {})
    for name, value, kind in (
        ("dryRun", dry, list),
        ("preconditions", conditions, dict),
        ("propagationPolicy", policy := found.get("propagationPolicy"), str),
        ("orphanDependents", orphan := found.get("orphanDependents"), bool),
        ("gracePeriodSeconds", grace := found.get("gracePeriodSeconds"), int),
    ):
        if value is not None and type(value) is not kind:
            raise bad_request(f"DeleteOptions.{name} must be {_JSON_NAMES[kind]}, not {go_type(value)}")
    causes = []
    if orphan is not None and policy:
        told = f'Invalid value: "{policy}": orphanDependents and deletionPropagation cannot be both set'
        causes.append(Cause("FieldValueInvalid", told, "propagationPolicy"))
    if policy and policy not in _POLICIES:
        causes.append(unsupported("propagationPolicy", policy, [*_POLICIES[:2], "Orphan", "nil"]))
    if any(one != "All" for one in dry):
        causes.append(unsupported("dryRun", dry, ["All"]))
    if causes:
        raise refused("DeleteOptions", causes)
    if orphan is not None:
        policy = "Orphan" if orphan else "Background"
    if grace is not None and grace < 0:
        grace = 1
    return DeleteOptions(
        dry_run=bool(dry),
        grace=grace,
        policy=policy or "",
        uid=conditions.get("uid"),
        version=conditions.get("resourceVersion"),
        orphan=orphan,
    )
