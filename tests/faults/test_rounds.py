"""Twenty rounds of faults over real processes; each must end as it began: nothing lost, nothing wrong, nothing missing.

`make soak ROUNDS=500 SEED=…` runs as many as asked. A failed round prints its seed and schedule: repeat it with

    python -m tests.faults.soak --seed <seed> --first <first round of its lab> --rounds <so many>
"""

import pytest

from tests.faults import rounds
from tests.support import natsserver

SEED = "test"
ROUNDS = 20
PER_TEST = rounds.ROUNDS_PER_LAB


@pytest.mark.timeout(180)
@pytest.mark.parametrize("first", range(0, ROUNDS, PER_TEST))
async def test_kills_stops_and_full_disks_lose_nothing_and_credit_nothing_wrong(first: int) -> None:
    natsserver.require()
    failed, judged = [], 0
    async for report in rounds.rounds(SEED, first, min(PER_TEST, ROUNDS - first)):
        print(report)
        judged += report.strict
        failed += [str(report)] if report.violations else []
    assert not failed, "\n".join(failed)
    assert judged > 100, "the oracle judged next to nothing: the machine is too busy for this test, or it is broken"
