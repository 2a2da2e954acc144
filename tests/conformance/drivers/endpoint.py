"""Area endpoint: the shape of remote addresses."""

from typing import Any

from handlers.cachebackend import endpoint
from tests.conformance import forms


def run(given: dict[str, Any]) -> dict[str, Any]:
    forms.only(given, "provider", "endpoint")
    try:
        endpoint.parse(given["provider"], given["endpoint"])
    except endpoint.EndpointError:
        return {"valid": False}
    return {"valid": True}
