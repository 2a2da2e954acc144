"""Who asks, and what he may: tokens, reviews, RBAC."""

import base64
import json
from typing import Any

import pytest

from tests.support.kubeobjects import configmap, pod
from tests.support.kubernetes import Client, Cluster, Space, eventually

RBAC = "/apis/rbac.authorization.k8s.io/v1"
REVIEWS = "/apis/authorization.k8s.io/v1"
IDENTITY = "/apis/authentication.k8s.io/v1"
READ = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}


async def account(kube: Client, nobody: Client, space: Space, name: str = "robot") -> Client:
    """A ServiceAccount and a client that is it."""
    path = space.of("v1", "serviceaccounts")
    await kube.create(path, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}})
    return nobody.as_token(await token(kube, f"{path}/{name}"))


async def token(kube: Client, path: str, **spec: Any) -> str:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    return str((await kube.create(f"{path}/token", body))["status"]["token"])


async def grant(kube: Client, space: Space, *rules: dict[str, Any], name: str = "reader", to: str = "robot") -> None:
    """A Role of the namespace and its binding to a ServiceAccount."""
    await kube.create(
        space.of("rbac.authorization.k8s.io/v1", "roles"), {"metadata": {"name": name}, "rules": list(rules)}
    )
    await bind(kube, space, {"kind": "Role", "name": name}, to=to)


async def bind(kube: Client, space: Space, role: dict[str, Any], *, to: str = "robot") -> None:
    body = {
        "metadata": {"name": role["name"]},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", **role},
        "subjects": [{"kind": "ServiceAccount", "name": to, "namespace": space.name}],
    }
    await kube.create(space.of("rbac.authorization.k8s.io/v1", "rolebindings"), body)


async def may(client: Client, path: str) -> None:
    (await client.get(path)).ok(200)


async def may_not(client: Client, path: str) -> None:
    (await client.get(path)).refused(403, "Forbidden")


async def test_nobody_may_nothing(nobody: Client, space: Space) -> None:
    """Without credentials: system:anonymous, 403 with who, what and where."""
    answer = await nobody.get(space.pods)
    answer.refused(
        403,
        "Forbidden",
        'pods is forbidden: User "system:anonymous" cannot list resource "pods" in API group "" '
        f'in the namespace "{space.name}"',
    )


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/livez", "/version"])
async def test_anybody_may_ask_for_health(nobody: Client, path: str) -> None:
    """system:public-info-viewer."""
    (await nobody.get(path)).ok(200)


async def test_a_bad_token_is_unauthorized(nobody: Client, space: Space) -> None:
    """401, not anonymous."""
    (await nobody.as_token("nonsense").get(space.pods)).refused(401, "Unauthorized", "Unauthorized")


async def test_a_service_account_starts_with_nothing(kube: Client, nobody: Client, space: Space) -> None:
    """Its name in the message is the one to bind."""
    robot = await account(kube, nobody, space)
    answer = await robot.get(f"{space.configmaps}/a")
    answer.refused(
        403, "Forbidden", f'User "system:serviceaccount:{space.name}:robot" cannot get resource "configmaps"'
    )
    answer = await robot.post(space.of("apps/v1", "deployments"), {})
    answer.refused(403, "Forbidden", 'cannot create resource "deployments" in API group "apps"')


async def test_a_role_grants_its_verbs(kube: Client, nobody: Client, space: Space) -> None:
    """And nothing else: neither other verbs, nor other kinds, nor other namespaces."""
    robot = await account(kube, nobody, space)
    await grant(kube, space, READ)
    await eventually(lambda: may(robot, space.configmaps))
    (await robot.post(space.configmaps, configmap("a"))).refused(403)
    await may_not(robot, space.of("v1", "secrets"))
    await may_not(robot, "/api/v1/namespaces/default/configmaps")
    await may_not(robot, "/api/v1/configmaps")


async def test_what_is_taken_back_is_gone(kube: Client, nobody: Client, space: Space) -> None:
    """Deleting the binding, at once."""
    robot = await account(kube, nobody, space)
    await grant(kube, space, READ)
    await eventually(lambda: may(robot, space.configmaps))
    (await kube.delete(f"{space.of('rbac.authorization.k8s.io/v1', 'rolebindings')}/reader")).ok()
    await eventually(lambda: may_not(robot, space.configmaps))


