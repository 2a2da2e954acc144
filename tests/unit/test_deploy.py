"""deploy/kubernetes says what the program does: its webhooks, flags, ports, and the rights that its parts need.

That the rights are enough is shown by running the roles with them (tests/integration/webhook, server).
"""

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from crds.cachebackend import CacheBackendSpec, Observation
from handlers.cachebackend import sidecar
from handlers.cachebackend.inject import Options
from subscribers.kubernetes.routes import ROUTES
from warmlog import authentication, certificates, cli, controller, flags, server, systems, webhook

ROOT = Path(__file__).parents[2] / "deploy" / "kubernetes"
LISTED = yaml.safe_load((ROOT / "kustomization.yaml").read_text())["resources"]
OBJECTS = [one for name in LISTED for one in yaml.safe_load_all((ROOT / name).read_text())]
NAMESPACE = "inference-cache-system"
#: Where a case of the contract says another time than our own three seconds.
SECONDS = {"gpustack-worker-mutation": 10, "gpustack-worker-validation": 10}


def of(kind: str) -> list[dict[str, Any]]:
    return [one for one in OBJECTS if one["kind"] == kind]


def named(kind: str, name: str) -> dict[str, Any]:
    return next(one for one in of(kind) if one["metadata"]["name"] == name)


def test_every_file_is_applied() -> None:
    assert sorted(LISTED) == sorted(one.name for one in ROOT.glob("*.yaml") if one.name != "kustomization.yaml")


