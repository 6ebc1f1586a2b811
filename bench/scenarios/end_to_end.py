"""HTTP publish, one event per request → 202 → ordered, signed delivery → durable ack; beside the naive design."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from bench.gateway import Gateway, gateway, wait_for
from bench.machine import free_port
from bench.nginx import Nginx, sink_server
from bench.report import Figure, Goal, median
from bench.rounds import Bench, Contender, interleave, stage
from bench.stores import Store
from bench.wrk import CONNECTIONS

MANY = 192
"""As many connections as keep both cores busy. Each waits for its commit, so with fewer it is their waiting that is
measured; that stands beside it."""
FEW = CONNECTIONS
WANTED = {("sqlite", MANY): 0.18, ("postgres", MANY): 0.17, ("sqlite", FEW): 0.14, ("postgres", FEW): 0.14}
NAMED_MIN = 0.90
NEW_KEY_MAX = 1.25
TIMES_NAIVE = 25.0
NAIVE_ROUNDS = 1
"""It is 50 times slower: how fast exactly changes nothing."""


def run(bench: Bench) -> tuple[list[Figure], list[Goal]]:
    figures: list[Figure] = []
    goals: list[Goal] = []
    # One server at a time: those that only wait take their share of two cores and of the database too.
    for store in bench.stores:
        with _server(bench, store, "end to end") as (one, sink):
            many, named, few = contenders = [
                Contender(store.name, one, sink, store, connections=MANY),
                Contender(f"{store.name}, Idempotency-Key", one, sink, store, names="n", connections=MANY),
                Contender(f"{store.name}, {FEW} connections", one, sink, store, connections=FEW),
            ]
            interleave(bench, contenders)
            figures += [contender.figure("end to end") for contender in contenders]
        goals += [_over_limit(store, contender) for contender in (many, few)]
        goals.append(_named_over_plain(store, named, many))
    with (
        stage(bench, "end to end, the naive design") as folder,
        sink_server(folder / "sink") as sink,
        naive_server(folder, sink.port) as naive,
    ):
        contender = Contender("naive, sqlite", naive, sink)
        interleave(replace(bench, rounds=min(bench.rounds, NAIVE_ROUNDS)), [contender])
        figures.append(contender.figure("end to end"))
    times = figures[0].rate / figures[-1].rate
    what, wanted = f"end to end on {figures[0].variant} beside the naive design", f">= {TIMES_NAIVE:g} x"
    goals.append(Goal(what=what, wanted=wanted, found=f"{times:.0f} x", is_reached=times >= TIMES_NAIVE))
    return figures, goals


def run_new_keys(bench: Bench) -> tuple[list[Figure], list[Goal]]:
    """Every event on a key of its own, and two events a key, beside 1,000 keys that exist."""
    figures: list[Figure] = []
    goals: list[Goal] = []
    for store in bench.stores:
        with _server(bench, store, "new keys") as (one, sink):
            contenders = [
                Contender(f"{store.name}, 1,000 keys", one, sink, store, connections=MANY),
                Contender(f"{store.name}, each event a new key", one, sink, store, per_new_key=1, connections=MANY),
                Contender(f"{store.name}, two events a key", one, sink, store, per_new_key=2, connections=MANY),
            ]
            interleave(bench, contenders)
            figures += [contender.figure("new keys") for contender in contenders]
        old, *new = [[sum(us) for us in zip(*_own(contender), strict=True)] for contender in contenders]
        for contender, costs in zip(contenders[1:], new, strict=True):
            times = [cost / before for cost, before in zip(costs, old, strict=True)]
            goals.append(
                Goal(
                    what=f"CPU per event, {contender.name}",
                    wanted=f"<= {NEW_KEY_MAX} x that of 1,000 old keys",
                    found=f"{median(times):.2f} ({min(times):.2f}-{max(times):.2f}; {median(costs):.0f} µs)",
                    is_reached=median(times) <= NEW_KEY_MAX,
                )
            )
    return figures, goals


def _own(contender: Contender) -> list[list[float]]:
    """What an event costs server and database, by round."""
    return [us for part, us in contender.cpu_us.items() if part in ("gateway", "database")]


@contextmanager
def _server(bench: Bench, store: Store, what: str) -> Iterator[tuple[Gateway, Nginx]]:
    with (
        stage(bench, f"{what} on {store.name}") as folder,
        sink_server(folder / "sink") as sink,
        gateway(store.fresh(), folder) as one,
    ):
        one.add_endpoint(f"http://127.0.0.1:{sink.port}/")
        yield one, sink


def _over_limit(store: Store, contender: Contender) -> Goal:
    wanted = WANTED[store.name, contender.connections]
    ratios = [rate / limit for rate, limit in zip(contender.rates, contender.limits, strict=True)]
    return Goal(
        what=f"end to end on {store.name}, {contender.connections} connections",
        wanted=f">= {wanted:.2f} x H",
        found=f"{median(ratios):.3f} ({min(ratios):.3f}-{max(ratios):.3f})",
        is_reached=median(ratios) >= wanted,
    )


def _named_over_plain(store: Store, named: Contender, plain: Contender) -> Goal:
    ratios = [mine / without for mine, without in zip(named.rates, plain.rates, strict=True)]
    return Goal(
        what=f"with an Idempotency-Key each on {store.name}",
        wanted=f">= {NAMED_MIN:.2f} of the rate without",
        found=f"{median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})",
        is_reached=median(ratios) >= NAMED_MIN,
    )


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
