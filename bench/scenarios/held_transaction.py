"""An old transaction that holds back PostgreSQL's cleaning: does delivery slow down?"""

from __future__ import annotations

from contextlib import ExitStack

from bench.gateway import gateway
from bench.nginx import sink_server
from bench.report import Figure, Goal
from bench.rounds import Bench, Contender, interleave, stage

RATIO_MIN = 0.9


def run(bench: Bench) -> tuple[list[Figure], list[Goal]]:
    figures: list[Figure] = []
    goals: list[Goal] = []
    for store in bench.stores:
        if store.name != "postgres":
            continue  # SQLite has one writer and no cleaning to hold back
        import psycopg

        with stage(bench, "held transaction") as folder, ExitStack() as stack:
            contenders = []
            for held in (False, True):
                sink = stack.enter_context(sink_server(folder / f"{held}-sink"))
                db = store.fresh()
                one = stack.enter_context(gateway(db, folder))
                one.add_endpoint(f"http://127.0.0.1:{sink.port}/")
                name = f"{store.name}, {'beside an old transaction' if held else 'quiet'}"
                contenders.append(Contender(name, one, sink, store, keys=100))
                if held:
                    old = stack.enter_context(psycopg.connect(db))
                    old.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                    old.execute("SELECT count(*) FROM hooklane.event")
            interleave(bench, contenders)
            mine = [one.figure("held transaction") for one in contenders]
        ratio = sum(mine[1].rates) / sum(mine[0].rates)
        figures += mine
        goals.append(
            Goal(
                what="beside a transaction that was begun before and not ended",
                wanted=f">= {RATIO_MIN} of the rate without",
                found=f"{ratio:.2f}",
                is_reached=ratio >= RATIO_MIN,
            )
        )
    return figures, goals
