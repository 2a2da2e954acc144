"""Who may do what, asked of a whole server: tokens, RBAC, reviews, escalation, impersonation."""

import pytest

from devkube.options import Settings
from devkube.server import DevKube
from tests.integration.devkube.conftest import Asker

CORE, RBAC = "/api/v1/namespaces/default", "/apis/rbac.authorization.k8s.io/v1"
AUTHORIZATION, AUTHENTICATION = "/apis/authorization.k8s.io/v1", "/apis/authentication.k8s.io/v1"


def obj(kind: str, name: str, api: str = "v1", **rest):
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name}, **rest}


async def grant(ask: Asker, subject: dict, *rules: dict, name: str = "r") -> None:
    group = "rbac.authorization.k8s.io"
    role = obj("Role", name, f"{group}/v1", rules=list(rules))
    assert (await ask("POST", f"{RBAC}/namespaces/default/roles", role)).status == 201
    reference = {"apiGroup": group, "kind": "Role", "name": name}
    binding = obj("RoleBinding", name, f"{group}/v1", roleRef=reference, subjects=[subject])
    found = await ask("POST", f"{RBAC}/namespaces/default/rolebindings", binding)
    assert found.status == 201, found.told


async def account(ask: Asker, name: str = "builder", **spec) -> str:
    await ask("POST", f"{CORE}/serviceaccounts", obj("ServiceAccount", name))
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    found = await ask("POST", f"{CORE}/serviceaccounts/{name}/token", request)
    assert found.status == 201, found.told
    return found.body["status"]["token"]


SUBJECT = {"kind": "ServiceAccount", "name": "builder", "namespace": "default"}
PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}


async def test_a_forgotten_permission_fails_here(ask: Asker) -> None:
    builder = ask.token(await account(ask))
    found = await builder("GET", f"{CORE}/pods")
    assert (found.status, found.body["reason"]) == (403, "Forbidden")
    assert found.told == (
        'pods is forbidden: User "system:serviceaccount:default:builder" cannot list resource "pods" in API group "" '
        'in the namespace "default"'
    )
    await grant(ask, SUBJECT, PODS)
    assert (await builder("GET", f"{CORE}/pods")).status == 200
    assert (await builder("GET", f"{CORE}/pods/x")).status == 404
    assert (await builder("GET", "/api/v1/pods")).status == 403
    assert (await builder("DELETE", f"{CORE}/pods")).status == 403
    await ask("DELETE", f"{RBAC}/namespaces/default/rolebindings/r")
    assert (await builder("GET", f"{CORE}/pods")).status == 403


async def test_everybody_may_discover_and_ask_what_he_may(ask: Asker) -> None:
    builder = ask.token(await account(ask))
    for path in ("/api", "/apis", "/api/v1", "/openapi/v3", "/version", "/readyz"):
        assert (await builder("GET", path)).status == 200, path
    whoami = await builder("POST", f"{AUTHENTICATION}/selfsubjectreviews", {"kind": "SelfSubjectReview"})
    assert whoami.body["status"]["userInfo"]["username"] == "system:serviceaccount:default:builder"


async def test_tokens_that_are_not_good(ask: Asker) -> None:
    assert (await ask.token("nope")("GET", "/api")).status == 401
    other = ask.token(await account(ask, audiences=["somebody-else"]))
    assert (await other("GET", "/api")).status == 401
    builder = ask.token(await account(ask))
    assert (await builder("GET", "/api")).status == 200
    await ask("DELETE", f"{CORE}/serviceaccounts/builder")
    assert (await builder("GET", "/api")).status == 401


async def test_a_token_expires_by_the_servers_clock(api: DevKube, ask: Asker) -> None:
    builder = ask.token(await account(ask, expirationSeconds=600))
    assert (await builder("GET", "/api")).status == 200
    api.clock.advance(700)
    assert (await builder("GET", "/api")).status == 401


async def test_token_reviews(ask: Asker) -> None:
    token = await account(ask, audiences=["prod"])
    review = {"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1"}
    found = await ask(
        "POST", f"{AUTHENTICATION}/tokenreviews", {**review, "spec": {"token": token, "audiences": ["prod"]}}
    )
    assert found.status == 201
    assert found.body["status"]["authenticated"] is True
    found = await ask("POST", f"{AUTHENTICATION}/tokenreviews", {**review, "spec": {"token": token}})
    assert "authenticated" not in found.body["status"]


