"""CRDs as YAML, written from the Structs: `python -m crds.render` rewrites crds/*.yaml; a test compares.

Here: how a Struct becomes a structural schema, and the names, columns and versions of each kind. Two versions of a kind
with the same schema share a Struct.

Rules: apiextensions.k8s.io/v1; printer columns of seed 004 and spec/inferencecache.md sections 5 and 6.1.
"""

import inspect
import typing
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import yaml

from crds import cachebackend, inferencecache, kernelcache, kvcache, modeldeployment, schema

HERE: Final = Path(__file__).parent
Document = dict[str, Any]


class Column(NamedTuple):
    name: str
    type: str
    path: str
    description: str = ""


class Definition(NamedTuple):
    """One kind. `spec` and `status` are Structs; `versions` are served, the last one named is stored."""

    group: str
    kind: str
    plural: str
    short: tuple[str, ...]
    spec: type[msgspec.Struct]
    status: type[msgspec.Struct] | None
    columns: tuple[Column, ...]
    doc: str
    versions: tuple[str, ...] = ("v1alpha1",)
    cluster: bool = False
    spec_required: bool = True
    rules: tuple[schema.Rule, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.plural}.{self.group}"


_AGE: Final = Column("Age", "date", ".metadata.creationTimestamp")

DEFINITIONS: Final = (
    Definition(
        inferencecache.GROUP,
        "CacheBackend",
        "cachebackends",
        ("cb",),
        cachebackend.CacheBackendSpec,
        cachebackend.CacheBackendStatus,
        (
            Column("Type", "string", ".spec.type"),
            Column("Ready", "string", '.status.conditions[?(@.type=="Ready")].status'),
            Column("Matched", "integer", ".status.matchedEnginePods"),
            Column("Endpoint", "string", ".status.endpoint"),
            Column("Prefixes", "integer", ".status.indexParticipation.prefixCount"),
            Column("LastEvent", "date", ".status.indexParticipation.lastEventAt"),
            _AGE,
        ),
        "An engine-side KV cache, an optional remote tier, and the engines that are wired to them.",
    ),
    Definition(
        inferencecache.GROUP,
        "CachePolicy",
        "cachepolicies",
        ("cpol",),
        inferencecache.CachePolicySpec,
        inferencecache.ReservedStatus,
        (_AGE,),
        "How the prefix index answers for one namespace.",
    ),
    Definition(
        inferencecache.GROUP,
        "CacheTenant",
        "cachetenants",
        ("ct",),
        inferencecache.CacheTenantSpec,
        inferencecache.CacheTenantStatus,
        (Column("Tenant", "string", ".spec.tenantID"), Column("Entries", "integer", ".status.indexEntries"), _AGE),
        "How many keys a tenant may keep in the prefix index.",
    ),
    Definition(
        inferencecache.GROUP,
        "CacheIndex",
        "cacheindices",
        ("ci",),
        inferencecache.CacheIndexSpec,
        inferencecache.CacheIndexStatus,
        (Column("Prefixes", "integer", ".status.prefixes.summary.total"), _AGE),
        "What the prefix index holds in all, as the controller last read it.",
        cluster=True,
        spec_required=False,
    ),
    Definition(
        inferencecache.GROUP,
        "PDTopology",
        "pdtopologies",
        ("pdt",),
        inferencecache.PDTopologySpec,
        inferencecache.ReservedStatus,
        (_AGE,),
        "Pools of prefill and decode engines. Reserved: nothing reads it yet.",
    ),
    Definition(
        inferencecache.GROUP,
        "PromptTemplate",
        "prompttemplates",
        ("pt",),
        inferencecache.PromptTemplateSpec,
        inferencecache.PromptTemplateStatus,
        (_AGE,),
        "A prompt with stable and mutable slots. Reserved: nothing reads it yet.",
    ),
    Definition(
        kernelcache.GROUP,
        "KernelCacheNodeGroup",
        "kernelcachenodegroups",
        ("kcng",),
        kernelcache.NodeGroupSpec,
        kernelcache.NodeGroupStatus,
        (
            Column("Nodes", "integer", ".status.matchedNodes"),
            Column("Ready", "integer", ".status.readyNodes"),
            _AGE,
        ),
        "Nodes that can prepare and serve kernel caches.",
        cluster=True,
    ),
    Definition(
        kernelcache.GROUP,
        "KernelCacheNode",
        "kernelcachenodes",
        ("kcn",),
        kernelcache.NoSpec,
        kernelcache.NodeStatus,
        (
            Column("Ready", "integer", ".status.counts.cachesReady"),
            Column("Preparing", "integer", ".status.counts.cachesPreparing"),
            Column("Error", "integer", ".status.counts.cachesError"),
            Column("Pods-Using", "integer", ".status.counts.totalPodsUsing"),
            _AGE,
        ),
        "What one node has of every kernel cache. Its name is the node's.",
        cluster=True,
        spec_required=False,
    ),
    Definition(
        kernelcache.GROUP,
        "KernelCacheCapture",
        "kernelcachecaptures",
        ("kcc",),
        kernelcache.CaptureSpec,
        kernelcache.CaptureStatus,
        (
            Column("Phase", "string", ".status.phase"),
            Column("Image", "string", ".status.artifact.imageReference"),
            _AGE,
        ),
        "A session that captures the kernels of a serving workload.",
    ),
    Definition(
        kernelcache.GROUP,
        "KernelCache",
        "kernelcaches",
        ("kc",),
        kernelcache.CacheSpec,
        kernelcache.CacheState,
        (
            Column("State", "string", ".status.state"),
            Column("MountType", "string", ".spec.mountType"),
            Column("Pods-Using", "integer", ".status.usage.totalPodsUsing"),
            _AGE,
        ),
        "A completed OCI artifact of compiled kernels, and the nodes that prepare it.",
    ),
    Definition(
        kvcache.GROUP,
        "KVCacheBackend",
        "kvcachebackends",
        ("kvcb",),
        kvcache.KVCacheBackendSpec,
        kvcache.KVCacheBackendStatus,
        (
            Column("Type", "string", ".spec.type"),
            Column("Phase", "string", ".status.phase"),
            Column("Endpoint", "string", '.status.endpoints[?(@.name=="Client")].address'),
            _AGE,
        ),
        "A Mooncake store that engines share: run here, or somewhere else.",
        versions=kvcache.VERSIONS,
        cluster=True,
    ),
    Definition(
        kvcache.GROUP,
        "KVCachePool",
        "kvcachepools",
        ("kvcp",),
        kvcache.KVCachePoolSpec,
        kvcache.KVCachePoolStatus,
        (
            Column("Total", "string", ".spec.quota.total"),
            Column("Phase", "string", ".status.phase"),
            Column("Endpoint", "string", ".status.clientEndpoint"),
            _AGE,
        ),
        "Capacity of one store, shared by namespaces.",
        versions=kvcache.VERSIONS,
        cluster=True,
    ),
    Definition(
        kvcache.GROUP,
        "KVCachePoolBinding",
        "kvcachepoolbindings",
        ("kvcpb",),
        kvcache.KVCachePoolBindingSpec,
        kvcache.KVCachePoolBindingStatus,
        (
            Column("Pool", "string", ".spec.poolRef.name"),
            Column("Domain", "string", ".spec.domain.name"),
            Column("Ceiling", "string", ".spec.quota.ceiling"),
            Column("Phase", "string", ".status.phase"),
            _AGE,
        ),
        "A namespace's share of a pool, and the domain in which its engines reuse blocks.",
        versions=kvcache.VERSIONS,
    ),
    Definition(
        kvcache.GROUP,
        "ModelDeployment",
        "modeldeployments",
        ("md",),
        modeldeployment.ModelDeploymentSpec,
        modeldeployment.ModelDeploymentStatus,
        (
            Column("Engine", "string", ".spec.engine.name"),
            Column("Cache", "string", ".spec.kvCache.poolRef.name"),
            _AGE,
        ),
        "A model served by roles of one engine; here only what touches a cache is known.",
        versions=kvcache.VERSIONS,
    ),
)


