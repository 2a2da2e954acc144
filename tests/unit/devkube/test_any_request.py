"""Whatever is asked, the whole server answers it without a 500: URLs, media types and bodies that nobody would send."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from devkube.options import Settings
from devkube.server import DevKube
from devkube.wiring import seed
from tests.support.asked import Asked


def words(text: str) -> st.SearchStrategy[str]:
    return st.sampled_from(text.split())


SEGMENTS = st.text(max_size=4) | words(
    "api apis v1 apps namespaces default pods p configmaps status scale deployments token openapi v3 v2 nodes watch "
    "version healthz customresourcedefinitions apiextensions.k8s.io authorization.k8s.io subjectaccessreviews"
)
PATHS = st.lists(SEGMENTS, max_size=8).map(lambda parts: "/" + "/".join(parts)) | st.sampled_from(
    [
        "/api/v1/namespaces/default/configmaps",
        "/api/v1/namespaces/default/configmaps/kube-root-ca.crt",
        "/api/v1/namespaces/default/serviceaccounts/default/token",
        "/apis/apps/v1/namespaces/default/deployments/d/scale",
    ]
)
VALUES = st.sampled_from(
    ["", "true", "0", "-1", "1", "x", "All", "Strict", "a=b", "a in (b", "metadata.name=x", "9" * 30]
)
QUERIES = st.dictionaries(
    words(
        "watch limit continue resourceVersion resourceVersionMatch labelSelector fieldSelector dryRun fieldManager "
        "fieldValidation force timeoutSeconds sendInitialEvents allowWatchBookmarks includeObject pretty "
        "propagationPolicy gracePeriodSeconds orphanDependents"
    ),
    VALUES | st.text(max_size=5),
    max_size=4,
)
MEDIA = st.sampled_from(
    [
        "",
        "application/json",
        "application/yaml",
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/strategic-merge-patch+json",
        "application/apply-patch+yaml",
        "application/vnd.kubernetes.protobuf",
        "application/json;as=Table;v=v1;g=meta.k8s.io",
        "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
        "application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io",
        ";;,q=x",
    ]
) | st.text(max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(words("apiVersion kind metadata name spec status op path value replicas labels"), inner)
    ),
    max_leaves=8,
)
BODIES = st.binary(max_size=20) | JSON.map(lambda value: json.dumps(value).encode())


@pytest.fixture(scope="module")
def server() -> DevKube:
    made = DevKube(Settings(admin_token="t"))
    seed(made.store, made.catalog, made.clock)
    return made


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    method=st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "BREW"]),
    path=PATHS,
    query=QUERIES,
    media=MEDIA,
    accept=MEDIA,
    body=BODIES,
)
def test_nothing_is_a_500(
    server: DevKube, method: str, path: str, query: Mapping[str, str], media: str, accept: str, body: bytes
) -> None:
    headers = {"authorization": "Bearer t", "content-type": media, "accept": accept}

    async def ask() -> int:
        answer = await server.http.answer(Asked(method, path, query, headers, body))
        if isinstance(answer.pieces, AsyncGenerator):
            await answer.pieces.aclose()
            return 200
        assert all(isinstance(piece, bytes) for piece in answer.pieces)
        return answer.status

    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        assert runner.run(ask()) < 500
