"""`make bench-peers`: the peer's indexer and ours over the same bytes and the same questions, as one table.

    python -m tests.bench.peers.run [--replicas 8 64] [--wires mixed array map private] [--rounds 3] [--out FILE]

The first wire is measured whole, `--rounds` times; of the others only the answers are compared, on a shorter history.
Figures are medians over rounds; percentiles are those of each round first. The peer's figure is that of its better
number of threads, cell by cell. Exit 1 when a bar is missed. Where the peer is not installed, one line says so and
ours alone is measured.
"""

import argparse
import asyncio
import importlib.util
import shutil
import sys
from pathlib import Path

from tests.bench.peers import report, rounds

LONG, SHORT = 26_000_000, 5_000_000
WORK = Path(__file__).parents[3] / "build" / "peers"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--replicas", type=int, nargs="+", default=[8, 64])
    parser.add_argument("--wires", nargs="+", default=["mixed", "array", "map", "private"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rate", type=float, default=100_000)
    parser.add_argument("--tokens", type=int, default=LONG)
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--answers-only", action="store_true", help="compare answers of every wire, time nothing")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if importlib.util.find_spec("dynamo") is None:
        print("the peer (wheel ai-dynamo-runtime) is not installed for this Python and machine; ours alone is measured")
        given.threads = []
    found: list[tuple[int, str, rounds.Seen]] = []
    for replicas in given.replicas:
        for number, wire in enumerate(given.wires):
            whole = number == 0 and not given.answers_only
            rates = rounds.Rates(stream=given.rate, timed=whole)
            for turn in range(given.rounds if whole else 1):
                directory = WORK / f"{replicas}-{wire}-{turn}"
                shutil.rmtree(directory, ignore_errors=True)
                directory.mkdir(parents=True)
                seen = asyncio.run(
                    rounds.measure(
                        directory,
                        replicas=replicas,
                        wire=wire,
                        tokens=given.tokens if whole else min(SHORT, given.tokens),
                        rates=rates,
                        threads=tuple(given.threads) if whole else tuple(given.threads[-1:]),
                    )
                )
                shutil.rmtree(directory / "nats")  # the logs of all processes stay
                for one in seen:
                    found.append((replicas, wire, one))
                    print(report.line(replicas, wire, one), flush=True)
                if given.out:
                    given.out.parent.mkdir(parents=True, exist_ok=True)
                    given.out.write_text("".join(report.kept(*one) for one in found))
    tables = list(report.tables(found))
    print("\n".join(tables))
    return int(any("MISSED" in text for text in tables))


if __name__ == "__main__":
    sys.exit(main())
