"""Canaries: token ids and prompt text that went through engines, subscribers, server and lookups are found nowhere.

Searched: every stored message of both streams, every log line of every role, metrics, snapshot, and the journal's
neighbour, the dev directory's settings. Not searched: the journal itself and the quarantine, which stay in the Pod.
Rules: design.md section 2 ("Privacy"), section 3 ("Token ids never leave the Pod").
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from eventstore.jetstream import connect, kvlog
from eventstore.jetstream import store as jetstream
from tests.support import natsserver
from warmlog import lab

#: Recognisable in every form, and none that a float printed in full could contain. A vLLM token id is a u32.
CANARIES = [3_735_928_559, 3_405_691_582, 2_882_343_476, 4_207_599_147]
TEXT = "xyzzy-the-quick-brown-canary"
PROMPT = CANARIES * 80


def forms(token: int) -> Iterator[bytes]:
    yield str(token).encode()
    yield f"{token:x}".encode()
    yield f"{token:X}".encode()
    for order in ("little", "big"):
        yield token.to_bytes(4, order)  # type: ignore[arg-type]
    yield msgspec.msgpack.encode(token)


PLANTED = {form: f"{token} as {form!r}" for token in CANARIES for form in forms(token)} | {TEXT.encode(): "the text"}


def test_the_search_would_find_them() -> None:
    for hidden in (msgspec.json.encode(PROMPT), msgspec.msgpack.encode(PROMPT), CANARIES[1].to_bytes(4, "little")):
        assert found({"place": hidden})


def found(places: dict[str, bytes]) -> list[str]:
    return [
        f"{what} in {where}" for where, content in places.items() for form, what in PLANTED.items() if form in content
    ]


async def traffic(running: lab.Lab) -> None:
    """Stores, evictions, restarts, hits and misses, malformed questions and events: all with canaries."""
    for spec in lab.ENGINES:
        await running.start_engine(spec)
        await running.start_subscriber(spec)
    for spec in lab.ENGINES:
        for turn in range(3):
            body = {"token_ids": [*PROMPT, *[turn] * 64, *PROMPT], "max_tokens": 1}
            await running.post(f"{running.engines[spec.name].http}/v1/generate", body)
    await running.start_server()
    who = {"tenant_id": lab.TENANT, "model_id": lab.MODEL, "hash_scheme": "vllm"}

    async def matched() -> bool:
        asked = {**who, "token_ids": PROMPT, "explain": True, "prompt_text": TEXT}
        answer = await running.post(f"{running.lookup}/v1/lookup", asked)
        return bool(answer["replica_scores"])

    await running.until(matched, what="a match")
    wrong = [
        {**who, "prompt_text": TEXT},
        {**who, "token_ids": [CANARIES[0], -1]},
        {**who, "token_ids": [CANARIES[0] << 32]},
        {**who, "token_ids": [TEXT]},
        {**who, "token_ids": TEXT},
        {**who, "prefix_hash": TEXT},
        {**who, "block_hashes": [TEXT], "block_token_counts": [CANARIES[0]]},
        {**who, "tenant_id": "elsewhere", "token_ids": PROMPT},
    ]
    for question in wrong:
        async with running.http.post(f"{running.lookup}/v1/lookup", json=question) as answer:
            assert answer.status in (200, 400)
    await running.processes[f"subscriber-{lab.ENGINES[0].name}"].kill()
    await running.start_subscriber(lab.ENGINES[0])
    await running.processes[lab.ENGINES[1].name].kill()
    await running.start_engine(lab.ENGINES[1])
    await asyncio.sleep(3)  # gone, restart, a summary, moments


async def test_no_token_and_no_text_is_in_any_stream_line_metric_or_snapshot(tmp_path: Path) -> None:
    natsserver.require()
    places: dict[str, bytes] = {}
    async with lab.Lab(tmp_path) as running:
        await running.start_nats()
        await traffic(running)
        for name in ("metrics", "readyz"):
            async with running.http.get(f"{running.lookup}/{name}") as answer:
                places[name] = await answer.read()
        async with running.http.get(f"{running.admin}/snapshot") as answer:
            places["snapshot"] = await answer.read()
        options = connect.Options(name="test", token=running.token)
        async with await connect.connect(running.nats_url, options, wait=5) as connection:
            async for events in jetstream.JetStreamStore(connection).read():
                places |= {f"WARMLOG #{one.sequence}": one.subject.encode() + one.body for one in events}
            async for messages in kvlog.JetStreamKV(connection).read():
                places |= {f"WARMLOG_KV #{one.sequence}": one.subject.encode() + one.payload for one in messages}
    for log in (tmp_path / "logs").iterdir():
        places[log.name] = log.read_bytes()
    assert len([where for where in places if where.startswith("WARMLOG_KV")]) >= 4  # how many depends on the flushes
    assert len([where for where in places if where.startswith("WARMLOG #")]) >= 3
    assert found(places) == []


@pytest.mark.parametrize("form", PLANTED, ids=PLANTED.values())
def test_every_form_is_searched_for(form: bytes) -> None:
    assert found({"somewhere": b"..." + form + b"..."})
