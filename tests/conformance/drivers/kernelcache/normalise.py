"""Area normalise: single values, from handlers/kernelcache/normalise.py."""

from typing import Any

from handlers.kernelcache import normalise
from tests.conformance import forms


def run(given: dict[str, Any]) -> dict[str, Any]:
    forms.only(given, "type", "value")
    read = normalise.KINDS[given["type"]]
    value = given["value"]
    return {"value": [read(one) for one in value] if isinstance(value, list) else read(value)}
