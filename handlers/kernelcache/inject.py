"""A chosen cache into a Pod: image volume, linker, read-only source, a place for each path, a preference for nodes.

    volume kernel-cache-source          the artifact, by digest
    init container kernel-cache-linker  first; makes a tree in each place, as links or as copies
    volumes kernel-cache-runtime-<i>    the places, where the Pod has none of its own: writable, over read-only content
    mounts                              source read-only in linker and runtime, places writable in both
    preferred node affinity             for nodes that have the artifact; never required

`remove` takes all of it off again, so that a Pod may be looked at twice and is decided on as it came. Everything works
on `podedit.editable`; nothing is done by halves: who gets a Conflict throws the copy away.

Rules: seed 001, "Relationship to model serving"; spec/kernelcache.md section 6. Ours: security context and resources of
the linker (a restricted namespace takes it), the affinity.
"""

from typing import Any, Final, NamedTuple

from handlers.admission import podedit
from handlers.kernelcache import names, path, placement
from handlers.kernelcache.path import Resolved
from handlers.kernelcache.selection import Chosen
from handlers.outcome import Object

WEIGHT: Final = 50
#: A preference for more nodes than these says nothing.
MOST_NODES: Final = 100


class Options(NamedTuple):
    """Settings of the webhook."""

    linker_image: str = "warmlog"
    kserve_namespace: str = "kserve"
    image_volumes: bool = True  # False on clusters whose API or runtimes have none


class Conflict(Exception):
    """Something of the Pod has a name of ours; one line."""


def mount(pod: Object, chosen: Chosen, options: Options, hostnames: list[str]) -> None:
    """Edit the Pod. Raises Conflict, with the Pod half done."""
    spec = pod["spec"]
    reserve(pod, volumes=(names.SOURCE_VOLUME,), init=(names.LINKER,))
    artifact = chosen.cache.spec.artifact
    spec.setdefault("volumes", []).append(
        {
            "name": names.SOURCE_VOLUME,
            "image": {"reference": artifact.image_reference, "pullPolicy": "IfNotPresent"},
        }
    )
    runtime = podedit.named(podedit.containers(pod), chosen.paths[0].container) or {}
    linker = linker_of(pod, runtime, options.linker_image)
    for number, at in enumerate(chosen.paths):
        container = podedit.named(podedit.containers(pod), at.container)
        assert container is not None  # resolved in this Pod
        target = _place(pod, container, at, f"{names.RUNTIME_VOLUME}{number}")
        _source(container)
        linker["args"].append(f"{names.SOURCE_MOUNT}/{at.oci_path}={target['mountPath']}")
        if target not in linker["volumeMounts"]:
            linker["volumeMounts"].append(target)
    spec["initContainers"] = [linker, *(spec.get("initContainers") or [])]
    podedit.annotate(pod, names.USAGE, f"{chosen.cache.metadata.namespace}/{chosen.cache.metadata.name}")
    prefer(pod, hostnames)


def reserve(
    pod: Object, *, volumes: tuple[str, ...] = (), init: tuple[str, ...] = (), main: tuple[str, ...] = ()
) -> None:
    """Raises Conflict when a name of ours is taken."""
    spec = pod["spec"]
    for what, items, wanted in (
        ("volume", spec.get("volumes"), volumes),
        ("init container", spec.get("initContainers"), init),
        ("container", [*(spec.get("containers") or []), *(spec.get("initContainers") or [])], main),
    ):
        for name in wanted:
            if podedit.named(items, name) is not None:
                raise Conflict(f"the Pod has a {what} {name} of its own")


def _place(pod: Object, container: Object, at: Resolved, volume: str) -> Object:
    """The mount of the place, as the linker needs it too."""
    own = path.mounted(pod, at)
    if own is not None:
        return {"name": own["name"], "mountPath": own["mountPath"]}
    reserve(pod, volumes=(volume,))
    pod["spec"]["volumes"].append({"name": volume, "emptyDir": {}})
    made = {"name": volume, "mountPath": at.container_path}
    container.setdefault("volumeMounts", []).append(made)
    return dict(made)


def _source(container: Object) -> None:
    """Links lead here: it must be at the same place in the runtime."""
    mounts = container.setdefault("volumeMounts", [])
    if any(one.get("name") == names.SOURCE_VOLUME for one in mounts):
        return
    for one in mounts:
        if path.overlap(str(one.get("mountPath", "")).rstrip("/"), names.SOURCE_MOUNT):
            raise Conflict(f"{container.get('name')} has a mount at {one.get('mountPath')}")
    mounts.append({"name": names.SOURCE_VOLUME, "mountPath": names.SOURCE_MOUNT, "readOnly": True})


