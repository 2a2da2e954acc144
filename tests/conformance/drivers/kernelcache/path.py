"""Area path: where a part of an artifact belongs in a Pod, from handlers/kernelcache/path.py.

Absolute and relative paths are the CRD's business too: what the schema refuses must be refused here as well.
"""

from typing import Any

from crds import schema
from crds.kernelcache import KernelCachePath
from handlers.kernelcache import path
from tests.conformance import forms


def run(given: dict[str, Any]) -> dict[str, Any]:
    forms.only(given, "path", "containers", "initContainers")
    forms.only(given["path"], "containerName", "containerPath", "ociPath")
    pod = {"spec": {"containers": given["containers"], "initContainers": given.get("initContainers", [])}}
    refused = schema.violations(given["path"], KernelCachePath)
    try:
        at = path.resolve(schema.read(given["path"], KernelCachePath), pod)
        mount = path.mounted(pod, at)
    except path.PathError as error:
        return {"error": error.code}
    assert not refused, refused
    return {
        "container": at.container,
        "containerPath": at.container_path,
        "ociPath": at.oci_path,
        "reuseMount": mount is not None,
    }
