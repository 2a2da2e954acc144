"""Every sample is applied to an API server with our CRDs, and admitted by our rules without a warning or a change."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
import yaml

from crds import definitions, render
from devkube.options import Settings
from devkube.server import DevKube
from handlers.cachebackend.inject import Options
from subscribers.kubernetes.routes import ROUTES
from warmlog import documents, offline

SAMPLES = sorted((Path(__file__).parents[2] / "deploy" / "samples").glob("*.yaml"))


def test_there_are_samples_of_every_kind() -> None:
    kinds = {document["kind"] for path in SAMPLES for document in yaml.safe_load_all(path.read_text())}
    assert {one.kind for one in definitions.DEFINITIONS if one.group == "inferencecache.io"} <= kinds


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
async def test_a_sample_is_applied_and_admitted(path: Path) -> None:
    given = documents.read(str(path))
    async with DevKube(Settings()) as api:
        for crd in render.documents().values():
            await api.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
        for document in given:
            made = await applied(api, document)
            assert offline.schema_problems(document) == []
            world = offline.world_of([one for one in given if one is not document])
            outcome = offline.admit(document._replace(body=made), world, Options())
            assert outcome.refused == []
            assert [line for _, decision in outcome.decisions for line in decision.warnings] == []


def test_all_samples_can_be_applied_together() -> None:
    given = [document for path in SAMPLES for document in documents.read(str(path))]
    world = offline.world_of(given)
    for document in given:
        assert offline.admit(document, world, Options()).refused == []


async def applied(api: DevKube, document: documents.Document) -> dict[str, Any]:
    """As `kubectl apply --server-side --field-validation=Strict` would."""
    definition = next((one for one in definitions.DEFINITIONS if one.name == document.kind), None)
    if definition is not None:
        root = f"/apis/{document.body['apiVersion']}"
        space = "" if definition.cluster else f"/namespaces/{document.key.namespace}"
        path = f"{root}{space}/{definition.plural}/{document.key.name}"
    else:
        path = ROUTES[document.kind].path(document.key.namespace, document.key.name)
    query = {"fieldManager": "samples", "fieldValidation": "Strict"}
    made = await api.request("PATCH", path, document.body, query=query, content_type="application/apply-patch+yaml")
    await asyncio.sleep(0)
    found: dict[str, Any] = made
    return found
