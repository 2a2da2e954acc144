"""`devkube`: one API server as a process of its own.

When it is ready it prints one JSON line on stdout: the URL, the kubeconfig, the certificate of its authority.
Exit codes: 0 after SIGTERM or SIGINT, 1 when it cannot start (port in use, files not writable, nodes that cannot be),
2 for flags that make no sense.
"""

import argparse
import asyncio
import gc
import json
import os
import re
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from devkube.errors import StatusError
from devkube.options import Settings

EPILOG = """Use it:
  devkube --kubeconfig /tmp/devkube.kubeconfig --webhook-service my-system/my-webhook=127.0.0.1:9443 &
  kubectl --kubeconfig /tmp/devkube.kubeconfig apply -f objects.yaml
"""


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="devkube",
        description="A Kubernetes API server for laptops and CI: in memory, one process, up in half a second.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=EPILOG,
    )
    add = made.add_argument
    add("--listen", default="127.0.0.1", metavar="ADDRESS", help="address to bind to, default 127.0.0.1")
    add("--port", type=_port, default=6443, help="port to bind to, 0 picks a free one; default 6443")
    add("--kubeconfig", type=Path, help="write the kubeconfig here (always also into --directory)")
    add("--directory", type=Path, help="keep certificates and kubeconfig here; default: a temporary one")
    add("--name", dest="names", action="append", default=[], metavar="HOST", help="also in the certificate; repeat")
    add(
        "--authorization",
        choices=("RBAC", "AlwaysAllow"),
        default="RBAC",
        help="RBAC (default) decides by Role and binding objects, AlwaysAllow allows everything",
    )
    add("--admin-token", default="", help="bearer token of the admin; default: a random one")

    add(
        "--webhook-service",
        dest="webhook_services",
        type=_pair("NAMESPACE/NAME[:PORT]=HOST:PORT", r"[^/=]+/[^/:=]+(:\d+)?=.+:\d+"),
        action="append",
        default=[],
        metavar="NAMESPACE/NAME[:PORT]=HOST:PORT",
        help="where webhooks that name this Service are called; repeat",
    )
    add("--simulate", action="store_true", help="run controllers, a scheduler, nodes and kubelets")
    add("--nodes", type=int, default=1, help="nodes of the simulation, default 1")
    label = _pair("KEY=VALUE", "[^=]+=.*")
    add("--node-label", dest="node_labels", type=label, action="append", default=[], help="of every such node; repeat")
    add("--pull-seconds", type=float, default=1.0, help="what an image's pull takes when simulated, default 1")
    add("--history", type=int, default=10_000, help="changes kept per kind for watches that resume")
    return made


def settings_of(flags: argparse.Namespace) -> Settings:
    told = vars(flags)
    pairs = {name: dict(told[name]) for name in ("webhook_services", "node_labels")}
    return Settings(**{**told, **pairs, "names": tuple(flags.names)})


def main(argv: Sequence[str] | None = None) -> int:
    settings = settings_of(parser().parse_args(argv))
    import uvloop  # TLS costs half as much; after the flags are known to be good: --help is instant

    try:
        uvloop.run(_serve(settings))
    except (OSError, ValueError, StatusError) as error:
        print(f"devkube: {error}", file=sys.stderr)
        return 1
    return 0


async def _serve(settings: Settings) -> None:
    from devkube.server import DevKube

    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with DevKube(settings) as api:
        # What exists now lives as long as the process: the collector need not look at it again and again.
        gc.freeze()
        ready = {
            "event": "ready",
            "pid": os.getpid(),
            "url": api.url,
            "kubeconfig": str(settings.kubeconfig or api.kubeconfig),
            "certificate_authority": str(api.ca_file),
        }
        print(json.dumps(ready), flush=True)
        await stop.wait()


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: give a number up to 65535, 0 picks a free one")
    return int(text)


def _pair(form: str, pattern: str) -> Callable[[str], tuple[str, str]]:
    def pair(text: str) -> tuple[str, str]:
        if not re.fullmatch(pattern, text):
            raise argparse.ArgumentTypeError(f"{text!r} is not {form}")
        key, _, value = text.partition("=")
        return key, value

    return pair
