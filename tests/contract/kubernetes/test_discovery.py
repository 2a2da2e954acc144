"""What clients learn of the server first: version, health, discovery, OpenAPI, compression, media types."""

import pytest

from tests.support.kubeobjects import configmap, crd, pod, version
from tests.support.kubernetes import Client, Space, eventually

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


async def test_the_version_is_1_36(kube: Client) -> None:
    """kubectl compares its own with it."""
    told = await kube.read("/version")
    assert (told["major"], told["minor"].rstrip("+")) == ("1", "36")
    assert told["gitVersion"].startswith("v1.36.")


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
async def test_health_is_plain(kube: Client, path: str) -> None:
    """ok, as text; probes read the code."""
    assert (await kube.get(path)).ok(200) == "ok"


async def test_readyz_can_be_verbose(kube: Client) -> None:
    """One line for each check."""
    assert "readyz check passed" in (await kube.get("/readyz", verbose="")).ok(200)


async def test_api_and_apis(kube: Client) -> None:
    """APIVersions of the core group, APIGroupList of the others with their preferred versions."""
    assert (await kube.read("/api"))["versions"] == ["v1"]
    groups = {group["name"]: group for group in (await kube.read("/apis"))["groups"]}
    assert {"apps", "batch", "rbac.authorization.k8s.io", "coordination.k8s.io"} <= set(groups)
    assert groups["apps"]["preferredVersion"] == {"groupVersion": "apps/v1", "version": "v1"}
    assert (await kube.read("/apis/apps"))["kind"] == "APIGroup"
    assert {"/api", "/apis", "/version"} <= set((await kube.read("/"))["paths"])


async def test_resources_of_the_core(kube: Client) -> None:
    """Names, short names, verbs, scope, categories and subresources."""
    found = {one["name"]: one for one in (await kube.read("/api/v1"))["resources"]}
    pods = found["pods"]
    assert (pods["kind"], pods["singularName"], pods["namespaced"], pods["shortNames"]) == ("Pod", "pod", True, ["po"])
    assert {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"} == set(pods["verbs"])
    assert "all" in pods["categories"]
    assert not found["namespaces"]["namespaced"]
    assert set(found["pods/status"]["verbs"]) == {"get", "patch", "update"}
    assert {"serviceaccounts/token", "pods/eviction"} <= set(found)


async def test_scale_says_its_own_kind(kube: Client) -> None:
    """Subresources of a foreign kind carry group and version."""
    found = {one["name"]: one for one in (await kube.read("/apis/apps/v1"))["resources"]}
    scale = found["deployments/scale"]
    assert (scale["kind"], scale["group"], scale["version"]) == ("Scale", "autoscaling", "v1")


@pytest.mark.parametrize("path", ["/api", "/apis"])
async def test_discovery_can_be_aggregated(kube: Client, path: str) -> None:
    """apidiscovery.k8s.io/v2: everything in one answer."""
    told = (await kube.call("GET", path, accept=AGGREGATED)).ok(200)
    assert (told["kind"], told["apiVersion"]) == ("APIGroupDiscoveryList", "apidiscovery.k8s.io/v2")
    name, plural = ("", "pods") if path == "/api" else ("apps", "deployments")
    (group,) = [item for item in told["items"] if item["metadata"].get("name", "") == name]
    (resource,) = [one for one in group["versions"][0]["resources"] if one["resource"] == plural]
    assert resource["scope"] == "Namespaced"
    assert "status" in {one["subresource"] for one in resource["subresources"]}


async def test_a_crd_is_discovered(kube: Client, space: Space) -> None:
    """With its names, in both forms; and forgotten with the CRD."""
    names = {"shortNames": ["wd"], "categories": ["all", "things"]}
    made = await kube.create(CRDS, crd(space.group, version(subresources={"status": {}}), names=names))
    told = await eventually(lambda: kube.read(f"/apis/{space.group}/v1"))
    found = {one["name"]: one for one in told["resources"]}
    assert set(found) == {"widgets", "widgets/status"}
    assert (found["widgets"]["shortNames"], found["widgets"]["categories"]) == (["wd"], ["all", "things"])

    async def aggregated() -> set[str]:
        told = (await kube.call("GET", "/apis", accept=AGGREGATED)).ok(200)
        return {item["metadata"]["name"] for item in told["items"]}

    async def there() -> None:
        assert space.group in await aggregated()
        assert space.group in {group["name"] for group in (await kube.read("/apis"))["groups"]}

    async def forgotten() -> None:
        assert space.group not in await aggregated()
        assert (await kube.get(f"/apis/{space.group}/v1")).status == 404

    await eventually(there)
    (await kube.delete(f"{CRDS}/{made['metadata']['name']}")).ok(200)
    await eventually(forgotten)


async def test_a_group_prefers_its_newest_stable_version(kube: Client, space: Space) -> None:
    """Whichever of its CRDs came first."""
    for one, kind in (("draft", "Thing"), ("v1", "Widget"), ("v2", "Gadget"), ("v3beta1", "Gizmo")):
        await kube.create(CRDS, crd(space.group, version(one), kind=kind))

    async def told() -> None:
        group = await kube.read(f"/apis/{space.group}")
        assert [one["version"] for one in group["versions"]] == ["v2", "v1", "v3beta1", "draft"]
        assert group["preferredVersion"]["version"] == "v2"

    await eventually(told)


async def test_open_api_3_describes_each_group_version(kube: Client) -> None:
    """/openapi/v3 lists documents with a hash; each has schemas with their kinds and paths."""
    index = (await kube.read("/openapi/v3"))["paths"]
    assert {"api/v1", "apis/apps/v1"} <= set(index)
    document = await kube.read(index["apis/apps/v1"]["serverRelativeURL"])
    assert document["openapi"].startswith("3.0")
    schema = document["components"]["schemas"]["io.k8s.api.apps.v1.Deployment"]
    assert schema["x-kubernetes-group-version-kind"] == [{"group": "apps", "kind": "Deployment", "version": "v1"}]
    assert schema["properties"]["spec"]
    assert "/apis/apps/v1/namespaces/{namespace}/deployments/{name}" in document["paths"]


async def test_open_api_3_has_custom_resources(kube: Client, space: Space) -> None:
    """From the CRD's schema, for kubectl explain and for validation by clients."""
    await kube.create(CRDS, crd(space.group))

    async def described() -> None:
        index = (await kube.read("/openapi/v3"))["paths"]
        assert f"apis/{space.group}/v1" in index
        document = await kube.read(index[f"apis/{space.group}/v1"]["serverRelativeURL"])
        schemas = document["components"]["schemas"].values()
        kinds = [one for one in schemas if _kind(one) == "Widget"]
        assert kinds[0]["properties"]["spec"]["properties"] == {"size": {"type": "integer"}}

    await eventually(described)


async def test_large_answers_are_compressed_when_asked(kube: Client, space: Space) -> None:
    """gzip from 128 KiB; small answers stay plain."""
    for number in range(2):
        await kube.create(space.configmaps, configmap(f"big-{number}", {"k": "x" * 200_000}))
    headers = {"Accept-Encoding": "gzip"}
    answer = await kube.call("GET", space.configmaps, headers=headers)
    assert answer.headers.get("Content-Encoding") == "gzip"
    assert len(answer.ok(200)["items"]) >= 2
    answer = await kube.call("GET", f"/api/v1/namespaces/{space.name}", headers=headers)
    assert answer.headers.get("Content-Encoding") is None
    answer = await kube.call("GET", space.configmaps, headers={"Accept-Encoding": "identity"})
    assert answer.headers.get("Content-Encoding") is None


@pytest.mark.needs("devkube")
async def test_protobuf_is_refused_with_the_way_out(kube: Client, space: Space) -> None:
    """kubectl create configmap and its like send protobuf; -f sends JSON. (devkube speaks JSON only.)"""
    media = "application/vnd.kubernetes.protobuf"
    labelled = b"k8s\0\x0a\x13\x12\x11SelfSubjectReview\x12\x05\x0a\x03\x5a\x01x"  # a question, but with a label
    for body in (b"k8s\0...", b"k8s\0\x80", labelled):
        answer = await kube.call("POST", space.configmaps, body, media=media)
        answer.refused(415, "UnsupportedMediaType", "-f")


async def test_a_body_of_another_type_is_unsupported(kube: Client, space: Space) -> None:
    """415 lists what is taken."""
    answer = await kube.call("POST", space.configmaps, "<a/>", media="application/xml")
    answer.refused(415, "UnsupportedMediaType", "application/json")


async def test_a_body_may_be_yaml(kube: Client, space: Space) -> None:
    """application/yaml is one of upstream's serializers."""
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: v}\n"
    answer = await kube.call("POST", space.configmaps, text, media="application/yaml")
    assert answer.ok(201)["data"] == {"k": "v"}


