"""Who a serving Pod is to Kernel Cache: each factor, where it came from, both footprints; with a state also each cache
and the check that it failed. Without a cluster.

Examples:
  warmlog identity -f pod.yaml
  kubectl get pod chat-a -o yaml | warmlog identity -f -
  kubectl get kc,kcn,nodes -A -o yaml > state.yaml; warmlog identity -f pod.yaml --state state.yaml

Exit code 1 when a Pod of the file has no identity: no cache is chosen for it then, and nothing is captured.
"""

import argparse
from typing import Any, Final

import msgspec

from crds import kernelcache
from handlers.kernelcache import admit, config, identity
from handlers.kernelcache.identity import Identity
from handlers.kernelcache.selection import Candidate
from handlers.world.reader import Reader
from handlers.world.state import World
from warmlog import cli, flags, offline, output, systems
from warmlog.documents import Document

FLAGS: Final = (
    flags.Flag("file", "manifests (YAML or JSON); - is standard input", None, short="f"),
    flags.Flag("state", "caches, nodes and the configuration, with commas: files or directories"),
    *systems.CACHE_FLAGS[:1],  # where the configuration lives
    output.FLAG,
)
#: In the order in which people compare them.
BASE: Final = (
    "namespace",
    "workloadKind",
    "workloadName",
    "runtimeImage",
    "modelURIHash",
    "commandHash",
    "argsHash",
)


class Explained(msgspec.Struct, omit_defaults=True):
    pod: str
    identity: Identity
    candidates: list[Candidate] | None = None
    configuration: str = ""


def run(values: flags.Values, arguments: argparse.Namespace) -> int:
    pods, world = offline.pods(values)
    found = [explained(pod, world, values["kserve-namespace"]) for pod in pods]
    for one in found:
        output.show(one, form=values["output"], human=text)
    return cli.FAILED if any(one.identity.missing for one in found) else 0


def explained(pod: Document, world: World, namespace: str) -> Explained:
    plain = admit.bare(pod.body)
    who = identity.of(plain, pod.key.namespace)
    made = Explained(f"{pod.key.namespace}/{pod.key.name}", who)
    if not who.missing and (world.objects.get(kernelcache.CACHES) or world.objects.get(kernelcache.NODES)):
        reader = Reader(world)
        standing = config.standing(reader, namespace)
        made.configuration = standing.problem
        made.candidates = admit.judge(plain, who, pod.key.namespace, reader, standing.config)[1]
    return made


def text(given: Any) -> str:
    """Two columns: what, and where it came from."""
    assert isinstance(given, Explained)
    who = given.identity
    if who.missing:
        return f"{given.pod}: no identity: {who.missing}"
    order = [*(key for key in BASE if key in who.factors), *sorted(who.factors.keys() - set(BASE))]
    sources = {
        "namespace": "the Pod",
        "workloadKind": "its labels",
        "workloadName": "its labels",
        "runtimeImage": f"container {who.container}: {who.image_class}",
        "modelURIHash": who.model,
        "commandHash": f"container {who.container}",
        "argsHash": f"container {who.container}",
        **who.sources,
    }
    width = max(map(len, order))
    lines = [f"{given.pod}"]
    lines += [f"  {key:<{width}}  {who.factors[key]}  ({sources.get(key, '')})" for key in order]
    lines += [f"  {why}" for why in who.opaque]
    shown = {
        "workload footprint": who.footprints.workload_footprint or f"none: the image is a {who.image_class}",
        "compatibility footprint": who.footprints.compatibility_footprint or "none: the image is floating, pin it",
    }
    lines += [f"{name}: {value}" for name, value in shown.items()]
    return "\n".join([*lines, *_caches(given)])


def _caches(given: Explained) -> list[str]:
    lines = [given.configuration] if given.configuration else []
    for one in given.candidates or ():
        if not one.failed:
            lines.append(f"cache {one.name}: chosen by its {one.match} footprint; ready on {', '.join(one.nodes)}")
        else:
            lines.append(f"cache {one.name}: {one.failed}: {one.detail}")
    return lines
