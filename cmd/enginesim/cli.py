"""`enginesim`: one simulated engine as a process of its own.

When it is ready it prints one JSON line on stdout with the addresses it is bound to, and nothing more. Exit codes:
0 after SIGTERM or SIGINT, 1 when a port is in use, 2 for flags that make no sense.
"""

import argparse
import asyncio
import os
import secrets
import signal
import sys
from collections.abc import Sequence

import msgspec
import zmq
from aiohttp import web

from enginesim import engine, forms, publisher, server

EPILOG = """Releases: vllm-0.9 to vllm-0.33, sglang-0.4.7 to sglang-0.5.22 and later.

It serves, on --http:
  POST /v1/generate         {"token_ids": [1, 2, 3], "max_tokens": 16}
  POST /truth               {"token_ids": [1, 2, 3]}: how many leading tokens are cached
  POST /reset_prefix_cache  empties the cache and says so
  GET  /metrics, /health

Example: enginesim --form vllm-0.33 --model demo --events tcp://127.0.0.1:0 --http 127.0.0.1:0
"""


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="enginesim",
        description="A simulated inference engine: a real prefix cache and real KV events, no model.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=EPILOG,
    )
    made.add_argument("--form", type=_form, default="vllm-0.33", help="release to imitate: vllm-0.13, sglang-0.5.22, …")
    made.add_argument("--model", default="demo-model", help="the served model's name")
    made.add_argument("--block-size", type=int, default=16, help="tokens per block (SGLang: page), default 16")
    made.add_argument("--capacity-blocks", type=int, default=4096, help="blocks in the cache of each rank")
    made.add_argument("--events", type=_tcp, default="tcp://*:5557", help="where KV events are published; port 0 picks")
    made.add_argument("--replay", type=_replay, default=None, help="where past batches are replayed, or none (default)")
    made.add_argument("--buffer-steps", type=int, default=10_000, help="batches kept for replay")
    made.add_argument("--topic", default="", help="topic of every event")
    made.add_argument("--http", type=_address, default="127.0.0.1:8000", help="HOST:PORT of the API; port 0 picks")
    made.add_argument("--data-parallel-size", type=int, default=1, help="ranks, each at port + rank")
    made.add_argument("--hash-seed", default="random", help="seed of the block hashes: random (default) or a number")
    made.add_argument("--bytes-hashes", action="store_true", help="vLLM >= 0.10.2: raw digests, not 64-bit numbers")
    made.add_argument("--silent", action="store_true", help="an engine without KV events enabled: nothing is bound")
    return made


def main(argv: Sequence[str] | None = None) -> None:
    made = parser()
    flags = made.parse_args(argv)
    if flags.hash_seed != "random" and not flags.hash_seed.isdecimal():
        made.error(f"--hash-seed is {flags.hash_seed!r}; give random or a number")
    for name in ("block_size", "capacity_blocks", "buffer_steps", "data_parallel_size"):
        if getattr(flags, name) < 1:
            made.error(f"--{name.replace('_', '-')} must be at least 1")
    try:
        asyncio.run(_serve(flags))
    except (zmq.ZMQError, OSError) as error:
        sys.exit(f"enginesim: cannot bind ({flags.events}, replay {flags.replay}, http {flags.http}): {error}")


async def _serve(flags: argparse.Namespace) -> None:
    count = flags.data_parallel_size
    published: list[publisher.Publisher] = []
    if not flags.silent:
        published = publisher.publishers(
            count,
            flags.events,
            flags.replay,
            topic=flags.topic,
            buffer_steps=flags.buffer_steps,
            replay_topic=flags.form.replay_topic,
        )
    try:
        seed = secrets.token_bytes(32) if flags.hash_seed == "random" else int(flags.hash_seed).to_bytes(32, "big")
        ranks = [
            engine.Engine(
                flags.form,
                model=flags.model,
                block_size=flags.block_size,
                capacity=flags.capacity_blocks,
                seed=seed,
                publish=published[rank].publish if published else None,
                rank=rank,
                wire_rank=rank if flags.form.kind == "vllm" or count > 1 else None,
                bytes_hashes=flags.bytes_hashes,
            )
            for rank in range(count)
        ]
        await _serve_http(flags, ranks, published)
    finally:
        for each in published:
            each.close()


async def _serve_http(
    flags: argparse.Namespace, ranks: list[engine.Engine], published: list[publisher.Publisher]
) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    runner = web.AppRunner(server.Server(ranks).application(), access_log=None, shutdown_timeout=1)
    await runner.setup()
    try:
        host, port = flags.http
        await web.TCPSite(runner, host, port).start()
        ready = {
            "event": "ready",
            "pid": os.getpid(),
            "form": flags.form.name,
            "model": flags.model,
            "block_size": flags.block_size,
            "data_parallel_size": flags.data_parallel_size,
            "http": f"http://{host}:{runner.addresses[0][1]}",
            "events": published[0].events if published else None,
            "replay": published[0].replay if published else None,
        }
        print(msgspec.json.encode(ready).decode(), flush=True)
        await stop.wait()
    finally:
        await runner.cleanup()


def _form(text: str) -> forms.Form:
    try:
        return forms.form(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _tcp(text: str) -> str:
    host, _, port = text.removeprefix("tcp://").rpartition(":")
    if not text.startswith("tcp://") or not host or not port.isdecimal() or int(port) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no address: give tcp://*:PORT or tcp://HOST:PORT")
    return text


def _replay(text: str) -> str | None:
    return None if text == "none" else _tcp(text)


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no address: give HOST:PORT")
    return host, int(port)


if __name__ == "__main__":
    main()
