"""Patches as requests: which are taken, and what they may not change. (The patches themselves have their own tests.)"""

from typing import Any

import pytest

from devkube.errors import StatusError
from devkube.patching import APPLY
from tests.unit.devkube.doubles import Api

JSON_PATCH, MERGE = "application/json-patch+json", "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"


@pytest.fixture
async def api() -> Api:
    api = Api()
    await api.create("widgets", "w", spec={"replicas": 1})
    return api


async def patch(api: Api, body: Any, how: str = MERGE, name: str = "w", **more: Any) -> Any:
    return await api.ask("patch", "widgets", name, body, content_type=how, **more)


async def refused(awaitable: Any) -> StatusError:
    with pytest.raises(StatusError) as caught:
        await awaitable
    return caught.value


async def test_json_and_merge_patches(api: Api) -> None:
    found = await patch(api, [{"op": "replace", "path": "/spec/replicas", "value": 2}], JSON_PATCH)
    assert found["spec"]["replicas"] == 2
    found = await patch(api, {"spec": {"replicas": None, "x": 1}})
    assert found["spec"] == {"x": 1, "defaulted": True}
    assert found["metadata"]["generation"] == 3


async def test_custom_objects_have_no_strategic_patch(api: Api) -> None:
    error = await refused(patch(api, {}, STRATEGIC))
    assert error.code == 415
    assert "accepted media types include: application/json-patch+json, application/merge-patch+json, " in error.message
    await api.create("configmaps", "c")
    assert await api.ask("patch", "configmaps", "c", {"data": {"a": "b"}}, content_type=STRATEGIC)


async def test_status_by_patch(api: Api) -> None:
    found = await patch(api, {"status": {"x": 1}, "spec": {"replicas": 9}}, subresource="status")
    assert (found["status"], found["spec"]["replicas"]) == ({"x": 1}, 1)
    found = await patch(api, {"status": {"x": 2}, "spec": {"replicas": 9}})
    assert (found["status"], found["spec"]["replicas"]) == ({"x": 1}, 9)


async def test_scale_by_patch(api: Api) -> None:
    found = await patch(api, {"spec": {"replicas": 4}}, subresource="scale")
    assert (found["kind"], found["spec"]) == ("Scale", {"replicas": 4})
    assert (await patch(api, {"spec": {"replicas": 4}}, subresource="scale"))["spec"] == {"replicas": 4}


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"metadata": {"name": "x"}}, "the name of the object (x) does not match the name on the URL (w)"),
        ({"metadata": {"namespace": "x"}}, "does not match the namespace sent on the request"),
        ({"kind": "Gadget"}, "Gadget"),
        ({"metadata": None}, "undeterminable"),
        ({"metadata": 1}, "metadata must be an object"),
    ],
)
async def test_a_patch_changes_neither_type_nor_place(api: Api, body: Any, told: str) -> None:
    error = await refused(patch(api, body))
    assert error.code == 400
    assert told in error.message


async def test_a_version_in_a_patch_is_the_one_expected(api: Api) -> None:
    error = await refused(patch(api, {"metadata": {"resourceVersion": "1"}, "spec": {"x": 1}}))
    assert (error.code, error.reason) == (409, "Conflict")


@pytest.mark.parametrize(
    ("how", "body"), [(MERGE, b"{"), (MERGE, b"[]"), (JSON_PATCH, b"{}"), (APPLY, b"a: ["), (APPLY, b"- a")]
)
async def test_bodies_that_are_no_patches(api: Api, how: str, body: bytes) -> None:
    assert (await refused(patch(api, body, how, query={"fieldManager": "me"} if how == APPLY else {}))).code == 400


async def test_what_is_not_there(api: Api) -> None:
    assert (await refused(patch(api, {}, name="none"))).code == 404


def config(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "new"}, "spec": spec}


async def apply(api: Api, body: Any, name: str = "new", **more: Any) -> Any:
    return await patch(api, body, APPLY, name, query={"fieldManager": "me", **more.pop("query", {})}, **more)


async def test_apply_creates_and_goes_on_from_there(api: Api) -> None:
    answer = await api.answer("patch", "widgets", "new", config(a=1), content_type=APPLY, query={"fieldManager": "me"})
    assert answer.status == 201
    found = await apply(api, config(b=2))
    assert found["spec"] == {"b": 2, "defaulted": True}
    assert [(one["manager"], one["operation"]) for one in found["metadata"]["managedFields"]] == [("me", "Apply")]
    version = found["metadata"]["resourceVersion"]
    api.clock.advance(60)
    assert (await apply(api, config(b=2)))["metadata"]["resourceVersion"] == version


async def test_apply_that_creates_needs_the_right_to_create(api: Api) -> None:
    def deny(user: Any, verb: str, *about: Any) -> None:
        raise StatusError(403, "Forbidden", f"may not {verb}")

    api.verbs.authorize = deny
    assert (await refused(apply(api, config()))).message == "may not create"


@pytest.mark.parametrize(
    ("body", "code", "told"),
    [
        ({"metadata": {"name": "new"}}, 400, "must have apiVersion and kind"),
        ({**config(), "kind": "Other"}, 400, "Other in version example.com/v1 does not match"),
        ({**config(), "metadata": {"name": "other"}}, 400, "does not match the name on the URL (new)"),
        ({**config(), "metadata": {"name": "new", "uid": "u"}}, 409, "uid mismatch"),
    ],
)
async def test_configurations_for_something_else(api: Api, body: Any, code: int, told: str) -> None:
    error = await refused(apply(api, body))
    assert error.code == code
    assert told in error.message


async def test_apply_makes_no_subresource_of_nothing(api: Api) -> None:
    assert (await refused(apply(api, config(), subresource="status"))).code == 404