def documents() -> dict[str, Document]:
    """File name -> CRD."""
    return {f"{one.group}_{one.plural}.yaml": definition(one) for one in DEFINITIONS}


def definition(one: Definition) -> Document:
    properties: Document = {
        "apiVersion": {"type": "string", "description": "Version of this representation."},
        "kind": {"type": "string", "description": "Kind of this object."},
        "metadata": {"type": "object"},
        "spec": struct(one.spec),
    }
    if one.status is not None:
        properties["status"] = struct(one.status)
    root: Document = {"type": "object", "description": one.doc, "properties": properties}
    if one.spec_required:
        root["required"] = ["spec"]
    if one.rules:
        root["x-kubernetes-validations"] = [_rule(rule) for rule in one.rules]
    versions = [
        {
            "name": version,
            "served": True,
            "storage": version == one.versions[-1],
            "schema": {"openAPIV3Schema": root},
            **({"subresources": {"status": {}}} if one.status is not None else {}),
            "additionalPrinterColumns": [_column(column) for column in one.columns],
        }
        for version in one.versions
    ]
    names = {"kind": one.kind, "listKind": f"{one.kind}List", "plural": one.plural, "singular": one.kind.lower()}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": one.name, "labels": {"app.kubernetes.io/part-of": "warmlog"}},
        "spec": {
            "group": one.group,
            "names": {**names, **({"shortNames": list(one.short)} if one.short else {})},
            "scope": "Cluster" if one.cluster else "Namespaced",
            "versions": versions,
            **({"conversion": {"strategy": "None"}} if len(versions) > 1 else {}),
        },
    }


