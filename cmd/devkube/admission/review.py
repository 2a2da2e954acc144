"""The AdmissionReview that is sent, and whether the one that came back may be believed.

From upstream: `admission/plugin/webhook/request/admissionreview.go` and `webhook/errors`. v1 is strict about what comes
back. A response is read field by field: a wrong JSON type makes it invalid, as Go's decoder would.
"""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from devkube.access.tokens import user_info
from devkube.errors import Cause, StatusError
from devkube.kinds import Object, Resource
from devkube.requests import Attributes
from devkube.values import go_type

GROUP = "admission.k8s.io"
VERSIONS = ("v1",)
_OPTIONS = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}


class Invalid(Exception):
    """A response that contradicts itself or the request."""


class Undecodable(Exception):
    """Something else than an AdmissionReview."""


@dataclass(frozen=True)
class Response:
    allowed: bool
    patch: bytes = b""
    patch_type: str = "JSONPatch"
    status: Mapping[str, Any] | None = None
    warnings: tuple[str, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)


def as_version(obj: Object | None, attributes: Attributes, resource: Resource) -> Object | None:
    """The object as that version has it. What belongs to a subresource (Scale, Eviction) is the same in all."""
    if obj is None or resource is attributes.resource or attributes.kind is not None:
        return obj
    return {**obj, "apiVersion": resource.group_version}


def about(attributes: Attributes, resource: Resource) -> Object:
    """AdmissionRequest without its uid and objects: what matchConditions see as `request`."""
    own = attributes.resource
    options: Object | None = None
    if attributes.operation in _OPTIONS:
        options = {"kind": _OPTIONS[attributes.operation], "apiVersion": "meta.k8s.io/v1", **attributes.options}
    # A Namespace is told to be in itself, as upstream does.
    namespace = attributes.namespace or (attributes.name if own.key == "namespaces" else "")
    optional = {
        "subResource": attributes.subresource,
        "requestSubResource": attributes.subresource,
        "name": attributes.name,
        "namespace": namespace,
    }
    return {
        "kind": _kind(attributes, resource),
        "resource": _resource(resource),
        "requestKind": _kind(attributes, own),
        "requestResource": _resource(own),
        **{key: value for key, value in optional.items() if value},
        "operation": attributes.operation,
        "userInfo": user_info(attributes.user),
        "dryRun": attributes.dry_run,
        "options": options,
    }


def request(uid: str, version: str, attributes: Attributes, resource: Resource) -> Object:
    """The review to send, in `version` of AdmissionReview."""
    body = {
        "uid": uid,
        **about(attributes, resource),
        "object": as_version(attributes.object, attributes, resource),
        "oldObject": as_version(attributes.old, attributes, resource),
    }
    return {"kind": "AdmissionReview", "apiVersion": f"{GROUP}/{version}", "request": body}


def _kind(attributes: Attributes, resource: Resource) -> Object:
    group, version, kind = attributes.kind or (resource.group, resource.version, resource.kind)
    return {"group": group, "version": version, "kind": kind}


def _resource(resource: Resource) -> Object:
    return {"group": resource.group, "version": resource.version, "resource": resource.plural}


def verify(raw: bytes, uid: str, version: str, *, mutating: bool) -> Response:
    """What the webhook decided. Raises Undecodable or Invalid."""
    try:
        review = msgspec.json.decode(raw, type=dict[str, Any] | None) or {}
    except msgspec.MsgspecError as error:
        raise Undecodable(f"couldn't get version/kind; json parse error: {error}") from None
    api, kind = _typed(review, "apiVersion", str, ""), _typed(review, "kind", str, "")
    if (api and api.partition("/")[0] != GROUP) or kind not in (None, "", "AdmissionReview"):
        raise Undecodable(f'no kind "{kind}" is registered for version "{api}", expected an AdmissionReview')
    response = _typed(review, "response", dict, "")
    if response is None:
        raise Invalid("webhook response was absent")
    strict = version == "v1"
    if strict and response.get("uid") != uid:
        raise Invalid(f'expected response.uid="{uid}", got "{response.get("uid") or ""}"')
    want, got = f"{GROUP}/{version}, Kind=AdmissionReview", f"{api}, Kind={kind}"
    if strict and got != want:
        raise Invalid(f"expected webhook response of {want}, got {got}")
    patch, patch_type = _typed(response, "patch", str) or "", _typed(response, "patchType", str)
    try:
        # Go's decoder skips line ends within base64 and refuses everything else.
        decoded = base64.b64decode(patch.replace("\n", "").replace("\r", ""), validate=True)
    except binascii.Error as error:
        raise Undecodable(f"illegal base64 data in response.patch: {error}") from None
    if strict:
        _check_patch(patch, patch_type, mutating=mutating)
    annotations, warnings = _typed(response, "auditAnnotations", dict) or {}, _typed(response, "warnings", list) or []
    if not all(isinstance(one, str) for one in (*warnings, *annotations.values())):
        raise Undecodable("json: response.warnings and response.auditAnnotations hold strings only")
    return Response(
        allowed=_typed(response, "allowed", bool) or False,
        patch=decoded if mutating else b"",
        patch_type=patch_type or "JSONPatch",
        status=_typed(response, "status", dict),
        warnings=tuple(warnings),
        annotations=annotations,
    )


def _check_patch(patch: str, patch_type: str | None, *, mutating: bool) -> None:
    if not mutating:
        if patch:
            raise Invalid("validating webhook may not return response.patch")
        if patch_type is not None:
            raise Invalid("validating webhook may not return response.patchType")
        return
    if patch and patch_type is None:
        raise Invalid("webhook returned response.patch but not response.patchType")
    if not patch and patch_type is not None:
        raise Invalid("webhook returned response.patchType but not response.patch")
    if patch_type == "":
        raise Invalid('webhook returned invalid response.patchType of ""')


def _typed(obj: Mapping[str, Any], key: str, wanted: type, parent: str = "AdmissionResponse.response.") -> Any:
    value = obj.get(key)
    if value is not None and not isinstance(value, wanted):
        expected = {"status": "v1.Status", "response": "v1.AdmissionResponse", "warnings": "[]string"}.get(key)
        expected = expected or {bool: "bool", str: "string", dict: "map[string]string"}[wanted]
        field = f"{parent or 'AdmissionReview.'}{key}"
        raise Undecodable(f"json: cannot unmarshal {go_type(value)} into Go struct field {field} of type {expected}")
    return value


def denial(hook: str, status: Mapping[str, Any] | None) -> StatusError:
    """The error of a request that a webhook did not allow: its own status, which begins by naming it."""
    status = status or {}
    denied = f'admission webhook "{hook}" denied the request'
    explained = status.get("message") or status.get("reason")
    code = status.get("code")
    details = status.get("details") if isinstance(status.get("details"), dict) else {}
    wait = (details or {}).get("retryAfterSeconds")
    causes = [
        Cause(str(one.get("reason") or ""), str(one.get("message") or ""), str(one.get("field") or ""))
        for one in (details or {}).get("causes") or ()
        if isinstance(one, dict)
    ]
    return StatusError(
        code if isinstance(code, int) and 400 <= code <= 999 else 400,
        str(status.get("reason") or ""),
        f"{denied}: {explained}" if explained else f"{denied} without explanation",
        name=str((details or {}).get("name") or ""),
        group=str((details or {}).get("group") or ""),
        kind=str((details or {}).get("kind") or ""),
        causes=causes,
        retry_after=wait if isinstance(wait, int) else 0,
    )
