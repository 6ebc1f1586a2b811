"""How fast is the inbox? Each figure stands beside what one commit costs on the same store in the same run.

    python -m bench.inbox [--only sqlite|postgres|redis|dynamodb] [--postgres URL] [--seconds 2]

Goals: SQLite inline fresh at least half of the single-commit limit, with requests in flight as a server has them, who
share commits; duplicates at least 5,000/s; PostgreSQL durable receive at least 3,000/s. A request that comes alone
pays for a sync of its own, and threads besides for each other's locks: how near they come is shown, too.
The limit and what is compared with it take turns of a quarter of a second.
Without --postgres a server of the test kit is started, on disk and with fsync. Redis is a Valkey in memory, and
DynamoDB is DynamoDB Local: neither has a transaction for a handler, and the limit is one item written by one call.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
import os
import sqlite3
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from hooklane.core.signing import Signer, new_secret
from hooklane.model.endpoint import SigningKey
from hooklane.model.message import Request
from hooklane.receiver import Inbox
from hooklane.store.open_inbox import open_inbox
from hooklane.store.sqlite.database import connect

SECRET = new_secret(b"0123456789abcdef0123456789abcdef")
SIGNER = Signer([SigningKey(SECRET)])
IN_FLIGHT = 64
THREADS = 4
SLICE_S = 0.25


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


@dataclass
class Pace:
    """How often something was done, in how much time and at what cost."""

    done: int = 0
    took_s: float = 0.0
    cpu_s: float = 0.0

    @property
    def rate(self) -> float:
        return self.done / self.took_s

    @property
    def cpu_us(self) -> float:
        return self.cpu_s / self.done * 1e6


Slice = Callable[[list[Request]], int]
"""Takes requests for as long as a slice lasts; how many it took."""


def in_turns(slices: dict[str, Slice], seconds: float) -> dict[str, Pace]:
    """Each of *slices* for so long in all, in turns: what the disk does in one minute and not in the next, all meet."""
    paces = {name: Pace() for name in slices}
    numbers = iter(range(10**9))
    ahead = 500
    for turn in range(1 + round(seconds / SLICE_S)):
        for name, work in slices.items():
            requests = [request(next(numbers)) for _ in range(ahead)]  # the load, not ours to make in time
            began, cpu = time.perf_counter(), time.process_time()
            done = work(requests)
            took_s = time.perf_counter() - began
            ahead = max(ahead, int(done * 1.5 * SLICE_S / took_s))
            if turn > 0:  # in the first one logs grow and caches fill, on both sides
                pace = paces[name]
                pace.done += done
                pace.took_s += took_s
                pace.cpu_s += time.process_time() - cpu
    return paces


def for_a_slice(work: Callable[[Request], Any]) -> Slice:
    """*work* again and again, in this thread."""

    def one(requests: list[Request]) -> int:
        deadline, done = time.perf_counter() + SLICE_S, 0
        for each in requests:
            work(each)
            done += 1
            if time.perf_counter() >= deadline:
                break
        return done

    return one


def from_threads(work: Callable[[Request], Any]) -> Slice:
    """The same from several threads, as a WSGI server has them."""

    def crowd(requests: list[Request]) -> int:
        shares = [requests[index::THREADS] for index in range(THREADS)]
        with ThreadPoolExecutor(THREADS) as pool:
            return sum(pool.map(for_a_slice(work), shares))

    return crowd


def in_one_loop(work: Callable[[Request], Awaitable[Any]], loop: asyncio.AbstractEventLoop) -> Slice:
    """The same with many in flight in one event loop, as an ASGI server has them."""

    async def flow(requests: list[Request]) -> int:
        deadline, waiting, done = time.perf_counter() + SLICE_S, iter(requests), 0

        async def one() -> None:
            nonlocal done
            for each in waiting:
                await work(each)
                done += 1
                if time.perf_counter() >= deadline:
                    break

        await asyncio.gather(*(one() for _ in range(IN_FLIGHT)))
        return done

    return lambda requests: loop.run_until_complete(flow(requests))


def show(name: str, figure: float, limit: float | None = None, goal: str = "", cpu_us: float | None = None) -> None:
    ratio = "" if limit is None else f"  {figure / limit:5.2f} x the limit"
    cpu = "" if cpu_us is None else f"  {cpu_us:4.0f} us CPU"
    print(f"  {name:44} {figure:9,.0f}/s{cpu}{ratio}{'  goal: ' + goal if goal else ''}", flush=True)


def show_all(slices: dict[str, Slice], seconds: float, goals: Mapping[str, str] | None = None) -> float:
    """Each of *slices* beside the first of them, which is the limit; the limit's rate."""
    paces = in_turns(slices, seconds)
    limit = next(iter(paces.values())).rate
    for name, pace in paces.items():
        show(name, pace.rate, limit, (goals or {}).get(name, ""), pace.cpu_us)
    return limit


