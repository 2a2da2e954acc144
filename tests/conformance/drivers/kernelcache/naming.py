"""Area naming: derived names, from handlers/kernelcache/naming.py."""

import re
from typing import Any

from handlers.kernelcache import naming
from tests.conformance import forms
from tests.conformance.drivers.kernelcache import admission


def run(given: dict[str, Any]) -> dict[str, Any]:
    if "inferenceServices" in given:
        forms.only(given, "inferenceServices", "revision")
        made = [naming.capture(one, given["revision"]) or "" for one in given["inferenceServices"]]
        return {
            "maxLength": 63 if max(map(len, made)) <= 63 else max(map(len, made)),
            "distinct": len(set(made)) == len(made),
            "validDNSLabel": all(re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", one) for one in made),
        }
    if "captureName" in given:
        forms.only(given, "captureName", "imageReference")
        return {"kernelCacheName": naming.cache(given["captureName"], given["imageReference"])}
    if "endpoint" in given:
        forms.only(given, "endpoint", "targetImage", "namespace", "inferenceService", "revision")
        return target(given)
    forms.only(given, "inferenceService", "revision")
    return {"captureName": naming.capture(given["inferenceService"], given["revision"])}


def target(given: dict[str, Any]) -> dict[str, Any]:
    made = naming.target(
        given["endpoint"] or "",
        namespace=given.get("namespace", "team-a"),
        service=given.get("inferenceService", "chat"),
        revision=given.get("revision", "r1"),
        explicit=given["targetImage"],
    )
    if made is not None:
        return {"targetImage": made}
    seen = admission.run({**admission.PRODUCER, "endpoint": None})
    return {
        "podAdmitted": seen["podAdmitted"],
        "sidecarInjected": seen["sidecar"],
        "event": any("registry.endpoint" in line for line in seen["warnings"]),
    }
