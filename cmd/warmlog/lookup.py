"""Ask which replica holds a prompt: a running server now, or the log about the past.

Examples:
  warmlog lookup --tenant-id team-a --model-id MODEL --token-ids 1,2,3
  warmlog lookup --tenant-id team-a --model-id MODEL --token-ids @prompt.json --explain
  warmlog lookup --at 03:12 --tenant-id team-a --model-id MODEL --token-ids @prompt.json

Now: the question goes over NATS (wlq.lookup) or to --server http://host:8080. With --at: both logs are read up to the
newest moment at or before it, and the same decision is taken again here; the moment that was used is named. Exit code
0 also for NO_HINT: that is an answer.
"""

import argparse
import asyncio
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import aiohttp
import msgspec

from eventstore import replay, store, streams, subjects
from eventstore.jetstream import bus, kvlog
from eventstore.jetstream import store as jetstream
from handlers.prefixindex import answers, lookup, request
from warmlog import cli, flags, link, output, past, place, when

TIMEOUT: Final = 5.0  # seconds for an answer
MOST_TOKENS: Final = 1_000_000
#: What a score is made of, beside the matched tokens.
FACTORS: Final = (
    ("freshness", "freshness"),
    ("pressure", "pressure_factor"),
    ("slo", "slo_bias"),
    ("distinguishing", "distinguishing_power"),
)


def token_ids(text: str) -> list[int]:
    """`1,2,3`, `1..256`, or @file with a JSON array or packed u32 little-endian (*.u32). Raises ValueError."""
    if text.startswith("@"):
        return tokens_of_file(Path(text[1:]))
    found: list[int] = []
    room = MOST_TOKENS
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        first, dots, last = part.partition("..")
        if not first.isdecimal() or (dots and not last.isdecimal()):
            raise ValueError(f"{part!r} is no token id and no range such as 1..256")
        more = range(int(first), int(last if dots else first) + 1)
        if not more:
            raise ValueError(f"{part[:80]!r} is a range that ends before it begins")
        room -= more.stop - more.start
        if room < 0 or more.stop > 2**32:
            raise ValueError(f"{part[:80]!r}: ids are at most 2**32-1, and a prompt has at most {MOST_TOKENS} of them")
        found += more
    return found


def tokens_of_file(path: Path) -> list[int]:
    try:
        raw = path.read_bytes()
        if path.suffix == ".u32":
            return memoryview(raw).cast("I").tolist()
        return msgspec.json.decode(raw, type=list[int])
    except (OSError, msgspec.MsgspecError, TypeError) as error:
        raise ValueError(f"{path} holds no token ids: {error}; give a JSON array, or packed u32 as *.u32") from None


FLAGS: Final = (
    *link.FLAGS,
    link.DIR,
    flags.Flag("server", "http://host:port of a server's LookupRoute, instead of NATS"),
    flags.Flag("at", "ask about this moment: a sequence of WARMLOG, a time (UTC unless it says) or an age (-90s)"),
    flags.Flag("tenant-id", "the tenant, usually the Pod's namespace", "default"),
    flags.Flag("model-id", "the model", None),
    flags.Flag("hash-scheme", "the namespace of keys", "vllm"),
    flags.Flag("adapter-id", "the LoRA adapter"),
    flags.Flag("token-ids", "1,2,3 or 1..256 or @file (JSON array, or packed as *.u32)", "", token_ids),
    flags.Flag("prefix-hash", "16 hex digits: one key instead of token ids", "", flags.key),
    flags.Flag("prefix-token-count", "tokens that --prefix-hash stands for", "0", flags.at_least(0)),
    flags.Flag("ttft-ms", "the time to first token that is wanted", "0", flags.at_least(0)),
    flags.Flag("explain", "what was known of each replica, and how scores came about", "false", flags.boolean),
    output.FLAG,
)