async def test_a_rule_may_name_objects(kube: Client, nobody: Client, space: Space) -> None:
    """resourceNames: these and no others; a list only by the field selector of the name."""
    robot = await account(kube, nobody, space)
    await kube.create(space.configmaps, configmap("mine"))
    await kube.create(space.configmaps, configmap("other"))
    await grant(kube, space, {**READ, "resourceNames": ["mine"]})
    await eventually(lambda: may(robot, f"{space.configmaps}/mine"))
    await may_not(robot, f"{space.configmaps}/other")
    await may_not(robot, space.configmaps)
    (await robot.get(space.configmaps, fieldSelector="metadata.name=mine")).ok(200)


async def test_subresources_are_granted_apart(kube: Client, nobody: Client, space: Space) -> None:
    """pods does not include pods/status."""
    robot = await account(kube, nobody, space)
    await kube.create(space.pods, pod("p"))
    await grant(kube, space, {"apiGroups": [""], "resources": ["pods/status"], "verbs": ["get", "patch"]})
    await eventually(lambda: may(robot, f"{space.pods}/p/status"))
    await may_not(robot, f"{space.pods}/p")
    (await robot.merge(f"{space.pods}/p/status", {"status": {"message": "hi"}})).ok(200)
    answer = await robot.merge(f"{space.pods}/p", {"metadata": {"labels": {"l": "1"}}})
    answer.refused(403, "Forbidden", 'cannot patch resource "pods"')


async def test_cluster_roles_aggregate(kube: Client, nobody: Client, space: Space) -> None:
    """aggregationRule: rules of all ClusterRoles with the label."""
    robot = await account(kube, nobody, space)
    label = {f"{space.name}/part": "yes"}
    whole = {
        "metadata": {"name": f"{space.name}-whole"},
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": label}]},
    }
    part = {"metadata": {"name": f"{space.name}-part", "labels": label}, "rules": [READ]}
    await kube.create(f"{RBAC}/clusterroles", whole)
    await kube.create(f"{RBAC}/clusterroles", part)
    await bind(kube, space, {"kind": "ClusterRole", "name": f"{space.name}-whole"})
    try:
        await eventually(lambda: may(robot, space.configmaps))
    finally:
        for name in ("whole", "part"):
            (await kube.delete(f"{RBAC}/clusterroles/{space.name}-{name}")).ok()


async def test_the_well_known_roles(kube: Client, nobody: Client, space: Space) -> None:
    """view reads no Secrets, edit writes most, admin writes roles too."""
    viewer = await account(kube, nobody, space, "viewer")
    editor = await account(kube, nobody, space, "editor")
    boss = await account(kube, nobody, space, "boss")
    for role, who in (("view", "viewer"), ("edit", "editor"), ("admin", "boss")):
        await bind(kube, space, {"kind": "ClusterRole", "name": role}, to=who)
    await eventually(lambda: may(boss, space.of("v1", "secrets")))
    await eventually(lambda: may(viewer, space.pods))
    await may_not(viewer, space.of("v1", "secrets"))
    (await viewer.post(space.configmaps, configmap("a"))).refused(403)
    await eventually(lambda: may(editor, space.of("v1", "secrets")))
    (await editor.post(space.configmaps, configmap("a"))).ok(201)
    roles = space.of("rbac.authorization.k8s.io/v1", "roles")
    (await editor.post(roles, {"metadata": {"name": "r"}, "rules": [READ]})).refused(403)
    (await boss.post(roles, {"metadata": {"name": "r"}, "rules": [READ]})).ok(201)


async def test_a_binding_s_role_is_immutable(kube: Client, space: Space) -> None:
    """roleRef: cannot change; delete and create."""
    path = space.of("rbac.authorization.k8s.io/v1", "rolebindings")
    await bind(kube, space, {"kind": "ClusterRole", "name": "view"})
    answer = await kube.merge(f"{path}/view", {"roleRef": {"name": "edit"}})
    answer.refused(422, "Invalid", "roleRef: Invalid value", "cannot change roleRef")


