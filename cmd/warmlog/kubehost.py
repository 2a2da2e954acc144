"""devkube as a process of the laptop whose front can be taken away and given back, as an apiserver while etcd lives on.

SIGUSR1: every connection is cut and nothing listens any more. SIGUSR2: it listens on the same port again, with the same
objects; the simulated cluster went on meanwhile. Flags and the ready line are devkube's own.
"""

import asyncio
import functools
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from devkube import certificates, cli
from devkube.http import HttpServer, tls
from devkube.options import Settings
from devkube.server import DevKube


class Front:
    """The part that listens."""

    def __init__(self, api: DevKube, directory: Path) -> None:
        self.api = api
        names = ("ca.crt", "server.crt", "server.key")
        self.context = tls(certificates.Files(*(directory / name for name in names)))
        self.port = int(api.url.rpartition(":")[2])

    async def take_away(self) -> None:
        self.api.faults.cut_connections()
        await self.api.http.stop()

    async def give_back(self) -> None:
        self.api.http = HttpServer(self.api.frontend)
        self.api.faults.cut_connections = self.api.http.cut
        await self.api.http.start(self.api.settings.listen, self.port, self.context)


async def serve(settings: Settings) -> None:
    """Until SIGTERM or SIGINT. What signals ask for is done one after the other."""
    loop, told = asyncio.get_running_loop(), asyncio.Queue[int]()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2):
        loop.add_signal_handler(number, functools.partial(told.put_nowait, number))
    async with DevKube(settings) as api:
        assert settings.directory is not None, "the certificates must outlive the front: give --directory"
        front = Front(api, settings.directory)
        print(f'{{"url": "{api.url}", "kubeconfig": "{api.kubeconfig}"}}', flush=True)
        while True:
            match await told.get():
                case signal.SIGUSR1:
                    await front.take_away()
                case signal.SIGUSR2:
                    await front.give_back()
                case _:
                    return


def main(argv: Sequence[str] | None = None) -> int:
    try:
        asyncio.run(serve(cli.settings_of(cli.parser().parse_args(argv))))
    except (OSError, ValueError) as error:
        print(f"devkube: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
