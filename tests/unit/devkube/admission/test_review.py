"""What a webhook is told, and which answers are believed."""

import base64
import json

import pytest

from devkube.admission import review
from devkube.admission.call import CallFailed


def answer(version: str = "v1", **response) -> bytes:
    body = {"apiVersion": f"admission.k8s.io/{version}", "kind": "AdmissionReview"}
    return json.dumps({**body, "response": {"uid": "u", "allowed": True, **response}}).encode()


def test_what_a_webhook_is_told(attributes) -> None:
    asked = attributes(operation="UPDATE", subresource="status", options={"fieldManager": "me"}, dry_run=True)
    found = review.request("u", asked, asked.resource)
    kind, resource = {"group": "", "version": "v1", "kind": "Pod"}, {"group": "", "version": "v1", "resource": "pods"}
    assert found == {
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": "u",
            "kind": kind,
            "resource": resource,
            "subResource": "status",
            "requestKind": kind,
            "requestResource": resource,
            "requestSubResource": "status",
            "name": "x",
            "namespace": "ns",
            "operation": "UPDATE",
            "userInfo": {"username": "jane", "uid": "7", "groups": ["dev"], "extra": {"a/b": ["c"]}},
            "object": asked.object,
            "oldObject": asked.old,
            "dryRun": True,
            "options": {"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "me"},
        },
    }


def test_absent_states_are_null(attributes) -> None:
    asked = attributes(operation="DELETE")
    request = review.request("u", asked, asked.resource)["request"]
    assert (request["object"], request["options"]["kind"]) == (None, "DeleteOptions")
    assert review.request("u", attributes(), asked.resource)["request"]["oldObject"] is None


def test_another_version_and_another_kind(attributes) -> None:
    asked, other = attributes("foos"), attributes("foos2").resource
    request = review.request("u", asked, other)["request"]
    assert (request["kind"]["version"], request["requestKind"]["version"]) == ("v2", "v1")
    assert (request["object"]["apiVersion"], asked.object["apiVersion"]) == ("a.io/v2", "a.io/v1")
    scale = attributes("foos", subresource="scale", kind=("autoscaling", "v1", "Scale"))
    request = review.request("u", scale, other)["request"]
    assert request["kind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    assert request["resource"]["version"] == "v2"


def test_an_answer() -> None:
    patch = base64.b64encode(b"[]").decode()
    found = review.verify(
        answer(patch=patch, patchType="JSONPatch", warnings=["w"], auditAnnotations={"a": "b"}),
        "u",
        mutating=True,
    )
    assert (found.allowed, found.operations(), found.warnings, found.audit_annotations) == (True, [], ["w"], {"a": "b"})


@pytest.mark.parametrize(
    ("raw", "mutating", "text"),
    [
        pytest.param(b"", True, "its answer is no AdmissionReview", id="empty"),
        pytest.param(b"<html>", True, "its answer is no AdmissionReview", id="html"),
        pytest.param(b"[]", True, "Expected `object`, got `array`", id="a list"),
        pytest.param(b"{}", True, "webhook response was absent", id="no response"),
        pytest.param(b"null", True, "Expected `object`, got `null`", id="null"),
        pytest.param(answer(uid="v"), True, 'expected response.uid="u", got "v"', id="another uid"),
        pytest.param(
            answer("v2"),
            True,
            "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got admission.k8s.io/v2",
            id="another version",
        ),
        pytest.param(answer(patch="W10="), True, "response.patch but not response.patchType", id="no type"),
        pytest.param(answer(patchType="JSONPatch"), True, "response.patchType but not response.patch", id="no patch"),
        pytest.param(answer(patch="W10="), False, "may not return response.patch", id="validating patch"),
        pytest.param(answer(patchType="JSONPatch"), False, "may not return response.patchType", id="validating type"),
        pytest.param(answer(allowed="yes"), True, "$.response.allowed", id="a word for a bool"),
        pytest.param(answer(warnings=[1]), True, "$.response.warnings[0]", id="a number for a warning"),
        pytest.param(answer(status="no"), True, "$.response.status", id="a word for a status"),
    ],
)
def test_answers_nobody_believes(raw: bytes, mutating: bool, text: str) -> None:
    with pytest.raises(CallFailed) as caught:
        review.verify(raw, "u", mutating=mutating)
    assert text in str(caught.value)


@pytest.mark.parametrize("patch", ["!", "W1", "bm8="], ids=["no base64", "cut", "no JSON"])
def test_undecodable_patches(patch: str) -> None:
    found = review.verify(answer(patch=patch, patchType="JSONPatch"), "u", mutating=True)
    with pytest.raises(CallFailed, match="received undecodable patch"):
        found.operations()


@pytest.mark.parametrize(
    ("status", "code", "reason", "rest"),
    [
        (None, 400, "", " without explanation"),
        ({"message": "no"}, 400, "", ": no"),
        ({"reason": "Forbidden"}, 400, "Forbidden", ": Forbidden"),
        ({"code": 403, "message": "no"}, 403, "", ": no"),
        ({"code": 200, "message": "no"}, 400, "", ": no"),
        ({"code": 422, "reason": "Invalid", "message": "no"}, 422, "Invalid", ": no"),
    ],
)
def test_denials(status, code: int, reason: str, rest: str) -> None:
    error = review.denial("h", status)
    assert (error.code, error.reason) == (code, reason)
    assert error.message == f'admission webhook "h" denied the request{rest}'


def test_a_denial_keeps_its_causes() -> None:
    causes = [{"reason": "FieldValueInvalid", "message": "m", "field": "spec.x"}]
    error = review.denial("h", {"details": {"causes": causes}})
    assert error.body()["details"] == {"causes": causes}
