"""What does a second worker process add where endpoints are slow? Twice as many deliveries in flight, one hopes."""

from __future__ import annotations

from contextlib import ExitStack

from bench.gateway import gateway
from bench.machine import wait_for_quiet
from bench.report import Check, Figure, Goal, median
from bench.rounds import Bench, stage
from bench.scale import slow_sink, until_delivered
from bench.scenarios.recovery import wait_until_shared
from bench.stores import Store

ENDPOINTS, EVENTS = 16, 500
OPEN_FILES = 240
"""Of a worker, which then has at most 120 deliveries in flight. So few leave two cores some time to spare: measured are
the connections of a process, not the cores."""
TIMES_MIN = 1.8


def run(bench: Bench) -> tuple[list[Figure], list[Goal]]:
    figures: list[Figure] = []
    goals: list[Goal] = []
    for store in bench.stores:
        if store.name != "postgres":
            continue  # on SQLite one process delivers
        rates: dict[int, list[float]] = {1: [], 2: []}
        flying: dict[int, list[float]] = {1: [], 2: []}
        checks = dict.fromkeys(rates, Check(lost=0, reordered=0, duplicates=0))
        with stage(bench, "a second worker"):
            for number in range(bench.rounds):
                for many in rates:
                    wait_for_quiet(bench.patience_s)
                    rate, in_flight, check = _deliver(bench, store, many)
                    rates[many].append(rate)
                    flying[many].append(in_flight)
                    checks[many] = Check(
                        lost=checks[many].lost + check.lost,
                        reordered=0,
                        duplicates=checks[many].duplicates + check.duplicates,
                    )
                    bench.say(f"  round {number + 1}, {many} of them: {rate:,.0f}/s, {in_flight:.0f} in flight")
        figures += [
            Figure(
                scenario="endpoints of 50 ms",
                variant=f"{store.name}, {many} worker{'s' * (many > 1)}",
                rates=rates[many],
                check=checks[many],
                notes={"in flight": median(flying[many])},
            )
            for many in rates
        ]
        times = [two / one for one, two in zip(flying[1], flying[2], strict=True)]
        goals.append(
            Goal(
                what=f"in flight at endpoints of 50 ms with a second worker on {store.name}",
                wanted=f">= {TIMES_MIN} x those with one",
                found=f"{median(times):.2f} ({min(times):.2f}-{max(times):.2f})",
                is_reached=median(times) >= TIMES_MIN,
            )
        )
    return figures, goals


def _deliver(bench: Bench, store: Store, many: int) -> tuple[float, float, Check]:
    """A backlog of events, each in a lane of its own: deliveries a second, how many in flight, and whether all came."""
    with ExitStack() as stack:
        port = stack.enter_context(slow_sink())
        db = store.fresh()
        api = stack.enter_context(gateway(db, bench.folder, role="api"))
        endpoints = [api.add_endpoint(f"http://127.0.0.1:{port}/{n}") for n in range(ENDPOINTS)]
        for endpoint in endpoints:
            api.call("POST", f"/api/v1/endpoints/{endpoint}/pause")
        batch = [{"type": "a.b", "key": f"k{n}", "data": {"n": n}} for n in range(EVENTS)]
        api.call("POST", "/api/v1/events/batch", {"events": batch})
        for _ in range(many):
            stack.enter_context(gateway(db, bench.folder, role="deliver", open_files=OPEN_FILES))
        wait_until_shared(db, many)
        for endpoint in endpoints:
            api.call("POST", f"/api/v1/endpoints/{endpoint}/resume")
        wanted = ENDPOINTS * EVENTS
        figures = until_delivered(port, wanted)
        api.drain()
    check = Check(
        lost=wanted - int(figures["distinct"]),
        reordered=0,  # each lane has one event
        duplicates=int(figures["deliveries"] - figures["distinct"]),
    )
    return wanted / (figures["last_at"] - figures["first_at"]), figures["in_flight"], check
