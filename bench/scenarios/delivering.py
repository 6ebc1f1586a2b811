"""Deliver only: a store that was filled before, and a server that starts on it."""

from __future__ import annotations

import time
from pathlib import Path

from bench import sink as sinks
from bench.gateway import gateway
from bench.limits import requests_per_second
from bench.machine import Neighbours, cost_of, wait_for_quiet
from bench.nginx import sink_server
from bench.report import Check, Figure, Goal
from bench.rounds import Bench, stage
from bench.stores import Store, fill

EVENTS, LANES, RATE_MIN = 60_000, 10_000, 10_000
HOT_EVENTS, HOT_RATE_MIN = 2_000, 300


def run(bench: Bench) -> tuple[list[Figure], list[Goal]]:
    with stage(bench, "deliver only") as folder:
        figures = [
            measure(bench, store, folder, f"deliver only, {LANES:,} lanes", EVENTS, LANES) for store in bench.stores
        ]
    return figures, [_goal(one, "deliver only over 10k lanes", RATE_MIN) for one in figures]


def run_hot_key(bench: Bench) -> tuple[list[Figure], list[Goal]]:
    with stage(bench, "one hot key") as folder:
        figures = [measure(bench, store, folder, "one hot key", HOT_EVENTS, 1) for store in bench.stores]
    return figures, [_goal(one, "one hot key", HOT_RATE_MIN) for one in figures]


def _goal(one: Figure, what: str, wanted: float) -> Goal:
    return Goal(
        what=f"{what} on {one.variant}",
        wanted=f">= {wanted:,}/s",
        found=f"{one.rate:,.0f}/s ({min(one.rates):,.0f}-{max(one.rates):,.0f})",
        is_reached=one.rate >= wanted,
    )


def measure(bench: Bench, store: Store, folder: Path, scenario: str, events: int, lanes: int) -> Figure:
    """Rounds of: fill a new database, start a server on it, and time its deliveries from the first to the last."""
    rates, limits, gateway_us, elsewhere, check = [], [], [], [], Check(lost=0, reordered=0, duplicates=0)
    for number in range(bench.rounds):
        place = folder / f"{store.name}-{lanes}-{number}"
        with sink_server(place) as sink:
            db = store.fresh()
            fill(db, f"http://127.0.0.1:{sink.port}/", events, lanes)
            wait_for_quiet(bench.patience_s)
            limits.append(requests_per_second(bench.limit).rate)
            watch = Neighbours(*store.pids, sink.pid)
            before = cost_of(*store.pids).total_s if store.pids else 0.0
            with gateway(db, place) as one:
                started = one.cost.total_s
                one.drain()
                cost = one.cost.total_s - started
                elsewhere.append(watch.cores(one.cost.total_s))
                database = cost_of(*store.pids).total_s - before if store.pids else 0.0
            time.sleep(0.1)
            sink.flush()
            seen = sinks.read(sink.log)
        rates.append(seen.rate)
        gateway_us.append((cost + database) * 1e6 / events)
        check = Check(
            lost=check.lost + events - seen.distinct,
            reordered=check.reordered + seen.reordered,
            duplicates=check.duplicates + seen.duplicates,
        )
        bench.say(f"  round {number + 1}, {store.name}: {rates[-1]:,.0f}/s")
    cpu = {"gateway and database": sorted(gateway_us)[len(gateway_us) // 2]}
    return Figure(
        scenario=scenario,
        variant=store.name,
        rates=rates,
        limits=limits,
        cpu_us=cpu,
        elsewhere=elsewhere,
        check=check,
    )
