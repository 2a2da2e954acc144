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

from warmlog import cli, flags, offline, output, systems

FLAGS: Final = (*offline.FLAGS, output.FLAG)


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
            print(
                f"{pod.key.name}: nothing would change: is it selected (labels, namespace), or wired already?",
                file=sys.stderr,
            )
        if not outcome.refused:
            form = values["output"] if values["output"] != "human" else "yaml"
            output.show(outcome.body, form=form, human=offline.as_yaml)
    return cli.REFUSED if refused else 0
