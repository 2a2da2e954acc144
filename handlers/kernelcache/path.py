"""Where a part of an artifact belongs in a Pod, and whether it can be put there.

container   the named one, else the runtime's; init containers do not count
path        the given one, else the engine's cache root as its environment says, else its default
artifact    io.vllm.cache, unless the other tree is named

A mount of the Pod at exactly this place is used when it is writable and an emptyDir. One above or below is in the way,
and so are places that belong to the system, to the model, or to us.

Rules: seed 000 ("VLLM_CACHE_ROOT is used to resolve …"); spec/kernelcache.md section 3. Ours: XDG_CACHE_HOME and HOME
count as they do for the engine; reserved places; user storage is never written to.
"""

import posixpath
from typing import Any, Final, NamedTuple

from crds.kernelcache import KernelCachePath
from handlers.admission import podedit
from handlers.kernelcache import environment, identity, names
from handlers.outcome import Object

LONGEST: Final = 4096
#: Variable -> what the engine appends to it, the first that is set counts.
ROOTS: Final = {names.CACHE_ROOT: "", "XDG_CACHE_HOME": "/vllm", "HOME": "/.cache/vllm"}
_RESERVED: Final = (
    "/proc", "/sys", "/dev", "/etc", "/run/secrets", "/var/run/secrets", "/var/run/gkm", "/run/gkm", "/mnt/models",
)  # fmt: skip


class Resolved(NamedTuple):
    container: str
    container_path: str
    oci_path: str


class PathError(ValueError):
    """One line for a person; `code` is container-not-found, path-unresolved, path-invalid, oci-path-invalid or
    mount-conflict."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def resolve(path: KernelCachePath, pod: Object) -> Resolved:
    """Raises PathError."""
    container = _container(path.container_name, pod)
    return Resolved(
        str(container["name"]),
        checked(path.container_path or cache_root(container)),
        _tree(path.oci_path or names.VLLM_TREE),
    )


def _container(name: str | None, pod: Object) -> Object:
    if name:
        found = podedit.named(podedit.containers(pod), name)
        if found is None:
            raise PathError("container-not-found", f"there is no container {name}")
        return found
    kind, _ = identity.workload(pod.get("metadata") or {})
    found = identity.runtime_container(pod, kind)
    if found is None:
        raise PathError("container-not-found", f"there is no container {' or '.join(names.RUNTIME_CONTAINERS)}")
    return found


def cache_root(container: Object) -> str:
    """Where the engine of this container keeps its cache. Raises PathError where a manifest does not tell."""
    seen = environment.read(container)
    for name, below in ROOTS.items():
        if name in seen.references:
            raise PathError("path-unresolved", f"{name} is not in the manifest: name containerPath explicitly")
        value = seen.values.get(name)
        if value is None or (not value and name != names.CACHE_ROOT):
            continue
        if not value.strip():
            raise PathError("path-unresolved", f"{name} is empty: name containerPath explicitly")
        return value.rstrip("/") + below if below else value
    return names.DEFAULT_ROOT


def checked(path: str) -> str:
    """The path without a trailing slash. Raises PathError."""
    shown = repr(path[:80])
    if not path.startswith("/") or not 2 <= len(path) <= LONGEST:
        raise PathError("path-invalid", f"{shown} must be an absolute path of 2 to {LONGEST} characters")
    if "\0" in path or "$" in path:
        raise PathError("path-invalid", f"{shown} must not contain $ or NUL")
    clean = path.rstrip("/")
    if any(part in ("", ".", "..") for part in clean.split("/")[1:]):
        raise PathError("path-invalid", f"{shown} must not be / and must not have empty, . or .. segments")
    for reserved in _RESERVED:
        if overlap(clean, reserved):
            raise PathError("path-invalid", f"{shown} is, holds or lies in {reserved}, which is not a cache's place")
    return clean


def _tree(path: str) -> str:
    if path not in names.TREES:
        raise PathError("oci-path-invalid", f"ociPath {path[:80]!r} must be one of {', '.join(names.TREES)}")
    return path


def overlap(one: str, other: str) -> bool:
    """Whether two clean paths are the same, or one lies in the other."""
    return f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")


def mounted(pod: Object, at: Resolved) -> Object | None:
    """The Pod's own mount that takes the cache; None where one must be made. Raises PathError for what is in the
    way."""
    container = podedit.named(podedit.containers(pod), at.container) or {}
    found: Object | None = None
    for one in container.get("volumeMounts") or ():
        where = posixpath.normpath(f"/{one.get('mountPath', '')}".replace("//", "/"))
        if not overlap(where.rstrip("/"), at.container_path):
            continue
        if where != at.container_path:
            raise PathError("mount-conflict", f"{at.container} has a mount at {where} already")
        _usable(pod, one, at)
        found = one
    return found


def _usable(pod: Object, mount: Object, at: Resolved) -> None:
    name = mount.get("name")
    if mount.get("readOnly"):
        raise PathError("mount-conflict", f"the mount at {at.container_path} is read-only")
    if mount.get("subPath") or mount.get("subPathExpr"):
        raise PathError("mount-conflict", f"the mount at {at.container_path} is a part of volume {name}")
    volumes: list[Any] = (pod.get("spec") or {}).get("volumes") or []
    volume = podedit.named(volumes, str(name))
    if volume is not None and "emptyDir" not in volume:
        raise PathError("mount-conflict", f"volume {name} at {at.container_path} is storage of its user")
