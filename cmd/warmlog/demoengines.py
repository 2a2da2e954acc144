"""The demo's engines: they serve chat, they and their subscribers and the nats-server are killed, the past is asked."""

import asyncio
import textwrap
from collections import Counter
from datetime import UTC, datetime

import msgspec

from enginesim import workload
from warmlog import lab
from warmlog.children import together
from warmlog.demoasking import LEAST, Answer, Asking, Wrong, disagreement, told


class Engines(Asking):
    """The parts in the order in which they are told."""

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
        """Without Kubernetes: everything that listens, then the engines."""
        self.step("Start: nats-server, three simulated engines, a subscriber beside each, a server")
        await self.lab.start_nats()
        await self.lab.start_server()
        await self.start_engines()
        await self.first_prompts()
        self.say(f"LookupRoute answers on {self.lab.lookup}/v1/lookup")

    async def start_engines(self) -> None:
        """Each is a process, with a subscriber beside it that speaks for the Pod (or for the engine's own name)."""
        await together(*(self.start_engine(spec) for spec in lab.ENGINES))
        for spec in lab.ENGINES:
            replay = "with" if spec.replay else "without"
            self.say(f"{spec.name}: wire form {spec.form}, blocks of {spec.block_size} tokens, {replay} replay socket")

        async def listed() -> bool:
            return len(await self.states()) == len(lab.ENGINES)

        await self.lab.until(listed, what="every subscriber to speak")

    async def start_engine(self, spec: lab.EngineSpec) -> None:
        await self.lab.start_engine(spec)
        await self.lab.start_subscriber(spec)

    async def first_prompts(self) -> None:
        for spec in lab.ENGINES:
            await self.generate(spec.name, next(self.turns))
        await self.all_complete()

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
        # The server notes a moment every second; the one to ask about must lie before the kill.
        await asyncio.sleep(2.2)
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
        found = self.reduced(past["answer"])
        now = await self.ask(turn.token_ids)
        self.say(f"warmlog lookup --at {at:%H:%M:%S}: used {past['moment']}")
        self.say(f"{found.reason} → {found.best}, {found.matched.get(found.best)} tokens; today: {told(now)}")
        if (found.best, found.matched) != (before.best, before.matched):
            raise Wrong(f"the past changed: then {before}, now told {found}")

    async def show_events(self) -> None:
        self.step("warmlog events: what happened to the replicas")
        lines = (await self.tool("events", "--type", "replica.observed", "-o", "json")).splitlines()
        edges = [msgspec.json.decode(line) for line in lines]
        states = [edge for edge in edges if edge["event"]["data"]["edge"] != "statistics"]
        for edge in states[-14:]:
            data = edge["event"]["data"]
            reason = f" ({textwrap.shorten(data['reason'], 72)})" if data.get("reason") else ""
            self.say(
                f"#{edge['sequence']:<4} {edge['stored'][11:19]} {self.short(data['replica'])}: {data['edge']}{reason}"
            )
        if not {"first-event", "gone", "restart", "partial"} <= {edge["event"]["data"]["edge"] for edge in states}:
            raise Wrong(
                f"the log does not tell of the kills: {Counter(edge['event']['data']['edge'] for edge in states)}"
            )
