"""AdmissionReview v1, read and answered: bytes in, bytes out.

Rules: k8s.io/api/admission/v1; the texts of refusals are those of `field.Error`.
"""

import hashlib
from typing import Any, Final

import msgspec

from handlers.admission.decision import Decision, Violation
from handlers.outcome import Object


class _Kind(msgspec.Struct):
    group: str = ""
    version: str = ""
    kind: str = ""


class _Resource(msgspec.Struct):
    group: str = ""
    version: str = ""
    resource: str = ""


class _User(msgspec.Struct):
    username: str = ""


class Request(msgspec.Struct, rename="camel"):
    """What is asked. Objects stay raw until somebody needs them."""

    uid: str
    operation: str
    kind: _Kind = msgspec.field(default_factory=_Kind)
    resource: _Resource = msgspec.field(default_factory=_Resource)
    sub_resource: str = ""
    name: str = ""
    namespace: str = ""
    user_info: _User = msgspec.field(default_factory=_User)
    object: msgspec.Raw = msgspec.Raw(b"null")
    old_object: msgspec.Raw = msgspec.Raw(b"null")
    dry_run: bool | None = None

    @property
    def of(self) -> str:
        """`<plural>.<group>`."""
        return f"{self.resource.resource}.{self.resource.group}" if self.resource.group else self.resource.resource


class _Review(msgspec.Struct, rename="camel"):
    request: Request
    api_version: str = ""


_decode = msgspec.json.Decoder(_Review).decode
_object = msgspec.json.Decoder(dict[str, Any] | None).decode
_API: Final = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}


class Malformed(ValueError):
    """Bytes that are no AdmissionReview; one line says why."""


def read(body: bytes) -> Request:
    """Raises Malformed."""
    try:
        review = _decode(body)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise Malformed(f"no AdmissionReview: {error}") from None
    if review.api_version != _API["apiVersion"]:
        raise Malformed(f"apiVersion {review.api_version[:60]!r} is not spoken here, admission.k8s.io/v1 is")
    if not review.request.uid:  # answers are known by it
        raise Malformed("no AdmissionReview: request.uid is empty")
    return review.request


def document(raw: msgspec.Raw) -> Object | None:
    """Raises Malformed for what is no object."""
    try:
        return _object(raw)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise Malformed(f"the reviewed object is no object: {error}") from None


class _Response(msgspec.Struct, omit_defaults=True):
    uid: str
    allowed: bool
    status: Object | None = None
    patchType: str = ""
    patch: bytes = b""  # base64 on the wire
    warnings: list[str] = []


class _Answer(msgspec.Struct):
    apiVersion: str
    kind: str
    response: _Response


_encode = msgspec.json.Encoder().encode


def answer(request: Request, decision: Decision, patch: bytes = b"") -> bytes:
    """The whole response. `patch` is the decision's as JSON, with real values; none when empty."""
    response = _Response(request.uid, decision.verdict != "refused", warnings=[one[:240] for one in decision.warnings])
    if decision.verdict == "refused":
        response.status = refusal(request, decision)
    elif patch:
        response.patchType, response.patch = "JSONPatch", patch
    return _encode(_Answer(_API["apiVersion"], _API["kind"], response))


def refusal(request: Request, decision: Decision) -> Object:
    """A Status. Violations of fields come together, as an API server's own would."""
    if not decision.violations:
        return {"status": "Failure", "code": 403, "reason": "Forbidden", "message": decision.reason}
    lines = [f"{one.field}: {told(one)}" for one in decision.violations]
    said = lines[0] if len(lines) == 1 else f"[{', '.join(lines)}]"
    kind = f"{request.kind.kind}.{request.kind.group}" if request.kind.group else request.kind.kind
    return {
        "status": "Failure",
        "code": 422,
        "reason": "Invalid",
        "message": f'{kind} "{request.name}" is invalid: {said}',
        "details": {
            "name": request.name,
            "group": request.kind.group,
            "kind": request.kind.kind,
            "causes": [
                {"reason": f"FieldValue{one.type}", "message": told(one), "field": one.field}
                for one in decision.violations
            ],
        },
    }


_WORDS: Final = {
    "Required": "Required value",
    "Invalid": "Invalid value",
    "NotSupported": "Unsupported value",
    "Forbidden": "Forbidden",
    "Duplicate": "Duplicate value",
    "NotFound": "Not found",
}


def told(one: Violation) -> str:
    """`Invalid value: "x": must be…`, as `field.Error` prints it."""
    word = _WORDS.get(one.type, one.type)
    if one.type in ("Required", "Forbidden"):
        return f"{word}: {one.detail}"
    return f"{word}: {msgspec.json.encode(one.value).decode()}: {one.detail}"


def digest(body: bytes) -> str:
    return "sha256:" + hashlib.sha256(body).hexdigest()