async def test_paths_can_be_granted(kube: Client, nobody: Client, space: Space) -> None:
    """nonResourceURLs of a ClusterRole, with a * at the end."""
    robot = await account(kube, nobody, space)
    name = f"{space.name}-paths"
    (await robot.get("/metrics/nothing")).refused(403, "Forbidden", 'cannot get path "/metrics/nothing"')
    await kube.create(
        f"{RBAC}/clusterroles",
        {"metadata": {"name": name}, "rules": [{"nonResourceURLs": ["/metrics/*"], "verbs": ["get"]}]},
    )
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": space.name}],
    }
    await kube.create(f"{RBAC}/clusterrolebindings", binding)

    async def allowed() -> None:
        assert (await robot.get("/metrics/nothing")).status != 403

    try:
        await eventually(allowed)
    finally:
        (await kube.delete(f"{RBAC}/clusterrolebindings/{name}")).ok()
        (await kube.delete(f"{RBAC}/clusterroles/{name}")).ok()


async def test_groups_of_service_accounts_can_be_bound(kube: Client, nobody: Client, space: Space) -> None:
    """system:serviceaccounts:NAMESPACE."""
    robot = await account(kube, nobody, space)
    await kube.create(space.of("rbac.authorization.k8s.io/v1", "roles"), {"metadata": {"name": "r"}, "rules": [READ]})
    body = {
        "metadata": {"name": "r"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
        "subjects": [
            {"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": f"system:serviceaccounts:{space.name}"}
        ],
    }
    await kube.create(space.of("rbac.authorization.k8s.io/v1", "rolebindings"), body)
    await eventually(lambda: may(robot, space.configmaps))


async def test_a_subject_access_review_asks_for_somebody(kube: Client, nobody: Client, space: Space) -> None:
    """allowed and a reason; the answer is not stored."""
    await account(kube, nobody, space)
    await grant(kube, space, READ)

    async def asked(verb: str) -> dict[str, Any]:
        spec = {
            "user": f"system:serviceaccount:{space.name}:robot",
            "resourceAttributes": {"namespace": space.name, "verb": verb, "resource": "configmaps"},
        }
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        return dict((await kube.create(f"{REVIEWS}/subjectaccessreviews", body))["status"])

    async def allowed() -> dict[str, Any]:
        status = await asked("get")
        assert status["allowed"] is True
        return status

    status = await eventually(allowed)
    assert f'allowed by RoleBinding "reader/{space.name}" of Role "reader"' in status["reason"]
    assert (await asked("delete"))["allowed"] is False


async def test_a_local_review_is_of_its_namespace(kube: Client, nobody: Client, space: Space) -> None:
    """LocalSubjectAccessReview refuses another namespace."""
    path = space.of("authorization.k8s.io/v1", "localsubjectaccessreviews")
    attributes = {"namespace": space.name, "verb": "get", "resource": "pods"}
    body = {"metadata": {"namespace": space.name}, "spec": {"user": "x", "resourceAttributes": attributes}}
    assert (await kube.create(path, body))["status"]["allowed"] is False
    attributes["namespace"] = "other"
    assert (await kube.post(path, body)).status in (400, 422)


async def test_a_self_review_asks_for_oneself(kube: Client, nobody: Client, space: Space) -> None:
    """What kubectl auth can-i sends; everybody with a name may ask."""
    robot = await account(kube, nobody, space)
    spec = {"resourceAttributes": {"namespace": space.name, "verb": "list", "resource": "pods"}}
    assert (await robot.create(f"{REVIEWS}/selfsubjectaccessreviews", {"spec": spec}))["status"]["allowed"] is False
    assert (await kube.create(f"{REVIEWS}/selfsubjectaccessreviews", {"spec": spec}))["status"]["allowed"] is True


async def test_rules_can_be_listed(kube: Client, nobody: Client, space: Space) -> None:
    """SelfSubjectRulesReview: kubectl auth can-i --list."""
    robot = await account(kube, nobody, space)
    await grant(kube, space, READ)

    async def listed() -> None:
        body = {"spec": {"namespace": space.name}}
        status = (await robot.create(f"{REVIEWS}/selfsubjectrulesreviews", body))["status"]
        found = [rule for rule in status["resourceRules"] if rule.get("resources") == ["configmaps"]]
        assert found, status
        assert sorted(found[0]["verbs"]) == ["get", "list", "watch"]
        assert any("/healthz" in rule["nonResourceURLs"] for rule in status["nonResourceRules"])
        assert 'role.rbac.authorization.k8s.io "gone" not found' in status["evaluationError"]

    await bind(kube, space, {"kind": "Role", "name": "gone"})
    await eventually(listed)
    (await kube.post(f"{REVIEWS}/selfsubjectrulesreviews", {"spec": {}})).refused(
        400, "BadRequest", "no namespace on request"
    )


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"resourceAttributes": {"verb": "get"}}, "at least one of user or group must be specified"),
        ({"user": "x"}, "exactly one of nonResourceAttributes or resourceAttributes must be specified"),
        ({"user": "x", "resourceAttributes": {}, "nonResourceAttributes": {}}, "nonResourceAttributes"),
    ],
    ids=["of-nobody", "about-nothing", "about-both"],
)
async def test_a_review_asks_one_thing(kube: Client, spec: dict[str, Any], told: str) -> None:
    """ValidateSubjectAccessReviewSpec."""
    answer = await kube.post(f"{REVIEWS}/subjectaccessreviews", {"spec": spec})
    answer.refused(422, "Invalid", told)


