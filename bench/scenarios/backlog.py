"""A million events parked behind a dead endpoint: do the others notice, and what does the worker hold of it?"""

from __future__ import annotations

import os
from contextlib import ExitStack

from bench.gateway import gateway
from bench.nginx import sink_server
from bench.report import Figure, Goal
from bench.rounds import Bench, Contender, interleave, stage
from bench.stores import park

PARKED = int(os.environ.get("BENCH_PARKED", "1000000"))
LANES = 10_000
RATIO_MIN, RSS_MB_MAX = 0.9, 300


def run(bench: Bench) -> tuple[list[Figure], list[Goal]]:
    figures: list[Figure] = []
    goals: list[Goal] = []
    for store in bench.stores:
        with stage(bench, f"backlog on {store.name}") as folder, ExitStack() as stack:
            contenders = []
            for parked in (0, PARKED):
                sink = stack.enter_context(sink_server(folder / f"{parked}-sink"))
                db = store.fresh()
                if parked:
                    bench.say(f"  parking {parked:,} events behind a dead endpoint")
                    park(db, f"http://127.0.0.1:{sink.port}/dead", parked, LANES)
                one = stack.enter_context(gateway(db, folder))
                one.add_endpoint(f"http://127.0.0.1:{sink.port}/", types=["order.*"])
                name = f"{store.name}, {parked:,} parked"
                contenders.append(Contender(name, one, sink, store, owed_max=parked))
            interleave(bench, contenders)
            rss = contenders[1].gateway.peak_rss_mb
            mine = [one.figure("beside a dead endpoint") for one in contenders]
        ratio = sum(mine[1].rates) / sum(mine[0].rates)
        figures += mine
        goals += [
            Goal(
                what=f"others beside {PARKED:,} parked events on {store.name}",
                wanted=f">= {RATIO_MIN} of the rate without",
                found=f"{ratio:.2f}",
                is_reached=ratio >= RATIO_MIN,
            ),
            Goal(
                what=f"memory of the worker beside them on {store.name}",
                wanted=f"< {RSS_MB_MAX} MB",
                found=f"{rss:.0f} MB at its peak",
                is_reached=rss < RSS_MB_MAX,
            ),
        ]
    return figures, goals
