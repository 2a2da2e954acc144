"""Twenty rounds of faults over real processes; each must end as it began: nothing lost, nothing wrong, nothing missing.

Two labs at a time, for they mostly wait. `make soak ROUNDS=500 SEED=…` runs as many rounds as asked. A failed round
prints its seed and schedule; it is repeated with all rounds of its lab before it:

    python -m tests.faults.soak --seed <seed> --first <first round of its lab> --rounds <so many>
"""

import asyncio

import pytest

from tests.faults import rounds, soak
from tests.support import natsserver

SEED = "test"
ROUNDS = 20
LABS = 2


@pytest.mark.timeout(600)  # two minutes on an idle machine; the load of others must not fail it
async def test_twenty_rounds_of_faults_lose_nothing_and_credit_nothing_wrong() -> None:
    natsserver.require()
    reports: list[rounds.Report] = []

    async def run(first: int, count: int) -> None:
        async for report in rounds.rounds(SEED, first, count):
            print(report)
            reports.append(report)

    await asyncio.gather(*(run(*share) for share in soak.shares(0, ROUNDS, LABS)))
    failed = [str(report) for report in reports if report.violations]
    assert not failed, "\n".join(failed)
    assert len(reports) == ROUNDS
    judged = sum(report.strict for report in reports)
    assert judged > 20 * ROUNDS, (
        f"of all answers only {judged} were judged whole: the machine is too busy for this test"
    )
