"""`make soak [ARGS="--minutes 30"]`: simulate the sender from one seed after another, and stop at the first violation.

Each part goes on where the record (a file of JSON lines) ends, and adds a line to it: which seeds, what was published,
delivered and crashed, and how long it took. So a soak of 10^7 events is made of parts of half an hour, today and
tomorrow. A seed that fails is printed and belongs into tests/faults/sim/seeds.txt, with the fix.
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
from datetime import UTC, datetime
from pathlib import Path

from hooklane.testing.sim import simulate
from hooklane.testing.sim.faults import ROUGH, SLOW, Faults

RECORD = Path("build/soak.jsonl")
FIRST_SEED = 1_000_000
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
COUNTED = (
    "published",
    "delivered",
    "crash",
    "store crashed",
    "store failed over",
    "stall",
    "dead",
    "replayed",
    "skipped",
)


def run(seed: int, events: int) -> tuple[int, Counter[str], str]:
    """One seed, in the weather that it stands for; with what it found wrong."""
    weather = list(PRESETS)[seed % len(PRESETS)]
    gc.disable()  # one world is small, and looking for its cycles takes a sixth of the time
    try:
        report = simulate(seed, events=events, faults=PRESETS[weather], aimed=AIMED, publish_every_ms=PUBLISH_EVERY_MS)
    finally:
        gc.enable()
    return seed, report.counts, f"seed {seed} ({weather}): {report}" if report.violations else ""


def soak(first: int, events: int, minutes: float, processes: int) -> tuple[int, Counter[str], str]:
    """Simulate from *first* on until the time is over; the next seed, what happened, and the first violation."""
    ends_at = time.monotonic() + minutes * 60
    counts: Counter[str] = Counter()
    seed, found = first, ""
    with ProcessPoolExecutor(processes) as pool:
        running: set[Future[tuple[int, Counter[str], str]]] = set()
        while running or (not found and time.monotonic() < ends_at):
            while not found and len(running) < 2 * processes and time.monotonic() < ends_at:
                running.add(pool.submit(run, seed, events))
                seed += 1
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for one in done:
                _, seen, violation = one.result()
                counts += seen
                found = found or violation
            text = f"\rseed {seed}: {counts['published']:,} events, {counts['crash']:,} crashes, 0 violations"
            print(text, end="", file=sys.stderr)
    return seed, counts, found


def total(record: Path) -> Counter[str]:
    """What all parts of a record come to."""
    counts: Counter[str] = Counter()
    for line in record.read_text().splitlines() if record.exists() else ():
        part = json.loads(line)
        counts += Counter({name: part[name] for name in (*COUNTED, "seeds", "took_s")})
    return counts


def next_seed(record: Path) -> int:
    lines = record.read_text().splitlines() if record.exists() else []
    return max((json.loads(line)["next_seed"] for line in lines), default=FIRST_SEED)


def main() -> None:
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--from-seed", type=int, help="instead of where the record ends")
    parser.add_argument("--events", type=int, default=1_000, help="of each seed")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--record", type=Path, default=RECORD)
    asked = parser.parse_args()
    first = next_seed(asked.record) if asked.from_seed is None else asked.from_seed
    began = time.monotonic()
    seed, counts, found = soak(first, asked.events, asked.minutes, asked.processes)
    if found:
        sys.exit(f"\n{found}")
    part = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "first_seed": first,
        "next_seed": seed,
        "seeds": seed - first,
        "processes": asked.processes,
        "took_s": round(time.monotonic() - began, 1),
        **{name: counts[name] for name in COUNTED},
        "violations": 0,
    }
    asked.record.parent.mkdir(parents=True, exist_ok=True)
    with asked.record.open("a") as record:
        record.write(json.dumps(part) + "\n")
    whole = total(asked.record)
    print(f"\n{json.dumps(part)}\nall parts: {whole['seeds']} seeds, {whole['published']:,} events, ", end="")
    print(f"{whole['delivered']:,} deliveries, {whole['crash']:,} crashes, 0 violations")


if __name__ == "__main__":
    main()
