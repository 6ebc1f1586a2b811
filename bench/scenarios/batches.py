"""A hundred events per request, accepted while their endpoint is paused: the door and the store, no more."""

from __future__ import annotations

from bench import wrk
from bench.gateway import gateway
from bench.limits import requests_per_second
from bench.machine import Neighbours, cost_of, wait_for_quiet
from bench.nginx import sink_server
from bench.report import Check, Figure, Goal, median
from bench.rounds import Bench, stage
from bench.stores import Store

EVENTS = 100
CONNECTIONS = 16
WANTED = 0.25


def run(bench: Bench) -> tuple[list[Figure], list[Goal]]:
    figures = [_measure(bench, store) for store in bench.stores]
    return figures, [
        Goal(
            what=f"batches of {EVENTS} on {one.variant}, events",
            wanted=f">= {WANTED:.2f} x H",
            found=f"{median(one.ratios):.3f} ({min(one.ratios):.3f}-{max(one.ratios):.3f})",
            is_reached=median(one.ratios) >= WANTED,
        )
        for one in figures
    ]


def _measure(bench: Bench, store: Store) -> Figure:
    rates, limits, elsewhere = [], [], []
    cpu_us: dict[str, list[float]] = {"gateway": [], "database": [], "load": []}
    answers = 0
    with (
        stage(bench, f"batches on {store.name}") as folder,
        sink_server(folder / "sink") as sink,
        gateway(store.fresh(), folder) as one,
    ):
        endpoint = one.add_endpoint(f"http://127.0.0.1:{sink.port}/")
        one.call("POST", f"/api/v1/endpoints/{endpoint}/pause")
        for number in range(bench.rounds + 1):
            wait_for_quiet(bench.patience_s)
            limit = requests_per_second(bench.limit).rate
            watch = Neighbours(one.pid, *store.pids)
            before = one.cost.total_s, cost_of(*store.pids).total_s
            seconds = bench.seconds if number else 1.0  # the first round warms it
            load = wrk.run(one.port, seconds, connections=CONNECTIONS, script=wrk.BATCHES)
            if load.refused:
                raise SystemExit(f"{load.refused} of {load.answers} batches were refused")
            answers += load.answers * EVENTS
            if not number:
                continue
            events = load.answers * EVENTS
            costs = one.cost.total_s - before[0], cost_of(*store.pids).total_s - before[1], load.cpu_s
            for part, cost in zip(cpu_us, costs, strict=True):
                cpu_us[part].append(cost * 1e6 / events)
            rates.append(load.rate * EVENTS)
            limits.append(limit)
            elsewhere.append(watch.cores(load.cpu_s))
            bench.say(f"  round {number}, {store.name}: {rates[-1]:,.0f}/s, {rates[-1] / limit:.3f} of H {limit:,.0f}")
        lost = max(0, answers - one.ledger()["accepted"])
    return Figure(
        scenario=f"batches of {EVENTS}, paused",
        variant=store.name,
        rates=rates,
        limits=limits,
        cpu_us={part: median(us) for part, us in cpu_us.items()},
        elsewhere=elsewhere,
        check=Check(lost=lost, reordered=0, duplicates=0),
    )
