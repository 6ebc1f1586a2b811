"""HTTP publish, one event per request → 202 → ordered, signed delivery → durable ack; beside the naive design."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.gateway import Gateway, gateway, wait_for
from bench.machine import free_port
from bench.nginx import sink_server
from bench.report import Figure, Goal, median
from bench.rounds import Bench, Contender, interleave, stage
from bench.wrk import CONNECTIONS

WANTED = {"sqlite": 0.10, "postgres": 0.12}
TIMES_NAIVE = 25.0
MANY = 192
"""As many connections as keep both cores busy. Each waits for its commit, so with fewer it is their waiting that is
measured; that stands beside it."""
FEW = CONNECTIONS


def run(bench: Bench) -> tuple[list[Figure], list[Goal]]:
    figures: list[Figure] = []
    # One server at a time: those that only wait take their share of two cores and of the database too.
    for store in bench.stores:
        for name, connections, names in (
            (store.name, MANY, "-"),
            (f"{store.name}, {FEW} connections", FEW, "-"),
            (f"{store.name}, Idempotency-Key", MANY, "n"),
        ):
            with (
                stage(bench, f"end to end on {name}") as folder,
                sink_server(folder / "sink") as sink,
                gateway(store.fresh(), folder) as one,
            ):
                one.add_endpoint(f"http://127.0.0.1:{sink.port}/")
                contender = Contender(name, one, sink, store, names=names, connections=connections)
                interleave(bench, [contender])
                figures.append(contender.figure("end to end"))
    with (
        stage(bench, "end to end, the naive design") as folder,
        sink_server(folder / "sink") as sink,
        naive_server(folder, sink.port) as naive,
    ):
        contender = Contender("naive, sqlite", naive, sink)
        interleave(bench, [contender])
        figures.append(contender.figure("end to end"))
    return figures, _goals(figures)


def _goals(figures: list[Figure]) -> list[Goal]:
    by_name = {one.variant: one for one in figures}
    goals = []
    for store, wanted in WANTED.items():
        if store in by_name:
            one = by_name[store]
            found = median(one.ratios)
            goals.append(
                Goal(
                    what=f"end to end on {store}",
                    wanted=f">= {wanted:.2f} x H",
                    found=f"{found:.3f} ({min(one.ratios):.3f}-{max(one.ratios):.3f})",
                    is_reached=found >= wanted,
                )
            )
    naive = by_name["naive, sqlite"].rate
    best = by_name.get("sqlite") or figures[0]
    goals.append(
        Goal(
            what="end to end beside the naive design",
            wanted=f">= {TIMES_NAIVE:g} x",
            found=f"{best.rate / naive:.0f} x",
            is_reached=best.rate >= TIMES_NAIVE * naive,
        )
    )
    return goals


@contextmanager
def naive_server(folder: Path, sink_port: int) -> Iterator[Gateway]:
    port = free_port()
    sink = f"http://127.0.0.1:{sink_port}/"
    command = [sys.executable, "-m", "bench.naive", f"sqlite:///{folder}/naive.db", str(port), sink]
    with (folder / "naive.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            one = Gateway(port, process.pid)
            wait_for(one, process, folder / "naive.log")
            yield one
        finally:
            process.kill()
            process.wait()
