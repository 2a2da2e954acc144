"""The rules of workloads, Services and the other kinds."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devkube.errors import StatusError
from devkube.kinds import Object

Make = Callable[..., Object]
RBAC = "rbac.authorization.k8s.io"


def thing(kind: str, version: str = "v1", **fields: Any) -> Object:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "a", "namespace": "n"}, **fields}


def hooks(**hook: Any) -> Object:
    base = {
        "name": "a.b.c",
        "clientConfig": {"url": "https://h/p"},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}],
    }
    found = thing("ValidatingWebhookConfiguration", "admissionregistration.k8s.io/v1", webhooks=[base | hook])
    del found["metadata"]["namespace"]
    return found


CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


def ingress(path: Object, **spec: Any) -> Object:
    return thing("Ingress", "networking.k8s.io/v1", spec={"rules": [{"http": {"paths": [path]}}], **spec})


TARGET = {"apiVersion": "a/v1", "kind": "A", "name": "b"}
PATH = {"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "s", "port": {"number": 80}}}}


def policy(**spec: Any) -> Object:
    return thing("NetworkPolicy", "networking.k8s.io/v1", spec=spec)


CASES: list[tuple[str, Object, str, str]] = [
    (
        "a rule without verbs",
        thing("Role", f"{RBAC}/v1", rules=[{"apiGroups": [""], "resources": ["pods"]}]),
        "rules[0].verbs",
        "Required value",
    ),
    (
        "a binding to no role",
        thing("RoleBinding", f"{RBAC}/v1", roleRef={"kind": "Pod", "name": "p"}),
        "roleRef.kind",
        'Unsupported value: "Pod": supported values: "Role", "ClusterRole"',
    ),
    (
        "a lease of no time",
        thing("Lease", "coordination.k8s.io/v1", spec={"leaseDurationSeconds": 0}),
        "spec.leaseDurationSeconds",
        "Invalid value: 0: must be between 1 and 2147483647, inclusive",
    ),
    (
        "a ConfigMap's key",
        thing("ConfigMap", data={"a/b": "c"}),
        "data[a/b]",
        "Invalid value: \"a/b\": a valid config key must consist of alphanumeric characters, '-', '_' or '.' "
        "(e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')",
    ),
    (
        "the same key twice",
        thing("ConfigMap", data={"a": "c"}, binaryData={"a": "YQ=="}),
        "data[a]",
        'Invalid value: "a": duplicate of key present in binaryData',
    ),
    (
        "a large ConfigMap",
        thing("ConfigMap", data={"a": "x" * 2**20 + "x"}),
        "[]",
        "Too long: may not be more than 1048576 bytes",
    ),
    (
        "a webhook of two segments",
        hooks(name="a.b"),
        "webhooks[0].name",
        'Invalid value: "a.b": should be a domain with at least three segments separated by dots',
    ),
    (
        "a webhook without TLS",
        hooks(clientConfig={"url": "http://h/p"}),
        "webhooks[0].clientConfig.url",
        'Invalid value: "http://h/p": must be https://host[/path], without a user, a query and a fragment',
    ),
    (
        "a webhook at no place",
        hooks(clientConfig={}),
        "webhooks[0].clientConfig",
        "Required value: exactly one of url or service is required",
    ),
    (
        "a webhook with effects",
        hooks(sideEffects="Some"),
        "webhooks[0].sideEffects",
        'Unsupported value: "Some": supported values: "None", "NoneOnDryRun"',
    ),
    (
        "a patient webhook",
        hooks(timeoutSeconds=31),
        "webhooks[0].timeoutSeconds",
        "Invalid value: 31: must be between 1 and 30, inclusive",
    ),
    (
        "an operation",
        hooks(rules=[{"operations": ["PATCH"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}]),
        "webhooks[0].rules[0].operations[0]",
        'Unsupported value: "PATCH": supported values: "*", "CONNECT", "CREATE", "DELETE", "UPDATE"',
    ),
    (
        "a Service without ports",
        thing("Service", spec={"selector": {"a": "b"}}),
        "spec.ports",
        "Required value",
    ),
    (
        "a Service with nameless ports",
        thing("Service", spec={"ports": [{"port": 80, "name": "a"}, {"port": 81}]}),
        "spec.ports[1].name",
        "Required value",
    ),
    (
        "a Service's port out of range",
        thing("Service", spec={"ports": [{"port": 0}]}),
        "spec.ports[0].port",
        "Invalid value: 0: must be between 1 and 65535, inclusive",
    ),
]


@pytest.mark.parametrize(("name", "obj", "field", "message"), CASES, ids=[name for name, *_ in CASES])
def test_refused(written: Any, name: str, obj: Object, field: str, message: str) -> None:
    found = written(obj).told
    found.pop("spec.ports[0].targetPort", None)  # the default of a port out of range is out of range too
    assert found == {field: message}


def test_taken(written: Any) -> None:
    assert written(hooks()).told == {}
    assert written(hooks(clientConfig={"service": {"namespace": "n", "name": "s", "path": "/x"}})).told == {}
    assert written(thing("Service", spec={"clusterIP": "None", "selector": {"a": "b"}})).told == {}
    assert written(thing("Role", f"{RBAC}/v1")).told == {}
    assert written(ingress(PATH, ingressClassName="a", tls=[{"hosts": ["*.a.b"]}])).told == {}
    peer = {"ipBlock": {"cidr": "10.0.0.0/8"}}
    assert written(policy(podSelector={}, egress=[{"to": [peer], "ports": [{"port": "web"}]}])).told == {}


class TestWorkloads:
    @pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"])
    def test_a_selector_selects_its_template(self, written: Any, a_workload: Make, kind: str) -> None:
        assert written(a_workload(kind)).told == {}
        other = written(a_workload(kind, selector={"matchLabels": {"app": "b"}})).told
        message = 'Invalid value: {"app":"a"}: `selector` does not match template `labels`'
        assert other == {"spec.template.metadata.labels": message}

    @pytest.mark.parametrize(
        ("key", "value", "message"),
        [
            ("maxSurge", "150%", None),
            (
                "maxSurge",
                "abc",
                """Invalid value: "abc": a valid percent string must be a numeric string followed by an \
