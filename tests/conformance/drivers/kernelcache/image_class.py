"""Area image-class: how stable an image's reference is, from handlers/kernelcache/imageclass.py."""

from typing import Any

from handlers.kernelcache import footprint, imageclass
from tests.conformance import forms


def run(given: dict[str, Any]) -> dict[str, Any]:
    forms.only(given, "image")
    try:
        image = imageclass.read(given["image"])
    except imageclass.ImageError as error:
        return {"error": error.code}
    found = footprint.of({"runtimeImage": image.reference}, image.class_)
    return {
        "class": image.class_,
        "compatibilityFootprint": bool(found.compatibility_footprint),
        "workloadFootprint": bool(found.workload_footprint),
    }
