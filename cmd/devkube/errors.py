"""What a request can end in other than success: one exception that carries a Kubernetes `Status`.

Reasons and codes are those of upstream's apimachinery (`k8s.io/apimachinery/pkg/api/errors`); client-go and kubectl
decide by `reason`, people read `message`. Anything else that escapes a handler is a bug and becomes a 500.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Cause:
    """One violation. `reason` is a field error type (FieldValueInvalid, FieldValueRequired, …), `field` a path as
    upstream prints it (`spec.containers[0].name`), `message` what stands after the path."""

    reason: str
    message: str
    field: str


class StatusError(Exception):
    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        name: str = "",
        group: str = "",
        kind: str = "",
        causes: Iterable[Cause] = (),
        retry_after: int = 0,
    ) -> None:
        super().__init__(message)
        self.code, self.reason, self.message = code, reason, message
        self.name, self.group, self.kind = name, group, kind
        self.causes, self.retry_after = tuple(causes), retry_after
        self.metadata: dict[str, Any] = {}  # of the Status: a list that expired tells how to go on

    def body(self) -> dict[str, Any]:
        details: dict[str, Any] = {}
        for key, value in (("name", self.name), ("group", self.group), ("kind", self.kind)):
            if value:
                details[key] = value
        if self.causes:
            told = ({"reason": c.reason, "message": c.message, "field": c.field} for c in self.causes)
            details["causes"] = [{key: value for key, value in one.items() if value} for one in told]
        if self.retry_after:
            details["retryAfterSeconds"] = self.retry_after
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.metadata,
            "status": "Failure",
            "message": self.message,
            **({"reason": self.reason} if self.reason else {}),
            **({"details": details} if details else {}),
            "code": self.code,
        }


@dataclass(frozen=True)
class About:
    """Whom a status is about: the plural resource, its group and the object's name."""

    group: str
    resource: str
    name: str = ""
    kind: str = field(default="")

    def __str__(self) -> str:
        full = f"{self.resource}.{self.group}" if self.group else self.resource
        return f'{full} "{self.name}"'


def bad_request(message: str) -> StatusError:
    return StatusError(400, "BadRequest", message)


def not_found(about: About) -> StatusError:
    return StatusError(404, "NotFound", f"{about} not found", name=about.name, group=about.group, kind=about.resource)


def no_such_path() -> StatusError:
    return StatusError(404, "NotFound", "the server could not find the requested resource")


def already_exists(about: About) -> StatusError:
    message = f"{about} already exists"
    return StatusError(409, "AlreadyExists", message, name=about.name, group=about.group, kind=about.resource)


def conflict(about: About, why: str) -> StatusError:
    message = f"Operation cannot be fulfilled on {about}: {why}"
    return StatusError(409, "Conflict", message, name=about.name, group=about.group, kind=about.resource)


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def forbidden(about: About, why: str) -> StatusError:
    who = str(about) if about.name else str(about).removesuffix(' ""')
    message = f"{who} is forbidden: {why}"
    return StatusError(403, "Forbidden", message, name=about.name, group=about.group, kind=about.resource)


def invalid(about: About, causes: Iterable[Cause]) -> StatusError:
    """422 with every violation in one message, as field.ErrorList prints them."""
    causes = tuple(causes)
    lines = [f"{c.field}: {c.message}" if c.field else c.message for c in causes]
    told = lines[0] if len(lines) == 1 else "[" + ", ".join(lines) + "]"
    full = f"{about.kind}.{about.group}" if about.group else about.kind
    message = f'{full} "{about.name}" is invalid: {told}'
    return StatusError(422, "Invalid", message, name=about.name, group=about.group, kind=about.kind, causes=causes)


def unsupported_media_type(message: str) -> StatusError:
    return StatusError(415, "UnsupportedMediaType", message)


def method_not_allowed() -> StatusError:
    return StatusError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")


def unauthorized() -> StatusError:
    return StatusError(401, "Unauthorized", "Unauthorized")


def expired(message: str) -> StatusError:
    return StatusError(410, "Expired", message)


def internal(message: str) -> StatusError:
    told = f"Internal error occurred: {message}"
    return StatusError(500, "InternalError", told, causes=[Cause("", message, "")])
