"""`devkube`: one API server as a process of its own.

When it is ready it prints one JSON line on stdout: the URL, the kubeconfig, the certificate of its authority.
Exit codes: 0 after SIGTERM or SIGINT, 1 when it cannot start (port in use, files not writable), 2 for flags that make
no sense.
"""

import argparse
import asyncio
import gc
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from devkube.builtin import names
from devkube.builtin.scalars import quantity_value
from devkube.options import Settings

EPILOG = """Use it:
  devkube --kubeconfig /tmp/devkube.kubeconfig &
  kubectl --kubeconfig /tmp/devkube.kubeconfig get namespaces

kubectl's typed commands (kubectl create deployment …) send protobuf, which is refused: write a file and use -f.

Webhooks that name a Service are called where --webhook-service says, which may be given several times:
  devkube --webhook-service my-system/my-webhook=127.0.0.1:9443
"""


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="devkube",
        description="A Kubernetes API server for laptops and CI: in memory, one process, up in half a second.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=EPILOG,
    )
    made.add_argument("--listen", default="127.0.0.1", metavar="ADDRESS", help="address to bind to, default 127.0.0.1")
    made.add_argument("--port", type=_port, default=6443, help="port to bind to, 0 picks a free one; default 6443")
    made.add_argument("--kubeconfig", type=Path, help="write the kubeconfig here (always also into --directory)")
    made.add_argument(
        "--directory",
        type=Path,
        help="keep certificates and kubeconfig here; default: a temporary one, removed at exit",
    )
    made.add_argument(
        "--name", action="append", default=[], metavar="HOST", help="further name or address of the certificate; repeat"
    )
    made.add_argument(
        "--authorization",
        choices=("RBAC", "AlwaysAllow"),
        default="RBAC",
        help="RBAC (default) decides by Role and binding objects, AlwaysAllow allows everything",
    )
    made.add_argument("--admin-token", default="", help="bearer token of the admin; default: a random one")
    made.add_argument(
        "--webhook-service",
        type=_service,
        action="append",
        default=[],
        metavar="NAMESPACE/NAME[:PORT]=HOST:PORT",
        help="where webhooks that name this Service are called; repeat",
    )
    made.add_argument("--simulate", action="store_true", help="run controllers, a scheduler, nodes and kubelets")
    made.add_argument("--nodes", type=_count, default=1, help="nodes of the simulation, default 1")
    made.add_argument(
        "--node-label", type=_pair, action="append", default=[], metavar="KEY=VALUE", help="of every such node; repeat"
    )
    made.add_argument(
        "--node-capacity",
        type=_quantity,
        action="append",
        default=[],
        metavar="RESOURCE=QUANTITY",
        help="of every such node, such as nvidia.com/gpu=8; repeat",
    )
    made.add_argument(
        "--pull-seconds", type=_seconds, default=1.0, help="what the simulation takes to pull an image, default 1"
    )
    made.add_argument("--history", type=_count, default=10_000, help="changes kept per kind for watches that resume")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    settings = settings_of(parser().parse_args(argv))
    try:
        with asyncio.Runner(loop_factory=_fast_loop()) as runner:
            runner.run(_serve(settings))
    except (OSError, ValueError) as error:
        print(f"devkube: {error}", file=sys.stderr)
        return 1
    return 0


def settings_of(flags: argparse.Namespace) -> Settings:
    return Settings(
        listen=flags.listen,
        port=flags.port,
        directory=flags.directory,
        kubeconfig=flags.kubeconfig,
        names=tuple(flags.name),
        authorization=flags.authorization,
        admin_token=flags.admin_token,
        webhook_services=dict(flags.webhook_service),
        simulate=flags.simulate,
        nodes=flags.nodes,
        node_labels=dict(flags.node_label),
        node_capacity=dict(flags.node_capacity),
        pull_seconds=flags.pull_seconds,
        history=flags.history,
    )


async def _serve(settings: Settings) -> None:
    from devkube.server import DevKube  # after the flags are known to be good: --help is instant

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


def _fast_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop where there is one (not on Windows): TLS costs half as much."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: give a number up to 65535, 0 picks a free one")
    return int(text)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no count: give a number of 1 or more")
    return int(text)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is no time: give seconds, 0 or more")
    return value


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if fault := ", ".join((*names.qualified(key), *names.label_value(value))):
        raise argparse.ArgumentTypeError(f"{text!r} is no label: {fault}")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key, value


def _quantity(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    try:
        good = bool(name) and quantity_value(value) >= 0
    except ValueError:
        good = False
    if not good:
        raise argparse.ArgumentTypeError(f"{text!r} is not RESOURCE=QUANTITY, such as nvidia.com/gpu=8 or memory=64Gi")
    return name, value


def _service(text: str) -> tuple[str, str]:
    service, _, address = text.partition("=")
    namespace, _, name = service.partition("/")
    host, _, port = address.rpartition(":")
    named, _, of_service = name.partition(":")
    if not namespace or not named or (of_service and not of_service.isdecimal()) or not host or not port.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAMESPACE/NAME[:PORT]=HOST:PORT")
    return service, address
