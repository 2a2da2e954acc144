"""Rounds: load runs, faults hit, everything heals, what was answered and stored is judged.

    before   replicas that are partial may be told an empty cache, and must then be complete
    0        load begins; faults begin HEAD later, at most 1.5 s apart, and overlap
    healthy  every part is healthy again (oracle.py says when that is)
    + 3 s    load ends: in its last second all answers are judged for what is missing too
    after    the engines' own account must equal the timeline's; all that is held is asked for; the log is read whole

A round is one `Report`. Rounds share a lab until one of them fails; a lab is as old as the rounds before it, so
a failed round is repeated with all rounds of its lab before it.
"""

import asyncio
import contextlib
import random
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import aiohttp
import msgspec

from eventstore import store
from eventstore.jetstream import store as jetstream
from tests.faults import audit, house, load, oracle, schedule, suffering
from warmlog import lab, natsserver

HEAD = 0.4
TAIL = 3.0
ROUNDS_PER_LAB = 8
#: What a process that does not come back looks like from here: a failed round. Anything else is a fault of the harness.
TROUBLE = (lab.LabError, natsserver.NatsServerError, store.StoreError, aiohttp.ClientError, TimeoutError)
_ASKED_AT_END = 12  # prefixes of each engine
_OLDER_AT_END = 40  # prompts of the last minute, most of which were evicted in part


class Report(msgspec.Struct):
    """One round. `heal` is in seconds after every part was healthy; -1 when it never was."""

    seed: str
    number: int
    trait: str
    faults: list[str]
    kinds: list[str]
    violations: list[oracle.Violation] = []
    heal: float = -1.0
    answers: int = 0
    strict: int = 0  # answers of which everything was judged, for every replica
    generated: int = 0
    appended: int = 0
    seconds: float = 0.0
    kept: str = ""

    def __str__(self) -> str:
        head = f"round {self.number} of seed {self.seed} ({self.trait}): {'; '.join(self.faults)}"
        if not self.violations:
            return f"{head}: healed after {self.heal:.2f} s, {self.answers} answers, {self.seconds:.0f} s"
        told = [f"  {one.kind} {one.replica}: {one.text}" for one in self.violations[:12]]
        more = [f"  … {len(self.violations) - 12} more"] if len(self.violations) > 12 else []
        return "\n".join([f"{head}: FAILED; processes' logs in {self.kept}", *told, *more])