async def test_a_review_may_be_about_a_path(kube: Client) -> None:
    """nonResourceAttributes; a group is enough of a subject."""
    for groups, allowed in ((["system:unauthenticated"], True), (["nobodies"], False)):
        spec = {"groups": groups, "nonResourceAttributes": {"verb": "get", "path": "/healthz"}}
        made = await kube.create(f"{REVIEWS}/subjectaccessreviews", {"spec": spec})
        assert made["status"]["allowed"] is allowed


async def test_who_am_i(kube: Client, nobody: Client, space: Space) -> None:
    """SelfSubjectReview: kubectl auth whoami."""
    robot = await account(kube, nobody, space)
    told = (await robot.create(f"{IDENTITY}/selfsubjectreviews", {}))["status"]["userInfo"]
    assert told["username"] == f"system:serviceaccount:{space.name}:robot"
    assert {"system:serviceaccounts", f"system:serviceaccounts:{space.name}", "system:authenticated"} == set(
        told["groups"]
    )
    told = (await kube.create(f"{IDENTITY}/selfsubjectreviews", {}))["status"]["userInfo"]
    assert "system:masters" in told["groups"]


async def test_a_token_says_for_whom_and_how_long(kube: Client, space: Space) -> None:
    """A JWT with audience, expiry, subject and the account's uid."""
    path = space.of("v1", "serviceaccounts")
    made = await kube.create(path, {"metadata": {"name": "robot"}})
    body = {"spec": {"audiences": ["prod"], "expirationSeconds": 1800}}
    status = (await kube.create(f"{path}/robot/token", body))["status"]
    header, claims, _ = status["token"].split(".")
    assert _json(header)["alg"] in ("ES256", "RS256")
    told = _json(claims)
    assert (told["aud"], told["sub"]) == (["prod"], f"system:serviceaccount:{space.name}:robot")
    assert told["exp"] - told["iat"] == 1800
    assert told["kubernetes.io"]["serviceaccount"] == {"name": "robot", "uid": made["metadata"]["uid"]}
    assert status["expirationTimestamp"].endswith("Z")


async def test_tokens_live_ten_minutes_at_least(kube: Client, space: Space) -> None:
    """ValidateTokenRequest."""
    path = space.of("v1", "serviceaccounts")
    await kube.create(path, {"metadata": {"name": "robot"}})
    answer = await kube.post(f"{path}/robot/token", {"spec": {"expirationSeconds": 599}})
    answer.refused(
        422, "Invalid", "spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes"
    )
    (await kube.post(f"{path}/none/token", {"spec": {}})).refused(404, "NotFound")


