"""The main job once, in plain lines: engines' events become a log, the log answers which replica holds a prompt.

Everything runs on loopback in a directory that is removed afterwards (--keep leaves it). Every answer is checked
against what the engines really hold; the first that is wrong ends the demo with status 1.
"""

import argparse
import asyncio
import contextlib
import shutil
import sys
import tempfile
import textwrap
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from enginesim import workload
from warmlog import cli, flags, lab, natsserver, signals

FLAGS: Final = (
    flags.Flag("turns", "chat turns in each of the demo's parts", "30", flags.at_least(5)),
    flags.Flag("keep", "keep the demo's directory with all logs", "false", flags.boolean),
)
LEAST: Final = 64  # tokens below which a replica is not worth naming (CachePolicy's default minimumMatchedTokens)
SETTLE: Final = 2.0  # seconds in which an answer must become right while all parts are up


class Wrong(Exception):
    """An answer that contradicts what the engines hold."""


class Answer(msgspec.Struct, frozen=True):
    """What a lookup said, reduced to what can be checked."""

    reason: str
    matched: dict[str, int]
    best: str


class Demo:
    def __init__(self, laboratory: lab.Lab, turns: Iterator[workload.Turn]) -> None:
        self.lab = laboratory
        self.turns = turns
        self.partial: set[str] = set()  # replicas that may hold more than they are credited with
        self.dead: set[str] = set()
        self.empty: set[str] = set()  # engines that have served nothing in their present life
        self.seen: Counter[str] = Counter()
        self.slowest = 0.0
        self.evicted = 0
        self.latencies: list[int] = []
        self.number = 0

    def step(self, text: str) -> None:
        self.number += 1
        print(f"\n{self.number}. {text}", flush=True)

    def say(self, text: str) -> None:
        print(f"   {text}", flush=True)

    # Asking and checking ------------------------------------------------------------------------------------------

    async def ask(self, tokens: list[int]) -> Answer:
        question = {"tenant_id": lab.TENANT, "model_id": lab.MODEL, "hash_scheme": "vllm", "token_ids": tokens}
        raw = await self.lab.post(f"{self.lab.lookup}/v1/lookup", question)
        self.latencies.append(int(raw["lookup_latency_us"]))
        return reduced(raw)

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

    async def states(self) -> dict[str, str]:
        snapshot = await self.lab.get(f"{self.lab.admin}/snapshot")
        return {row["replicaId"]: row["state"] for row in snapshot["replicas"]}

    async def sessions(self) -> dict[str, str]:
        snapshot = await self.lab.get(f"{self.lab.admin}/snapshot")
        return {row["replicaId"]: row["session"] for row in snapshot["replicas"]}

    async def follow_up(self, served: list[workload.Turn], engine: str) -> workload.Turn:
        """A turn whose prompt `engine` holds best of all, by its own account."""
        for turn in reversed(served):
            held = await self.truth(turn.token_ids)
            rest = [tokens for name, tokens in held.items() if name != engine]
            if held[engine] >= LEAST and held[engine] > max(rest):
                return turn
        raise Wrong(f"no prompt of the last {len(served)} is held best by {engine}: give --turns more")

    # The parts ----------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        self.step("Start: nats-server, three simulated engines, a subscriber beside each, a server")
        await self.lab.start_nats()
        for spec in lab.ENGINES:
            await self.lab.start_engine(spec)
            await self.lab.start_subscriber(spec)
            replay = "with" if spec.replay else "without"
            self.say(f"{spec.name}: wire form {spec.form}, blocks of {spec.block_size} tokens, {replay} replay socket")
        await self.lab.start_server()

        async def listed() -> bool:
            return len(await self.states()) == len(lab.ENGINES)

        await self.lab.until(listed, what="every subscriber to speak")
        for spec in lab.ENGINES:
            await self.generate(spec.name, next(self.turns))
        await self.all_complete()
        self.say(f"LookupRoute answers on {self.lab.lookup}/v1/lookup")

    async def all_complete(self, *but: str) -> None:
        async def check() -> bool:
            states = await self.states()
            return all(states.get(spec.name) == "complete" for spec in lab.ENGINES if spec.name not in but)

        await self.lab.until(check, what="every replica to be complete")

    async def warm(self, count: int) -> list[workload.Turn]:
        self.step(
            f"Chat: {count} turns; each prompt is looked up first, each answer checked against the engines' memory"
        )
        served = await self.chat(count)
        tally = ", ".join(f"{number} {reason}" for reason, number in self.seen.most_common())
        self.say(f"{sum(self.seen.values())} answers right: {tally}")
        self.say(f"the engines' LRU evicted {self.evicted} blocks meanwhile; evicted prefixes were not credited")
        typical = sorted(self.latencies)[len(self.latencies) // 2]
        self.say(
            f"median time inside the server {typical} µs; the last event was visible after at most {self.slowest:.2f} s"
        )
        return served

    async def kill_engine(self, served: list[workload.Turn]) -> tuple[workload.Turn, Answer, datetime]:
        self.step("Kill an engine with -9: the route moves within 5 s")
        turn = await self.follow_up(served, "engine-a")
        before = await self.checked(turn.token_ids)
        self.say(f"a follow-up prompt: {before.reason} → {before.best}, {before.matched[before.best]} tokens")
        await asyncio.sleep(
            2.2
        )  # the server notes a moment every second; the one to ask about must lie before the kill
        at = datetime.now(UTC)
        await self.lab.processes["engine-a"].kill()
        self.dead.add("engine-a")

        async def moved() -> bool:
            return "engine-a" not in (await self.ask(turn.token_ids)).matched

        took = await self.lab.until(moved, what="the route to leave engine-a", within=5)
        after = await self.checked(turn.token_ids)
        state = (await self.states()).get("engine-a", "gone, the snapshot does not list it")
        self.say(f"after {took:.1f} s: {after.reason} → {after.best or 'nobody'} (engine-a is {state})")
        await self.lab.start_engine(lab.ENGINES[0])
        self.dead.discard("engine-a")
        self.empty.add("engine-a")
        await self.all_complete()
        self.say("engine-a is back under the same name with an empty cache: nothing of its old life is credited")
        await self.checked(turn.token_ids)
        return turn, before, at

    async def kill_subscribers(self, count: int) -> None:
        self.step("Kill subscribers with -9 while chat goes on: with a replay socket exact, without one partial")
        await self.chat(count)
        for spec in (lab.ENGINES[0], lab.ENGINES[1]):
            before = (await self.sessions())[spec.name]
            await self.lab.processes[f"subscriber-{spec.name}"].kill()
            missed = [next(self.turns) for _ in range(count // 3)]
            for turn in missed:
                await self.generate(spec.name, turn)
            if not spec.replay:
                self.partial.add(spec.name)
            await self.lab.start_subscriber(spec)
            wanted = "complete" if spec.replay else "partial"

            async def is_wanted(name: str = spec.name, wanted: str = wanted, before: str = before) -> bool:
                return (await self.states()).get(name) == wanted and (await self.sessions())[name] != before

            took = await self.lab.until(is_wanted, what=f"{spec.name} to be {wanted}")
            for turn in missed:
                await self.checked(turn.token_ids)
            self.say(
                f"{spec.name}: {len(missed)} turns while nobody listened; {wanted} after {took:.1f} s, answers checked"
            )

    async def kill_nats(self, count: int) -> None:
        self.step("Kill nats-server with -9 and start it again")
        assert self.lab.nats is not None
        await self.lab.nats.kill()
        turns = [next(self.turns) for _ in range(count // 3)]
        for turn in turns:
            await self.generate(lab.ENGINES[turn.replica].name, turn)
        answer = await self.ask(turns[0].token_ids)
        self.say(
            f"while it is away the server still answers ({answer.reason}), engines went on serving {len(turns)} turns"
        )
        await self.lab.restart_nats()

        async def right() -> bool:
            for turn in turns:
                held = await self.truth(turn.token_ids)
                if disagreement(await self.ask(turn.token_ids), held, self.partial) is not None:
                    return False
            return True

        took = await self.lab.until(right, what="answers to catch up after the outage")
        self.say(f"back: every answer is right again after {took:.1f} s")
        await self.chat(count)

    async def look_back(self, turn: workload.Turn, before: Answer, at: datetime) -> None:
        self.step("Ask about the past: the answer of before engine-a was killed")
        question = self.lab.directory / "question.json"
        question.write_bytes(msgspec.json.encode(turn.token_ids))
        words = ["lookup", "--at", at.isoformat(), "--tenant-id", lab.TENANT, "--model-id", lab.MODEL]
        out = await self.tool(*words, "--hash-scheme", "vllm", "--token-ids", f"@{question}", "-o", "json")
        past = msgspec.json.decode(out)
        found = reduced(past["answer"])
        now = await self.ask(turn.token_ids)
        self.say(f"warmlog lookup --at {at:%H:%M:%S}: used {past['moment']}")
        self.say(f"{found.reason} → {found.best}, {found.matched.get(found.best)} tokens; today: {told(now)}")
        if (found.best, found.matched) != (before.best, before.matched):
            raise Wrong(f"the past changed: then {before}, now told {found}")

    async def show_events(self) -> None:
        self.step("warmlog events: what happened to the replicas")
        lines = (await self.tool("events", "--type", "replica.observed", "-o", "json")).splitlines()
        edges = [msgspec.json.decode(line) for line in lines]
        told = [edge for edge in edges if edge["event"]["data"]["edge"] != "statistics"]
        for edge in told[-14:]:
            data = edge["event"]["data"]
            reason = f" ({textwrap.shorten(data['reason'], 72)})" if data.get("reason") else ""
            self.say(f"#{edge['sequence']:<4} {edge['stored'][11:19]} {data['replica']}: {data['edge']}{reason}")
        if not {"first-event", "gone", "restart", "partial"} <= {edge["event"]["data"]["edge"] for edge in told}:
            raise Wrong(
                f"the log does not tell of the kills: {Counter(edge['event']['data']['edge'] for edge in told)}"
            )

    async def tool(self, *words: str) -> str:
        """Run a warmlog tool against the lab; its standard output. Raises LabError."""
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "warmlog", *words, "--nats", self.lab.nats_url),
            *("--nats-token-file", str(self.lab.directory / "token")),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(30):
            out, err = await child.communicate()
        if child.returncode:
            raise lab.LabError(
                f"warmlog {words[0]} ended with {child.returncode}: {err.decode(errors='replace').strip()}"
            )
        return out.decode()


def reduced(raw: dict[str, Any]) -> Answer:
    scores = raw["replica_scores"]
    matched = {score["replica_id"]: score["matched_tokens"] for score in scores if score["matched_tokens"]}
    return Answer(raw["reason_code"], matched, scores[0]["replica_id"] if scores else "")


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


async def until_told(values: flags.Values, directory: Path) -> int:
    """The story to its end, or up to a signal: then everything is stopped in order all the same."""
    code = await signals.unless(signals.told(), tell(values, directory))
    return cli.INTERRUPTED if code is None else code


async def tell(values: flags.Values, directory: Path) -> int:
    started = time.monotonic()
    shape = workload.Shape(sessions=10_000, replicas=len(lab.ENGINES))
    async with lab.Lab(directory) as laboratory:
        demo = Demo(laboratory, workload.turns(seed=7, shape=shape))
        count = values["turns"]
        await demo.start()
        served = await demo.warm(count * 2)
        turn, before, at = await demo.kill_engine(served)
        await demo.kill_subscribers(count)
        await demo.kill_nats(count)
        await demo.look_back(turn, before, at)
        await demo.show_events()
        demo.step("Stop everything")
    total, seconds = sum(demo.seen.values()), time.monotonic() - started
    print(f"\nDone in {seconds:.0f} s: {total} answers checked against the engines' memory, none wrong.")
    print("`warmlog dev` keeps the same thing running; `warmlog --help` lists the rest.")
    return 0


def run(values: flags.Values, arguments: argparse.Namespace) -> int:
    directory = Path(tempfile.mkdtemp(prefix="warmlog-demo-"))
    keep = values["keep"]
    try:
        return asyncio.run(until_told(values, directory))
    except natsserver.NatsServerError as error:
        raise cli.Failure(str(error), cli.REFUSED) from error
    except (Wrong, lab.LabError) as error:
        keep = True
        raise cli.Failure(f"{error}\nlogs are kept in {directory / 'logs'}") from error
    finally:
        if keep:
            print(f"kept: {directory}", file=sys.stderr)
        else:
            with contextlib.suppress(OSError):
                shutil.rmtree(directory)
