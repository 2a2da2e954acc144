"""Built-in kinds beside Pods: defaults, derived fields and the rules that controllers meet."""

import base64
from typing import Any

import pytest

from tests.support.kubeobjects import configmap, container, deployment
from tests.support.kubernetes import Client, Object, Space


def service(name: str, **spec: Any) -> dict[str, Any]:
    body = {"selector": {"app": name}, "ports": [{"port": 80}], **spec}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": body}


async def test_a_service_gets_an_address(kube: Client, space: Space) -> None:
    """clusterIP and clusterIPs, each its own; target ports, protocol, type and affinity by default."""
    path = space.of("v1", "services")
    one, two = [await kube.create(path, service(name)) for name in ("a", "b")]
    assert one["spec"]["clusterIP"] != two["spec"]["clusterIP"]
    assert one["spec"]["clusterIPs"] == [one["spec"]["clusterIP"]]
    assert one["spec"]["ports"] == [{"port": 80, "targetPort": 80, "protocol": "TCP"}]
    assert (one["spec"]["type"], one["spec"]["sessionAffinity"]) == ("ClusterIP", "None")


async def test_a_headless_service_has_none(kube: Client, space: Space) -> None:
    """clusterIP None stays None."""
    made = await kube.create(space.of("v1", "services"), service("a", clusterIP="None"))
    assert (made["spec"]["clusterIP"], made["spec"]["clusterIPs"]) == ("None", ["None"])


async def test_a_service_s_rules(kube: Client, space: Space) -> None:
    """Ports are required and named when several; the address cannot change."""
    path = space.of("v1", "services")
    answer = await kube.post(path, service("a", ports=[]))
    answer.refused(422, "Invalid", "spec.ports: Required value")
    answer = await kube.post(path, service("a", ports=[{"port": 80}, {"port": 81}]))
    answer.refused(422, "Invalid", "spec.ports[0].name: Required value")
    answer = await kube.post(path, service("No_Label"))
    answer.refused(422, "Invalid", "metadata.name")
    await kube.create(path, service("a"))
    answer = await kube.merge(f"{path}/a", {"spec": {"clusterIP": "10.96.77.77", "clusterIPs": ["10.96.77.77"]}})
    answer.refused(422, "Invalid", "spec.clusterIPs[0]: Invalid value", "may not change once set")


async def test_configmaps_can_be_sealed(kube: Client, space: Space) -> None:
    """immutable: neither data nor the seal itself change again."""
    path = f"{space.configmaps}/a"
    await kube.create(space.configmaps, {**configmap("a", {"k": "v"}), "immutable": True})
    (await kube.merge(path, {"data": {"k": "w"}})).refused(
        422, "Invalid", "data: Forbidden: field is immutable when `immutable` is set"
    )
    (await kube.merge(path, {"immutable": False})).refused(422, "Invalid", "immutable: Forbidden")
    (await kube.merge(path, {"metadata": {"labels": {"l": "1"}}})).ok(200)


async def test_keys_of_configmaps(kube: Client, space: Space) -> None:
    """IsConfigMapKey, and no key in both data and binaryData."""
    answer = await kube.post(space.configmaps, configmap("a", {"a b": "1"}))
    answer.refused(422, "Invalid", "data[a b]: Invalid value")
    answer = await kube.post(space.configmaps, {**configmap("a", {"k": "1"}), "binaryData": {"k": "aGk="}})
    answer.refused(422, "Invalid", "k")


async def test_secrets_are_base64(kube: Client, space: Space) -> None:
    """stringData goes into data; what is no base64 is refused; the type is Opaque and cannot change."""
    path = space.of("v1", "secrets")
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}
    made = await kube.create(path, {**body, "stringData": {"k": "hello"}})
    assert made["data"] == {"k": base64.b64encode(b"hello").decode()}
    assert "stringData" not in made
    assert made["type"] == "Opaque"
    (await kube.merge(f"{path}/a", {"type": "other"})).refused(
        422, "Invalid", "type: Invalid value", "field is immutable"
    )
    answer = await kube.post(path, {**body, "metadata": {"name": "b"}, "data": {"k": "%%%"}})
    answer.refused(400, "BadRequest", "illegal base64 data")


