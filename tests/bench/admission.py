"""Pod admission over TLS, decided and recorded, beside a bare aiohttp handler that parses and echoes the same review:
`python -m tests.bench.admission`.

    ours    the webhook's own parts: listener, Desk, a world with one CacheBackend that matches, decisions appended to a
            real nats-server before they are answered
    peer    aiohttp on the same loop and TLS settings: `await request.json()`, `web.json_response(review)`

Each is a process of its own under uvloop, on a core of its own, as it would be; client and nats-server share the other.
One client, the same connections and bytes, Pods of one Deployment. Rounds alternate; the ratio is the median over
neighbours in time. Then ours at half of its peak in an open loop; of some windows the median is told. The peer's own
beside it, at the same rate and in the same minute, says what the machine adds.
"""

import asyncio
import contextlib
import gc
import itertools
import os
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec
import uvloop
from aiohttp import web

from crds.cachebackend import CACHE_BACKENDS
from eventstore import streams
from eventstore.jetstream import connect, provision
from eventstore.jetstream.store import JetStreamStore
from handlers.cachebackend.inject import Options
from subscribers.http import admission, recording, reviewing
from tests.bench import asking
from tests.bench.row import Row
from tests.support import natsserver, reviews
from tests.support.worlds import Teller
from warmlog import certificates, systems

CORES: Final = sorted(os.sched_getaffinity(0))
PATH: Final = "/mutate--v1-pod"
CONNECTIONS: Final = 16
ROUNDS: Final = 15
SECONDS: Final = 0.5
WINDOWS: Final = 7
WINDOW: Final = 2.0
BAR: Final = 1.0
P99_BAR: Final = 5.0  # milliseconds
BACKEND: Final = {
    "metadata": {"name": "kv", "namespace": "ml", "uid": "uid-kv"},
    "spec": {
        "runtime": "VLLM",
        "engineSelector": {"matchLabels": {"serve": "qwen"}},
        "observation": {"modelID": "qwen"},
        "remoteStorage": {"provider": "LMCacheServer", "ownership": "External", "endpoint": "lm://cache.ml:65432"},
    },
}


def context(pair: str) -> ssl.SSLContext:
    found = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    found.load_cert_chain(pair)
    return found


async def serve_ours(pair: str, nats: str) -> None:
    tell = Teller(CACHE_BACKENDS)
    tell.seen(CACHE_BACKENDS, BACKEND)
    async with await connect.connect(nats, connect.Options(name="bench"), wait=5) as connection:
        log = JetStreamStore(connection)
        desk = admission.Desk(
            systems.admitters(Options(subscriber_image="subscriber:1")),
            world=lambda: tell.world,
            live=_never,
            values=_never,
            recorder=recording.Recorder(log.append, log.offer),
            identity=admission.Identity("bench", "1", "sha256:0"),
        )
        tell.world.contact_ns = time.time_ns() + 3600 * 1_000_000_000
        listener = reviewing.Listener(reviewing.Routes(desk), context(pair))
        gc.freeze()
        print(await listener.start("127.0.0.1", 0), flush=True)
        await asyncio.to_thread(sys.stdin.read)
        await listener.drain(grace=1)
        await desk.recorder.drain(5)
        wired = desk.decided["mpod.inferencecache.io", "patched", "injected"]
        print(wired, desk.recorder.stored, desk.recorder.dropped + desk.recorder.refused, flush=True)
        await log.close()


async def _never(*asked: object) -> Any:
    raise AssertionError("nothing is read live")


