"""`python -m bench [NAME …] [--store sqlite] [--seconds 4] [--rounds 3]`: run scenarios, print and keep a report.

Measured is what ships compiled; with --interpreted, the plain source.
"""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import ExitStack
from dataclasses import replace

from bench import report, stores, tree
from bench.machine import described, load_average, require_tools, scratch
from bench.nginx import limit_server
from bench.report import Figure, Goal
from bench.rounds import Bench
from bench.scenarios import ONE_ROUND, SCENARIOS

ROUNDS = 3


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(SCENARIOS)}; all by default")
    parser.add_argument("--store", action="append", choices=("sqlite", "postgres"), help="both by default")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each slice of load")
    parser.add_argument("--rounds", type=int, help=f"3 by default, 1 for {', '.join(sorted(ONE_ROUND))}")
    parser.add_argument("--patience", type=float, default=0.0, help="seconds to wait for a quiet machine, each time")
    parser.add_argument("--interpreted", action="store_true", help="measure the plain source, not what is compiled")
    asked = parser.parse_args()
    unknown = [name for name in asked.names if name not in SCENARIOS]
    if unknown:
        parser.error(f"no scenario {', '.join(unknown)}: expected some of {', '.join(SCENARIOS)}")
    require_tools()
    build = tree.choose(interpreted=asked.interpreted)
    machine = f"{described()}, load average {load_average():.1f} before"
    figures: list[Figure] = []
    goals: list[Goal] = []
    with ExitStack() as stack:
        folder = stack.enter_context(scratch())
        wanted = asked.store or ["sqlite", "postgres"]
        bench = Bench(
            folder,
            [stack.enter_context(getattr(stores, name)(folder)) for name in wanted],
            stack.enter_context(limit_server(folder / "limit")),
            asked.seconds,
            ROUNDS,
            asked.patience,
            lambda line: print(line, file=sys.stderr, flush=True),
        )
        for name in asked.names or SCENARIOS:
            began = time.monotonic()
            rounds = asked.rounds or (1 if name in ONE_ROUND else ROUNDS)
            mine, reached = SCENARIOS[name](replace(bench, rounds=rounds))
            figures += mine
            goals += reached
            bench.say(f"{name} took {time.monotonic() - began:.0f} s")
    print(report.table(figures, goals, machine, build))
    lost = report.losses(figures, report.kept(), machine, build)
    print(f"\nkept in {report.write(figures, goals, machine, build).parent.name}/ of the bench folder", file=sys.stderr)
    if any(one.check is not None and not one.check.is_right for one in figures):
        sys.exit("the sink saw what it must not see")
    if lost:
        sys.exit("\n".join(["more than 5 % more CPU than in the run before:", *lost]))


if __name__ == "__main__":
    main()
