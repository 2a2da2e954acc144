"""What runs while faults happen: prompts to every engine, questions to the server, events appended to WARMLOG.

Load is moderate on purpose: this is a test of correctness, and the machine is shared. Each engine is called by one
task, so that the timeline knows the order of its calls. Every answer is kept with the times of asking and answering.

Two writers append probes through eventstore.jetstream: one plain, one that expects its subject's last sequence and so
would meet its own lost acks as conflicts. Both give the very same event again after Unavailable or StreamFull, as
EventStore.append promises that it is stored once. What was acknowledged is compared with the log afterwards (audit.py).
"""

import asyncio
import contextlib
import random
import time
from collections import deque
from collections.abc import AsyncIterator

import aiohttp
import msgspec

from enginesim import workload
from eventstore import envelope, events, store
from eventstore.jetstream import store as jetstream
from tests.faults import house, oracle, timeline
from warmlog import lab

SHAPE = workload.Shape(
    sessions=1_000_000,
    turns=(2, 5),
    systems=3,
    system_length=(96, 384),
    user_length=(24, 120),
    answer_length=(16, 64),
    replicas=len(house.ENGINES),
)
_RECENT = 150


class Probes(msgspec.Struct):
    """What was appended: id -> sequence when acknowledged; ids that may or may not be stored; what went wrong."""

    acked: dict[str, int] = {}
    unsure: set[str] = set()
    wrong: list[str] = []