def _column(column: Column) -> Document:
    found = {"name": column.name, "type": column.type, "jsonPath": column.path}
    return {**found, **({"description": column.description} if column.description else {})}


def _rule(rule: schema.Rule) -> Document:
    return {"rule": rule.cel, "message": rule.message, **({"fieldPath": rule.field} if rule.field else {})}


def struct(given: type[msgspec.Struct]) -> Document:
    """A structural schema of type object."""
    found: Document = {"type": "object"}
    doc = inspect.cleandoc(given.__doc__ or "").split("\n\n")[0].replace("\n", " ")
    if doc:
        found["description"] = doc
    fields = list(schema.fields(given))
    if fields:
        found["properties"] = {one.name: _value(one.type, one.of) for one in fields}
    if getattr(given, "OPEN", False):
        found["x-kubernetes-preserve-unknown-fields"] = True
    if required := [one.name for one in fields if one.of.required]:
        found["required"] = required
    if rules := getattr(given, "RULES", ()):
        found["x-kubernetes-validations"] = [_rule(rule) for rule in rules]
    return found


_TYPES: Final = {str: "string", int: "integer", bool: "boolean", float: "number"}


def _value(hint: Any, said: schema.Is) -> Document:
    found = _shape(hint, said)
    if said.doc:
        found = {**found, "description": said.doc}
    if said.default is not msgspec.UNSET:
        found["default"] = said.default
    if said.rules:
        found["x-kubernetes-validations"] = [_rule(rule) for rule in said.rules]
    return found


def _shape(hint: Any, said: schema.Is) -> Document:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if said.format == "quantity":
        return {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}
    if origin is list:
        return _list(arguments[0], said)
    if origin is dict:
        found: Document = {"type": "object"}
        if said.free:
            return {**found, "x-kubernetes-preserve-unknown-fields": True}
        if said.max_properties != 0:
            found["additionalProperties"] = _value(*schema.unwrap(arguments[1]))
        bounds = {"minProperties": said.min_properties, "maxProperties": said.max_properties}
        return {**found, **{name: value for name, value in bounds.items() if value is not None}}
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return struct(hint)
    return _scalar(hint, said)


def _list(item: Any, said: schema.Is) -> Document:
    items = {"type": "object", "x-kubernetes-preserve-unknown-fields": True} if said.free else None
    found: Document = {"type": "array", "items": items or _value(*schema.unwrap(item))}
    if said.min_items is not None:
        found["minItems"] = said.min_items
    if said.max_items is not None:
        found["maxItems"] = said.max_items
    if said.atomic:
        found["x-kubernetes-list-type"] = "atomic"
    if said.map_keys:
        found |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(said.map_keys)}
    return found


def _scalar(hint: Any, said: schema.Is) -> Document:
    found: Document = {"type": _TYPES[hint]}
    if said.enum:
        found["enum"] = list(said.enum)
    if said.pattern:
        found["pattern"] = said.pattern
    if said.format and said.format != "duration":  # Go's durations are no format that the API server knows
        found["format"] = said.format
    most = said.maximum
    if most == 2**63 - 1:  # API servers keep bounds as float64, where this one is above every int64
        found["format"], most = "int64", None
    for name, value in (
        ("minimum", said.minimum), ("maximum", most), ("minLength", said.min_length),
        ("maxLength", said.max_length),
    ):  # fmt: skip
        if value is not None:
            found[name] = value
    return found


class _Dumper(yaml.SafeDumper):
    """Without anchors: two versions that share a schema are written out twice."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def page(document: Document) -> str:
    head = "# Written by `python -m crds.render`; edit the Structs, not this file.\n"
    return head + yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True)


def main() -> None:
    for name, document in documents().items():
        (HERE / name).write_text(page(document))


if __name__ == "__main__":
    main()
