"""The AdmissionReview that is sent, and whether the one that came back may be believed.

From upstream: `admission/plugin/webhook/request/admissionreview.go` and `webhook/errors`.
"""

import base64
import binascii
from collections.abc import Mapping
from typing import Any

import msgspec

from devkube.access.reviews import user_info
from devkube.admission.call import CallFailed
from devkube.errors import Cause, StatusError
from devkube.kinds import Object, Resource
from devkube.requests import Attributes

_KIND, _VERSION = "AdmissionReview", "admission.k8s.io/v1"


class Response(msgspec.Struct, rename="camel"):
    uid: str | None = None
    allowed: bool | None = None
    patch: str | None = None
    patch_type: str | None = None
    status: dict[str, Any] | None = None
    warnings: list[str | None] | None = None
    audit_annotations: dict[str, str | None] | None = None

    def operations(self) -> Any:
        """What the patch says. Go's decoder skips line ends within base64, and refuses everything else."""
        try:
            text = (self.patch or "").replace("\n", "").replace("\r", "")
            return msgspec.json.decode(base64.b64decode(text, validate=True), type=list[dict[str, Any]] | None)
        except (binascii.Error, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise CallFailed(f"received undecodable patch in webhook response: {error}") from None


class _Review(msgspec.Struct, rename="camel"):
    api_version: str | None = None
    kind: str | None = None
    response: Response | None = None


def as_version(obj: Object | None, attributes: Attributes, resource: Resource) -> Object | None:
    """The object as that version has it. What belongs to a subresource (Scale, Eviction) is the same in all."""
    if obj is None or resource is attributes.resource or attributes.kind is not None:
        return obj
    return {**obj, "apiVersion": resource.group_version}


def about(attributes: Attributes, resource: Resource) -> Object:
    """AdmissionRequest without its uid and objects: what matchConditions see as `request`."""
    own = attributes.resource
    options = f"{attributes.operation.capitalize()}Options"
    optional = {
        "subResource": attributes.subresource,
        "requestSubResource": attributes.subresource,
        "name": attributes.name,
        # A Namespace is told to be in itself, as upstream does.
        "namespace": attributes.namespace or (attributes.name if own.key == "namespaces" else ""),
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
        "options": {"kind": options, "apiVersion": "meta.k8s.io/v1", **attributes.options},
    }


def request(uid: str, attributes: Attributes, resource: Resource) -> Object:
    """The review to send."""
    body = {
        "uid": uid,
        **about(attributes, resource),
        "object": as_version(attributes.object, attributes, resource),
        "oldObject": as_version(attributes.old, attributes, resource),
    }
    return {"kind": _KIND, "apiVersion": _VERSION, "request": body}


def _kind(attributes: Attributes, resource: Resource) -> Object:
    group, version, kind = attributes.kind or (resource.group, resource.version, resource.kind)
    return {"group": group, "version": version, "kind": kind}


def _resource(resource: Resource) -> Object:
    return {"group": resource.group, "version": resource.version, "resource": resource.plural}


def verify(raw: bytes, uid: str, *, mutating: bool) -> Response:
    """What the webhook decided. CallFailed for what is no review, or contradicts itself or the request."""
    try:
        found = msgspec.json.decode(raw, type=_Review)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise CallFailed(f"failed to call webhook: its answer is no AdmissionReview: {error}") from None
    if wrong := _wrong(found, uid, mutating=mutating):
        raise CallFailed(f"received invalid webhook response: {wrong}")
    assert found.response is not None
    return found.response


def _wrong(review: _Review, uid: str, *, mutating: bool) -> str:
    response = review.response
    if response is None:
        return "webhook response was absent"
    if response.uid != uid:
        return f'expected response.uid="{uid}", got "{response.uid or ""}"'
    if (review.kind, review.api_version) != (_KIND, _VERSION):
        got = f"{review.api_version}, Kind={review.kind}"
        return f"expected webhook response of {_VERSION}, Kind={_KIND}, got {got}"
    if not mutating:
        parts = {"patch": response.patch, "patchType": response.patch_type is not None}
        return next((f"validating webhook may not return response.{key}" for key, value in parts.items() if value), "")
    if response.patch and not response.patch_type:
        return "webhook returned response.patch but not response.patchType"
    if not response.patch and response.patch_type is not None:
        return "webhook returned response.patchType but not response.patch"
    return ""


def denial(hook: str, status: Mapping[str, Any] | None) -> StatusError:
    """The error of a request that a webhook did not allow: its own status, which begins by naming it."""
    status = status or {}
    denied = f'admission webhook "{hook}" denied the request'
    explained = status.get("message") or status.get("reason")
    code, found = status.get("code"), status.get("details")
    details = found if isinstance(found, dict) else {}
    wait = details.get("retryAfterSeconds")
    return StatusError(
        code if isinstance(code, int) and 400 <= code <= 999 else 400,
        str(status.get("reason") or ""),
        f"{denied}: {explained}" if explained else f"{denied} without explanation",
        **{key: str(details.get(key) or "") for key in ("name", "group", "kind")},
        causes=[
            Cause(*(str(one.get(key) or "") for key in ("reason", "message", "field")))
            for one in details.get("causes") or ()
            if isinstance(one, dict)
        ],
        retry_after=wait if isinstance(wait, int) else 0,
    )
