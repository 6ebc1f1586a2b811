"""What do others cost? Publish to arrival beside hostile endpoints, a loud tenant, searches; a receiver one by one."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bench import hostile_sender, inbox, searching, tenants
from bench.machine import wait_for_quiet
from bench.report import Figure, Goal
from bench.rounds import Bench, stage
from bench.tail import Tail

SHORT = {"seconds": 10.0, "rounds": 1}
"""2,500 events on each side, since `make bench` must end; by itself, as `python -m bench.tenants`, each has more."""
ONE_AT_A_TIME_MIN = 0.6


def run_hostile(bench: Bench) -> tuple[list[Figure], list[Goal]]:
    return _beside(bench, "hostile endpoints", hostile_sender.measure, hostile_sender.OPTIONS, hostile_sender.TIMES_MAX)


def run_tenants(bench: Bench) -> tuple[list[Figure], list[Goal]]:
    return _beside(bench, "a tenant that misbehaves", tenants.measure, tenants.OPTIONS, tenants.TIMES_MAX)


def run_search(bench: Bench) -> tuple[list[Figure], list[Goal]]:
    return _beside(bench, "searches", searching.measure, searching.OPTIONS, searching.TIMES_MAX)


def _beside(
    bench: Bench, whom: str, measure: Callable[..., Tail], options: Mapping[str, float], times_max: float
) -> tuple[list[Figure], list[Goal]]:
    figures: list[Figure] = []
    goals: list[Goal] = []
    for store in bench.stores:
        with stage(bench, f"beside {whom} on {store.name}") as folder:
            wait_for_quiet(bench.patience_s)
            found = measure(store, folder, **{**options, **SHORT})
        figures += found.figures()
        goals.append(found.goal(times_max))
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
