"""The demo's voice and its judge: asks where prompts should go and holds every answer against the engines' memory.

Engines are called by their short names; the log knows each by the name of the Pod that it stands for.
"""

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from enginesim import workload
from warmlog import lab

LEAST: Final = 64  # tokens below which a replica is not worth naming (CachePolicy's default minimumMatchedTokens)
SETTLE: Final = 2.0  # seconds in which an answer must become right while all parts are up


class Wrong(Exception):
    """An answer that contradicts what is so."""


class Answer(msgspec.Struct, frozen=True):
    """What a lookup said, reduced to what can be checked."""

    reason: str
    matched: dict[str, int]
    best: str


class Asking:
    """One story's state: who is partial, dead, empty, and what was seen so far."""

    def __init__(self, laboratory: lab.Lab, turns: Iterator[workload.Turn]) -> None:
        self.lab = laboratory
        self.turns = turns
        self.partial: set[str] = set()  # engines that may hold more than they are credited with
        self.dead: set[str] = set()
        self.empty = {spec.name for spec in lab.ENGINES}  # engines that have served nothing in their present life
        self.seen: Counter[str] = Counter()
        self.slowest = 0.0
        self.evicted = 0
        self.latencies: list[int] = []
        self.number = 0

    def step(self, text: str) -> None:
        self.number += 1
        print(f"\n{self.number}. {text}", flush=True)

    def say(self, text: str) -> None:
        for line in text.splitlines():
            print(f"   {line}", flush=True)

    def short(self, replica: str) -> str:
        """The engine that stands for a replica."""
        return next((engine for engine, pod in self.lab.replicas.items() if pod == replica), replica)

    # Asking and checking ------------------------------------------------------------------------------------------

    async def ask(self, tokens: list[int]) -> Answer:
        question = {"tenant_id": lab.TENANT, "model_id": lab.MODEL, "hash_scheme": "vllm", "token_ids": tokens}
        raw = await self.lab.post(f"{self.lab.lookup}/v1/lookup", question)
        self.latencies.append(int(raw["lookup_latency_us"]))
        return self.reduced(raw)

    def reduced(self, raw: Mapping[str, Any]) -> Answer:
        scores = [(self.short(score["replica_id"]), score["matched_tokens"]) for score in raw["replica_scores"]]
        matched = {name: tokens for name, tokens in scores if tokens}
        return Answer(raw["reason_code"], matched, scores[0][0] if scores else "")

    async def truth(self, tokens: list[int]) -> dict[str, int]:
        """Leading tokens that each engine with a filled cache says it holds, in whole blocks of 16 or more."""
        held = {}
        for spec in lab.ENGINES:
            if spec.name not in self.dead | self.empty:
                said = await self.lab.post(f"{self.lab.engines[spec.name].http}/truth", {"token_ids": tokens})
                held[spec.name] = said["held_tokens"] // max(16, spec.block_size) * max(16, spec.block_size)
        return held

    async def checked(self, tokens: list[int]) -> Answer:
        """An answer that agrees with the truth within SETTLE seconds. Raises Wrong."""
        started = time.monotonic()
        while True:
            answer, held = await self.ask(tokens), await self.truth(tokens)
            problem = disagreement(answer, held, self.partial)
            if problem is None:
                self.slowest = max(self.slowest, time.monotonic() - started)
                self.seen[answer.reason] += 1
                return answer
            if time.monotonic() - started > SETTLE:
                raise Wrong(f"{problem}; answer {answer}, engines hold {held}")
            await asyncio.sleep(0.01)

    async def generate(self, engine: str, turn: workload.Turn) -> None:
        body = {"token_ids": turn.token_ids, "max_tokens": turn.max_tokens}
        said = await self.lab.post(f"{self.lab.engines[engine].http}/v1/generate", body)
        self.evicted += said["evicted_blocks"]
        self.empty.discard(engine)

    async def chat(self, count: int) -> list[workload.Turn]:
        """Serve turns: ask first, check the answer, then send the prompt where the workload wants it."""
        served = []
        for _ in range(count):
            turn = next(self.turns)
            await self.checked(turn.token_ids)
            engine = lab.ENGINES[turn.replica].name
            if engine not in self.dead:
                await self.generate(engine, turn)
                served.append(turn)
        return served

    # What the server and the tools say ----------------------------------------------------------------------------

    async def replicas(self) -> dict[str, dict[str, Any]]:
        """The snapshot's rows by engine."""
        snapshot = await self.lab.get(f"{self.lab.admin}/snapshot")
        return {self.short(row["replicaId"]): row for row in snapshot["replicas"]}

    async def states(self) -> dict[str, str]:
        return {name: row["state"] for name, row in (await self.replicas()).items()}

    async def sessions(self) -> dict[str, str]:
        return {name: row["session"] for name, row in (await self.replicas()).items()}

    async def tool(self, *words: str) -> str:
        """Run a warmlog tool against the lab; its standard output. Raises LabError."""
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "warmlog", *words, "--nats", self.lab.nats_url),
            *("--nats-token-file", str(self.lab.directory / "token")),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(30):
            out, err = await child.communicate()
        if child.returncode:
            said = err.decode(errors="replace").strip()
            raise lab.LabError(f"warmlog {words[0]} ended with {child.returncode}: {said}")
        return out.decode()


def told(answer: Answer) -> str:
    """An answer's replicas for people."""
    return ", ".join(f"{name} {tokens} tokens" for name, tokens in answer.matched.items()) or "nobody holds it"


def disagreement(answer: Answer, held: dict[str, int], partial: set[str]) -> str | None:
    """Why an answer contradicts what the engines hold, or None. A partial replica may be credited with less."""
    worth = {name: tokens for name, tokens in held.items() if tokens >= LEAST}
    for name, matched in answer.matched.items():
        if matched > held.get(name, 0):
            return f"{name} is credited with {matched} tokens and holds {held.get(name, 0)}"
    if answer.reason == "PREFIX_MATCH":
        for name, tokens in worth.items():
            if answer.matched.get(name, 0) < tokens and name not in partial:
                return f"{name} holds {tokens} tokens and is credited with {answer.matched.get(name, 0)}"
        if answer.matched[answer.best] < max(answer.matched.values()):
            return f"{answer.best} is named first and holds less than another"
        return None
    exact = {name: tokens for name, tokens in worth.items() if name not in partial}
    # A prefix that everybody holds equally tells nobody apart: any replica is as good, and no match is said.
    if exact and not (len(worth) == len(held) and len(set(worth.values())) == 1) and not partial:
        return f"{answer.reason}, though {exact} is held"
    return None