async def test_an_answer_that_cannot_be_given_is_not_acceptable(kube: Client, space: Space) -> None:
    """406 lists what can."""
    for path in (space.pods, "/api", "/apis/apps/v1", "/version", "/openapi/v3/api/v1"):
        answer = await kube.call("GET", path, accept="text/csv")
        assert answer.status == 406, path
        assert "application/json" in answer.told or path.startswith("/openapi")


async def test_json_is_chosen_among_several(kube: Client, space: Space) -> None:
    """client-go asks for protobuf first and takes JSON."""
    answer = await kube.call("GET", space.pods, accept="text/csv, application/json;q=0.5, */*;q=0.1")
    assert answer.ok(200)["kind"] == "PodList"
    answer = await kube.call("GET", "/apis", accept=f"{AGGREGATED.replace('v=v2', 'v=v9')}, application/json")
    assert answer.ok(200)["kind"] == "APIGroupList"


async def test_unknown_paths_are_not_found(kube: Client) -> None:
    """For people a sentence, for clients a Status or a plain 404."""
    none = "none.example.com"
    for path in ("/nothing", "/api/v2", f"/apis/{none}", f"/apis/{none}/v1", "/api/v1/nothing", f"/openapi/v3/{none}"):
        assert (await kube.get(path)).status == 404, path


async def test_methods_that_do_not_fit_are_not_allowed(kube: Client, space: Space) -> None:
    """405 with a Status."""
    await kube.create(space.pods, pod("a"))
    posted = (("POST", f"{space.pods}/a"), ("POST", "/version"))
    for method, path in (("PUT", space.pods), *posted, ("PATCH", space.pods)):
        answer = await kube.call(method, path, {})
        answer.refused(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")


def _kind(schema: dict[str, object]) -> str:
    kinds = schema.get("x-kubernetes-group-version-kind") or [{}]
    return str(kinds[0].get("kind", ""))  # type: ignore[index]