def sqlite_limit(folder: Path) -> Callable[[Request], Any]:
    """Durable commits of one event under its id, one after the other, with nothing else around them."""
    conn = connect(str(folder / "limit.db"))
    conn.execute("CREATE TABLE one (id TEXT PRIMARY KEY, body BLOB)")

    def commit(event: Request) -> None:
        conn.execute("BEGIN IMMEDIATE")
        conn.execute("INSERT INTO one VALUES (?, ?)", (event.headers[1][1], event.body))
        conn.execute("COMMIT")

    return commit


ONE_AT_A_TIME, LIMIT = "inline, fresh, one at a time", "single-commit limit"


def one_at_a_time(folder: Path, seconds: float) -> dict[str, Pace]:
    """Only that, and the limit beside it, in turns."""
    inline = sqlite_inbox(folder / "app.db")
    gc.freeze()
    try:
        return in_turns(
            {LIMIT: for_a_slice(sqlite_limit(folder)), ONE_AT_A_TIME: for_a_slice(fresh(inline, "applied"))}, seconds
        )
    finally:
        inline.close()


def sqlite_inbox(path: Path) -> Inbox:
    """An inline inbox whose handler writes a row of its own."""
    setup = sqlite3.connect(path)
    setup.execute("CREATE TABLE orders (id TEXT)")
    setup.close()

    def handler(event: Any, tx: Any) -> None:
        tx.execute("INSERT INTO orders VALUES (?)", (event.id,))

    inline = Inbox(f"sqlite:///{path}", "inline")
    inline.source("hooklane", [SECRET]).on("order.*")(handler)
    return inline


def fresh(inbox: Inbox, verdict: str) -> Callable[[Request], Any]:
    def receive(event: Request) -> None:
        reply = inbox.receive(event)
        assert (reply.status, reply.headers[1][1]) == (200, verdict), reply

    return receive


def afresh(inbox: Inbox, verdict: str) -> Callable[[Request], Awaitable[Any]]:
    async def receive(event: Request) -> None:
        reply = await inbox.areceive(event)
        assert (reply.status, reply.headers[1][1]) == (200, verdict), reply

    return receive


def bench_sqlite(folder: Path, seconds: float, loop: asyncio.AbstractEventLoop) -> None:
    print("SQLite (WAL, synchronous=FULL)", flush=True)
    inline = sqlite_inbox(folder / "app.db")
    durable = Inbox(f"sqlite:///{folder / 'durable.db'}")
    durable.source("hooklane", [SECRET]).on("order.*")(lambda event, tx: None)

    gc.freeze()
    limit = show_all(
        {
            LIMIT: for_a_slice(sqlite_limit(folder)),
            f"inline, fresh, {IN_FLIGHT} in flight in one loop": in_one_loop(afresh(inline, "applied"), loop),
            f"inline, fresh, {THREADS} threads": from_threads(fresh(inline, "applied")),
            ONE_AT_A_TIME: for_a_slice(fresh(inline, "applied")),
            "durable, receive only": for_a_slice(fresh(durable, "stored")),
        },
        seconds,
        {f"inline, fresh, {IN_FLIGHT} in flight in one loop": ">= 0.5 x", ONE_AT_A_TIME: ">= 0.6 x"},
    )
    again = [request(number) for number in range(10**9, 10**9 + 1_000)]
    for each in again:
        inline.receive(each)
        durable.receive(each)
    show("inline, duplicates", rate(lambda n: inline.receive(again[n % 1_000]), seconds), None, ">= 5,000/s")
    show("durable, duplicates", rate(lambda n: durable.receive(again[n % 1_000]), seconds))
    inline.close()
    began, handled = time.perf_counter(), 0
    while time.perf_counter() - began < seconds and (done := durable.run_once(200)):
        handled += done
    show("durable, worker", handled / (time.perf_counter() - began), limit)
    durable.close()


