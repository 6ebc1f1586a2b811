"""How many events a second can each store of the inbox take and handle, from one Python process?

`python -m bench.store_claims [--seconds 1] [--stores memory,sqlite,postgres,redis,dynamodb]`

*stored*: rows with payload inserted and committed, 100 a call. *one by one*: the same one a call, sixteen threads.
*handled*: claimed by 100 and completed one by one, as a worker does. *bytes*: what a settled id costs, payload purged.
Servers are started as for the tests (PostgreSQL with fsync off, DynamoDB Local in memory): read the figures as ratios.
"""

from __future__ import annotations

import argparse
import gc
import os
import tempfile
import time
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.redis_claims import BATCH, row
from hooklane.model.clock import Instant, wall_now
from hooklane.model.message import Status
from hooklane.receiver.drivers import Driver
from hooklane.receiver.steps import transaction
from hooklane.store.inbox import Flow, InboxStore
from hooklane.store.open_inbox import open_inbox

STORES = ("memory", "sqlite", "postgres", "redis", "dynamodb")
THREADS = 16
WORK = [("shop", "book")]


@contextmanager
def opened(name: str) -> Iterator[tuple[InboxStore, str]]:
    """A store of that kind, empty, on a real server."""
    if name == "memory":
        yield open_inbox("memory://"), ""
    elif name == "sqlite":
        with tempfile.TemporaryDirectory() as folder:
            url = f"sqlite:///{folder}/inbox.db"
            yield _closing(open_inbox(url)), url
    elif name == "postgres":
        from tests.support.postgres import postgres_server

        with postgres_server() as server, server.address.fresh_database() as url:
            yield _closing(open_inbox(url)), url
    elif name == "redis":
        from tests.support.valkey import valkey_server

        with valkey_server() as started:
            yield _closing(open_inbox(started.address.url())), started.address.url()
    else:
        from tests.support.dynamodb import DynamoDB, dynamodb_server

        with dynamodb_server() as port:
            account = DynamoDB(port, "bench")
            os.environ.update(account.environment())
            store: Any = open_inbox(f"dynamodb://inbox?endpoint={account.url}")
            store.create_table()
            yield store, account.url


def _closing(store: InboxStore) -> InboxStore:
    return store


def run(store: InboxStore, flow: Flow[Any]) -> Any:
    return Driver(store).run(transaction(flow))


def stored(store: InboxStore, seconds: float) -> float:
    began, done = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        rows = [row(claimed=False) for _ in range(BATCH)]
        assert None not in run(store, store.insert(rows))
        done += BATCH
    return done / (time.perf_counter() - began)


def one_by_one(store: InboxStore, seconds: float) -> float:
    until = time.perf_counter() + seconds

    def work(_: int) -> int:
        done = 0
        while time.perf_counter() < until:
            run(store, store.insert([row(claimed=False)]))
            done += 1
        return done

    with ThreadPoolExecutor(THREADS) as threads:
        return sum(threads.map(work, range(THREADS))) / seconds


def handled(store: InboxStore, seconds: float) -> float:
    began, done = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        claim = store.claim(WORK, expired=False, now=wall_now(), lease_ms=60_000, limit=BATCH)
        taken = run(store, claim)
        if not taken:
            break
        for each in taken:
            assert run(store, store.complete(each.id, each.handler, each.fence, Status.COMPLETED, wall_now()))
        done += len(taken)
    return done / (time.perf_counter() - began)


def bytes_per_id(name: str, rows: int = 5_000) -> float:
    with opened(name) as (store, url):
        if name == "memory":
            gc.collect()
            tracemalloc.start()
        run(store, store.insert([row(claimed=False)]))
        before = _size(name, store, url)
        for _ in range(rows // BATCH):
            run(store, store.insert([row(claimed=False) for _ in range(BATCH)]))
        while taken := run(store, store.claim(WORK, expired=False, now=wall_now(), lease_ms=60_000, limit=BATCH)):
            for each in taken:
                run(store, store.complete(each.id, each.handler, each.fence, Status.COMPLETED, wall_now()))
        run(store, store.purge(before=Instant(wall_now() + 60_000), source=None, limit=rows * 2))
        size = (_size(name, store, url) - before) / rows
        tracemalloc.stop()
        store.close()
        return size


def _size(name: str, store: InboxStore, url: str) -> float:
    if name == "memory":
        gc.collect()
        return tracemalloc.get_traced_memory()[0]
    if name == "sqlite":
        import sqlite3

        path = Path(url.removeprefix("sqlite:///"))
        with sqlite3.connect(path) as conn:
            conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        conn.close()
        with sqlite3.connect(path, isolation_level=None) as conn:
            conn.execute("VACUUM")
        conn.close()
        return path.stat().st_size
    if name == "postgres":
        import psycopg

        with psycopg.connect(url, autocommit=True) as conn:
            conn.execute("VACUUM FULL")
            found = conn.execute("SELECT pg_database_size(current_database())").fetchone()
            assert found is not None
            return float(found[0])
    if name == "redis":
        import redis

        with redis.Redis.from_url(url) as client:
            return float(client.info("memory")["used_memory_dataset"])
    any_store: Any = store
    pages = any_store._table.client().get_paginator("scan").paginate(TableName=any_store.table)
    # What is billed: names and values of attributes, and 100 bytes for each item with an index.
    return sum(
        100 + sum(len(name) + len(str(next(iter(value.values())))) for name, value in item.items())
        for page in pages
        for item in page["Items"]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--stores", default=",".join(STORES))
    options = parser.parse_args()
    print(f"{'store':10} {'stored/s':>10} {'one by one/s':>13} {'handled/s':>10} {'bytes an id':>12}")
    for name in options.stores.split(","):
        with opened(name) as (store, _):
            rates = [measure(store, options.seconds) for measure in (one_by_one, stored, handled)]
            store.close()
        size = bytes_per_id(name, 1_000 if name == "dynamodb" else 5_000)
        print(f"{name:10} {rates[1]:>10,.0f} {rates[0]:>13,.0f} {rates[2]:>10,.0f} {size:>12,.0f}", flush=True)


if __name__ == "__main__":
    main()
