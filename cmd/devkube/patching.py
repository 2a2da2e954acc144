"""patch: JSON, merge and strategic patches, and server-side apply (which makes the object when there is none)."""

from typing import Any, Final

from devkube import apply, bodies, parameters, patches, scale
from devkube.errors import bad_request, conflict, not_found, unsupported_media_type
from devkube.kinds import Object, Resource
from devkube.machinery import Machinery
from devkube.requests import Answer, Request
from devkube.strategies import in_namespace, metadata, named
from devkube.values import clone
from devkube.writer import Write
from devkube.writing import guaranteed, insert

PATCHES: Final = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)
APPLY: Final = "application/apply-patch+yaml"


async def patch(m: Machinery, request: Request) -> Answer:
    resource, how = request.resource, request.content_type
    served = [one for one in PATCHES if not (resource.custom and "strategic" in one)]
    if how not in served:
        told = "the body of the request was in an unknown format - accepted media types include: "
        raise unsupported_media_type(told + ", ".join(served))
    options = parameters.write(request, "PatchOptions", applies=how == APPLY)
    write = Write(m, request, options, "PatchOptions")
    try:
        body = bodies.decode(request.body, how if how == APPLY else "application/json")
    except ValueError as error:
        raise bad_request(f"error decoding {'YAML' if how == APPLY else 'patch'}: {error}") from None
    if how == APPLY:
        return await _apply(write, body)
    repeated = bodies.duplicates(request.body, body) if options.validation != "Ignore" else []
    scaled = request.subresource == "scale"

    def changed(old: Object) -> Object:
        before = scale.of(old, resource) if scaled else old
        if how == "application/json-patch+json":
            after = patches.json_patch(before, body)
        elif how == "application/merge-patch+json":
            after = patches.merge_patch(before, body)
        else:
            after = patches.strategic_merge(before, body, resource.rules.schema)
        _identified(after, before, request, resource, kind="Scale" if scaled else resource.kind)
        if scaled:
            new: Object = clone(old)
            new["metadata"]["resourceVersion"] = metadata(after).get("resourceVersion")
            scale.write(new, after, resource)
            return new
        write.decoded(after, repeated, patch=True)
        return after

    return await guaranteed(write, changed)


async def _apply(write: Write, config: Any) -> Answer:
    """Server-side apply: makes the object when there is none."""
    m, request, resource, options = write.m, write.request, write.resource, write.options
    if not isinstance(config, dict):
        raise bad_request("error decoding YAML: the configuration that is applied must be an object")
    live = m.store.get(resource.key, request.namespace, request.name)
    _identified(config, {}, request, resource, kind="Scale" if request.subresource == "scale" else resource.kind)
    if request.subresource == "scale":
        spec = config.get("spec")
        config = {
            "apiVersion": resource.group_version,
            "kind": resource.kind,
            "metadata": config["metadata"],
            **({"spec": spec} if spec else {}),
        }

    def applied(old: Object | None) -> Object:
        new: Object = apply.apply(
            old,
            clone(config),
            manager=options.manager,
            force=options.force,
            schema=resource.rules.schema,
            subresource=request.subresource,
            now=m.clock.timestamp(),
            group_version=resource.group_version,
        )
        write.decoded(new)
        return new

    if live is not None:
        return await guaranteed(write, applied, tracked=True)
    if request.subresource:
        raise not_found(resource.about(request.name))
    if metadata(config).get("uid"):
        told = f"uid mismatch: the provided object specified uid {config['metadata']['uid']}, and no existing object "
        raise conflict(resource.about(request.name), told + "was found")
    m.authorize(request.user, "create", resource, request.namespace, request.name)
    new = applied(None)
    in_namespace(new, request)
    return await insert(write, new, tracked=True)


def _identified(after: Object, before: Object, request: Request, resource: Resource, *, kind: str) -> None:
    """A patch changes neither type nor name nor namespace."""
    scaled = request.subresource == "scale"
    group_version = "autoscaling/v1" if scaled else resource.group_version
    found = after.get("apiVersion"), after.get("kind")
    if not before and not all(found):
        raise bad_request("the configuration that is applied must have apiVersion and kind")
    if not all(isinstance(one, str) for one in found) or found != (group_version, kind):
        told = f"the patch makes a {found[1]} of version {found[0]} of a {kind} of version {group_version}"
        raise bad_request(told if before else f"{found[1]} in version {found[0]} does not match {kind} {group_version}")
    meta = metadata(after)
    if not before:
        meta.setdefault("name", request.name)
    in_namespace(after, request)
    named(meta, request.name)