async def test_a_deployment_has_its_defaults(kube: Client, space: Space) -> None:
    """Rolling update by quarters, ten revisions, ten minutes."""
    body = deployment("d")
    del body["spec"]["replicas"]
    spec = (await kube.create(space.deployments, body))["spec"]
    assert spec["strategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}}
    assert (spec["replicas"], spec["revisionHistoryLimit"], spec["progressDeadlineSeconds"]) == (1, 10, 600)
    assert spec["template"]["spec"]["restartPolicy"] == "Always"
    assert spec["template"]["spec"]["containers"][0]["imagePullPolicy"] == "IfNotPresent"


async def test_a_deployment_s_rules(kube: Client, space: Space) -> None:
    """The selector matches the template and never changes; templates are checked like Pods."""
    answer = await kube.post(space.deployments, deployment("d", spec={"selector": {"matchLabels": {"app": "other"}}}))
    answer.refused(
        422, "Invalid", "spec.template.metadata.labels: Invalid value", "`selector` does not match template `labels`"
    )
    answer = await kube.post(space.deployments, deployment("d", spec={"selector": None}))
    answer.refused(422, "Invalid", "spec.selector: Required value")
    answer = await kube.post(space.deployments, deployment("d", replicas=-1))
    answer.refused(422, "Invalid", "spec.replicas: Invalid value: -1")
    bad = deployment("d")
    bad["spec"]["template"]["spec"]["containers"] = [container("a"), container("a")]
    answer = await kube.post(space.deployments, bad)
    answer.refused(422, "Invalid", "spec.template.spec.containers[1].name: Duplicate value")
    await kube.create(space.deployments, deployment("d"))
    change = {"spec": {"selector": {"matchLabels": {"app": "x"}}, "template": {"metadata": {"labels": {"app": "x"}}}}}
    (await kube.merge(f"{space.deployments}/d", change)).refused(
        422, "Invalid", "spec.selector: Invalid value", "field is immutable"
    )


async def test_a_stateful_set_s_rules(kube: Client, space: Space) -> None:
    """Most of its spec is fixed; the message lists what is not."""
    path = space.of("apps/v1", "statefulsets")
    body = deployment("s")
    body["kind"] = "StatefulSet"
    body["spec"]["serviceName"] = "s"
    made = await kube.create(path, body)
    assert (made["spec"]["podManagementPolicy"], made["spec"]["updateStrategy"]["type"]) == (
        "OrderedReady",
        "RollingUpdate",
    )
    answer = await kube.merge(f"{path}/s", {"spec": {"serviceName": "other"}})
    answer.refused(422, "Invalid", "spec: Forbidden: updates to statefulset spec for fields other than")
    (await kube.merge(f"{path}/s", {"spec": {"replicas": 2}})).ok(200)


async def test_a_job_s_pods_do_not_restart_forever(kube: Client, space: Space) -> None:
    """restartPolicy OnFailure or Never; completions, parallelism, failures by default; selector and labels made."""
    path = space.of("batch/v1", "jobs")
    body = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {"template": {"spec": {"containers": [container()]}}},
    }
    (await kube.post(path, body)).refused(422, "Invalid", "spec.template.spec.restartPolicy")
    body["spec"]["template"]["spec"]["restartPolicy"] = "Never"  # type: ignore[index]
    made = await kube.create(path, body)
    spec = made["spec"]
    assert (spec["completions"], spec["parallelism"], spec["backoffLimit"], spec["completionMode"]) == (
        1,
        1,
        6,
        "NonIndexed",
    )
    labels = spec["template"]["metadata"]["labels"]
    assert labels["batch.kubernetes.io/controller-uid"] == made["metadata"]["uid"]
    assert labels["batch.kubernetes.io/job-name"] == "j"
    assert spec["selector"]["matchLabels"] == {"batch.kubernetes.io/controller-uid": made["metadata"]["uid"]}


