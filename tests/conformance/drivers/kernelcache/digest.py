"""Area digest: immutable references, by the CRD's schema and by handlers/kernelcache/digest.py, which agree."""

from typing import Any

from crds import schema
from crds.kernelcache import Artifact
from handlers.kernelcache import digest
from tests.conformance import forms


def run(given: dict[str, Any]) -> dict[str, Any]:
    forms.only(given, "imageReference")
    reference = given["imageReference"]
    document = {"imageReference": reference, "cachePaths": [{"containerPath": "/kc"}], "identity": {"footprints": {}}}
    valid = digest.is_immutable(reference)
    assert valid == (schema.violations(document, Artifact) == [])
    return {"valid": valid}