class Told(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is printed. `moment` is set for a question about the past."""

    answer: Any
    moment: str = ""


def question(values: flags.Values) -> dict[str, Any]:
    """The JSON of the question. Raises UsageError when it asks for nothing."""
    asked: dict[str, Any] = {
        "model_id": values["model-id"],
        "tenant_id": values["tenant-id"],
        "hash_scheme": values["hash-scheme"],
        "adapter_id": values["adapter-id"],
        "token_ids": values["token-ids"],
        "prefix_hash": values["prefix-hash"],
        "prefix_token_count": values["prefix-token-count"],
        "slo": {"ttft_ms": values["ttft-ms"]},
        "explain": values["explain"],
    }
    if not asked["token_ids"] and not asked["prefix_hash"]:
        raise flags.UsageError("give --token-ids or --prefix-hash: there is nothing to look up")
    return asked


async def ask_now(values: flags.Values) -> Told:
    body = msgspec.json.encode(question(values))
    server = values["server"]
    if server and not server.startswith(("http://", "https://")):
        raise flags.UsageError(f"--server: {server!r} is not http(s)://host:port of a server's LookupRoute")
    if server or not values["nats"]:
        note = place.read(place.directory(values["dir"]))
        if server or note is not None:
            return Told(await over_http(server or (note.lookup if note else ""), body))
    async with await link.open_link(values, "tool") as connection:
        answer = await bus.JetStreamBus(connection).request(subjects.LOOKUP, body, timeout=TIMEOUT)
    return Told(understood(answer))


async def over_http(server: str, body: bytes) -> Any:
    timeout = aiohttp.ClientTimeout(total=TIMEOUT)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as client,
            client.post(f"{server}/v1/lookup", data=body, headers={"content-type": "application/json"}) as reply,
        ):
            return understood(await reply.read())
    except (aiohttp.ClientError, TimeoutError) as error:
        raise store.Unavailable(f"{server} does not answer: {error or type(error).__name__}") from error


def understood(raw: bytes) -> Any:
    answer = msgspec.json.decode(raw)
    if "error" in answer:
        raise flags.UsageError(answer["error"])
    return answer


async def ask_then(values: flags.Values) -> Told:
    try:
        at = when.parse(values["at"], datetime.now(UTC))
        asked = request.decode(msgspec.json.encode(question(values)))
    except (ValueError, request.RequestError) as error:
        raise flags.UsageError(str(error)) from None
    async with await link.open_link(values, "tool") as connection:
        log, kv = jetstream.JetStreamStore(connection), kvlog.JetStreamKV(connection)
        snaps = jetstream.JetStreamStore(connection, name=streams.SNAPSHOTS)
        known, governed, moment = await past.index_at(log, kv, at, snaps=snaps)
    started = time.perf_counter_ns()
    decision = lookup.decide(known, governed, asked, moment.time_ns, started_ns=started, clock=time.perf_counter_ns)
    return Told(msgspec.json.decode(answers.encode(decision.response)), str(moment))


def human(told: Told) -> str:
    answer = told.answer
    lines = [f"at {told.moment}"] if told.moment else []
    lines.append(answer["reason_code"])
    if (detail := answer.get("detail")) is not None:
        lines[-1] += f": {detail['text']} ({detail['code']})"
    for score in answer["replica_scores"]:
        lines.append(
            f"  {score['replica_id']:<24} matched {score['matched_tokens']:>7}  score {score['score']:>10.2f}  "
            f"{score['tier'].removeprefix('CACHE_TIER_')}"
        )
    for facts in answer.get("explain", []):
        why = f"  left out: {facts['excluded']}" if facts["excluded"] else ""
        factors = " x ".join(f"{name} {facts[key]:.3f}" for name, key in FACTORS)
        lines.append(
            f"  {facts['replica_id']:<24} {facts['state']}, {facts['blocks']} blocks: "
            f"matched {facts['matched_tokens']} x {factors} = {facts['score']:.2f}{why}"
        )
    return "\n".join(lines)


def run(values: flags.Values, arguments: argparse.Namespace) -> int:
    try:
        told = asyncio.run(ask_then(values) if values["at"] else ask_now(values))
    except replay.ReplayError as error:
        raise cli.Failure(str(error)) from error
    output.show(told, form=values["output"], human=human)
    return 0
