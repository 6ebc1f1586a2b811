"""The sender simulated from one seed after another, on all cores, until enough workers have crashed.

`python -m tests.faults.sim.at_size --seed 1 --crashes 5000` simulates at least a hundred events for each crash and
prints a report as JSON. Each `--seed` has worlds of its own, and they are the same every time. A world that fails is
printed and belongs into tests/faults/sim/seeds.txt, with the fix.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import time
from collections import Counter
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import replace

from hooklane.testing.sim import simulate
from hooklane.testing.sim.faults import ROUGH, SLOW, Faults

FIRST_SEED = 1_000_000
WORLDS_MAX = 1_000_000
"""Of one `--seed`."""
EVENTS_OF_WORLD = 1_000
EVENTS_PER_CRASH = 100
PUBLISH_EVERY_MS = 40.0
AIMED = 0.95
"""Most events go to one endpoint each, so that there are about as many deliveries as events."""
_OFTEN = {"crash_every_ms": 100, "pause_every_ms": 700, "leave_every_ms": 1_500, "turn_ms": 2.0}
"""Events come ten times as fast as in an ordinary world, and so does what goes wrong."""
_STORE = {
    "store_down_every_ms": 4_000,
    "store_crash_every_ms": 3_000,
    "store_failover_every_ms": 5_000,
    "store_clock_jump_every_ms": 5_000,
}
PRESETS = {
    "usual": replace(Faults(), **_OFTEN, **_STORE),
    "rough": replace(ROUGH, **_OFTEN, **_STORE),
    "slow": replace(SLOW, crash_every_ms=150, turn_ms=2.0),
}


def run(seed: int, events: int) -> tuple[int, Counter[str], str]:
    """One seed, in the weather that it stands for; with what it found wrong."""
    weather = list(PRESETS)[seed % len(PRESETS)]
    gc.disable()  # one world is small, and looking for its cycles takes a sixth of the time
    try:
        report = simulate(seed, events=events, faults=PRESETS[weather], aimed=AIMED, publish_every_ms=PUBLISH_EVERY_MS)
    finally:
        gc.enable()
    return seed, report.counts, f"seed {seed} ({weather}): {report}" if report.violations else ""


def soak(first: int, crashes: int, processes: int) -> tuple[int, Counter[str], str]:
    """Simulate from *first* on until so many crashed: the number of worlds, what happened, and the first violation."""
    counts: Counter[str] = Counter()
    world, found = first, ""
    with ProcessPoolExecutor(processes) as pool:
        running: set[Future[tuple[int, Counter[str], str]]] = set()
        while True:
            is_enough = counts["crash"] >= crashes and counts["published"] >= crashes * EVENTS_PER_CRASH
            while not found and not is_enough and len(running) < 2 * processes:
                running.add(pool.submit(run, world, EVENTS_OF_WORLD))
                world += 1
            if not running:
                return world - first, counts, found
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for one in done:
                _, seen, violation = one.result()
                counts += seen
                found = found or violation


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--crashes", type=int, default=5_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    asked = parser.parse_args()
    began = time.monotonic()
    worlds, counts, found = soak(FIRST_SEED + (asked.seed - 1) * WORLDS_MAX, asked.crashes, asked.processes)
    print(found, file=sys.stderr)
    report = {
        "seed": asked.seed,
        "worlds": worlds,
        "crashes": counts["crash"],
        "events": counts["published"],
        "lost": 0,
        "violations": [found] if found else [],
        "happened": dict(counts),
        "took_s": round(time.monotonic() - began, 1),
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
