"""What do others cost? Publish to arrival beside hostile endpoints and beside searches; and a receiver one by one."""

from __future__ import annotations

import asyncio

from bench import hostile_sender, inbox, searching
from bench.hostile import BEHAVIOURS
from bench.hostile_figures import RATIO_MAX as HOSTILE_MAX
from bench.hostile_figures import p
from bench.machine import wait_for_quiet
from bench.report import Check, Figure, Goal, median
from bench.rounds import Bench, stage

RIGHT = Check(lost=0, reordered=0, duplicates=0)
"""Who looks at each arrival ends the run where it is not so."""
EVENTS = 100_000
ONE_AT_A_TIME_MIN = 0.6


def run_hostile(bench: Bench) -> tuple[list[Figure], list[Goal]]:
    """On SQLite, where failures are written between the publishes and the acks."""
    wanted = hostile_sender.Wanted(
        hostile=1_000,
        healthy=40,
        rate=250.0,
        hostile_rate=50.0,
        rounds=bench.rounds,
        seconds=bench.seconds,
        timeout_ms=5_000,
        patience=bench.patience_s,
        kinds=list(BEHAVIOURS),
    )
    with stage(bench, "beside hostile endpoints") as folder:
        found = hostile_sender.run(folder, wanted)
    figures = []
    for name in ("quiet", "hostile"):
        rounds = [one for one in found.rounds if one.name == name]
        figures.append(
            Figure(
                scenario="publish to arrival",
                variant=f"sqlite, {'alone' if name == 'quiet' else f'{wanted.hostile:,} hostile endpoints'}",
                rates=[wanted.rate] * len(rounds),
                elsewhere=[one.cores["others"] for one in rounds],
                check=RIGHT,
                notes={f"p{part} ms": median([p(one.arrival_ms, part) for one in rounds]) for part in (50, 95, 99)},
            )
        )
    return figures, [_times("1,000 hostile endpoints on sqlite", found.arrival_ratios(), HOSTILE_MAX)]


def run_search(bench: Bench) -> tuple[list[Figure], list[Goal]]:
    figures: list[Figure] = []
    goals: list[Goal] = []
    for store in bench.stores:
        with stage(bench, f"beside searches on {store.name}") as folder:
            wait_for_quiet(bench.patience_s)
            found = asyncio.run(searching.measure(store, folder, EVENTS, bench.seconds, bench.rounds))
        for name, values in (("alone", found.quiet), ("searches in a loop", found.beside)):
            notes: dict[str, float | str] = {
                f"p{part} ms": searching.percentile(values, part / 100) for part in (50, 95, 99)
            }
            figures.append(
                Figure(
                    scenario="publish to arrival",
                    variant=f"{store.name}, {name}",
                    rates=[searching.RATE],
                    check=RIGHT,
                    notes=notes,
                )
            )
        goals.append(_times(f"searches in a loop on {store.name}", [found.ratio], searching.RATIO_MAX))
    return figures, goals


def run_receiver(bench: Bench) -> tuple[list[Figure], list[Goal]]:
    with stage(bench, "receiver on sqlite") as folder:
        wait_for_quiet(bench.patience_s)
        paces = inbox.one_at_a_time(folder, bench.seconds)
    limit, mine = paces[inbox.LIMIT], paces[inbox.ONE_AT_A_TIME]
    figure = Figure(
        scenario="receiver, inline, one at a time",
        variant="sqlite",
        rates=[mine.rate],
        cpu_us={"receiver": mine.cpu_us},
        notes={"single commits per s": limit.rate},
    )
    goal = Goal(
        what="receiver on sqlite, inline, one at a time",
        wanted=f">= {ONE_AT_A_TIME_MIN} of the single commits",
        found=f"{mine.rate / limit.rate:.2f}",
        is_reached=mine.rate >= ONE_AT_A_TIME_MIN * limit.rate,
    )
    return [figure], [goal]


def _times(beside: str, ratios: list[float], times_max: float) -> Goal:
    return Goal(
        what=f"p99 from publish to arrival beside {beside}",
        wanted=f"<= {times_max} x that without",
        found=f"{median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})",
        is_reached=median(ratios) <= times_max,
    )
