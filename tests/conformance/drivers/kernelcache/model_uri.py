"""Area model-uri: a model's address, from handlers/kernelcache/modeluri.py."""

from typing import Any

from handlers.kernelcache import identity, modeluri, names
from tests.conformance import forms


def run(given: dict[str, Any]) -> dict[str, Any]:
    forms.only(given, "uri")
    uri = given["uri"]
    annotations = {} if uri is None else {names.SOURCE_URI: uri}
    found = identity.of(
        {
            "metadata": {"labels": {names.SERVICE: "chat"}, "annotations": annotations},
            "spec": {"containers": [{"name": "kserve-container", "image": "rt/vllm:v1"}]},
        },
        "team-a",
    )
    unknown = found.code == "model-source"
    return {
        "normalised": None if uri is None else modeluri.normalised(uri),
        "hash": found.factors.get("modelURIHash"),
        "error": None,  # nothing was raised, and nothing is refused for it: see area admission
        "effect": "no selection and no capture" if unknown else "",
    }
