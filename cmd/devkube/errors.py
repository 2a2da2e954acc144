"""What a request can end in other than success: one exception that carries a Kubernetes `Status`.

Reasons and codes are those of upstream's apimachinery (`k8s.io/apimachinery/pkg/api/errors`); client-go and kubectl
decide by `reason`, people read `message`. Anything else that escapes a handler is a bug and becomes a 500.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


@dataclass(frozen=True)
class Cause:
    """One violation. `reason` is a field error type (FieldValueInvalid, FieldValueRequired, …), `field` a path as
    upstream prints it (`spec.containers[0].name`), `message` what stands after the path."""

    reason: str
    message: str
    field: str


@dataclass(frozen=True)
class About:
    """Whom a status is about: the plural resource, its group and the object's name."""

    group: str
    resource: str
    name: str = ""
    kind: str = ""

    def __str__(self) -> str:
        full = f"{self.resource}.{self.group}" if self.group else self.resource
        return f'{full} "{self.name}"'


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

    def body(self) -> dict[str, Any]:
        details: dict[str, Any] = {"name": self.name, "group": self.group, "kind": self.kind}
        details["causes"] = [_said(asdict(cause)) for cause in self.causes]
        details["retryAfterSeconds"] = self.retry_after
        told = {"message": self.message, "reason": self.reason, "details": _said(details), "code": self.code}
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", **_said(told)}


def _said(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value}


bad_request = partial(StatusError, 400, "BadRequest")
unauthorized = partial(StatusError, 401, "Unauthorized", "Unauthorized")
no_such_path = partial(StatusError, 404, "NotFound", "the server could not find the requested resource")
_NOT_ALLOWED = "the server does not allow this method on the requested resource"
method_not_allowed = partial(StatusError, 405, "MethodNotAllowed", _NOT_ALLOWED)
expired = partial(StatusError, 410, "Expired")
unsupported_media_type = partial(StatusError, 415, "UnsupportedMediaType")


def _on(about: About, code: int, reason: str, message: str) -> StatusError:
    return StatusError(code, reason, message, name=about.name, group=about.group, kind=about.resource)


def not_found(about: About) -> StatusError:
    return _on(about, 404, "NotFound", f"{about} not found")


def already_exists(about: About) -> StatusError:
    return _on(about, 409, "AlreadyExists", f"{about} already exists")


def conflict(about: About, why: str) -> StatusError:
    return _on(about, 409, "Conflict", f"Operation cannot be fulfilled on {about}: {why}")


def forbidden(about: About, why: str) -> StatusError:
    who = str(about).removesuffix(' ""')
    return _on(about, 403, "Forbidden", f"{who} is forbidden: {why}")


def invalid(about: About, causes: Iterable[Cause]) -> StatusError:
    """422 with every violation in one message, as field.ErrorList prints them."""
    causes = tuple(causes)
    lines = [f"{c.field}: {c.message}" if c.field else c.message for c in causes]
    told = lines[0] if len(lines) == 1 else "[" + ", ".join(lines) + "]"
    full = f"{about.kind}.{about.group}" if about.group else about.kind
    message = f'{full} "{about.name}" is invalid: {told}'
    return StatusError(422, "Invalid", message, name=about.name, group=about.group, kind=about.kind, causes=causes)


def internal(message: str) -> StatusError:
    told = f"Internal error occurred: {message}"
    return StatusError(500, "InternalError", told, causes=[Cause("", message, "")])
