"""What is filled in; every default is upstream's, and filling in twice changes nothing."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from devkube.builtin.defaults import pull_policy
from devkube.kinds import Catalog, Object

Make = Callable[..., Object]


def test_a_pod(written: Any, a_pod: Make) -> None:
    spec = written(a_pod()).object["spec"]
    main = spec.pop("containers")[0]
    assert main == {
        "name": "main",
        "image": "registry/app:1",
        "imagePullPolicy": "IfNotPresent",
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "resources": {},
    }
    assert spec == {
        "dnsPolicy": "ClusterFirst",
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "terminationGracePeriodSeconds": 30,
        "enableServiceLinks": True,
        "serviceAccountName": "default",
        "serviceAccount": "default",
        "tolerations": [
            {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            for key in ("not-ready", "unreachable")
        ],
    }


def test_a_pod_that_tolerates_everything_stays_as_it_is(written: Any, a_pod: Make) -> None:
    everything = [{"operator": "Exists"}]
    assert written(a_pod(tolerations=everything)).object["spec"]["tolerations"] == everything


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("app", "Always"),
        ("app:latest", "Always"),
        ("host:5000/app", "Always"),
        ("host:5000/app:1", "IfNotPresent"),
        ("app@sha256:0", "IfNotPresent"),
        ("app:latest@sha256:0", "Always"),
    ],
)
def test_pull_policies(image: str, policy: str) -> None:
    assert pull_policy(image) == policy


def test_requests_follow_limits_in_pods_only(written: Any, a_pod: Make, container: Make, a_workload: Make) -> None:
    limited = container(resources={"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "100m"}})
    found = written(a_pod(containers=[limited])).object["spec"]["containers"][0]["resources"]
    assert found["requests"] == {"cpu": "100m", "memory": "1Gi"}
    deployment = a_workload("Deployment")
    deployment["spec"]["template"]["spec"]["containers"] = [limited]
    found = written(deployment).object["spec"]["template"]["spec"]["containers"][0]["resources"]
    assert found["requests"] == {"cpu": "100m"}


def test_probes_ports_and_references(written: Any, a_pod: Make, container: Make) -> None:
    one = container(
        ports=[{"containerPort": 80}],
        livenessProbe={"httpGet": {"port": 80}},
        lifecycle={"preStop": {"httpGet": {"port": 80}}},
        env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
    )
    found = written(a_pod(containers=[one])).object["spec"]["containers"][0]
    assert found["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
    assert found["livenessProbe"] == {
        "httpGet": {"port": 80, "path": "/", "scheme": "HTTP"},
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 3,
    }
    assert found["lifecycle"]["preStop"]["httpGet"]["scheme"] == "HTTP"
    assert found["env"][0]["valueFrom"]["fieldRef"]["apiVersion"] == "v1"


def test_volumes(written: Any, a_pod: Make) -> None:
    volumes: list[Object] = [
        {"name": "none"},
        {"name": "secret", "secret": {"secretName": "s"}},
        {"name": "image", "image": {"reference": "registry/data:1"}},
        {"name": "host", "hostPath": {"path": "/"}},
        {"name": "all", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
    ]
    found = {one.pop("name"): one for one in written(a_pod(volumes=volumes)).object["spec"]["volumes"]}
    assert found["none"] == {"emptyDir": {}}
    assert found["secret"]["secret"]["defaultMode"] == 0o644
    assert found["image"]["image"]["pullPolicy"] == "IfNotPresent"
    assert found["host"]["hostPath"]["type"] == ""
    assert found["all"]["projected"] == {
        "sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}}],
        "defaultMode": 0o644,
    }


def test_a_deployment(written: Any, a_workload: Make) -> None:
    spec = written(a_workload("Deployment")).object["spec"]
    assert (spec["replicas"], spec["revisionHistoryLimit"], spec["progressDeadlineSeconds"]) == (1, 10, 600)
    assert spec["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
    }
    assert spec["template"]["spec"]["restartPolicy"] == "Always"
    assert "enableServiceLinks" not in spec["template"]["spec"]
    assert "serviceAccountName" not in spec["template"]["spec"]


def test_a_deployment_that_recreates_rolls_nothing(written: Any, a_workload: Make) -> None:
    found = written(a_workload("Deployment", strategy={"type": "Recreate"})).object
    assert found["spec"]["strategy"] == {"type": "Recreate"}


def test_a_stateful_and_a_daemon_set(written: Any, a_workload: Make) -> None:
    claims = [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}]
    spec = written(a_workload("StatefulSet", volumeClaimTemplates=claims)).object["spec"]
    assert spec["updateStrategy"] == {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}
    assert spec["persistentVolumeClaimRetentionPolicy"] == {"whenDeleted": "Retain", "whenScaled": "Retain"}
    assert spec["volumeClaimTemplates"][0]["spec"]["volumeMode"] == "Filesystem"
    spec = written(a_workload("DaemonSet")).object["spec"]
    assert spec["updateStrategy"]["rollingUpdate"] == {"maxUnavailable": 1, "maxSurge": 0}


def test_a_job_selects_its_pods_by_its_uid(written: Any, a_workload: Make) -> None:
    found = written(a_workload("Job", "batch/v1")).object
    spec = found["spec"]
    assert (spec["completions"], spec["parallelism"], spec["backoffLimit"]) == (1, 1, 6)
    assert spec["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": "u-1"}}
    assert spec["template"]["metadata"]["labels"]["job-name"] == "w"


def test_webhooks(written: Any) -> None:
    hook = {"name": "a.b.c", "clientConfig": {"service": {"name": "s", "namespace": "n"}}, "sideEffects": "None"}
    hook |= {"admissionReviewVersions": ["v1"], "rules": [{"operations": ["CREATE"]}]}
    base = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": "w"}, "webhooks": [hook]}
    found = written(base | {"kind": "MutatingWebhookConfiguration"}).object["webhooks"][0]
    assert found["clientConfig"]["service"]["port"] == 443
    assert found["rules"] == [{"operations": ["CREATE"], "scope": "*"}]
    values = [found[key] for key in ("failurePolicy", "matchPolicy", "reinvocationPolicy", "timeoutSeconds")]
    assert values == ["Fail", "Equivalent", "Never", 10]
    assert found["namespaceSelector"] == found["objectSelector"] == {}
    found = written(base | {"kind": "ValidatingWebhookConfiguration"}).object["webhooks"][0]
    assert "reinvocationPolicy" not in found


def test_a_role_binding(written: Any) -> None:
    obj = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "b", "namespace": "n"},
        "roleRef": {"kind": "Role", "name": "r"},
        "subjects": [{"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "s"}],
    }
    found = written(obj).object
    assert found["roleRef"]["apiGroup"] == "rbac.authorization.k8s.io"
    assert found["subjects"][0]["apiGroup"] == "rbac.authorization.k8s.io"
    assert "apiGroup" not in found["subjects"][1]


def test_a_namespace(written: Any) -> None:
    found = written({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}}).object
    assert found["metadata"]["labels"] == {"kubernetes.io/metadata.name": "n"}
    assert (found["spec"], found["status"]) == ({"finalizers": ["kubernetes"]}, {"phase": "Active"})


def test_string_data_of_a_secret(written: Any) -> None:
    obj = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "n"}}
    found = written({**obj, "stringData": {"a": "abc"}, "data": {"b": "YWJj"}}).object
    assert found["data"] == {"a": "YWJj", "b": "YWJj"}
    assert "stringData" not in found
    assert found["type"] == "Opaque"


def test_filling_in_twice_changes_nothing(catalog: Catalog, a_pod: Make, a_workload: Make) -> None:
    samples = {"Pod": a_pod(volumes=[{"name": "v"}])} | {
        kind: a_workload(kind, version)
        for kind, version in (
            ("Deployment", "apps/v1"),
            ("StatefulSet", "apps/v1"),
            ("DaemonSet", "apps/v1"),
            ("Job", "batch/v1"),
        )
    }
    for resource in catalog:
        obj = samples.get(resource.kind, {"metadata": {"name": "a"}})
        resource.rules.default(obj)
        once = deepcopy(obj)
        resource.rules.default(obj)
        assert obj == once, resource.kind


@pytest.mark.parametrize(
    ("resources", "kind"),
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}, "Burstable"),
    ],
)
def test_a_pod_begins_pending_in_its_class(
    written: Any, a_pod: Make, container: Make, resources: Object, kind: str
) -> None:
    found = written(a_pod(containers=[container(resources=resources)])).object
    assert found["status"] == {"phase": "Pending", "qosClass": kind}