ending '%'""",
            ),
            ("maxSurge", -1, "Invalid value: -1: must be greater than or equal to 0"),
            ("maxUnavailable", "150%", 'Invalid value: "150%": must not be greater than 100%'),
        ],
    )
    def test_amounts_of_a_rolling_update(
        self, written: Any, a_workload: Make, key: str, value: Any, message: str | None
    ) -> None:
        strategy = {"type": "RollingUpdate", "rollingUpdate": {key: value}}
        for kind, field in (("Deployment", "strategy"), ("DaemonSet", "updateStrategy")):
            told = {f"spec.{field}.rollingUpdate.{key}": message} if message else {}
            assert written(a_workload(kind, **{field: strategy})).told == told

    def test_no_selector_and_an_empty_one(self, written: Any, a_workload: Make) -> None:
        without = a_workload("Deployment")
        del without["spec"]["selector"]
        mismatch = 'Invalid value: {"app":"a"}: `selector` does not match template `labels`'
        told = {"spec.selector": "Required value", "spec.template.metadata.labels": mismatch}
        assert written(without).told == told  # no selector selects nothing
        empty = written(a_workload("Deployment", selector={})).told
        assert empty == {"spec.selector": "Invalid value: {}: empty selector is invalid for deployment"}

    def test_a_selector_stays(self, written: Any, a_workload: Make) -> None:
        old = written(a_workload("Deployment")).object
        new = deepcopy(old)
        new["spec"]["selector"]["matchLabels"] = {"app": "b"}
        new["spec"]["template"]["metadata"]["labels"] = {"app": "b"}
        message = 'Invalid value: {"matchLabels":{"app":"b"}}: field is immutable'
        assert written(new, old).told == {"spec.selector": message}

    def test_the_template_is_checked(self, written: Any, a_workload: Make) -> None:
        obj = a_workload("Deployment")
        obj["spec"]["template"]["spec"] = {"containers": [{"name": "a"}], "restartPolicy": "Never"}
        assert written(obj).told == {
            "spec.template.spec.containers[0].image": "Required value",
            "spec.template.spec.restartPolicy": 'Unsupported value: "Never": supported values: "Always"',
        }

    def test_of_a_stateful_set_little_changes(self, written: Any, a_workload: Make) -> None:
        old = written(a_workload("StatefulSet")).object
        scaled, renamed = deepcopy(old), deepcopy(old)
        scaled["spec"]["replicas"] = 5
        renamed["spec"]["serviceName"] = "other"
        assert written(scaled, old).told == {}
        assert "updates to statefulset spec for fields other than" in written(renamed, old).told["spec"]

    def test_claims_are_volumes_of_its_pods(self, written: Any, a_workload: Make) -> None:
        claims = [{"metadata": {"name": "data"}, "spec": CLAIM}]
        obj = a_workload("StatefulSet", volumeClaimTemplates=claims)
        obj["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/d"}]
        assert written(obj).told == {}

    def test_a_job_ends(self, written: Any, a_workload: Make) -> None:
        obj = a_workload("Job", "batch/v1")
        del obj["spec"]["template"]["spec"]["restartPolicy"]
        message = 'Required value: valid values: "OnFailure", "Never"'
        assert written(obj).told == {"spec.template.spec.restartPolicy": message}

    def test_a_jobs_template_stays(self, written: Any, a_workload: Make) -> None:
        old = written(a_workload("Job", "batch/v1")).object
        new = deepcopy(old)
        new["spec"]["template"]["spec"]["containers"][0]["image"] = "i:2"
        assert list(written(new, old).told) == ["spec.template"]
        old["spec"]["suspend"] = new["spec"]["suspend"] = True
        assert written(new, old).told == {}


class TestServices:
    def test_addresses_are_given_once(self, written: Any) -> None:
        base = thing("Service", spec={"ports": [{"port": 80}]})
        first, second = (written(base).object["spec"] for _ in range(2))
        assert first["clusterIP"] != second["clusterIP"]
        assert first["clusterIPs"] == [first["clusterIP"]]
        assert first["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]

    def test_an_address_stays(self, written: Any) -> None:
        old = written(thing("Service", spec={"ports": [{"port": 80}]})).object
        kept = written(thing("Service", spec={"ports": [{"port": 81}]}), old)
        assert kept.told == {}
        assert kept.object["spec"]["clusterIP"] == old["spec"]["clusterIP"]
        moved = written(thing("Service", spec={"clusterIP": "10.96.255.1", "ports": [{"port": 80}]}), old)
        assert moved.told["spec.clusterIPs[0]"].endswith("may not change once set")

    def test_headless(self, written: Any) -> None:
        found = written(thing("Service", spec={"clusterIP": "None"}))
        assert found.told == {}
        assert found.object["spec"]["clusterIPs"] == ["None"]

    def test_who_writes_one_address_means_both_fields(self, written: Any) -> None:
        old = written(thing("Service", spec={"ports": [{"port": 80}]})).object
        new = deepcopy(old)
        new["spec"]["clusterIP"] = "10.96.7.7"
        told = written(new, old).told
        assert told == {"spec.clusterIPs[0]": 'Invalid value: ["10.96.7.7"]: may not change once set'}


class TestImmutability:
    def test_frozen_config_maps(self, written: Any) -> None:
        old = written(thing("ConfigMap", immutable=True, data={"a": "b"})).object
        assert written(old, old).told == {}
        found = written(thing("ConfigMap", data={"a": "c"}), old).told
        text = "Forbidden: field is immutable when `immutable` is set"
        assert found == {"immutable": text, "data": text}

    def test_the_type_of_a_secret(self, written: Any) -> None:
        old = written(thing("Secret")).object
        found = written(thing("Secret", type="x/y"), old).told
        assert found == {"type": 'Invalid value: "x/y": field is immutable'}

    def test_role_references(self, written: Any) -> None:
        old = written(thing("RoleBinding", f"{RBAC}/v1", roleRef={"kind": "Role", "name": "a"})).object
        found = written(thing("RoleBinding", f"{RBAC}/v1", roleRef={"kind": "Role", "name": "b"}), old).told
        assert found["roleRef"].endswith("cannot change roleRef")


def _shaken(value: Any, draw: Any) -> Any:
    """A copy without some of its fields, and with some lists and maps emptied."""
    if isinstance(value, dict):
        kept = {k: v for k, v in value.items() if k in ("kind", "apiVersion")}
        return kept | {k: _shaken(v, draw) for k, v in value.items() if k not in kept and draw(st.integers(0, 9))}
    if isinstance(value, list):
        return [_shaken(one, draw) for one in value if draw(st.integers(0, 9))]
    return (
        draw(st.sampled_from(["", "x", "A b", "Always"]))
        if isinstance(value, str) and not draw(st.integers(0, 5))
        else value
    )


@given(st.data())
def test_no_object_that_decodes_breaks_the_rules(data: st.DataObject) -> None:
    """Whatever is missing: the rules tell it, and never fail themselves; nor do the cells of its row."""
    from tests.unit.devkube.builtin.conftest import CATALOG, pod, workload

    full = {"name": "side", "restartPolicy": "Always", "image": "i", "ports": [{"containerPort": 1, "name": "p"}]}
    full |= {
        "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}],
        "resources": {"limits": {"cpu": "1"}},
    }
    full |= {"volumeMounts": [{"name": "v", "mountPath": "/m"}], "livenessProbe": {"httpGet": {"port": 1}}}
    spec = {
        "initContainers": [full],
        "volumes": [{"name": "v", "image": {"reference": "r"}}, {"name": "w", "secret": {"secretName": "s"}}],
        "tolerations": [{"key": "a", "effect": "NoExecute"}],
        "topologySpreadConstraints": [{"topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule", "maxSkew": 1}],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In"}]}]
                }
            }
        },
    }
    samples = [pod(**spec), hooks(), thing("Service", spec={"ports": [{"port": 1, "name": "a"}], "type": "NodePort"})]
    samples += [workload(kind) for kind in ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet")]
    samples += [workload("Job", "batch/v1"), *(obj for _, obj, *_ in CASES)]
    samples.append(thing("CronJob", "batch/v1", spec={"schedule": "* * * * *", "jobTemplate": {"spec": {}}}))
    obj = _shaken(data.draw(st.sampled_from(samples)), data.draw)
    resource = CATALOG.of_kind(obj["apiVersion"], obj["kind"])
    assert resource is not None
    try:
        resource.rules.decode(obj, validation="Warn")
    except StatusError:  # refused is fine
        return
    obj.setdefault("metadata", {}).setdefault("name", "a")
    resource.rules.default(obj)
    resource.rules.prepare(obj, None, "")
    resource.rules.validate(obj, None, "")
    resource.rules.validate(obj, deepcopy(obj), "")
    assert len(resource.rules.table(obj, 0.0)) == len(resource.columns)
