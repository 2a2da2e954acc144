"""Pods: defaults, and the rules that webhooks which change them run into."""

from typing import Any

import pytest

from tests.support.kubeobjects import container, pod
from tests.support.kubernetes import Client, Object, Space

HTTP = {"httpGet": {"port": 80}}


async def test_a_pod_has_its_defaults(kube: Client, space: Space) -> None:
    """SetDefaults_PodSpec, SetDefaults_Container, the quality of service."""
    made = await kube.create(space.pods, pod("a", container("main", ports=[{"containerPort": 80}])))
    spec, (main,) = made["spec"], made["spec"]["containers"]
    wanted = {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "schedulerName": "default-scheduler",
        "enableServiceLinks": True,
        "securityContext": {},
    }
    assert {key: spec.get(key) for key in wanted} == wanted
    assert main["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
    assert (main["terminationMessagePath"], main["terminationMessagePolicy"], main["resources"]) == (
        "/dev/termination-log",
        "File",
        {},
    )
    assert (made["status"]["phase"], made["status"]["qosClass"]) == ("Pending", "BestEffort")


@pytest.mark.parametrize(
    ("image", "policy"),
    [("app:1", "IfNotPresent"), ("app", "Always"), ("app:latest", "Always"), ("r.io:5000/app", "Always")],
)
async def test_the_tag_decides_when_to_pull(kube: Client, space: Space, image: str, policy: str) -> None:
    """imagePullPolicy: Always for latest, a digest or another tag is IfNotPresent."""
    made = await kube.create(space.pods, pod("a", {"name": "main", "image": image}))
    assert made["spec"]["containers"][0]["imagePullPolicy"] == policy


async def test_probes_have_their_defaults(kube: Client, space: Space) -> None:
    """SetDefaults_Probe and SetDefaults_HTTPGetAction."""
    made = await kube.create(space.pods, pod("a", container("main", readinessProbe=HTTP)))
    assert made["spec"]["containers"][0]["readinessProbe"] == {
        "httpGet": {"path": "/", "port": 80, "scheme": "HTTP"},
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 3,
    }


async def test_limits_are_requests_where_none_are(kube: Client, space: Space) -> None:
    """SetDefaults_Pod; quantities are written canonically; the quality of service follows."""
    limits = {"limits": {"cpu": "500m", "memory": "1024Mi"}}
    made = await kube.create(space.pods, pod("a", container("main", resources=limits)))
    resources = made["spec"]["containers"][0]["resources"]
    assert resources == {"limits": {"cpu": "500m", "memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "1Gi"}}
    assert made["status"]["qosClass"] == "Guaranteed"


async def test_quantities_are_written_in_one_way(kube: Client, space: Space) -> None:
    """In the family of their suffix: binary, decimal or exponent. A number is its digits."""
    texts = "0.0=0 0.5=500m 1000m=1 2000=2k 1e3=1e3 12E4=120e3 0.001Ki=1024m 1024=1024 1024Mi=1Gi 1536Mi=1536Mi"
    wanted = {3: "3", **dict(one.split("=") for one in texts.split())}
    each = [container(f"c{n}", resources={"limits": {"memory": text}}) for n, text in enumerate(wanted)]
    made = await kube.create(space.pods, pod("a", *each))
    found = [one["resources"]["limits"]["memory"] for one in made["spec"]["containers"]]
    assert found == list(wanted.values())


async def test_what_is_null_in_a_list_is_empty(kube: Client, space: Space) -> None:
    made = await kube.create(space.pods, pod("a", container("main", args=["x", None])))
    assert made["spec"]["containers"][0]["args"] == ["x", ""]


async def test_volumes_have_their_defaults(kube: Client, space: Space) -> None:
    """File modes, path types, and an emptyDir for nothing."""
    volumes = [
        {"name": "a", "configMap": {"name": "c"}},
        {"name": "b", "secret": {"secretName": "s"}},
        {"name": "c", "hostPath": {"path": "/x"}},
        {"name": "d"},
    ]
    found = {
        one["name"]: one
        for one in (await kube.create(space.pods, pod("a", spec={"volumes": volumes})))["spec"]["volumes"]
    }
    assert found["a"]["configMap"]["defaultMode"] == found["b"]["secret"]["defaultMode"] == 0o644
    assert found["c"]["hostPath"]["type"] == ""
    assert found["d"]["emptyDir"] == {}


async def test_an_image_can_be_a_volume(kube: Client, space: Space) -> None:
    """OCI volumes, with a mount of a part of it; the pull policy has a default of its own."""
    volume = {"name": "model", "image": {"reference": "registry.example/model:1"}}
    mount = {"name": "model", "mountPath": "/models", "subPath": "weights", "readOnly": True}
    made = await kube.create(space.pods, pod("a", container("main", volumeMounts=[mount]), spec={"volumes": [volume]}))
    assert made["spec"]["volumes"][0]["image"] == {
        "reference": "registry.example/model:1",
        "pullPolicy": "IfNotPresent",
    }
    assert made["spec"]["containers"][0]["volumeMounts"] == [mount]


async def test_native_sidecars_are_init_containers_that_stay(kube: Client, space: Space) -> None:
    """restartPolicy Always on an init container: probes and lifecycle are allowed there, and only there."""
    sidecar = container(
        "side", restartPolicy="Always", startupProbe=HTTP, lifecycle={"preStop": {"sleep": {"seconds": 1}}}
    )
    made = await kube.create(space.pods, pod("a", spec={"initContainers": [sidecar, container("init")]}))
    assert made["spec"]["initContainers"][0]["restartPolicy"] == "Always"
    answer = await kube.post(space.pods, pod("b", spec={"initContainers": [container("init", readinessProbe=HTTP)]}))
    answer.refused(
        422,
        "Invalid",
        "readinessProbe: Forbidden: may not be set for init containers without restartPolicy=Always",
    )
    answer = await kube.post(
        space.pods, pod("c", spec={"initContainers": [container("init", restartPolicy="Sometimes")]})
    )
    answer.refused(422, "Invalid", "spec.initContainers[0].restartPolicy")


MOUNT = {"name": "v", "mountPath": "/v"}
EMPTY = {"name": "v", "emptyDir": {}}


@pytest.mark.parametrize(
    ("containers", "spec", "cause"),
    [
        ([], {"containers": []}, ("spec.containers", "FieldValueRequired")),
        ([container("a"), container("a")], {}, ("spec.containers[1].name", "FieldValueDuplicate")),
        (
            [container("a")],
            {"initContainers": [container("a")]},
            ("spec.initContainers[0].name", "FieldValueDuplicate"),
        ),
        ([{"name": "a"}], {}, ("spec.containers[0].image", "FieldValueRequired")),
        ([{"image": "i"}], {}, ("spec.containers[0].name", "FieldValueRequired")),
        ([container("A_b")], {}, ("spec.containers[0].name", "FieldValueInvalid")),
        ([container("a", image=" i ")], {}, ("spec.containers[0].image", "FieldValueInvalid")),
        ([container("a", volumeMounts=[MOUNT])], {}, ("spec.containers[0].volumeMounts[0].name", "FieldValueNotFound")),
        (
            [container("a", volumeMounts=[MOUNT, MOUNT])],
            {"volumes": [EMPTY]},
            ("spec.containers[0].volumeMounts[1].mountPath", "FieldValueInvalid"),
        ),
        (
            [container("a", volumeMounts=[{"name": "v"}])],
            {"volumes": [EMPTY]},
            ("spec.containers[0].volumeMounts[0].mountPath", "FieldValueRequired"),
        ),
        (
            [container("a", volumeMounts=[{**MOUNT, "subPath": "../x"}])],
            {"volumes": [EMPTY]},
            ("spec.containers[0].volumeMounts.subPath", "FieldValueInvalid"),
        ),
        ([container("a")], {"volumes": [EMPTY, EMPTY]}, ("spec.volumes[1].name", "FieldValueDuplicate")),
        (
            [container("a")],
            {"volumes": [{"name": "v", "emptyDir": {}, "hostPath": {"path": "/"}}]},
            ("spec.volumes[0].hostPath", "FieldValueForbidden"),
        ),
        (
            [container("a")],
            {"volumes": [{"name": "v", "image": {}}]},
            ("spec.volumes[0].image.reference", "FieldValueRequired"),
        ),
        (
            [container("a", imagePullPolicy="Never ever")],
            {},
            ("spec.containers[0].imagePullPolicy", "FieldValueNotSupported"),
        ),
        ([container("a")], {"restartPolicy": "Maybe"}, ("spec.restartPolicy", "FieldValueNotSupported")),
        ([container("a")], {"dnsPolicy": "Mine"}, ("spec.dnsPolicy", "FieldValueNotSupported")),
        ([container("a", env=[{"name": ""}])], {}, ("spec.containers[0].env[0].name", "FieldValueRequired")),
        (
            [
                container(
                    "a", env=[{"name": "A", "value": "1", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
                )
            ],
            {},
            ("spec.containers[0].env[0].valueFrom", "FieldValueInvalid"),
        ),
        (
            [container("a", ports=[{"containerPort": 70000}])],
            {},
            ("spec.containers[0].ports[0].containerPort", "FieldValueInvalid"),
        ),
        (
            [container("a", ports=[{"containerPort": 1, "name": "x"}, {"containerPort": 2, "name": "x"}])],
            {},
            ("spec.containers[0].ports[1].name", "FieldValueDuplicate"),
        ),
        (
            [container("a", ports=[{"containerPort": 1, "protocol": "XTP"}])],
            {},
            ("spec.containers[0].ports[0].protocol", "FieldValueNotSupported"),
        ),
        (
            [container("a", resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}})],
            {},
            ("spec.containers[0].resources.requests", "FieldValueInvalid"),
        ),
        (
            [container("a", resources={"requests": {"cpu": "-1"}})],
            {},
            ("spec.containers[0].resources.requests[cpu]", "FieldValueInvalid"),
        ),
        (
            [container("a", resources={"requests": {"gold": "1"}})],
            {},
            ("spec.containers[0].resources.requests[gold]", "FieldValueInvalid"),
        ),
        (
            [container("a")],
            {"ephemeralContainers": [container("e", terminationMessagePolicy="File", imagePullPolicy="Always")]},
            ("spec.ephemeralContainers", "FieldValueForbidden"),
        ),
        ([container("a", livenessProbe={})], {}, ("spec.containers[0].livenessProbe", "FieldValueRequired")),
        (
            [container("a", livenessProbe={**HTTP, "tcpSocket": {"port": 80}})],
            {},
            ("spec.containers[0].livenessProbe.tcpSocket", "FieldValueForbidden"),
        ),
        (
            [container("a", readinessProbe={"httpGet": {"port": 0}})],
            {},
            ("spec.containers[0].readinessProbe.httpGet.port", "FieldValueInvalid"),
        ),
        ([container("a")], {"hostname": "Not.Good"}, ("spec.hostname", "FieldValueInvalid")),
        ([container("a")], {"nodeSelector": {"a b": "c"}}, ("spec.nodeSelector", "FieldValueInvalid")),
        ([container("a")], {"terminationGracePeriodSeconds": -1}, None),
        ([container("a")], {"activeDeadlineSeconds": 0}, ("spec.activeDeadlineSeconds", "FieldValueInvalid")),
        ([container("a")], {"serviceAccountName": "Not Good"}, ("spec.serviceAccountName", "FieldValueInvalid")),
    ],
)
async def test_rules_of_pods(
    kube: Client, space: Space, containers: list[dict[str, Any]], spec: dict[str, Any], cause: tuple[str, str] | None
) -> None:
    """ValidatePod, one rule each: the path and the reason of the cause."""
    answer = await kube.post(space.pods, pod("a", *containers, spec=spec))
    if cause is None:
        answer.ok(201)
    else:
        answer.refused(422, "Invalid", 'Pod "a" is invalid')
        assert cause in answer.causes, answer.causes


async def test_a_pod_s_spec_is_immutable(kube: Client, space: Space) -> None:
    """But for a few fields, which the message lists with the difference."""
    await kube.create(space.pods, pod("a"))
    for change in ({"hostname": "other"}, {"restartPolicy": "Never"}, {"nodeSelector": {"a": "b"}}):
        answer = await kube.strategic(f"{space.pods}/a", {"spec": change})
        answer.refused(
            422,
            "Invalid",
            "spec: Forbidden: pod updates may not change fields other than",
            "`spec.containers[*].image`",
        )


async def test_containers_cannot_be_added_later(kube: Client, space: Space) -> None:
    """Their number and their environment are fixed."""
    await kube.create(space.pods, pod("a"))
    answer = await kube.strategic(f"{space.pods}/a", {"spec": {"containers": [container("late")]}})
    answer.refused(422, "Invalid", "spec.containers: Forbidden: pod updates may not add or remove containers")
    change = {"containers": [{"name": "main", "env": [{"name": "A", "value": "1"}]}]}
    (await kube.strategic(f"{space.pods}/a", {"spec": change})).refused(
        422, "Invalid", "pod updates may not change fields"
    )


async def test_what_may_change_in_a_pod(kube: Client, space: Space) -> None:
    """Images, further tolerations, a shorter deadline, labels."""
    path = f"{space.pods}/a"
    await kube.create(space.pods, pod("a"))
    now = (await kube.strategic(path, {"spec": {"containers": [{"name": "main", "image": "app:2"}]}})).ok(200)
    assert now["spec"]["containers"][0]["image"] == "app:2"
    (await kube.strategic(path, {"spec": {"tolerations": [{"key": "k", "operator": "Exists"}]}})).ok(200)
    (await kube.merge(path, {"spec": {"tolerations": []}})).refused(422, "Invalid", "spec.tolerations: Forbidden")
    (await kube.merge(path, {"spec": {"activeDeadlineSeconds": 60}})).ok(200)
    (await kube.merge(path, {"spec": {"activeDeadlineSeconds": 61}})).refused(
        422, "Invalid", "spec.activeDeadlineSeconds"
    )
    (await kube.merge(path, {"spec": {"activeDeadlineSeconds": 30}})).ok(200)


async def test_a_node_is_chosen_by_binding(kube: Client, space: Space) -> None:
    """pods/binding, what a scheduler does: nodeName and the condition PodScheduled."""
    await kube.create(space.pods, pod("a"))
    (await kube.merge(f"{space.pods}/a", {"spec": {"nodeName": "n"}})).refused(422, "Invalid")
    body = {"metadata": {"name": "a"}, "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"}}
    (await kube.post(f"{space.pods}/a/binding", body)).ok(201)
    now = await kube.read(f"{space.pods}/a")
    assert now["spec"]["nodeName"] == "n1"
    assert ("PodScheduled", "True") in [(one["type"], one["status"]) for one in now["status"]["conditions"]]
    (await kube.post(f"{space.pods}/a/binding", body)).refused(409, "Conflict")


async def test_gates_hold_a_pod_back(kube: Client, space: Space) -> None:
    """schedulingGates: the condition says so, they can be removed, never added."""
    gates = [{"name": "example.com/wait"}, {"name": "example.com/longer"}]
    await kube.create(space.pods, pod("a", spec={"schedulingGates": gates}))
    now = (await kube.merge(f"{space.pods}/a", {"spec": {"schedulingGates": gates[1:]}})).ok(200)
    assert now["spec"]["schedulingGates"] == gates[1:]
    now = (await kube.merge(f"{space.pods}/a", {"spec": {"schedulingGates": []}})).ok(200)
    assert not now["spec"].get("schedulingGates")
    answer = await kube.merge(f"{space.pods}/a", {"spec": {"schedulingGates": [{"name": "example.com/late"}]}})
    answer.refused(422, "Invalid", "spec.schedulingGates")


@pytest.mark.parametrize(
    ("volume", "field"),
    [
        ({"configMap": {}}, "configMap.name"),
        ({"secret": {}}, "secret.secretName"),
        ({"ephemeral": {}}, "ephemeral.volumeClaimTemplate"),
    ],
)
async def test_a_volume_without_its_source(kube: Client, space: Space, volume: Object, field: str) -> None:
    refused = await kube.post(space.pods, pod("p", spec={"volumes": [{"name": "v", **volume}]}))
    refused.refused(422, "Invalid")
    assert refused.causes == [(f"spec.volumes[0].{field}", "FieldValueRequired")]


async def test_a_probe_that_runs_nothing(kube: Client, space: Space) -> None:
    refused = await kube.post(space.pods, pod("p", container("main", livenessProbe={"exec": {}})))
    refused.refused(422, "Invalid")
    assert refused.causes == [("spec.containers[0].livenessProbe.exec.command", "FieldValueRequired")]