def postgres_orders(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("CREATE TABLE orders (id text)")


def orders(db: str) -> tuple[int, int]:
    """How many effects there are, and of how many ids."""
    query = "SELECT count(*), count(DISTINCT id) FROM orders"
    if db.startswith("sqlite"):
        with contextlib.closing(sqlite3.connect(db.removeprefix("sqlite:///"))) as file:
            found = file.execute(query).fetchone()
    else:
        with psycopg.connect(db, autocommit=True) as conn:
            found = conn.execute(query).fetchone()
    assert found is not None
    return int(found[0]), int(found[1])


def postgres_limit(url: str) -> Callable[[Request], Any]:
    """Durable commits of one event under its id, one after the other on one connection."""
    conn = psycopg.connect(url, autocommit=True)
    conn.execute("CREATE TABLE one (id text PRIMARY KEY, body bytea)")
    return lambda event: conn.execute("INSERT INTO one VALUES (%s, %s)", (event.headers[1][1], event.body))


def bench_postgres(url: str, seconds: float, loop: asyncio.AbstractEventLoop) -> None:
    print("PostgreSQL (fsync on)", flush=True)
    postgres_orders(url)
    inline, durable, ainline = Inbox(url, "inline"), Inbox(url), Inbox(url, "inline")

    def handler(event: Any, tx: Any) -> None:
        tx.execute("INSERT INTO orders VALUES (%s)", (event.id,))

    async def ahandler(event: Any, tx: Any) -> None:
        await tx.execute("INSERT INTO orders VALUES ($1)", event.id)

    inline.source("hooklane", [SECRET]).on("order.*", name="book")(handler)
    ainline.source("hooklane", [SECRET]).on("order.*", name="book")(ahandler)
    durable.source("stored", [SECRET], profile="hooklane").on("order.*")(lambda event, tx: None)

    def stored(event: Request) -> None:
        assert durable.receive(event, "stored").status == 200

    async def astored(event: Request) -> None:
        assert (await durable.areceive(event, "stored")).status == 200

    gc.freeze()
    limit = show_all(
        {
            LIMIT: for_a_slice(postgres_limit(url)),
            f"inline, fresh, {IN_FLIGHT} in flight in one loop": in_one_loop(afresh(ainline, "applied"), loop),
            f"inline, fresh, {THREADS} threads": from_threads(fresh(inline, "applied")),
            ONE_AT_A_TIME: for_a_slice(fresh(inline, "applied")),
            f"durable, {IN_FLIGHT} in flight in one loop": in_one_loop(astored, loop),
            f"durable, {THREADS} threads": from_threads(stored),
            "durable, one at a time": for_a_slice(stored),
        },
        seconds,
        {f"durable, {IN_FLIGHT} in flight in one loop": ">= 3,000/s"},
    )
    began, handled = time.perf_counter(), 0
    while time.perf_counter() - began < seconds and (done := durable.run_once(200)):
        handled += done
    show("durable, worker, one thread", handled / (time.perf_counter() - began), limit)
    for box in (inline, ainline, durable):
        loop.run_until_complete(box.store.aclose())
        box.close()


def bench_without_tx(where: str, single: Callable[[Request], Any], seconds: float, loop: Any) -> None:
    """A store that no handler has a transaction of: the claim before the handler and its end after it are calls."""
    inline = Inbox(where, "inline")
    inline.source("hooklane", [SECRET]).on("order.*")(lambda event, tx: None)
    gc.freeze()
    show_all(
        {
            "one item by one call": for_a_slice(single),
            f"inline, fresh, {IN_FLIGHT} in flight in one loop": in_one_loop(afresh(inline, "applied"), loop),
            f"inline, fresh, {THREADS} threads": from_threads(fresh(inline, "applied")),
            ONE_AT_A_TIME: for_a_slice(fresh(inline, "applied")),
        },
        seconds,
    )
    loop.run_until_complete(inline.store.aclose())
    inline.close()


def bench_redis(seconds: float, loop: Any) -> None:
    import redis
    from tests.support.valkey import valkey_server

    print("Redis (Valkey, in memory)", flush=True)
    with valkey_server() as server:
        client = redis.Redis.from_url(server.address.url(1))
        bench_without_tx(
            server.address.url(),
            lambda event: client.set(event.headers[1][1], event.body, nx=True, px=600_000),
            seconds,
            loop,
        )


def bench_dynamodb(seconds: float, loop: Any) -> None:
    import boto3
    from tests.support.dynamodb import DynamoDB, dynamodb_server

    print("DynamoDB (DynamoDB Local, in memory)", flush=True)
    with dynamodb_server() as port:
        account = DynamoDB(port, "bench")
        os.environ.update(account.environment())
        where = f"dynamodb://inbox?endpoint={account.url}"
        store: Any = open_inbox(where)
        store.create_table()
        store.close()
        client: Any = boto3.client("dynamodb", endpoint_url=account.url)
        client.create_table(
            TableName="one",
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )

        def single(event: Request) -> None:
            item = {"id": {"S": event.headers[1][1]}, "body": {"B": event.body}}
            client.put_item(TableName="one", Item=item, ConditionExpression="attribute_not_exists(id)")

        bench_without_tx(where, single, seconds, loop)


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
    parser.add_argument("--only", choices=["sqlite", "postgres", "redis", "dynamodb"])
    options = parser.parse_args(arguments)
    with contextlib.closing(asyncio.new_event_loop()) as loop:
        if options.only in (None, "sqlite"):
            with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
                bench_sqlite(Path(folder), options.seconds, loop)
        if options.only in (None, "postgres"):
            with postgres(options.postgres) as url:
                bench_postgres(url, options.seconds, loop)
        if options.only in (None, "redis"):
            bench_redis(options.seconds, loop)
        if options.only in (None, "dynamodb"):
            bench_dynamodb(options.seconds, loop)


if __name__ == "__main__":
    main(sys.argv[1:])
