"""The rules of Pods: one row each, with upstream's path and words."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from devkube.kinds import Object

Make = Callable[..., Object]
C = {"name": "main", "image": "i:1"}
VOLUME = {"name": "v", "emptyDir": {}}
MUST, SHOULD = "requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"


def with_container(**more: Any) -> Object:
    return {"containers": [{**C, **more}]}


VALID: list[tuple[str, Object]] = [
    (
        "image volume with a mount",
        {
            "containers": [{**C, "volumeMounts": [{"name": "v", "mountPath": "/m", "subPath": "a"}]}],
            "volumes": [{"name": "v", "image": {"reference": "registry/data:1", "pullPolicy": "Always"}}],
        },
    ),
    (
        "native sidecar with probes and hooks",
        {
            "containers": [C],
            "initContainers": [
                {
                    **C,
                    "name": "side",
                    "restartPolicy": "Always",
                    "startupProbe": {"exec": {"command": ["true"]}},
                    "lifecycle": {"preStop": {"sleep": {"seconds": 1}}},
                }
            ],
        },
    ),
    ("a container with a policy of its own", with_container(restartPolicy="Never")),
    (
        "one label in a variable",
        with_container(env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a']"}}}]),
    ),
    (
        "labels in a file",
        {
            "containers": [C],
            "volumes": [
                {"name": "v", "downwardAPI": {"items": [{"path": "a", "fieldRef": {"fieldPath": "metadata.labels"}}]}}
            ],
        },
    ),
    ("extended resource", with_container(resources={"limits": {"nvidia.com/gpu": "1"}})),
    ("tolerations", {"containers": [C], "tolerations": [{"operator": "Exists"}, {"key": "a", "value": "b"}]}),
    (
        "block device",
        {
            "containers": [{**C, "volumeDevices": [{"name": "v", "devicePath": "/dev/x"}]}],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
        },
    ),
]


@pytest.mark.parametrize(("name", "spec"), VALID, ids=[name for name, _ in VALID])
def test_taken(written: Any, a_pod: Make, name: str, spec: Object) -> None:
    assert written(a_pod(**spec)).told == {}


def test_native_sidecars_and_image_volumes_are_kept(written: Any, a_pod: Make) -> None:
    spec = VALID[0][1] | {"initContainers": VALID[1][1]["initContainers"]}
    found = written(a_pod(**deepcopy(spec))).object["spec"]
    assert found["initContainers"][0]["restartPolicy"] == "Always"
    assert found["volumes"][0]["image"] == {"reference": "registry/data:1", "pullPolicy": "Always"}


WRONG: list[tuple[str, Object, str, str]] = [
    ("no containers", {"containers": []}, "spec.containers", "Required value"),
    ("no name", {"containers": [{"image": "i:1"}]}, "spec.containers[0].name", "Required value"),
    ("no image", {"containers": [{"name": "main"}]}, "spec.containers[0].image", "Required value"),
    (
        "a name with capitals",
        {"containers": [{**C, "name": "Main"}]},
        "spec.containers[0].name",
        'Invalid value: "Main": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '
        "'-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for "
        "validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
    ),
    ("twice the same name", {"containers": [C, C]}, "spec.containers[1].name", 'Duplicate value: "main"'),
    (
        "an init container's name taken",
        {"containers": [C], "initContainers": [C]},
        "spec.initContainers[0].name",
        'Duplicate value: "main"',
    ),
    (
        "mount without volume",
        with_container(volumeMounts=[{"name": "v", "mountPath": "/m"}]),
        "spec.containers[0].volumeMounts[0].name",
        'Not found: "v"',
    ),
    (
        "twice the same path",
        {"volumes": [VOLUME], **with_container(volumeMounts=[{"name": "v", "mountPath": "/m"}] * 2)},
        "spec.containers[0].volumeMounts[1].mountPath",
        'Invalid value: "/m": must be unique',
    ),
    (
        "out of the volume",
        {"volumes": [VOLUME], **with_container(volumeMounts=[{"name": "v", "mountPath": "/m", "subPath": "../x"}])},
        "spec.containers[0].volumeMounts.subPath",
        "Invalid value: \"../x\": must be a relative path and must not contain '..'",
    ),
    ("twice the same volume", {"volumes": [VOLUME, VOLUME]}, "spec.volumes[1].name", 'Duplicate value: "v"'),
    (
        "a volume of two kinds",
        {"volumes": [{**VOLUME, "configMap": {"name": "c"}}]},
        "spec.volumes[0].configMap",
        "Forbidden: may not specify more than 1 volume type",
    ),
    (
        "image volume without reference",
        {"volumes": [{"name": "v", "image": {}}]},
        "spec.volumes[0].image.reference",
        "Required value",
    ),
    (
        "no such pull policy",
        with_container(imagePullPolicy="Sometimes"),
        "spec.containers[0].imagePullPolicy",
        'Unsupported value: "Sometimes": supported values: "Always", "IfNotPresent", "Never"',
    ),
    (
        "no such restart policy",
        {"restartPolicy": "Maybe"},
        "spec.restartPolicy",
        'Unsupported value: "Maybe": supported values: "Always", "OnFailure", "Never"',
    ),
    (
        "a port out of range",
        with_container(ports=[{"containerPort": 70000}]),
        "spec.containers[0].ports[0].containerPort",
        "Invalid value: 70000: must be between 1 and 65535, inclusive",
    ),
    ("no port", with_container(ports=[{"name": "a"}]), "spec.containers[0].ports[0].containerPort", "Required value"),
    (
        "a long port name",
        with_container(ports=[{"name": "abcdefghijklmnop", "containerPort": 80}]),
        "spec.containers[0].ports[0].name",
        'Invalid value: "abcdefghijklmnop": must be no more than 15 characters',
    ),
    (
        "value and source",
        with_container(env=[{"name": "A", "value": "b", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]),
        "spec.containers[0].env[0].valueFrom",
        'Invalid value: "": must have exactly one source, and none where `value` is not empty',
    ),
    (
        "request over limit",
        with_container(resources={"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}),
        "spec.containers[0].resources.requests",
        'Invalid value: "2": must be less than or equal to cpu limit of 1',
    ),
    (
        "negative memory",
        with_container(resources={"requests": {"memory": "-1"}}),
        "spec.containers[0].resources.requests[memory]",
        'Invalid value: "-1": must be greater than or equal to 0',
    ),
    (
        "no such resource",
        with_container(resources={"requests": {"gpu": "1"}}),
        "spec.containers[0].resources.requests[gpu]",
        'Invalid value: "gpu": must be a standard resource for containers',
    ),
    (
        "a probe that does nothing",
        with_container(livenessProbe={"periodSeconds": 1}),
        "spec.containers[0].livenessProbe",
        "Required value: must specify a handler type",
    ),
    (
        "a probe that does two things",
        with_container(readinessProbe={"exec": {"command": ["a"]}, "tcpSocket": {"port": 1}}),
        "spec.containers[0].readinessProbe.tcpSocket",
        "Forbidden: may not specify more than 1 handler type",
    ),
    (
        "probe of an init container",
        {"initContainers": [{**C, "name": "i", "readinessProbe": {"tcpSocket": {"port": 1}}}]},
        "spec.initContainers[0].readinessProbe",
        "Forbidden: may not be set for init containers without restartPolicy=Always",
    ),
    (
        "no such policy of an init container",
        {"initContainers": [{**C, "name": "i", "restartPolicy": "Sometimes"}]},
        "spec.initContainers[0].restartPolicy",
        'Unsupported value: "Sometimes": supported values: "Always", "Never", "OnFailure"',
    ),
    (
        "ephemeral containers at once",
        {"ephemeralContainers": [{**C, "name": "e"}]},
        "spec.ephemeralContainers",
        "Forbidden: cannot be set on create",
    ),
    (
        "a claim of no name",
        {"volumes": [{"name": "v", "persistentVolumeClaim": {}}]},
        "spec.volumes[0].persistentVolumeClaim.claimName",
        "Required value",
    ),
    (
        "a service account's name",
        {"serviceAccountName": "A b"},
        "spec.serviceAccountName",
        'Invalid value: "A b": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '
        "'-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for "
        "validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
    ),
    (
        "no deadline",
        {"activeDeadlineSeconds": 0},
        "spec.activeDeadlineSeconds",
        "Invalid value: 0: must be between 1 and 2147483647, inclusive",
    ),
]


@pytest.mark.parametrize(("name", "spec", "field", "message"), WRONG, ids=[name for name, *_ in WRONG])
def test_refused(written: Any, a_pod: Make, name: str, spec: Object, field: str, message: str) -> None:
    assert written(a_pod(**deepcopy(spec))).told == {field: message}


def test_every_violation_is_told(written: Any, a_pod: Make) -> None:
    found = written(a_pod(containers=[{"name": "a"}, {"name": "a"}], restartPolicy="x"))
    assert set(found.told) == {
        "spec.restartPolicy",
        "spec.containers[0].image",
        "spec.containers[1].image",
        "spec.containers[1].name",
    }


def changed(a_pod: Make, written: Any, subresource: str = "", **spec: Any) -> dict[str, str]:
    start = a_pod(
        tolerations=[{"key": "a", "operator": "Exists"}], activeDeadlineSeconds=100, volumes=[deepcopy(VOLUME)]
    )
    old = written(start).object
    new = deepcopy(old)
    new["spec"].update(deepcopy(spec))
    found: dict[str, str] = written(new, old, subresource).told
    return found


MAIN = {"name": "main", "image": "other:2", "imagePullPolicy": "IfNotPresent"}


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"containers": [MAIN]},
        {"activeDeadlineSeconds": 50},
        {"tolerations": [{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Exists"}]},
    ],
    ids=["nothing", "an image", "an earlier deadline", "one more toleration"],
)
def test_what_of_a_pod_may_change(written: Any, a_pod: Make, spec: Object) -> None:
    assert changed(a_pod, written, **spec) == {}


@pytest.mark.parametrize(
    ("spec", "field", "begins"),
    [
        ({"containers": [MAIN, {**MAIN, "name": "b"}]}, "spec.containers", "Forbidden: pod updates may not add"),
        ({"containers": [{**MAIN, "args": ["x"]}]}, "spec", "Forbidden: pod updates may not change fields other than"),
        ({"nodeName": "n"}, "spec", "Forbidden: pod updates may not change fields other than"),
        ({"volumes": []}, "spec", "Forbidden: pod updates may not change fields other than"),
        ({"tolerations": []}, "spec.tolerations", "Forbidden: existing toleration can not be modified except its"),
        ({"activeDeadlineSeconds": 200}, "spec.activeDeadlineSeconds", "Invalid value: 200: must be less than"),
        (
            {"schedulingGates": [{"name": "a.b/c"}]},
            "spec.schedulingGates[0].name",
            "Forbidden: only deletion is allowed, but found new scheduling gate 'a.b/c'",
        ),
    ],
    ids=["a container", "arguments", "the node", "volumes", "a toleration less", "a later deadline", "a gate"],
)
def test_what_of_a_pod_may_not(written: Any, a_pod: Make, spec: Object, field: str, begins: str) -> None:
    found = changed(a_pod, written, **spec)
    assert list(found) == [field]
    assert found[field].startswith(begins)
