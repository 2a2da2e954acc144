"""What a Pod would become at admission, without a cluster.

Examples:
  warmlog inject -f pod.yaml --state cachebackends.yaml
  kubectl get cb -A -o yaml | warmlog inject -f pod.yaml --state -

Prints the mutated manifest; why it was not wired, and every other warning, goes to standard error. Exit code 3 when it
would be refused: a pipeline can refuse a manifest before a cluster does.
"""

import argparse
import sys
from typing import Final

from crds.cachebackend import CACHE_BACKENDS
from handlers.world.reader import Reader
from handlers.world.state import World
from warmlog import cli, flags, offline, output, systems, whypod
from warmlog.documents import Document

FLAGS: Final = (*offline.FLAGS, output.FLAG)


def looked_at(pod: Document, world: World) -> list[str]:
    """A line for each CacheBackend that could have been the Pod's, with what speaks against it."""
    labels, namespace = pod.body["metadata"].get("labels") or {}, pod.key.namespace
    found = Reader(world).select(CACHE_BACKENDS, namespace)
    told = [f"CacheBackend {key.name}: {whypod.judged(one.value, one.problem, labels, '')[1]}" for key, one in found]
    return told or [f"there is no CacheBackend in its namespace, {namespace}"]


def run(values: flags.Values, arguments: argparse.Namespace) -> int:
    pods, world = offline.pods(values)
    refused = False
    for pod in pods:
        outcome = offline.admit(pod, world, *systems.options(values))
        for name, decision in outcome.decisions:
            for line in decision.warnings:
                print(f"{pod.key.name}: {name}: {line}", file=sys.stderr)
        for name, decision in outcome.refused:
            refused = True
            print(f"{pod.key.name}: {name} refuses it: {decision.reason}", file=sys.stderr)
        if not any(
            decision.patch or decision.warnings or decision.verdict == "refused" for _, decision in outcome.decisions
        ):
            for line in ("nothing would change: is it wired already?", *looked_at(pod, world)):
                print(f"{pod.key.name}: {line}", file=sys.stderr)
        if not outcome.refused:
            form = values["output"] if values["output"] != "human" else "yaml"
            output.show(outcome.body, form=form, human=offline.as_yaml)
    return cli.REFUSED if refused else 0
