"""The limits of this machine, measured in the same run: requests per second, and commits per second."""

from __future__ import annotations

import sqlite3
import time
from dataclasses import dataclass
from pathlib import Path

from bench import wrk
from bench.nginx import Nginx

LOG_PAGES = 1_000
"""After so many pages SQLite copies its log into the file, and begins to write over it."""


@dataclass(frozen=True, slots=True)
class Limit:
    """H, and the CPU time that wrk and nginx together spend on one of those requests."""

    rate: float
    cpu_us: float


def requests_per_second(
    server: Nginx, seconds: float = 1.0, *, keys: int = 1_000, connections: int = wrk.CONNECTIONS
) -> Limit:
    """wrk → nginx, with the very requests of the benchmark."""
    before = server.cost.total_s
    load = wrk.run(server.port, seconds, keys=keys, connections=connections)
    return Limit(load.rate, (server.cost.total_s - before + load.cpu_s) * 1e6 / load.answers)


def sqlite_commits_per_second(folder: Path, seconds: float = 1.0) -> float:
    """One row, one commit, each on the disk before the next.

    On a log that is written over, as that of a database in use: while it grows a sync takes nearly twice as long.
    """
    conn = sqlite3.connect(folder / "limit.db", isolation_level=None)
    conn.execute("PRAGMA journal_mode = WAL")
    conn.execute("PRAGMA synchronous = FULL")
    conn.execute("CREATE TABLE t (n INTEGER PRIMARY KEY, data BLOB)")
    for _ in range(LOG_PAGES + 100):
        conn.execute("INSERT INTO t (data) VALUES (zeroblob(200))")
    return _rate(lambda: conn.execute("INSERT INTO t (data) VALUES (zeroblob(200))"), conn.close, seconds)


def postgres_commits_per_second(url: str, seconds: float = 1.0) -> float:
    """The same on one connection to PostgreSQL."""
    import psycopg

    conn = psycopg.connect(url, autocommit=True)
    conn.execute("CREATE TABLE IF NOT EXISTS bench_limit (n bigserial PRIMARY KEY, data bytea)")
    return _rate(
        lambda: conn.execute("INSERT INTO bench_limit (data) VALUES (decode(repeat('00', 200), 'hex'))"),
        conn.close,
        seconds,
    )


def _rate(commit, close, seconds: float) -> float:  # type: ignore[no-untyped-def]
    began, count = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        commit()
        count += 1
    took = time.perf_counter() - began
    close()
    return count / took
