"""patch: JSON, merge and strategic patches, and server-side apply (which makes the object when there is none)."""

from typing import Any, Final

from devkube import apply, bodies, parameters, patches, scale
from devkube.errors import bad_request, conflict, not_found, unsupported_media_type
from devkube.kinds import Object, Resource
from devkube.machinery import Machinery
from devkube.negotiation import PATCHES
from devkube.requests import Answer, Request
from devkube.strategic import strategic_merge
from devkube.strategies import check_uid, confine, in_namespace, metadata, named
from devkube.values import clone
from devkube.writing import Write, guaranteed, insert

APPLY: Final = "application/apply-patch+yaml"


async def patch(m: Machinery, request: Request) -> Answer:
    resource, how = request.resource, request.content_type
    scaled = request.subresource == "scale"
    served = [one for one in PATCHES if not ((scaled and one == APPLY) or (resource.custom and "strategic" in one))]
    if how not in served:
        told = "the body of the request was in an unknown format - accepted media types include: "
        raise unsupported_media_type(told + ", ".join(served))
    write = Write(m, request, parameters.write(request, "PatchOptions", applies=how == APPLY))
    try:
        media = how if how == APPLY else "application/json"
        body = bodies.decode(request.body, media, whole=resource.custom)
    except ValueError as error:
        raise bad_request(f"error decoding {'YAML' if how == APPLY else 'patch'}: {error}") from None
    if how == APPLY:
        return await _apply(write, body)
    repeated = bodies.duplicates(request.body)

    def changed(old: Object) -> Object:
        before = scale.of(old, resource) if scaled else old
        if how == "application/json-patch+json":
            after = patches.json_patch(before, body)
        elif how == "application/merge-patch+json":
            after = patches.merge_patch(before, body)
        else:
            after = strategic_merge(before, body, resource.rules.schema)
        _identified(after, request, resource)
        if scaled:
            check_uid(metadata(after), old, resource)
            return scale.changed(old, after, resource)
        write.decoded(after, repeated, patch=True)
        return after

    return await guaranteed(write, changed)


async def _apply(write: Write, config: Any) -> Answer:
    """Server-side apply: makes the object when there is none."""
    m, request, resource = write.m, write.request, write.resource
    if not isinstance(config, dict):
        raise bad_request("error decoding YAML: the configuration that is applied must be an object")
    if not config.get("apiVersion") or not config.get("kind"):
        raise bad_request("the configuration that is applied must have apiVersion and kind")
    metadata(config).setdefault("name", request.name)
    _identified(clone(config), request, resource)  # kubectl's annotation has the configuration as it was sent
    # What is not this endpoint's is nobody's conflict.
    identity = {k: v for k, v in config["metadata"].items() if k in ("name", "namespace", "uid", "resourceVersion")}
    named_only = {"apiVersion": resource.group_version, "kind": resource.kind, "metadata": identity}
    confine(config, named_only, resource, request.subresource)
    resource.rules.decode(clone(config), validation="Strict")

    def applied(old: Object | None) -> Object:
        new = apply.apply(old, config, write.author, force=write.options.force)
        in_namespace(new, request)
        write.decoded(new)
        return new

    if m.store.get(resource.key, request.namespace, request.name) is not None:
        return await guaranteed(write, applied, tracked=True)
    if request.subresource:
        raise not_found(resource.about(request.name))
    if uid := metadata(config).get("uid"):
        told = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        raise conflict(resource.about(request.name), told)
    m.authorize(request.user, "create", resource, request.namespace, request.name)
    metadata(config).pop("resourceVersion", None)  # no conflict, upstream
    return await insert(write, applied(None), tracked=True)


def _identified(after: Object, request: Request, resource: Resource) -> None:
    """A patch changes neither type nor name nor namespace."""
    wanted = resource.group_version, resource.kind
    if request.subresource == "scale":
        wanted = "autoscaling/v1", "Scale"
    found = after.get("apiVersion"), after.get("kind")
    if found != wanted:
        raise bad_request(f"{found[1]} in version {found[0]} does not match {wanted[1]} in version {wanted[0]}")
    meta = metadata(after)
    in_namespace(after, request)
    named(meta, request.name)
