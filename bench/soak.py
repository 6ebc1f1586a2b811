"""`make soak [ARGS="--minutes 30"]`: simulate the sender from one seed after another, and stop at the first violation.

Longer than `make test` may take: it looks for what a hundred thousand deliveries do not show. A seed that fails is
printed and belongs into tests/faults/sim/seeds.txt, with the fix.
"""

from __future__ import annotations

import argparse
import sys
import time

from hooklane.testing.sim import simulate
from hooklane.testing.sim.faults import ROUGH, SLOW, Faults

PRESETS = {"usual": Faults(), "rough": ROUGH, "slow": SLOW}


def main() -> None:
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--from-seed", type=int, default=1_000_000)
    parser.add_argument("--events", type=int, default=2_000, help="of each seed")
    asked = parser.parse_args()
    ends_at = time.monotonic() + asked.minutes * 60
    seed, delivered, crashes = asked.from_seed, 0, 0
    while time.monotonic() < ends_at:
        for name, faults in PRESETS.items():
            report = simulate(seed, events=asked.events, faults=faults)
            if report.violations:
                sys.exit(f"seed {seed} ({name}): {report}")
            delivered += report.delivered
            crashes += report.crashes
        seed += 1
        print(f"\rseed {seed}: {delivered:,} delivered, {crashes:,} crashes, 0 violations", end="", file=sys.stderr)
    print(f"\n{seed - asked.from_seed} seeds, {delivered} deliveries, {crashes} crashes, 0 violations")


if __name__ == "__main__":
    main()
