"""The CRDs, as YAML for kubectl.

Examples:
  warmlog crds | kubectl apply --server-side -f -
  warmlog crds --group inferencecache.io
"""

import argparse
from typing import Final

from crds import definitions, render
from warmlog import cli, flags, output

FLAGS: Final = (flags.Flag("group", "only those of this API group"),)


def run(values: flags.Values, arguments: argparse.Namespace) -> int:
    chosen = [one for one in definitions.DEFINITIONS if values["group"] in ("", one.group)]
    if not chosen:
        groups = ", ".join(sorted({one.group for one in definitions.DEFINITIONS}))
        raise cli.Failure(f"there is no group {values['group']!r}; there are {groups}", cli.USAGE)
    output.write("---\n".join(render.page(render.definition(one)) for one in chosen))
    return 0
