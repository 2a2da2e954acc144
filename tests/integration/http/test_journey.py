"""From a subscriber's message through the intake and the log into the index, and out as an answer on port 8080."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import msgspec
import pytest

from eventstore import kvwire, memory, subjects
from handlers.prefixindex import index, keys, outcomes
from subscribers import metrics
from subscribers.http import admin, health, hotpath, identity, intake, lookups, meters, orders, routes
from subscribers.kvevents import sink
from warmlog import selftest

TOKENS = list(range(1, 161))
KEYS = keys.chain(keys.pack_tokens(TOKENS), 16)
MODEL = "org/model"


class Server:
    """Both ports over one index that follows a log in memory."""

    def __init__(self) -> None:
        self.kv, self.bus = memory.MemoryKV(), memory.MemoryBus()
        self.index, self.box, self.registry = index.Index(), orders.OrderBox(), metrics.Registry()
        self.moved = asyncio.Event()
        self.edge = lookups.LookupEdge(
            lookups.over(self.index, now_ns=time.time_ns),
            credit=self.index.credit,
            meter=meters.LookupMeter(self.registry),
        )
        self.listener = hotpath.Listener(
            routes.Routes(
                lookup=self.edge,
                ready=lambda: health.reply(
                    health.judge(health.Facts(caught_up=True, incomplete=[one.name for one in self.index.incomplete()]))
                ),
                metrics=self.registry.render,
                body_limit=1 << 20,
            )
        )
        self.admin = admin.AdminServer(
            admin.create_app(
                snapshot=lambda: b"{}",
                probe_index=selftest.SelfTest(),
                kv_intake=intake.Intake(self.kv.publish, self.box),
                authenticate=identity.anonymous,
            ),
            grace=0.2,
        )

    async def follow(self) -> None:
        async for batch in self.kv.read(follow=True):
            for message in batch:
                for outcome in self.index.apply(*message):
                    if isinstance(outcome, outcomes.Order):
                        self.box.put(kvwire.Control(outcome.order, outcome.session, outcome.reason))
            self.moved.set()

    async def caught_up(self) -> None:
        async with asyncio.timeout(5):
            while self.index.position < (await self.kv.extent()).last:
                self.moved.clear()
                await self.moved.wait()


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    made = Server()
    await made.bus.hear(orders.ALL_ORDERS, made.box.hear)
    await lookups.serve_nats(made.bus, made.edge)
    follower = asyncio.create_task(made.follow())
    try:
        yield made
    finally:
        await made.admin.stop()
        await made.listener.drain(grace=0.2)
        follower.cancel()
        await asyncio.gather(follower, return_exceptions=True)


async def test_a_block_that_was_posted_is_a_match_on_both_transports_and_by_both_forms(server: Server) -> None:
    lookup_port = await server.listener.start("127.0.0.1", 0)
    admin_port = await server.admin.start("127.0.0.1", 0)
    way = sink.IntakeSink(f"http://127.0.0.1:{admin_port}", tenant="t", model=MODEL, replica="r0")
    heard: list[kvwire.Control] = []
    await way.listen(heard.append)
    try:
        await journey(server, way, heard, lookup_port, admin_port)
    finally:
        await way.close()


async def journey(
    server: Server, way: sink.Sink, heard: list[kvwire.Control], lookup_port: int, admin_port: int
) -> None:
    async with aiohttp.ClientSession(f"http://127.0.0.1:{lookup_port}") as http:
        head = (kvwire.VERSION, "uid", "s1")
        await way.send(kvwire.encode(kvwire.Begin(*head, 0, 0, 0, MODEL, "vllm", "complete", "start")))
        await server.caught_up()
        async with http.get("/readyz") as answer:
            assert (answer.status, (await answer.json())["replicasIncomplete"]["count"]) == (503, 1)
        group = kvwire.Group("", 16, kvwire.pack_keys(KEYS), bytes([kvwire.T1]) * len(KEYS))
        await way.send(kvwire.encode(kvwire.Chunk(*head, 1, 0, [group])))
        await way.send(kvwire.encode(kvwire.End(*head, 2, 0, "complete", len(KEYS), sum(KEYS) & kvwire.MASK64)))
        await server.caught_up()
        async with http.get("/readyz") as answer:
            assert answer.status == 200

        question = {"model_id": MODEL, "tenant_id": "t", "hash_scheme": "vllm", "token_ids": TOKENS}
        async with http.post("/v1/lookup", json=question) as answer:
            by_json = await answer.json()
        assert by_json["reason_code"] == "PREFIX_MATCH"
        assert scores(by_json) == [("r0", 160)]

        async with http.post(
            "/v1/lookup",
            params={"model_id": MODEL, "tenant_id": "t", "hash_scheme": "vllm"},
            data=keys.pack_tokens(TOKENS),
            headers={"content-type": "application/x-u32le"},
        ) as answer:
            assert scores(await answer.json()) == scores(by_json)
        over_nats = await server.bus.request(subjects.LOOKUP, msgspec.json.encode(question), timeout=1)
        assert scores(msgspec.json.decode(over_nats)) == scores(by_json)
        async with http.post("/v1/lookup", json=question | {"token_ids": [-1]}) as answer:
            assert (answer.status, list(await answer.json())) == (400, ["error"])
        async with http.get("/metrics") as answer:
            text = await answer.text()
        assert 'warmlog_lookup_answers_total{transport="http",reason="PREFIX_MATCH"} 2' in text

        await way.send(kvwire.encode(kvwire.Beat(*head, 9, "complete", 0, 0)))  # a hole in n
        await server.caught_up()
        await way.send(kvwire.encode(kvwire.Beat(*head, 10, "complete", 0, 0)))
        assert [(order.order, order.session) for order in heard] == [("keyframe", "s1")]
    async with aiohttp.ClientSession(f"http://127.0.0.1:{admin_port}") as http:
        probe = {"backend": "a/b", "model": MODEL, "hashScheme": "vllm"}
        async with http.post("/probe", json=probe) as answer:
            assert await answer.json() == {"backend": "a/b", "ingest": "ok", "routing": "ok", "t2": "skipped"}


def scores(answer: dict[str, Any]) -> list[tuple[str, int]]:
    return [(one["replica_id"], one["matched_tokens"]) for one in answer["replica_scores"]]
