"""The workload of `make bench-peers`: its truth, its forms of the wire, its report. Excluded: running contenders."""

import math

import pytest

from subscribers.kvevents import batch, decode, table
from tests.bench.peers import history, report, rounds, wires

pytestmark = pytest.mark.slow("each test makes a history of its own")

REPLICAS = 3


def made(wire: str) -> history.History:
    return history.generate(replicas=REPLICAS, wire=wire, tokens=60_000)


@pytest.mark.parametrize("wire", wires.FORMS)
def test_every_form_says_the_same_to_our_tables(wire: str) -> None:
    told = made(wire)
    tables = [table.Table() for _ in range(REPLICAS)]
    for part in told.parts:
        for replica, payload in part.messages:
            read = decode.decode(payload)
            assert not read.problems
            tables[replica].apply_batch(read.events, 0.0)
    assert sum(one.pending for one in tables) == told.held


def test_the_truth_is_what_engines_held_block_by_block() -> None:
    told = made("array")
    held: list[set[batch.Hash]] = [set() for _ in range(REPLICAS)]
    for part in told.parts:
        for replica, payload in part.messages:
            for event in decode.decode(payload).events:
                match event:
                    case batch.Stored():
                        held[replica].update(event.hashes)
                    case batch.Removed():
                        held[replica].difference_update(event.hashes)
                    case batch.Cleared():
                        held[replica].clear()
    for questions in told.questions.values():
        for question in questions[:20]:
            chain: list[int] = []
            history.lengthen(history.array("I", question.tokens), chain)
            depths = {}
            for replica, blocks in enumerate(held):
                depth = next((at for at, block in enumerate(chain) if block not in blocks), len(chain))
                if depth:
                    depths[replica] = depth
            assert question.depths == depths


def test_operations_are_counted_and_every_replica_ends_a_part_with_its_mark() -> None:
    told = made("mixed")
    for part in told.parts:
        events = [event for _, payload in part.messages for event in decode.decode(payload).events]
        assert part.operations == sum(len(event.hashes) for event in events if not isinstance(event, batch.Cleared))
        assert [replica for replica, _ in part.messages[-REPLICAS:]] == list(range(REPLICAS)) == sorted(part.marks)


def test_the_report_sets_ours_against_the_better_of_the_peers() -> None:
    def seen(name: str, cost: float) -> rounds.Seen:
        timed = {blocks: [cost] * report.PASSES * 4 for blocks in (64, 512, 2048)}
        spent = dict.fromkeys((64, 512, 2048), cost)
        cpu = {"server": cost, "transport": 0.0, "readers": 0.0}
        return rounds.Seen(
            name, blocks=10, cpu=cpu, loaded=[cost], visible=[cost], json=timed, packed=timed, json_cpu=spent,
            packed_cpu=spent, wrong={64: 1}, asked={64: 4},
        )  # fmt: skip

    each = [seen("peer, slow", 40.0), seen("peer, fast", 20.0), seen(report.OURS, 30.0)]
    text = list(report.tables([(8, "mixed", one) for one in each]))
    assert "| JSON, 64 blocks, p50 us | 40 | 20 | 30 | 1.50 | ratio ≤ 1.2: MISSED |" in text
    assert "| JSON, 512 blocks, p50 us | 40 | 20 | 30 | 1.50 | ratio ≤ 2: met |" in text
    assert "| event to visible at 20,000/s, p50 ms | 40 | 20 | 30 | 1.50 | ours ≤ 15: MISSED |" in text
    assert "| 8 | mixed | warmlog | 1 | 4 |" in text


def test_percentiles_of_nothing_are_no_number() -> None:
    assert math.isnan(report.percentile([], 0.5))
    assert report.percentile([3, 1, 2], 0.99) == 3
