"""Area config: the ConfigMap, from handlers/kernelcache/config.py; a broken one through a whole admission."""

import json
from typing import Any

from handlers.kernelcache import config
from tests.conformance import forms
from tests.conformance.drivers.kernelcache import admission

KEYS = ("registry", "artifactSecurity", "abandonedCapturePolicy", "mcvCaptureReadinessTimeoutSeconds", "enabled")


def run(given: dict[str, Any]) -> dict[str, Any]:
    forms.only(given, "raw", *KEYS)
    text = given["raw"] if "raw" in given else json.dumps(given)
    try:
        found = config.read(text)
    except config.ConfigError:
        seen = admission.run({**admission.PRODUCER, "configuration": text})
        return {
            "valid": False,
            "podAdmitted": seen["podAdmitted"] and any("cannot be used" in w for w in seen["warnings"]),
        }
    return {
        "valid": True,
        "defaultMountType": found.default_mount_type,
        "defaultSidecarInjection": found.default_sidecar_injection,
        "abandonedCapturePolicy": found.abandoned_capture_policy,
        "authType": found.registry.auth.type,
        "jobNamespace": found.job_namespace,
        "tokenTTLSeconds": found.registry.auth.token_ttl_seconds,
    }
