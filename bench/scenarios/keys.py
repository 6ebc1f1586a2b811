"""Does the number of keys matter? The cost of an event with 100 and 100,000 lanes that all exist."""

from __future__ import annotations

from contextlib import ExitStack

from bench.gateway import gateway
from bench.nginx import sink_server
from bench.report import Figure, Goal
from bench.rounds import Bench, Contender, interleave, stage
from bench.stores import fill

KEYS = (100, 100_000)
TIMES_MAX = 1.2


def run(bench: Bench) -> tuple[list[Figure], list[Goal]]:
    figures: list[Figure] = []
    goals: list[Goal] = []
    for store in bench.stores:
        with stage(bench, f"keys on {store.name}") as folder, ExitStack() as stack:
            contenders = []
            for keys in KEYS:
                sink = stack.enter_context(sink_server(folder / f"{keys}-sink"))
                db = store.fresh()
                fill(db, f"http://127.0.0.1:{sink.port}/", keys, keys)
                one = stack.enter_context(gateway(db, folder))
                one.drain()
                contenders.append(Contender(f"{store.name}, {keys:,} keys", one, sink, store, keys=keys))
            interleave(bench, contenders)
            mine = [one.figure("end to end by keys") for one in contenders]
        figures += mine
        cost = [one.cpu_us["gateway"] + one.cpu_us.get("database", 0.0) for one in mine]
        goals.append(
            Goal(
                what=f"cost per event at 100,000 keys on {store.name}",
                wanted=f"<= {TIMES_MAX} x that at 100",
                found=f"{cost[-1] / cost[0]:.2f} x ({cost[0]:.0f} and {cost[-1]:.0f} µs)",
                is_reached=cost[-1] <= TIMES_MAX * cost[0],
            )
        )
    return figures, goals
