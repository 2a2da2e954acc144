"""Area hash: of commands and arguments, from handlers/kernelcache/digest.py."""

from typing import Any

from handlers.kernelcache import digest
from tests.conformance import forms


def run(given: dict[str, Any]) -> dict[str, Any]:
    if "strings" in given:
        forms.only(given, "strings")
        return {"hash": digest.of_strings(given["strings"]) or None}
    forms.only(given, "a", "b")
    return {"equal": digest.of_strings(given["a"]) == digest.of_strings(given["b"])}