async def test_nobody_is_anonymous_and_may_next_to_nothing(ask: Asker) -> None:
    nobody = Asker(ask.api, ask._session, {})
    assert (await nobody("GET", "/readyz")).status == 200
    found = await nobody("GET", "/api/v1/pods")
    assert (found.status, found.body["reason"]) == (403, "Forbidden")
    assert 'User "system:anonymous" cannot list resource "pods"' in found.told


async def test_access_reviews(ask: Asker) -> None:
    await grant(ask, {"kind": "User", "name": "jane"}, PODS)
    asked = {"verb": "list", "resource": "pods", "namespace": "default"}
    review = {"kind": "SubjectAccessReview", "apiVersion": "authorization.k8s.io/v1"}
    spec = {"user": "jane", "resourceAttributes": asked}
    found = await ask("POST", f"{AUTHORIZATION}/subjectaccessreviews", {**review, "spec": spec})
    assert found.status == 201, found.told
    assert found.body["status"] == {
        "allowed": True,
        "reason": 'RBAC: allowed by RoleBinding "r/default" of Role "r" to User "jane"',
    }
    mine = {"kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1"}
    jane = ask.like("jane")
    for verb, allowed in (("list", True), ("delete", False)):
        spec = {"resourceAttributes": {**asked, "verb": verb}}
        found = await jane("POST", f"{AUTHORIZATION}/selfsubjectaccessreviews", {**mine, "spec": spec})
        assert found.body["status"]["allowed"] is allowed
    rules = {
        "kind": "SelfSubjectRulesReview",
        "apiVersion": "authorization.k8s.io/v1",
        "spec": {"namespace": "default"},
    }
    found = await jane("POST", f"{AUTHORIZATION}/selfsubjectrulesreviews", rules)
    assert {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]} in found.body["status"]["resourceRules"]


async def test_only_who_may_impersonates(ask: Asker) -> None:
    builder = ask.token(await account(ask))
    found = await builder.like("jane")("GET", "/api")
    assert found.status == 403
    assert 'users "jane" is forbidden' in found.told
    assert 'cannot impersonate resource "users" in API group "" at the cluster scope' in found.told


async def test_what_is_left_out_is_refused_aloud(ask: Asker) -> None:
    """Impersonated uids and extra fields, tokens bound to Pods."""
    for headers in ({"Impersonate-Uid": "7", "Impersonate-User": "jane"}, {"Impersonate-Group": "dev"}):
        found = await Asker(ask.api, ask._session, {**ask._headers, **headers})("GET", "/api")
        assert (found.status, "devkube impersonates by Impersonate-User" in found.told) == (400, True)
    await account(ask)
    request = {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1"}
    bound = {**request, "spec": {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "p"}}}
    found = await ask("POST", f"{CORE}/serviceaccounts/builder/token", bound)
    assert (found.status, "leave spec.boundObjectRef out" in found.told) == (400, True)


async def test_create_by_apply_needs_create(ask: Asker) -> None:
    configmaps = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["patch", "get"]}
    await grant(ask, {"kind": "User", "name": "jane"}, configmaps)
    path = f"{CORE}/configmaps/c?fieldManager=me"
    found = await ask.like("jane")("PATCH", path, obj("ConfigMap", "c"), media="application/apply-patch+yaml")
    assert found.status == 403
    assert 'User "jane" cannot create resource "configmaps"' in found.told


@pytest.mark.parametrize("mode", ["AlwaysAllow", "RBAC"])
async def test_authorization_may_be_switched_off(mode: str) -> None:
    import ssl

    import aiohttp

    async with DevKube(Settings(authorization=mode)) as api:  # type: ignore[arg-type]
        connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=str(api.ca_file)))
        async with aiohttp.ClientSession(connector=connector) as session:
            admin = Asker(api, session, {"Authorization": f"Bearer {api.admin_token}"})
            jane = admin.like("jane")
            assert (await jane("GET", "/api/v1/pods")).status == (200 if mode == "AlwaysAllow" else 403)
            anonymous = await Asker(api, session, {})("GET", "/api/v1/pods")
            assert anonymous.status == (200 if mode == "AlwaysAllow" else 403)
            review = {"kind": "SelfSubjectRulesReview", "apiVersion": "authorization.k8s.io/v1"}
            found = await jane(
                "POST", f"{AUTHORIZATION}/selfsubjectrulesreviews", {**review, "spec": {"namespace": "default"}}
            )
            everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
            assert (everything in found.body["status"]["resourceRules"]) == (mode == "AlwaysAllow")
