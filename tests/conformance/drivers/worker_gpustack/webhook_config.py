"""Area webhook-config: the configurations in deploy/kubernetes/webhooks-kvcache.yaml."""

import pathlib
from typing import Any

import yaml

from tests.conformance import forms

FILE = pathlib.Path(__file__).parents[4] / "deploy/kubernetes/webhooks-kvcache.yaml"


def run(given: dict[str, Any]) -> dict[str, Any]:
    forms.only(given, "operation", "configuration", "entry")
    documents = [
        one for one in yaml.safe_load_all(FILE.read_text()) if one["metadata"]["name"] == given["configuration"]
    ]
    (entry,) = [one for document in documents for one in document["webhooks"] if one["name"] == given["entry"]]
    return {
        **{key: entry.get(key) for key in ("failurePolicy", "sideEffects", "matchPolicy", "timeoutSeconds", "rules")},
        "reinvocationPolicy": entry.get("reinvocationPolicy"),
        "path": entry["clientConfig"]["service"]["path"],
        "objectSelector": entry["objectSelector"],
        "resources": [one for rule in entry["rules"] for one in rule["resources"]],
    }


def compare(expect: dict[str, Any], observed: dict[str, Any]) -> list[str]:
    found = []
    for key, wanted in expect.items():
        if key == "subresources_absent":
            found += [f"{one} is there" for one in wanted if one in observed["resources"]]
        elif key == "matchLabels_absent":
            found += ["matchLabels are there"] if "matchLabels" in observed["objectSelector"] else []
        else:
            found += forms.differences({key: wanted}, observed)
    return found