async def serve_peer(pair: str) -> None:
    async def echo(request: web.Request) -> web.Response:
        return web.json_response(await request.json())

    app = web.Application(client_max_size=16 << 20)
    app.router.add_post(PATH, echo)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context(pair))
    await site.start()
    gc.freeze()
    print(runner.addresses[0][1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await runner.cleanup()


def request(number: int) -> bytes:
    body = REVIEW.replace(b"UID", b"%012x" % number).replace(b"VOLUM", b"%05x" % (number & 0xFFFFF))
    return HEAD % len(body) + body


def _review() -> bytes:
    """A Pod of a Deployment, as an API server asks about it: what tells it from the one before is the review's uid and
    the random name of its account's volume."""
    found = msgspec.json.encode(reviews.of_pod(reviews.ENGINE, uid="UID"))
    return found.replace(b"kube-api-access-x7k2p", b"kube-api-access-VOLUM")


REVIEW: Final = _review()
HEAD: Final = (
    b"POST /mutate--v1-pod?timeout=3s HTTP/1.1\r\nHost: warmlog-webhook.inference-cache-system.svc:443\r\n"
    b"User-Agent: kube-apiserver-admission\r\nContent-Length: %d\r\nAccept: application/json, */*\r\n"
    b"Content-Type: application/json\r\nAccept-Encoding: gzip\r\n\r\n"
)


@contextlib.contextmanager
def process(*words: str) -> Iterator["subprocess.Popen[str]"]:
    made = subprocess.Popen(
        [sys.executable, "-m", "tests.bench.admission", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with made:
        try:
            yield made
        finally:
            if made.poll() is None:
                made.kill()


def _line(made: "subprocess.Popen[str]") -> list[int]:
    assert made.stdout is not None
    return [int(word) for word in made.stdout.readline().split()]


def _cpu(made: "subprocess.Popen[str]") -> float:
    """Seconds of CPU so far."""
    fields = Path(f"/proc/{made.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def apart(*servers: "subprocess.Popen[str]") -> None:
    """A core for what is measured; whoever asks and what is asked share the others, as they were started."""
    for one in servers:
        os.sched_setaffinity(one.pid, {CORES[-1]})


async def rows() -> list[Row]:
    os.sched_setaffinity(0, CORES[:-1] or CORES)
    made = certificates.make(["127.0.0.1"], now=datetime.now(UTC))
    with tempfile.TemporaryDirectory() as directory:
        pair = Path(directory) / "pair.pem"
        pair.write_text(made.key + made.certificate)
        nats = await natsserver.Server(Path(directory) / "nats").start()
        try:
            async with await connect.connect(nats.url, connect.Options(name="bench"), wait=5) as connection:
                await provision.provision(connection, streams.control_log(max_bytes=8 << 30))
            with process("ours", str(pair), nats.url) as ours, process("peer", str(pair)) as peer:
                return measure(ours, peer, made.authority)
        finally:
            await nats.stop()


def percentile(windows: list[list[float]], part: int) -> float:
    """Of each window first, then the median."""
    return statistics.median(took[len(took) * part // 100] for took in windows)


def measure(ours: "subprocess.Popen[str]", peer: "subprocess.Popen[str]", authority: str) -> list[Row]:
    apart(ours, peer)
    (our_port,), (peer_port,) = _line(ours), _line(peer)
    questions = (request(number) for number in itertools.count(1))
    mine, theirs, my_cpu, their_cpu = [], [], [], []
    for _ in range(ROUNDS):
        before = _cpu(peer)
        with asking.askers(peer_port, authority, questions, CONNECTIONS) as asked:
            theirs.append(asking.peak(asked, questions, SECONDS))
        their_cpu.append((_cpu(peer) - before) / (theirs[-1] * SECONDS))
        before = _cpu(ours)
        with asking.askers(our_port, authority, questions, CONNECTIONS) as asked:
            mine.append(asking.peak(asked, questions, SECONDS))
        my_cpu.append((_cpu(ours) - before) / (mine[-1] * SECONDS))
    ratio = statistics.median(one / other for one, other in zip(mine, theirs, strict=True))
    rate = statistics.median(mine) / 2
    ports = {"ours": our_port, "peer": peer_port}
    windows: dict[str, list[list[float]]] = {who: [] for who in ports}
    for _ in range(WINDOWS):
        for who, port in ports.items():
            with asking.askers(port, authority, questions, CONNECTIONS) as asked:
                windows[who].append(asking.latencies(asked, questions, rate, WINDOW))
    p50, p99 = percentile(windows["ours"], 50), percentile(windows["ours"], 99)
    assert ours.stdin is not None
    ours.stdin.close()
    wired, stored, lost = _line(ours)
    assert (wired, 0) == (stored, lost)
    return [
        Row("bare aiohttp, parse and echo, TLS", statistics.median(theirs), "reviews/s"),
        Row("Pod admission, decided and recorded, TLS", statistics.median(mine), "reviews/s"),
        Row("admission / bare aiohttp", ratio, "ratio", BAR, ratio >= BAR),
        Row("CPU of bare aiohttp per review", statistics.median(their_cpu) * 1e6, "us"),
        Row("CPU of the webhook per review", statistics.median(my_cpu) * 1e6, "us"),
        Row(f"bare aiohttp at {rate:,.0f}/s, p99", percentile(windows["peer"], 99), "ms"),
        Row(f"admission at {rate:,.0f}/s, p50", p50, "ms"),
        Row(f"admission at {rate:,.0f}/s, p99", p99, "ms", P99_BAR, p99 <= P99_BAR),
    ]


if __name__ == "__main__":
    if sys.argv[1:2] == ["ours"]:
        uvloop.run(serve_ours(*sys.argv[2:]))
    elif sys.argv[1:2] == ["peer"]:
        uvloop.run(serve_peer(*sys.argv[2:]))
    else:
        for row in uvloop.run(rows()):
            print(row)