class Load:
    """Use as `async with Load(house, seed).running()`. `answers` and `probes` grow; `generated` counts prompts."""

    def __init__(self, where: house.House, seed: str) -> None:
        self.house = where
        self.chance = random.Random(f"{seed} load")
        self.answers: list[oracle.Answer] = []
        self.probes = Probes()
        self.generated = 0
        self.unanswered = 0
        self.full_seen = 0
        self._turns = workload.turns(seed=self.chance.randrange(1 << 30), shape=SHAPE)
        self.prompts: deque[list[int]] = deque(maxlen=_RECENT)
        self._stop = asyncio.Event()
        self._queues = {spec.name: asyncio.Queue[workload.Turn](2) for spec in house.ENGINES}
        self._number = 0

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Load"]:
        """Everything runs; at the end calls that are under way are waited for."""
        self._stop.clear()
        assert self.house.driver is not None
        timeout = aiohttp.ClientTimeout(total=60)
        connector = aiohttp.TCPConnector(force_close=True)
        log = await jetstream.JetStreamStore.open(self.house.driver)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout, connector=connector) as http,
                asyncio.TaskGroup() as tasks,
            ):
                tasks.create_task(self._deal())
                for name, engine in self.house.engine_of.items():
                    tasks.create_task(self._serve(http, name, engine))
                for _ in range(2):
                    tasks.create_task(self._ask_on(http))
                tasks.create_task(self._append_plain(log))
                tasks.create_task(self._append_chain(log))
                try:
                    yield self
                finally:
                    self._stop.set()
        finally:
            await log.close()

    # Prompts ----------------------------------------------------------------------------------------------------------

    async def _deal(self) -> None:
        """Turns to the engine that the workload wants; one that is down or busy misses its turn."""
        while not self._stop.is_set():
            turn = next(self._turns)
            queue = self._queues[house.ENGINES[turn.replica].name]
            if not queue.full():
                queue.put_nowait(turn)
                self.prompts.append(turn.token_ids)
            await asyncio.sleep(self.chance.uniform(0.02, 0.07))

    async def _serve(self, http: aiohttp.ClientSession, name: str, engine: timeline.Engine) -> None:
        queue = self._queues[name]
        while not self._stop.is_set():
            try:
                turn = await asyncio.wait_for(queue.get(), 0.2)
            except TimeoutError:
                continue
            life = engine.life
            if life is None:
                continue
            body = msgspec.json.encode({"token_ids": turn.token_ids, "max_tokens": turn.max_tokens})
            sent = time.monotonic()
            answered: float | None = None
            try:
                async with http.post(f"{self.house.engines[name].http}/v1/generate", data=body) as answer:
                    await answer.read()
                    if answer.status != 200:
                        raise AssertionError(f"{name} answered {answer.status}")
                answered = time.monotonic()
                self.generated += 1
            except (aiohttp.ClientError, ConnectionError):
                pass  # cut off by a kill: it may have happened
            life.generated(turn.token_ids, turn.max_tokens, sent, answered)

    async def reset(self, name: str) -> None:
        """Empty one engine's cache, which says so on the wire. Nothing else may be calling it."""
        life = self.house.engine_of[name].life
        assert life is not None
        sent = time.monotonic()
        await self.house.post(f"{self.house.engines[name].http}/reset_prefix_cache", {})
        life.cleared(sent, time.monotonic())

    # Questions --------------------------------------------------------------------------------------------------------

    async def _ask_on(self, http: aiohttp.ClientSession) -> None:
        while not self._stop.is_set():
            await asyncio.sleep(self.chance.uniform(0.02, 0.08))
            if self.prompts:
                age = self.chance.expovariate(1 / 20) if self.chance.random() < 0.7 else self.chance.uniform(0, _RECENT)
                tokens = self.prompts[-min(len(self.prompts), 1 + int(age))]
                await self.ask(http, tokens, explain=self.chance.random() < 0.8)

    async def ask(
        self, http: aiohttp.ClientSession, tokens: list[int], *, explain: bool = True
    ) -> oracle.Answer | None:
        """One question, kept with its answer; None when there was none."""
        question = {"tenant_id": lab.TENANT, "model_id": lab.MODEL, "hash_scheme": "vllm", "token_ids": tokens}
        body = msgspec.json.encode({**question, "explain": explain})
        asked = time.monotonic()
        try:
            async with http.post(
                f"{self.house.lookup}/v1/lookup", data=body, headers={"content-type": "application/json"}
            ) as answer:
                raw = await answer.read()
                answered = time.monotonic()
                if answer.status != 200:
                    raise AssertionError(f"a well-formed question was answered {answer.status}: {raw[:200]!r}")
        except (aiohttp.ClientError, ConnectionError, TimeoutError):
            self.unanswered += 1
            return None
        said = msgspec.json.decode(raw)
        if said.get("detail", {}).get("code") == "starting":
            self.unanswered += 1
            return None
        credits = {}
        for one in said.get("explain", ()):
            credits[one["replica_id"]] = oracle.Credit(one["state"], one["matched_tokens"])
        for one in said["replica_scores"]:
            known = credits.get(one["replica_id"], oracle.Credit("", 0))
            credits[one["replica_id"]] = oracle.Credit(known.state, max(known.matched, one["matched_tokens"]))
        self.answers.append(
            oracle.Answer(
                tokens=tokens,
                asked=asked,
                answered=answered,
                credits=credits,
                explained=explain,
                reason=f"{said['reason_code']} {said.get('detail', {}).get('code', '')}".strip(),
            )
        )
        return self.answers[-1]

    # Events -----------------------------------------------------------------------------------------------------------

    def _probe(self, kind: str) -> envelope.Envelope:
        self._number += 1
        text = "x" * (200_000 if self.house.full and kind == "plain" else 40)
        seen = events.SettingsSeen(
            role=f"probe-{kind}", instance=str(self._number), version="0", settings={"text": text}
        )
        return events.event(
            seen,
            id=f"probe:{kind}:{id(self)}:{self._number}",
            source="/faults",
            subject=f"wl.settings.probe-{kind}",
            time_ns=time.time_ns(),
            actor="faults",
        )

    async def _append_plain(self, log: store.EventStore) -> None:
        while not self._stop.is_set():
            await self._append(log, self._probe("plain"), None)
            await asyncio.sleep(0 if self.house.full else self.chance.uniform(0.02, 0.1))

    async def _append_chain(self, log: store.EventStore) -> None:
        last = 0
        while not self._stop.is_set():
            try:
                found = await log.last("wl.settings.probe-chain")
                last = found.sequence if found else 0
                break
            except store.Unavailable:
                await asyncio.sleep(0.1)
        while not self._stop.is_set():
            sequence = await self._append(log, self._probe("chain"), last)
            last = sequence or last
            await asyncio.sleep(self.chance.uniform(0.02, 0.1))

    async def _append(self, log: store.EventStore, event: envelope.Envelope, expected: int | None) -> int | None:
        """The same event until it is acknowledged, or until the load ends and nobody knows."""
        while True:
            try:
                appended = await log.append(event, expected=expected)
            except (store.Unavailable, store.StreamFull) as error:
                self.full_seen += isinstance(error, store.StreamFull)
                self.probes.unsure.add(event.id)
                if self._stop.is_set():
                    return None
                await asyncio.sleep(0.1)
                continue
            except store.StoreError as error:
                self.probes.wrong.append(f"{event.id}: {type(error).__name__}: {error}")
                return None
            self.probes.acked[event.id] = appended.sequence
            self.probes.unsure.discard(event.id)
            return appended.sequence