BACKEND = {"service": {"name": "s", "port": {"number": 80}}}
SLICE = {"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}], "ports": [{"name": "", "port": 80}]}
ONCE = {"spec": {"restartPolicy": "Never", "containers": [container()]}}


@pytest.mark.parametrize(
    ("group_version", "plural", "body"),
    [
        ("policy/v1", "poddisruptionbudgets", {"spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}}),
        (
            "autoscaling/v2",
            "horizontalpodautoscalers",
            {
                "spec": {
                    "maxReplicas": 3,
                    "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
                }
            },
        ),
        ("networking.k8s.io/v1", "networkpolicies", {"spec": {"podSelector": {}}}),
        ("networking.k8s.io/v1", "ingresses", {"spec": {"defaultBackend": BACKEND}}),
        (
            "discovery.k8s.io/v1",
            "endpointslices",
            SLICE,
        ),
        (
            "v1",
            "persistentvolumeclaims",
            {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}},
        ),
        (
            "batch/v1",
            "cronjobs",
            {
                "spec": {
                    "schedule": "*/5 * * * *",
                    "jobTemplate": {"spec": {"template": ONCE}},
                }
            },
        ),
        (
            "apps/v1",
            "daemonsets",
            {
                "spec": {
                    "selector": {"matchLabels": {"a": "b"}},
                    "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container()]}},
                }
            },
        ),
        (
            "apps/v1",
            "replicasets",
            {
                "spec": {
                    "selector": {"matchLabels": {"a": "b"}},
                    "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container()]}},
                }
            },
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and "/" not in value else "",
)
async def test_namespaced_kinds_are_served(
    kube: Client, space: Space, group_version: str, plural: str, body: dict[str, Any]
) -> None:
    """Created, read, labelled, listed as a table and deleted."""
    path = space.of(group_version, plural)
    made = await kube.create(path, {"metadata": {"name": "a"}, **body})
    assert made["apiVersion"] == group_version
    (await kube.merge(f"{path}/a", {"metadata": {"labels": {"l": "1"}}})).ok(200)
    assert await kube.names(path, labelSelector="l=1") == ["a"]
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
    table = (await kube.call("GET", path, accept=accept, query={"labelSelector": "l=1"})).ok(200)
    assert len(table["rows"][0]["cells"]) == len(table["columnDefinitions"])
    (await kube.delete(f"{path}/a")).ok()


@pytest.mark.parametrize(
    ("group_version", "plural", "body"),
    [
        ("v1", "nodes", {}),
        ("scheduling.k8s.io/v1", "priorityclasses", {"value": 5}),
        ("storage.k8s.io/v1", "storageclasses", {"provisioner": "example.com/p"}),
        (
            "v1",
            "persistentvolumes",
            {"spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}},
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and "/" not in value else "",
)
async def test_cluster_wide_kinds_are_served(
    kube: Client, space: Space, group_version: str, plural: str, body: dict[str, Any]
) -> None:
    """The same without a namespace."""
    root = f"/apis/{group_version}" if "/" in group_version else f"/api/{group_version}"
    path = f"{root}/{plural}"
    made = await kube.create(path, {"metadata": {"name": space.name}, **body})
    assert "namespace" not in made["metadata"]
    (await kube.merge(f"{path}/{space.name}", {"metadata": {"labels": {"l": "1"}}})).ok(200)
    (await kube.delete(f"{path}/{space.name}")).ok()


async def test_a_service_is_filled_in(kube: Client, space: Space) -> None:
    made = await kube.create(space.of("v1", "services"), service("s", ports=[{"port": 80}], sessionAffinity="ClientIP"))
    spec = {key: made["spec"][key] for key in ("internalTrafficPolicy", "ipFamilies", "ipFamilyPolicy")}
    assert spec == {"internalTrafficPolicy": "Cluster", "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"}
    assert made["spec"]["sessionAffinityConfig"] == {"clientIP": {"timeoutSeconds": 10800}}
    balanced = await kube.create(space.of("v1", "services"), service("b", ports=[{"port": 80}], type="LoadBalancer"))
    assert (balanced["spec"]["externalTrafficPolicy"], balanced["spec"]["allocateLoadBalancerNodePorts"]) == (
        "Cluster",
        True,
    )
    named = (
        await kube.merge(f"{space.of('v1', 'services')}/s", {"spec": {"type": "ExternalName", "externalName": "a.b"}})
    ).ok()
    assert not {"clusterIP", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"} & named["spec"].keys()


@pytest.mark.parametrize(
    ("spec", "field", "reason"),
    [
        (
            {"ports": [{"port": 80, "name": "a"}, {"port": 80, "name": "b"}]},
            "spec.ports[1]",
            "FieldValueDuplicate",
        ),
        ({"type": "ExternalName"}, "spec.externalName", "FieldValueRequired"),
        ({"ports": [{"port": 80}], "sessionAffinity": "Odd"}, "spec.sessionAffinity", "FieldValueNotSupported"),
    ],
)
async def test_a_service_that_is_none(kube: Client, space: Space, spec: Object, field: str, reason: str) -> None:
    refused = await kube.post(space.of("v1", "services"), service("s", **spec))
    refused.refused(422, "Invalid")
    assert refused.causes == [(field, reason)]


async def test_a_deadline_comes_after_a_pod_counts(kube: Client, space: Space) -> None:
    refused = await kube.post(space.deployments, deployment("d", spec={"minReadySeconds": 600}))
    refused.refused(422, "Invalid", "spec.progressDeadlineSeconds", "must be greater than minReadySeconds")


async def test_an_event_is_where_its_object_is(kube: Client, space: Space) -> None:
    event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "involvedObject": {"kind": "Pod"}}
    refused = await kube.post(space.of("v1", "events"), event)
    refused.refused(422, "Invalid", "involvedObject.namespace", "does not match event.namespace")
    event["involvedObject"] = {"kind": "Pod", "namespace": space.name}
    (await kube.post(space.of("v1", "events"), event)).ok(201)


async def test_a_cronjob_is_filled_in(kube: Client, space: Space) -> None:
    spec = {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": ONCE}}}
    body = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "c"}, "spec": spec}
    made = (await kube.create(space.of("batch/v1", "cronjobs"), body))["spec"]
    assert (made["concurrencyPolicy"], made["suspend"]) == ("Allow", False)
    assert (made["successfulJobsHistoryLimit"], made["failedJobsHistoryLimit"]) == (3, 1)


NOT_IN = {"matchExpressions": [{"key": "a", "operator": "NotIn"}]}
ODD = {"matchExpressions": [{"key": "a", "operator": "Odd"}]}
UNROLLED = {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": "0%"}}


@pytest.mark.parametrize(
    ("spec", "field", "reason"),
    [
        ({"selector": {}}, "spec.selector", "FieldValueInvalid"),
        ({"selector": NOT_IN}, "spec.selector.matchExpressions[0].values", "FieldValueRequired"),
        (
            {"selector": {"matchExpressions": [{"key": "a"}]}},
            "spec.selector.matchExpressions[0].operator",
            "FieldValueInvalid",
        ),
        ({"selector": ODD}, "spec.selector.matchExpressions[0].operator", "FieldValueInvalid"),
        ({"strategy": {"type": "Recreate", **UNROLLED}}, "spec.strategy.rollingUpdate", "FieldValueForbidden"),
        ({"strategy": UNROLLED}, "spec.strategy.rollingUpdate.maxUnavailable", "FieldValueInvalid"),
        (
            {"strategy": {"rollingUpdate": {"maxUnavailable": "half"}}},
            "spec.strategy.rollingUpdate.maxUnavailable",
            "FieldValueInvalid",
        ),
        (
            {"strategy": {"rollingUpdate": {"maxUnavailable": "101%"}}},
            "spec.strategy.rollingUpdate.maxUnavailable",
            "FieldValueInvalid",
        ),
    ],
)
async def test_a_deployment_that_is_none(kube: Client, space: Space, spec: Object, field: str, reason: str) -> None:
    refused = await kube.post(space.deployments, deployment("d", spec=spec))
    refused.refused(422, "Invalid")
    assert (field, reason) in refused.causes


async def test_pods_of_a_deployment_restart(kube: Client, space: Space) -> None:
    body = deployment("d")
    body["spec"]["template"]["spec"]["restartPolicy"] = "Never"
    refused = await kube.post(space.deployments, body)
    refused.refused(422, "Invalid", 'spec.template.spec.restartPolicy: Unsupported value: "Never"')


async def test_a_namespace_is_labelled_with_its_name(kube: Client) -> None:
    made = (await kube.post("/api/v1/namespaces", {"metadata": {"generateName": "labelled-"}}, dryRun="All")).ok(201)
    assert made["metadata"]["labels"] == {"kubernetes.io/metadata.name": made["metadata"]["name"]}


GET_PODS = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}
ROLE = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "x"}


@pytest.mark.parametrize(
    ("plural", "body", "cause"),
    [
        (
            "clusterroles",
            {"rules": [{**GET_PODS, "nonResourceURLs": ["/x"]}]},
            ("rules[0].nonResourceURLs", "FieldValueInvalid"),
        ),
        (
            "clusterroles",
            {"rules": [{"verbs": ["get"], "resources": ["x"]}]},
            ("rules[0].apiGroups", "FieldValueRequired"),
        ),
        ("clusterroles", {"metadata": {"name": ".."}}, ("metadata.name", "FieldValueInvalid")),
        (
            "clusterrolebindings",
            {"roleRef": {**ROLE, "kind": "Role"}},
            ("roleRef.kind", "FieldValueNotSupported"),
        ),
        (
            "clusterrolebindings",
            {"roleRef": ROLE, "subjects": [{"kind": "User", "name": "u", "apiGroup": "x"}]},
            ("subjects[0].apiGroup", "FieldValueNotSupported"),
        ),
        (
            "clusterrolebindings",
            {"roleRef": ROLE, "subjects": [{"kind": "ServiceAccount", "name": "s"}]},
            ("subjects[0].namespace", "FieldValueRequired"),
        ),
    ],
)
async def test_roles_and_bindings_that_are_none(
    kube: Client, plural: str, body: Object, cause: tuple[str, str]
) -> None:
    path = f"/apis/rbac.authorization.k8s.io/v1/{plural}"
    refused = await kube.post(path, {"metadata": {"name": "x"}, **body}, dryRun="All")
    refused.refused(422, "Invalid")
    assert refused.causes == [cause]