class Lodge:
    """One lab and the rounds in it."""

    def __init__(self, where: house.House, seed: str, first: int, only: Sequence[str] = ()) -> None:
        self.house, self.seed, self.only = where, seed, only
        self.faults = suffering.Faults(where)
        self.load = load.Load(where, f"{seed}:{first}")
        self.judge = oracle.Judge(where.engine_of, where.parts)

    async def round(self, number: int) -> Report:
        seed = f"{self.seed}:{number}"
        replicas = [spec.name for spec in house.ENGINES]
        plan = schedule.faults(seed, replicas, self.house.trait, only=self.only)
        report = Report(
            seed=self.seed,
            number=number,
            trait=str(self.house.trait),
            faults=[str(fault) for fault in plan],
            kinds=[fault.kind for fault in plan],
        )
        started = time.monotonic()
        self.load.answers.clear()
        before = self.load.generated, len(self.load.probes.acked)
        try:
            await self._fresh(random.Random(f"{seed} fresh"))
            async with self.load.running():
                await asyncio.sleep(HEAD)
                await self._suffer(plan)
                healthy = time.monotonic()
                await asyncio.sleep(TAIL)
            await asyncio.sleep(oracle.GRACE + 0.1)
            await self._settled(report, healthy)
            await self._ask_all()
            self._judge(report, healthy)
            report.violations += audit.audit(await self._stored(), self.load.probes)
        except* TROUBLE as trouble:
            report.violations += [oracle.Violation("not healed", "", f"{one}") for one in leaves(trouble)]
        mine = asyncio.current_task()
        if mine is not None and mine.cancelling():
            raise asyncio.CancelledError  # a task group that met another error while it was cancelled tells only that
        report.answers = len(self.load.answers)
        report.generated = self.load.generated - before[0]
        report.appended = len(self.load.probes.acked) - before[1]
        report.seconds = time.monotonic() - started
        return report

    async def _suffer(self, plan: list[schedule.Fault]) -> None:
        begin = time.monotonic()

        async def one(fault: schedule.Fault) -> None:
            await asyncio.sleep(max(0.0, begin + fault.at - time.monotonic()))
            await self.faults.suffer(fault)

        async with asyncio.TaskGroup() as tasks:
            for fault in plan:
                tasks.create_task(one(fault))

    async def _states(self) -> dict[str, str]:
        found = await self.house.get(f"{self.house.admin}/snapshot")
        return {row["replicaId"]: row["state"] for row in found["replicas"]}

    async def _fresh(self, chance: random.Random) -> None:
        """Some partial replicas are told that their engine is empty: a way back to complete that must work."""
        states = await self._states()
        for name in self.house.engine_of:
            if states.get(name) == "partial" and chance.random() < 0.7:
                await self.load.reset(name)

                async def complete(name: str = name) -> bool:
                    return (await self._states()).get(name) == "complete"

                await self.house.until(complete, what=f"{name} to be complete after its cache was cleared", within=5)
                self.house.excused.discard(name)

    async def _settled(self, report: Report, healthy: float) -> None:
        """No replica may still be unknown, and only those partial whose engine cannot be asked for the past."""
        states = await self._states()
        for name in self.house.engine_of:
            state = states.get(name, "absent")
            if state == "complete" or (state == "partial" and name in self.house.excused):
                continue
            since = time.monotonic() - healthy
            text = f"it is {state} {since:.1f} s after every part was healthy"
            report.violations.append(oracle.Violation("not healed", name, text))

    async def _ask_all(self) -> None:
        """Every engine's own account against the timeline; then what it holds, and what it held, asked for."""
        chance = random.Random(7)
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=20)) as http:
            for name, engine in self.house.engine_of.items():
                assert engine.life is not None
                engine.life.check_truth(await self.house.get(f"{self.house.engines[name].http}/truth"))
                prompts = engine.life.prefixes()
                for tokens in chance.sample(prompts, min(_ASKED_AT_END, len(prompts))):
                    await self.load.ask(http, tokens)
            for tokens in chance.sample(list(self.load.prompts), min(_OLDER_AT_END, len(self.load.prompts))):
                await self.load.ask(http, tokens)

    def _judge(self, report: Report, healthy: float) -> None:
        last = healthy
        for answer in sorted(self.load.answers, key=lambda one: one.asked):
            report.violations += self.judge.judge(answer)
            if answer.asked > healthy and self.judge.late(answer):
                last = answer.answered
            paths = {part for name in self.house.engine_of for part in oracle.path_of(name)}
            quiet = self.house.parts.quiet_since(paths, answer.asked, answer.answered)
            report.strict += answer.asked >= quiet + oracle.SETTLE
        report.heal = last - healthy

    async def _stored(self) -> list[store.Stored]:
        assert self.house.driver is not None
        log = await jetstream.JetStreamStore.open(self.house.driver)
        found: list[store.Stored] = []
        async with contextlib.aclosing(log.read()) as batches:
            async for batch in batches:
                found += batch
        await log.close()
        return found


def leaves(group: BaseExceptionGroup) -> list[BaseException]:
    found: list[BaseException] = []
    for one in group.exceptions:
        found += leaves(one) if isinstance(one, BaseExceptionGroup) else [one]
    return found


@contextlib.asynccontextmanager
async def lodge(
    seed: str, first: int, directory: Path, *, mounts: bool, only: Sequence[str] = ()
) -> AsyncIterator[Lodge]:
    """A lab whose first round is `first`."""
    async with house.House(directory, schedule.trait(f"{seed}:{first}", mounts=mounts)) as where:
        await where.open()
        yield Lodge(where, seed, first, only)


async def rounds(seed: str, first: int, count: int, *, only: Sequence[str] = ()) -> AsyncIterator[Report]:
    """`count` rounds from number `first` on. Labs begin at multiples of ROUNDS_PER_LAB and after a failed round."""
    number, end = first, first + count
    mounts = house.mounts()
    while number < end:
        directory = Path(tempfile.mkdtemp(prefix="warmlog-faults-"))
        stop = min(end, (number // ROUNDS_PER_LAB + 1) * ROUNDS_PER_LAB)
        failed = False
        try:
            async with lodge(seed, number, directory, mounts=mounts, only=only) as here:
                while number < stop and not failed:
                    report = await here.round(number)
                    failed = bool(report.violations)
                    number += 1
                    if failed:
                        report.kept = keep(directory)
                    yield report
        except TROUBLE as trouble:
            yield Report(
                seed,
                number,
                str(schedule.trait(f"{seed}:{number}", mounts=mounts)),
                ["none: the lab did not start"],
                [],
                [oracle.Violation("not healed", "", str(trouble))],
                kept=keep(directory),
            )
            number += 1
        finally:
            shutil.rmtree(directory, ignore_errors=True)


def keep(directory: Path) -> str:
    """A copy of the processes' logs, for whoever looks into a failed round."""
    kept = Path(tempfile.mkdtemp(prefix="warmlog-failed-round-"))
    shutil.copytree(directory / "logs", kept / "logs")
    with contextlib.suppress(OSError):
        shutil.copy(directory / "nats" / "nats-server.log", kept / "logs")
    return str(kept)
