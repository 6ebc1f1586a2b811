"""How fast is the inbox? Each figure stands beside what one commit costs on the same store in the same run.

    python -m bench.inbox [--postgres URL] [--seconds 2]

Goals: SQLite inline fresh at least half of the single-commit limit, duplicates at least 5,000/s, PostgreSQL durable
receive at least 3,000/s. Without --postgres a server of the test kit is started, on disk and with fsync.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
import sqlite3
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import asyncpg

from hooklane.core.signing import Signer, new_secret
from hooklane.model.endpoint import SigningKey
from hooklane.model.message import Request
from hooklane.receiver import Inbox
from hooklane.store.sqlite.database import connect

SECRET = new_secret(b"0123456789abcdef0123456789abcdef")
SIGNER = Signer([SigningKey(SECRET)])
IN_FLIGHT = 64
THREADS = 4


def request(number: int) -> Request:
    id = f"evt_{number}"
    body = json.dumps(
        {
            "id": id,
            "type": "order.created",
            "timestamp": "2026-01-01T00:00:00.000Z",
            "data": {"n": number, "x": "y" * 200},
        }
    ).encode()
    seconds = int(time.time())
    headers = (
        ("content-type", "application/json"),
        ("webhook-id", id),
        ("webhook-timestamp", str(seconds)),
        ("webhook-signature", SIGNER.sign(id, seconds, body).decode()),
    )
    return Request("POST", "http://127.0.0.1/webhooks/hooklane", headers, body)


def rate(work: Callable[[int], Any], seconds: float) -> float:
    """How often a second *work* is done, called with 0, 1, 2 …"""
    began, done = time.perf_counter(), 0
    while (took := time.perf_counter() - began) < seconds:
        work(done)
        done += 1
    return done / took


def crowd(inbox: Inbox, requests: list[Request], seconds: float) -> float:
    """The same from several threads, as a WSGI server has them: one verifies while another commits."""
    left, done = iter(requests), [0] * THREADS
    deadline = time.perf_counter() + seconds

    def one(index: int) -> None:
        while time.perf_counter() < deadline and (each := next(left, None)) is not None:
            assert inbox.receive(each).status == 200
            done[index] += 1

    began = time.perf_counter()
    threads = [threading.Thread(target=one, args=(index,)) for index in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(done) / (time.perf_counter() - began)


def show(name: str, figure: float, limit: float | None = None, goal: str = "") -> None:
    ratio = "" if limit is None else f"  {figure / limit:5.2f} x the single-commit limit"
    print(f"  {name:44} {figure:9,.0f}/s{ratio}{'  goal: ' + goal if goal else ''}", flush=True)


def sqlite_limit(folder: Path, seconds: float) -> float:
    """Durable commits of one event under its id, one after the other, with nothing else around them."""
    conn = connect(str(folder / "limit.db"))
    conn.execute("CREATE TABLE one (id TEXT PRIMARY KEY, body BLOB)")

    def commit(number: int) -> None:
        conn.execute("BEGIN IMMEDIATE")
        conn.execute("INSERT INTO one VALUES (?, ?)", (f"evt_{number}", b"y" * 300))
        conn.execute("COMMIT")

    limit = rate(commit, seconds)
    conn.close()
    return limit


def bench_sqlite(folder: Path, seconds: float) -> None:
    print("SQLite (WAL, synchronous=FULL)", flush=True)
    limit = sqlite_limit(folder, seconds)
    show("single-commit limit", limit)
    path = folder / "app.db"
    setup = sqlite3.connect(path)
    setup.execute("CREATE TABLE orders (id TEXT)")
    setup.close()

    def handler(event: Any, tx: Any) -> None:
        tx.execute("INSERT INTO orders VALUES (?)", (event.id,))

    requests = [request(number) for number in range(int(limit * seconds * 2) + 100)]
    gc.freeze()  # the requests are the load, not ours to collect
    inline = Inbox(f"sqlite:///{path}", "inline")
    inline.source("hooklane", [SECRET]).on("order.*")(handler)
    applied = 0

    def fresh(number: int) -> None:
        nonlocal applied
        assert inline.receive(requests[number]).status == 200
        applied = number + 1

    show("inline, fresh (verify, store, handle, commit)", rate(fresh, seconds), limit)
    show(f"inline, fresh, {THREADS} threads", crowd(inline, requests[applied:], seconds), limit, ">= 0.5 x")
    show("inline, duplicates", rate(lambda n: inline.receive(requests[n % applied]), seconds), None, ">= 5,000/s")
    inline.close()
    durable = Inbox(f"sqlite:///{folder / 'durable.db'}")
    durable.source("hooklane", [SECRET]).on("order.*")(lambda event, tx: None)
    show("durable, receive only", rate(lambda n: durable.receive(requests[n]), seconds), limit)
    show("durable, duplicates", rate(lambda n: durable.receive(requests[n % 100]), seconds))
    began, handled = time.perf_counter(), 0
    while time.perf_counter() - began < seconds and (done := durable.run_once(200)):
        handled += done
    show("durable, worker", handled / (time.perf_counter() - began), limit)
    durable.close()


async def postgres_limit(url: str, seconds: float) -> float:
    conn = await asyncpg.connect(url)
    await conn.execute("CREATE TABLE one (n bigint PRIMARY KEY, body bytea)")
    began, done = time.perf_counter(), 0
    while (took := time.perf_counter() - began) < seconds:
        await conn.execute("INSERT INTO one VALUES ($1, $2)", done, b"y" * 300)
        done += 1
    await conn.close()
    return done / took


async def flood(work: Callable[[int], Any], seconds: float) -> float:
    """*work* with so many in flight at once."""
    numbers = iter(range(10**9))
    deadline = time.perf_counter() + seconds
    began = time.perf_counter()

    async def one() -> int:
        done = 0
        while time.perf_counter() < deadline:
            await work(next(numbers))
            done += 1
        return done

    done = sum(await asyncio.gather(*(one() for _ in range(IN_FLIGHT))))
    return done / (time.perf_counter() - began)


async def bench_postgres(url: str, seconds: float) -> None:
    print(f"PostgreSQL (fsync on), {IN_FLIGHT} requests in flight in one event loop", flush=True)
    limit = await postgres_limit(url, seconds)
    show("single-commit limit (one connection)", limit)
    inbox = Inbox(url)
    inbox.source("hooklane", [SECRET]).on("order.*")(lambda event, tx: None)
    requests = [request(number) for number in range(int(20_000 * seconds))]

    async def receive(number: int) -> None:
        assert (await inbox.areceive(requests[number])).status == 200

    show("durable receive (verify, store, commit)", await flood(receive, seconds), limit, ">= 3,000/s")

    async def again(number: int) -> None:
        await inbox.areceive(requests[number % 100])

    show("durable, duplicates", await flood(again, seconds))
    began, handled = time.perf_counter(), 0
    while time.perf_counter() - began < seconds and (done := await asyncio.to_thread(inbox.run_once, 200)):
        handled += done
    show("worker, one thread", handled / (time.perf_counter() - began), limit)
    await inbox.store.aclose()
    inbox.close()


@contextlib.contextmanager
def postgres(url: str | None) -> Iterator[str]:
    if url is not None:
        yield url
        return
    from tests.support.postgres import postgres_server

    with postgres_server(durable=True) as server, server.address.fresh_database() as fresh:
        yield fresh


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--postgres", metavar="URL")
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--only", choices=["sqlite", "postgres"])
    options = parser.parse_args(arguments)
    if options.only != "postgres":
        with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
            bench_sqlite(Path(folder), options.seconds)
    if options.only != "sqlite":
        with postgres(options.postgres) as url:
            asyncio.run(bench_postgres(url, options.seconds))


if __name__ == "__main__":
    main(sys.argv[1:])
