"""Deliver only: a store that was filled before, and a server that starts on it."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from bench import sink as sinks
from bench.gateway import gateway
from bench.limits import postgres_commits_per_second, requests_per_second, sqlite_commits_per_second
from bench.machine import Neighbours, cost_of, wait_for_quiet
from bench.nginx import sink_server
from bench.report import Check, Figure, Goal, median
from bench.rounds import Bench, stage
from bench.stores import Store, fill

EVENTS, LANES, RATE_MIN = 60_000, 10_000, 10_000
HOT_EVENTS, HOT_RATE_MIN, HOT_RATIO_MIN = 3_000, 300, 0.7
HOT_WARM = {"sqlite": 5_000, "postgres": 500}
"""The first events are not counted: a server begins with a new log, and while that grows a sync on SQLite takes nearly
twice as long. Ours is written over after 8,000 pages, some 4,000 acks, the limit's after 1,000. The log files of
PostgreSQL are there already."""


def run(bench: Bench) -> tuple[list[Figure], list[Goal]]:
    with stage(bench, "deliver only") as folder:
        figures = [
            measure(bench, store, folder, f"deliver only, {LANES:,} lanes", EVENTS, LANES) for store in bench.stores
        ]
    return figures, [_goal(one, "deliver only over 10k lanes", RATE_MIN) for one in figures]


def run_hot_key(bench: Bench) -> tuple[list[Figure], list[Goal]]:
    """Each event of a key waits for the durable ack of the one before, so a commit and a round trip are its limit."""
    figures: list[Figure] = []
    goals: list[Goal] = []
    with stage(bench, "one hot key") as folder:
        for store in bench.stores:
            limits = [_steps_per_second(bench, store, folder / f"{store.name}-before")]
            warm = HOT_WARM[store.name]
            one = measure(bench, store, folder, "one hot key", warm + HOT_EVENTS, 1, warm=warm)
            limits.append(_steps_per_second(bench, store, folder / f"{store.name}-after"))
            limit = median(limits)
            figures.append(replace(one, limits=(), notes={"1 / (one commit + one round trip), per s": limit}))
            goals.append(_goal(one, "one hot key", HOT_RATE_MIN))
            goals.append(
                Goal(
                    what=f"one hot key on {store.name} over 1 / (one commit + one round trip)",
                    wanted=f">= {HOT_RATIO_MIN}",
                    found=f"{one.rate / limit:.2f} ({min(one.rates) / limit:.2f}-{max(one.rates) / limit:.2f})",
                    is_reached=one.rate >= HOT_RATIO_MIN * limit,
                )
            )
    return figures, goals


def _steps_per_second(bench: Bench, store: Store, folder: Path) -> float:
    """How often a second one row could be committed durably and one request be answered, one after the other."""
    folder.mkdir(parents=True)
    commits = (
        sqlite_commits_per_second(folder) if store.name == "sqlite" else postgres_commits_per_second(store.fresh())
    )
    return 1 / (1 / commits + 1 / requests_per_second(bench.limit, connections=1).rate)


def _goal(one: Figure, what: str, wanted: float) -> Goal:
    return Goal(
        what=f"{what} on {one.variant}",
        wanted=f">= {wanted:,}/s",
        found=f"{one.rate:,.0f}/s ({min(one.rates):,.0f}-{max(one.rates):,.0f})",
        is_reached=one.rate >= wanted,
    )


def measure(
    bench: Bench, store: Store, folder: Path, scenario: str, events: int, lanes: int, *, warm: int = 0
) -> Figure:
    """Rounds of: fill a new database, start a server on it, and time its deliveries from the first after *warm* on."""
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
                # The sink's log tells the rate: few questions will do, and each takes a core from the cycle.
                one.drain(pause_s=0.5)
                cost = one.cost.total_s - started
                elsewhere.append(watch.cores(one.cost.total_s))
                database = cost_of(*store.pids).total_s - before if store.pids else 0.0
            time.sleep(0.1)
            sink.flush()
            seen = sinks.read(sink.log, warm=warm)
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