def linker_of(pod: Object, runtime: Object, image: str) -> Object:
    return {
        "name": names.LINKER,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["warmlog", "linker"],
        "args": [],
        "volumeMounts": [{"name": names.SOURCE_VOLUME, "mountPath": names.SOURCE_MOUNT, "readOnly": True}],
        "resources": {
            "requests": {"cpu": "10m", "memory": "64Mi"},
            "limits": {"cpu": "1", "memory": "256Mi"},
        },
        "securityContext": security(pod, runtime),
    }


def security(pod: Object, runtime: Object, *, read_only_root: bool = True) -> Object:
    """What a restricted namespace takes, as the user that the runtime runs as, where the manifest says which."""
    found: Object = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": read_only_root,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    for source in (pod["spec"].get("securityContext") or {}, runtime.get("securityContext") or {}):
        for key in ("runAsUser", "runAsGroup", "runAsNonRoot"):
            if source.get(key) is not None:
                found[key] = source[key]
    return found


# Where to run ---------------------------------------------------------------------------------------------------------


def prefer(pod: Object, hostnames: list[str]) -> None:
    """A preference for nodes, by the label that every node has."""
    if not hostnames or len(hostnames) > MOST_NODES:
        return
    spec = pod["spec"]
    if spec.get("nodeName"):
        return
    affinity = dict(spec.get("affinity") or {})
    of_nodes = dict(affinity.get("nodeAffinity") or {})
    given = of_nodes.get("preferredDuringSchedulingIgnoredDuringExecution") or []
    of_nodes["preferredDuringSchedulingIgnoredDuringExecution"] = [*given, _term(hostnames)]
    spec["affinity"] = {**affinity, "nodeAffinity": of_nodes}
    podedit.annotate(pod, names.PREFERRED, ",".join(hostnames))


def _term(hostnames: list[str]) -> Object:
    expression = {"key": placement.HOSTNAME, "operator": "In", "values": hostnames}
    return {"weight": WEIGHT, "preference": {"matchExpressions": [expression]}}


def _unprefer(pod: Object) -> None:
    said = (pod.get("metadata", {}).get("annotations") or {}).get(names.PREFERRED)
    podedit.unannotate(pod, names.PREFERRED)
    affinity = pod["spec"].get("affinity") or {}
    of_nodes = affinity.get("nodeAffinity") or {}
    given = of_nodes.get("preferredDuringSchedulingIgnoredDuringExecution") or []
    ours = _term(said.split(",")) if said else None
    if ours not in given:
        return
    left = [one for one in given if one != ours]
    pod["spec"]["affinity"] = _with(
        affinity, "nodeAffinity", _with(of_nodes, "preferredDuringSchedulingIgnoredDuringExecution", left)
    )
    if not pod["spec"]["affinity"]:
        del pod["spec"]["affinity"]


def _with(given: Object, name: str, value: Any) -> Object:
    """A copy with another value; without it when it is empty."""
    rest = {key: one for key, one in given.items() if key != name}
    return {**rest, name: value} if value else rest


# Taking it off again --------------------------------------------------------------------------------------------------


def is_ours(pod: Object) -> bool:
    """Whether an earlier call for the same Pod mounted a cache: annotation, image volume and linker stand together."""
    spec = pod["spec"]
    volume = podedit.named(spec.get("volumes"), names.SOURCE_VOLUME)
    linker = podedit.named(spec.get("initContainers"), names.LINKER)
    annotations = pod.get("metadata", {}).get("annotations") or {}
    return names.USAGE in annotations and volume is not None and "image" in volume and linker is not None


def remove(pod: Object) -> None:
    """What `mount` did, undone. Nothing is done to a Pod that it did not touch."""
    if not is_ours(pod):
        return
    spec = pod["spec"]
    podedit.remove(spec, "initContainers", names.LINKER)
    made = [one["name"] for one in spec["volumes"] if _made(str(one.get("name", "")), names.RUNTIME_VOLUME)]
    forget(pod, [names.SOURCE_VOLUME, *made])
    podedit.unannotate(pod, names.USAGE)
    _unprefer(pod)


def _made(name: str, prefix: str) -> bool:
    return name.startswith(prefix) and name[len(prefix) :].isdigit()


def forget(pod: Object, volumes: list[str]) -> None:
    """Take volumes off, and their mounts."""
    for name in volumes:
        podedit.remove(pod["spec"], "volumes", name)
    for container in podedit.containers(pod):
        mounts = container.get("volumeMounts")
        if mounts is None:
            continue
        left = [one for one in mounts if one.get("name") not in volumes]
        if left != mounts:
            container["volumeMounts"] = left
            if not left:
                del container["volumeMounts"]
