"""Area selection: which cache a Pod gets, from handlers/kernelcache/selection.py."""

from typing import Any

from crds import schema
from crds.kernelcache import Footprints, KernelCache, KernelCacheNode
from handlers.kernelcache import selection
from handlers.kernelcache.identity import Identity
from tests.conformance import forms

FOOTPRINTS = ("workloadFootprint", "compatibilityFootprint")


def run(given: dict[str, Any]) -> dict[str, Any]:
    forms.only(given, "pod", "artifactSecurityMode", "nodeEntries", "kernelCaches")
    asked = given["pod"]
    forms.only(asked, "namespace", "containers", "env", *FOOTPRINTS)
    env = [{"name": name, "value": value} for name, value in asked["env"].items()]
    pod = {"spec": {"containers": [{"name": name, "env": env} for name in asked["containers"]]}}
    chosen, candidates = selection.choose(
        selection.Asked(
            pod,
            asked["namespace"],
            Identity(footprints=Footprints(*(asked[name] for name in FOOTPRINTS))),
            given["artifactSecurityMode"],
            lambda node: None,
        ),
        [cache(one) for one in given["kernelCaches"]],
        nodes(given["nodeEntries"]),
    )
    if chosen is None:
        assert all(one.failed for one in candidates)
        return {"selected": None}
    metadata = chosen.cache.metadata
    return {"selected": f"{metadata.namespace}/{metadata.name}", "match": chosen.match}


def nodes(entries: list[dict[str, Any]]) -> list[KernelCacheNode]:
    found: dict[str, dict[str, Any]] = {}
    for entry in entries:
        forms.only(entry, "node", "cache", "state", "imageReference", *FOOTPRINTS)
        namespace, name = entry["cache"].split("/")
        found.setdefault(entry["node"], {})[entry["cache"]] = {
            "kernelCacheRef": {"namespace": namespace, "name": name},
            "imageReference": entry["imageReference"],
            "state": entry["state"],
            "footprints": {one: entry[one] for one in FOOTPRINTS},
        }
    return [
        schema.read({"metadata": {"name": name}, "status": {"cacheStatus": held}}, KernelCacheNode)
        for name, held in found.items()
    ]


def cache(given: dict[str, Any]) -> KernelCache:
    forms.only(
        given, "namespace", "name", "imageReference", "mountType", "cachePaths", "verification", "creationTimestamp",
        *FOOTPRINTS,
    )  # fmt: skip
    document = {
        "metadata": {key: given.get(key) for key in ("namespace", "name", "creationTimestamp")},
        "spec": {
            "artifact": {
                "imageReference": given["imageReference"],
                "cachePaths": given["cachePaths"],
                "identity": {"footprints": {one: given[one] for one in FOOTPRINTS}},
            },
            "mountType": given["mountType"],
        },
        "status": {"verification": given.get("verification")},
    }
    return schema.read(document, KernelCache)
