"""What one event costs each part, on PostgreSQL, and what more workers change: the figures of docs/explain/scale.md.

`python -m bench.scale parts` publishes over HTTP to an API server of its own, with a worker of its own beside it.
`python -m bench.scale workers` has 1, 2 and 4 workers deliver a backlog to endpoints that answer after 50 ms.
Both print a table. The load generator and the endpoints are on the same machine; their CPU is not counted.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import psycopg

from bench import stores, tree, wrk
from bench.gateway import Gateway, gateway
from bench.machine import cost_of, described, load_average, require_tools, scratch
from bench.nginx import sink_server

WARM_S, LOAD_S = 2.0, 6.0
KEYS, CONNECTIONS = 1_000, 64
DELAY_S = 0.05
ENDPOINTS, EVENTS = 16, 500
WORKERS = (1, 2, 4)
IDLE_S = 5.0
BALANCED_S = 6.0
"""After so long each worker has its share of the partitions."""
SETTLE_S = 1.5
"""PostgreSQL's own counters are that late."""
ROWS = "SELECT sum(n_tup_ins), sum(n_tup_upd), sum(n_tup_del) FROM pg_stat_user_tables WHERE schemaname = 'hooklane'"
SESSIONS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"


@dataclass(frozen=True, slots=True)
class Books:
    """What PostgreSQL has counted so far."""

    wal: int
    inserted: int
    updated: int
    deleted: int
    size: int

    @classmethod
    def read(cls, db: str) -> Books:
        time.sleep(SETTLE_S)
        with psycopg.connect(db) as connection:
            ((wal,),) = connection.execute("SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')").fetchall()
            (rows,) = connection.execute(ROWS).fetchall()
            ((size,),) = connection.execute("SELECT pg_database_size(current_database())").fetchall()
        return cls(int(wal), *(int(many) for many in rows), int(size))


def parts(stack: ExitStack) -> list[str]:
    """One API server, one worker, one database, each in processes of its own."""
    folder = stack.enter_context(scratch())
    store = stack.enter_context(stores.postgres(folder))
    sink = stack.enter_context(sink_server(folder / "sink"))
    db = store.fresh()
    api = stack.enter_context(gateway(db, folder, role="api"))
    worker = stack.enter_context(gateway(db, folder, role="deliver"))
    api.add_endpoint(f"http://127.0.0.1:{sink.port}/", in_flight_max=1_000)
    wrk.run(api.port, WARM_S, keys=KEYS, connections=CONNECTIONS)
    api.drain()
    before, costs = Books.read(db), [cost_of(*pids).total_s for pids in ((api.pid,), (worker.pid,), store.pids)]
    began = time.perf_counter()
    load = wrk.run(api.port, LOAD_S, keys=KEYS, connections=CONNECTIONS)
    with psycopg.connect(db) as connection:
        ((sessions,),) = connection.execute(SESSIONS).fetchall()
    api.drain()
    took_s = time.perf_counter() - began
    spent = [
        cost_of(*pids).total_s - cost for pids, cost in zip(((api.pid,), (worker.pid,), store.pids), costs, strict=True)
    ]
    after, events = Books.read(db), load.answers
    lines = ["| of one event | |", "|---|--:|"]
    for name, cpu_s in zip(("API server", "worker", "PostgreSQL"), spent, strict=True):
        lines.append(f"| CPU of the {name}, µs | {cpu_s / events * 1e6:.0f} |")
    lines += [
        f"| WAL, bytes | {(after.wal - before.wal) / events:.0f} |",
        f"| growth of the database, bytes | {(after.size - before.size) / events:.0f} |",
        f"| rows inserted, updated, deleted | {(after.inserted - before.inserted) / events:.2f},"
        f" {(after.updated - before.updated) / events:.2f}, {(after.deleted - before.deleted) / events:.2f} |",
        f"| events/s meanwhile, all on this machine | {events / took_s:,.0f} |",
        f"| sessions of API server and worker together | {sessions} |",
        f"| memory at most: API server, worker, MB | {api.peak_rss_mb:.0f}, {worker.peak_rss_mb:.0f} |",
    ]
    return lines


def workers(stack: ExitStack) -> list[str]:
    """The same backlog for 1, 2 and 4 workers."""
    lines = [
        "| workers | deliveries/s | CPU of the workers, µs a delivery | of PostgreSQL, µs a delivery"
        " | memory of a worker, MB | CPU of PostgreSQL when all is quiet, ms/s |",
        "|--:|--:|--:|--:|--:|--:|",
    ]
    folder = stack.enter_context(scratch())
    store = stack.enter_context(stores.postgres(folder))
    for many in WORKERS:
        with ExitStack() as mine:
            port = mine.enter_context(slow_sink())
            db = store.fresh()
            api = mine.enter_context(gateway(db, folder, role="api"))
            endpoints = [api.add_endpoint(f"http://127.0.0.1:{port}/") for _ in range(ENDPOINTS)]
            for endpoint in endpoints:
                api.call("POST", f"/api/v1/endpoints/{endpoint}/pause")
            for start in range(0, EVENTS, 500):
                batch = [{"type": "a.b", "key": f"k{n}", "data": {"n": n}} for n in range(start, start + 500)]
                api.call("POST", "/api/v1/events/batch", {"events": batch})
            running: list[Gateway] = [mine.enter_context(gateway(db, folder, role="deliver")) for _ in range(many)]
            time.sleep(BALANCED_S)
            spent, started = cost_of(*store.pids).total_s, [cost_of(one.pid).total_s for one in running]
            for endpoint in endpoints:
                api.call("POST", f"/api/v1/endpoints/{endpoint}/resume")
            wanted = ENDPOINTS * EVENTS
            figures = until_delivered(port, wanted)
            api.drain()
            cpu = [
                (cost_of(one.pid).total_s - before, one.peak_rss_mb)
                for one, before in zip(running, started, strict=True)
            ]
            database = cost_of(*store.pids).total_s - spent
            idle = cost_of(*store.pids).total_s
            time.sleep(IDLE_S)
            idle = (cost_of(*store.pids).total_s - idle) / IDLE_S
            lines.append(
                f"| {many} | {wanted / (figures['last_at'] - figures['first_at']):,.0f} |"
                f" {sum(one for one, _ in cpu) / wanted * 1e6:.0f} | {database / wanted * 1e6:.0f} |"
                f" {max(rss for _, rss in cpu):.0f} | {idle * 1e3:.0f} |"
            )
    return lines


@contextmanager
def slow_sink() -> Iterator[int]:
    command = [sys.executable, "-m", "bench.slow_sink", str(DELAY_S)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


def until_delivered(port: int, wanted: int) -> dict[str, float]:
    """What the sink on *port* tells once it has answered so many."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/figures", timeout=10) as answer:
            figures: dict[str, float] = json.loads(answer.read())
        if figures["deliveries"] >= wanted:
            return figures
        time.sleep(0.1)
    raise SystemExit("the backlog was not delivered within two minutes")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.scale", description=__doc__)
    parser.add_argument("what", choices=["parts", "workers"])
    parser.add_argument("--interpreted", action="store_true")
    asked = parser.parse_args()
    require_tools()
    build = tree.choose(interpreted=asked.interpreted)
    before = f"{described()}, {build}, load average {load_average():.1f} before"
    with ExitStack() as stack:
        lines = {"parts": parts, "workers": workers}[asked.what](stack)
    print("\n".join([before, "", *lines]))


if __name__ == "__main__":
    main()
