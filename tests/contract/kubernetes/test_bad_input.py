"""What is no request gets a status that says so. Excluded: fuzzing (tests/fuzz), broken CRDs (test_crds)."""

import pytest

from tests.support.kubeobjects import configmap, crd, deployment, pod, version
from tests.support.kubernetes import Client, Cluster, Space


@pytest.mark.parametrize(
    "body",
    [
        '{"apiVersion": "v1", "kind": "ConfigMap"',
        "",
        "null",
        "[]",
        '"text"',
        "{}}",
        '{"metadata": []}',
        '{"metadata": null}',
        '{"kind": 5}',
        "\x00",
    ],
    ids=["cut", "empty", "null", "list", "text", "brace", "wrong-type", "no-metadata", "no-kind", "binary"],
)
async def test_a_body_that_is_no_object_is_a_bad_request(kube: Client, space: Space, body: str) -> None:
    """The decoder's words in a 400 (an empty name in a 422 where the object decodes to nothing)."""
    answer = await kube.call("POST", space.configmaps, body)
    assert answer.status in (400, 422), answer.told
    assert answer.body["kind"] == "Status"


@pytest.mark.parametrize(
    ("field", "value"),
    [("replicas", "three"), ("paused", "yes"), ("template", []), ("selector", "a=b"), ("minReadySeconds", 1.5)],
)
async def test_a_value_of_the_wrong_type_names_its_field(kube: Client, space: Space, field: str, value: object) -> None:
    """json: cannot unmarshal … into Go struct field …: 400."""
    answer = await kube.post(space.deployments, deployment("d", spec={field: value}))
    answer.refused(400, "BadRequest", 'Deployment in version "v1" cannot be handled as a Deployment', field)


@pytest.mark.parametrize("metadata", [{"labels": []}, {"annotations": []}, {"finalizers": {}}, {"ownerReferences": {}}])
async def test_emptiness_has_a_type(kube: Client, space: Space, metadata: dict[str, object]) -> None:
    """An empty list is no map, and the other way round."""
    answer = await kube.post(space.configmaps, configmap("a", **metadata))
    answer.refused(400, "BadRequest", "json: cannot unmarshal", next(iter(metadata)))


@pytest.mark.parametrize(
    ("amount", "part"),
    [
        ("much", "quantities must match the regular expression"),
        ("1mi", "unable to parse quantity's suffix"),
        (True, "quantities must match the regular expression"),
    ],
)
async def test_a_quantity_that_is_none(kube: Client, space: Space, amount: object, part: str) -> None:
    """Quantities are parsed by the decoder: 400 with its explanation."""
    body = pod("a")
    body["spec"]["containers"][0]["resources"] = {"requests": {"cpu": amount}}
    (await kube.post(space.pods, body)).refused(400, "BadRequest", part)


@pytest.mark.parametrize(
    ("time", "part"),
    [
        ("yesterday", 'parsing time "yesterday"'),
        ("2026-02-31T00:00:00Z", 'parsing time "2026-02-31T00:00:00Z"'),
        (5, "json: cannot unmarshal number"),
    ],
)
async def test_a_time_that_is_none(kube: Client, space: Space, time: object, part: str) -> None:
    answer = await kube.post(space.configmaps, configmap("a", creationTimestamp=time))
    answer.refused(400, "BadRequest", part)


@pytest.mark.parametrize(
    ("node", "part"),
    [
        ({"type": "integer", "maximum": "nine"}, "cannot unmarshal string into"),
        ({"type": "object", "additionalProperties": "any"}, "boolean or JSON schema expected"),
    ],
)
async def test_a_schema_that_is_none(kube: Client, space: Space, node: dict[str, object], part: str) -> None:
    """The decoder reads the schemas of a CRD before anybody checks them."""
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    answer = await kube.post(path, crd(space.group, version(schema={"x": node})))
    answer.refused(400, "BadRequest", part)


async def test_a_body_beyond_three_mebibytes_is_too_large(kube: Client, space: Space) -> None:
    """MaxRequestBodyBytes: 413."""
    answer = await kube.post(space.configmaps, configmap("a", {"k": "x" * (3 * 2**20 + 1)}))
    answer.refused(413, "RequestEntityTooLarge", "limit is 3145728")


async def test_a_configmap_has_one_mebibyte(kube: Client, space: Space) -> None:
    """MaxSecretSize, for Secrets and ConfigMaps."""
    answer = await kube.post(space.configmaps, configmap("a", {"k": "x" * (2**20 + 1)}))
    answer.refused(422, "Invalid", "Too long: may not be more than 1048576 bytes")


async def test_several_violations_are_told_together(kube: Client, space: Space) -> None:
    """One message with all, and a cause for each."""
    body = pod("a", {"name": "UPPER", "image": ""}, {"name": "ok", "image": "i", "ports": [{"containerPort": 0}]})
    answer = await kube.post(space.pods, body)
    told = answer.refused(422, "Invalid", 'Pod "a" is invalid: [')
    assert {
        ("spec.containers[0].name", "FieldValueInvalid"),
        ("spec.containers[0].image", "FieldValueRequired"),
        ("spec.containers[1].ports[0].containerPort", "FieldValueRequired"),
    } <= set(answer.causes)
    assert told["details"]["name"] == "a"
    assert told["details"]["kind"] == "Pod"


async def test_an_encoding_that_the_body_is_not_in(kube: Client, space: Space) -> None:
    """400: what cannot be unpacked is no fault of the server."""
    answer = await kube.call("POST", space.configmaps, "nothing packed", headers={"Content-Encoding": "gzip"})
    answer.refused(400, "BadRequest")


@pytest.mark.parametrize("levels", [300, 20_000])
async def test_nesting_has_an_end(kube: Client, space: Space, levels: int) -> None:
    """Ten thousand levels are refused, few hundred have no place in a ConfigMap, and the server lives."""
    body = '{"apiVersion": "v1", "kind": "ConfigMap", "data": ' + '{"a":' * levels + "1" + "}" * levels + "}"
    (await kube.call("POST", space.configmaps, body)).refused(400, "BadRequest")
    await kube.read(space.configmaps)


@pytest.mark.parametrize("query", [{"limit": "many"}, {"limit": "9" * 30}, {"timeoutSeconds": "soon", "watch": "true"}])
async def test_parameters_that_are_no_numbers_are_refused(
    kube: Client, cluster: Cluster, space: Space, query: dict[str, str]
) -> None:
    """Query parameters are decoded like bodies."""
    answer = await kube.get(space.pods, **query)
    cluster.blames_the_client(answer)
    assert next(iter(query.values())) in answer.told


async def test_versions_of_any_length_are_refused(kube: Client, cluster: Cluster, space: Space) -> None:
    """A resourceVersion is a number of 64 bits. A real server says so with a 500, which devkube never does."""
    for path in (space.pods, f"/api/v1/namespaces/{space.name}"):
        answer = await kube.get(path, resourceVersion="9" * 5000)
        cluster.blames_the_client(answer)
        assert "resourceVersion" in answer.told


async def test_names_in_urls_are_checked(kube: Client, space: Space) -> None:
    """No object can have such a name: not found, never an error of the server."""
    for name in ("a%20b", "%25", "A" * 300):
        assert (await kube.get(f"{space.configmaps}/{name}")).status in (400, 404), name