async def test_a_token_is_reviewed(kube: Client, space: Space) -> None:
    """TokenReview: audiences in common, or why not."""
    path = space.of("v1", "serviceaccounts")
    await kube.create(path, {"metadata": {"name": "robot"}})
    given = await token(kube, f"{path}/robot", audiences=["prod", "other"])

    async def review(**spec: Any) -> dict[str, Any]:
        return dict((await kube.create(f"{IDENTITY}/tokenreviews", {"spec": spec}))["status"])

    status = await review(token=given, audiences=["prod", "third"])
    assert (status["authenticated"], status["audiences"]) == (True, ["prod"])
    assert status["user"]["username"] == f"system:serviceaccount:{space.name}:robot"
    for spec in ({"token": given}, {"token": given, "audiences": ["third"]}, {"token": "nonsense"}):
        status = await review(**spec)
        assert not status.get("authenticated")
        assert status["error"]
    refused = await kube.post(f"{IDENTITY}/tokenreviews", {"spec": {}})
    refused.refused(400, "BadRequest", "token is required for TokenReview in authentication")


async def test_a_token_for_others_opens_nothing(kube: Client, nobody: Client, space: Space) -> None:
    """The server accepts tokens for its own audience only."""
    path = space.of("v1", "serviceaccounts")
    await kube.create(path, {"metadata": {"name": "robot"}})
    given = await token(kube, f"{path}/robot", audiences=["prod"])
    (await nobody.as_token(given).get(space.pods)).refused(401, "Unauthorized")


async def test_with_the_account_goes_the_token(kube: Client, nobody: Client, space: Space) -> None:
    """Also when another of the same name takes its place: the uid counts."""
    robot = await account(kube, nobody, space)
    path = space.of("v1", "serviceaccounts")
    await may_not(robot, space.pods)
    (await kube.delete(f"{path}/robot")).ok()
    await kube.create(path, {"metadata": {"name": "robot"}})

    async def refused() -> None:
        (await robot.get(space.pods)).refused(401, "Unauthorized")

    await eventually(refused)


async def test_the_administrator_may_act_for_others(kube: Client, space: Space) -> None:
    """Impersonate-User and Impersonate-Group: kubectl --as."""
    headers = {"Impersonate-User": f"system:serviceaccount:{space.name}:robot"}
    answer = await kube.call("GET", space.pods, headers=headers)
    answer.refused(403, "Forbidden", f'User "system:serviceaccount:{space.name}:robot" cannot list resource "pods"')
    headers = {"Impersonate-User": "somebody", "Impersonate-Group": "system:masters"}
    (await kube.call("GET", space.pods, headers=headers)).ok(200)


async def test_roles_are_validated(kube: Client, space: Space) -> None:
    """Verbs are required; a namespaced Role has no paths."""
    roles = space.of("rbac.authorization.k8s.io/v1", "roles")
    answer = await kube.post(roles, {"metadata": {"name": "r"}, "rules": [{"apiGroups": [""], "resources": ["pods"]}]})
    answer.refused(422, "Invalid", "rules[0].verbs: Required value")
    answer = await kube.post(
        roles, {"metadata": {"name": "r"}, "rules": [{"nonResourceURLs": ["/x"], "verbs": ["get"]}]}
    )
    answer.refused(422, "Invalid", "rules[0].nonResourceURLs")


@pytest.mark.needs("devkube")
async def test_authorization_can_be_switched_off(cluster: Cluster) -> None:
    """--authorization AlwaysAllow: whoever has a token, or none, may everything."""
    from devkube.options import Settings
    from devkube.server import DevKube

    async with DevKube(Settings(authorization="AlwaysAllow")) as api:
        other = Cluster("open", api.url, api.ca_file, api.kubeconfig)
        async with other.session(anonymous=True) as session:
            anyone = Client(session, api.url)
            answer = await anyone.get("/api/v1/namespaces/default/secrets")
            assert answer.status in (200, 401), answer.told
            (await Client(session, api.url, token=api.admin_token).get("/api/v1/secrets")).ok(200)


def _json(part: str) -> Any:
    return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