def test_the_image_is_built_from_all_that_the_package_is_made_of_and_is_the_one_that_is_deployed() -> None:
    lines = (ROOT.parent / "Dockerfile").read_text().splitlines()
    copied = [
        source for line in lines if line.startswith("COPY ") and "--from" not in line for source in line.split()[1:-1]
    ]
    package = tomllib.loads((ROOT.parents[1] / "pyproject.toml").read_text())
    wheel = package["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = [*wheel["packages"], *wheel["force-include"], package["project"]["readme"], "hatch_build.py"]
    assert [one for one in needed if not any(one == of or one.startswith(f"{of}/") for of in copied)] == []
    assert all((ROOT.parents[1] / one).exists() for one in copied)
    users = {one["spec"]["template"]["spec"]["securityContext"]["runAsUser"] for one in of("Deployment")}
    assert [f"USER {user}:{user}" for user in users] == [line for line in lines if line.startswith("USER")]
    images = {box["image"] for one in of("Deployment") for box in one["spec"]["template"]["spec"]["containers"]}
    assert images == {f"warmlog:{package['project']['version']}"}


def test_what_the_webhook_adds_to_an_engine_is_understood_by_the_image_for_it() -> None:
    spec = CacheBackendSpec(runtime="VLLM", observation=Observation(model_id="m"))
    told = named("ConfigMap", "warmlog")["data"]["WARMLOG_POLICY_SERVER_GRPC_ADDRESS"]
    added = sidecar.container(spec, image="i", server=told, scheme="vllm")
    assert added is not None
    assert "command" not in added, "the image's entry point is what starts"
    stage = (ROOT.parent / "Dockerfile").read_text().partition(" AS subscriber\n")[2].partition("\nFROM ")[0]
    entry = next(line for line in stage.splitlines() if line.startswith("ENTRYPOINT "))
    program, command = json.loads(entry.removeprefix("ENTRYPOINT "))
    assert program == "warmlog"
    parser, known = cli.parser_of(command)
    values = flags.resolve(parser.parse_args(added["args"]), known, {"WARMLOG_REPLAY_ENDPOINT": ""})
    assert values["server"] == told.split(",")[0]
    assert values["replay-endpoint"] == ""


@pytest.mark.parametrize("one", OBJECTS, ids=lambda one: f"{one['kind']} {one['metadata']['name']}")
def test_everything_is_ours_and_in_our_namespace(one: dict[str, Any]) -> None:
    assert one["metadata"]["labels"]["app.kubernetes.io/part-of"] == "warmlog"
    cluster = ("Namespace", "ClusterRole", "ClusterRoleBinding")
    if one["kind"] not in cluster and not one["kind"].endswith("Configuration"):
        assert one["metadata"]["namespace"] == NAMESPACE


# Webhooks -------------------------------------------------------------------------------------------------------------


def configured() -> Iterator[tuple[str, bool, dict[str, Any]]]:
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        for one in of(kind):
            for hook in one["webhooks"]:
                yield one["metadata"]["name"], kind.startswith("Mutating"), hook


def test_webhooks_are_those_that_the_program_answers() -> None:
    found = {}
    for _, mutating, hook in configured():
        (rule,) = hook["rules"]
        (group,), (plural,) = rule["apiGroups"], rule["resources"]
        kind = f"{plural}.{group}" if group else plural
        service = hook["clientConfig"]["service"]
        assert (service["name"], service["namespace"], service["port"]) == ("warmlog-webhook", NAMESPACE, 443)
        found[service["path"]] = (hook["name"], kind, tuple(rule["operations"]), mutating)
    assert found == {
        one.path: (one.admitter.name, one.kind, one.operations, one.mutating) for one in systems.hooks(Options())
    }


def test_webhooks_fail_as_their_systems_do() -> None:
    fails_open = {one.path: one.admitter.fails_open for one in systems.hooks(Options())}
    for name, _, hook in configured():
        path = hook["clientConfig"]["service"]["path"]
        assert hook["failurePolicy"] == ("Ignore" if fails_open[path] else "Fail"), path
        assert hook["timeoutSeconds"] == SECONDS.get(name, 3), path
        assert hook["sideEffects"] == "None"
        assert hook["admissionReviewVersions"] == ["v1"]


def test_a_webhook_that_refuses_what_it_cannot_decide_is_never_asked_about_our_own_pods() -> None:
    """Or nothing could start the webhook again."""
    for _, _, hook in configured():
        if hook["rules"][0]["resources"] != ["pods"] or hook["failurePolicy"] == "Ignore":
            continue
        assert "objectSelector" in hook or "namespaceSelector" in hook, hook["name"]


# Rights ---------------------------------------------------------------------------------------------------------------


def rights(kind: str, name: str) -> set[tuple[str, str, str]]:
    """(verb, resource with its group, name or "")."""
    return {
        (verb, f"{resource}.{group}" if group else resource, only)
        for rule in named(kind, name)["rules"]
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for only in rule.get("resourceNames", [""])
    }


def test_no_right_is_a_wildcard() -> None:
    for one in (*of("ClusterRole"), *of("Role")):
        assert "*" not in yaml.safe_dump(one["rules"])


def test_the_controller_may_watch_what_its_systems_read() -> None:
    wanted = {
        (verb, kind, ROUTES[kind].only)
        for system in systems.systems()
        for kind in system.kinds
        for verb in ("get", "list", "watch")
    }
    assert wanted <= rights("ClusterRole", "inference-cache-controller")


def test_the_webhook_may_list_what_its_admitters_read_and_nothing_else() -> None:
    wanted = {("list", kind, ROUTES[kind].only) for one in systems.hooks(Options()) for kind in one.admitter.kinds} | {
        ("list", "cachebackends.inferencecache.io", "")
    }
    assert rights("ClusterRole", "warmlog-webhook") == wanted
    assert rights("Role", "warmlog-webhook") == {("get", "secrets", "warmlog-webhook-tls")}


def test_the_server_may_have_tokens_reviewed_and_nothing_else() -> None:
    assert rights("ClusterRole", "inference-cache-server") == {("create", "tokenreviews.authentication.k8s.io", "")}
    bound = [one["roleRef"]["name"] for one in of("RoleBinding") for who in one["subjects"] if "server" in who["name"]]
    assert bound == []


def test_the_controller_may_repair_every_configuration_of_ours() -> None:
    ours = {name for name, _, _ in configured()}
    found = rights("ClusterRole", "inference-cache-controller")
    for kind in certificates.CONFIGURATIONS:
        assert {name for verb, resource, name in found if (verb, resource) == ("update", kind)} == ours


def test_nobody_may_read_secrets_but_the_webhooks_certificate() -> None:
    for kind in ("ClusterRole", "Role"):
        for one in of(kind):
            for verb, resource, only in rights(kind, one["metadata"]["name"]):
                if resource == "secrets":
                    assert (kind, only == "warmlog-webhook-tls" or verb == "create") == ("Role", True)


def test_accounts_exist_and_are_bound() -> None:
    accounts = {one["metadata"]["name"] for one in of("ServiceAccount")}
    assert {
        s["name"] for kind in ("ClusterRoleBinding", "RoleBinding") for b in of(kind) for s in b["subjects"]
    } == accounts
    assert {one["spec"]["template"]["spec"].get("serviceAccountName") for one in of("Deployment")} - {None} == accounts


# Workloads ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("one", of("Deployment"), ids=lambda one: str(one["metadata"]["name"]))
def test_roles_are_started_as_the_program_wants_it(one: dict[str, Any]) -> None:
    (container,) = one["spec"]["template"]["spec"]["containers"]
    role, *words = container["args"]
    assert role == container["name"]
    _, declared = cli.parser_of(role)
    known = {flag.name for flag in declared}
    for word in words:
        assert word.removeprefix("--").partition("=")[0] in known, word
    ports = {str(port["containerPort"]) for port in container["ports"]}
    bound = {word.rpartition(":")[2] for word in words if "bind-address" in word}
    assert ports == bound
    names = {port["name"] for port in container["ports"]}
    for probe in ("livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["port"] in names


def test_the_server_lets_in_whom_the_controller_is() -> None:
    (container,) = named("Deployment", "inference-cache-server")["spec"]["template"]["spec"]["containers"]
    parser, declared = cli.parser_of("server")
    values = flags.resolve(parser.parse_args(container["args"][1:]), declared, {})
    authentication.check(values)
    account = named("Deployment", "inference-cache-controller")["spec"]["template"]["spec"]["serviceAccountName"]
    assert values["allowed-controller-sa"] == f"system:serviceaccount:{NAMESPACE}:{account}"
    assert not values["insecure-disable-auth"]


def test_roles_that_ask_the_api_have_their_accounts_token() -> None:
    for one in of("Deployment"):
        assert "automountServiceAccountToken" not in one["spec"]["template"]["spec"], one["metadata"]["name"]


def test_what_all_are_told_are_flags_of_ours() -> None:
    known = {flag.variable for role in (controller, webhook, server) for flag in role.FLAGS}
    assert set(named("ConfigMap", "warmlog")["data"]) <= known


@pytest.mark.parametrize("one", of("Deployment"), ids=lambda one: str(one["metadata"]["name"]))
def test_pods_keep_to_the_restricted_standard(one: dict[str, Any]) -> None:
    spec = one["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert spec["securityContext"]["runAsNonRoot"]
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert not container["securityContext"]["allowPrivilegeEscalation"]
    assert {"name": "tmp", "mountPath": "/tmp"} in container["volumeMounts"]  # the root is read-only


def test_services_and_policies_select_what_is_there() -> None:
    labels = {one["metadata"]["name"]: one["spec"]["template"]["metadata"]["labels"] for one in of("Deployment")}
    ports = {p["name"] for one in of("Deployment") for p in one["spec"]["template"]["spec"]["containers"][0]["ports"]}
    for one in of("Service"):
        assert one["spec"]["selector"].items() <= labels[one["metadata"]["name"]].items()
        assert {port["targetPort"] for port in one["spec"]["ports"]} <= ports
    for one in of("NetworkPolicy"):
        wanted = one["spec"]["podSelector"].get("matchLabels", {})
        assert any(wanted.items() <= found.items() for found in labels.values())
        assert {p["port"] for rule in one["spec"].get("ingress", []) for p in rule["ports"]} <= ports
