"""The databases to measure on, and how to fill one before a run."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from bench import many_events
from hooklane.core.fanout import places
from hooklane.core.signing import new_secret
from hooklane.model.clock import wall_now
from hooklane.model.endpoint import Endpoint, EndpointState, SigningKey
from hooklane.model.event import Event
from hooklane.model.ids import new_id
from hooklane.store.open import outbox_store
from hooklane.store.outbox import Draft, StoreOptions

BATCH = 1_000
LOG_FILES = 60
# Memory as PostgreSQL itself would take it (the test kit takes less), and log files that are kept to be used again.
SETTINGS = {"shared_buffers": "128MB", "min_wal_size": f"{LOG_FILES * 16}MB"}


@dataclass(frozen=True, slots=True)
class Store:
    """One kind of database, which gives new and empty ones; *pids* are the processes that are its cost."""

    name: str
    fresh: Callable[[], str]
    pids: tuple[int, ...] = ()

    @property
    def parts(self) -> dict[str, int]:
        """Its processes by name, for a table of who cost what."""
        return {"database": self.pids[0]} if self.pids else {}


@contextmanager
def sqlite(folder: Path) -> Iterator[Store]:
    numbers = count(1)
    yield Store("sqlite", lambda: f"sqlite:///{folder}/bench-{next(numbers)}.db")


@contextmanager
def postgres(folder: Path) -> Iterator[Store]:
    """A PostgreSQL of our own with fsync on, from the package that the tests use.

    Its log files are there already, as those of a server that has run for a while: a new one makes a file of 16 MB
    every second of a run, and a commit that needs it waits 50 ms.
    """
    from tests.support.postgres import PostgresMissing, PostgresServer, installation

    numbers = count(1)
    (folder / "postgres").mkdir()
    try:
        server = PostgresServer(installation(), folder / "postgres", durable=True, settings=SETTINGS)
    except PostgresMissing as error:
        sys.exit(str(error))
    try:
        address = server.start()
        _make_log_files(address.create_database("logs"))
        yield Store("postgres", lambda: address.create_database(f"bench{next(numbers)}"), (server.pid,))
    finally:
        server.close()


def _make_log_files(db: str) -> None:
    import psycopg

    with psycopg.connect(db, autocommit=True) as connection:
        for _ in range(LOG_FILES):
            connection.execute("SELECT pg_logical_emit_message(false, 'bench', '')")  # or there is nothing to switch
            connection.execute("SELECT pg_switch_wal()")
        connection.execute("CHECKPOINT")


def fill(db: str, url: str, events: int, keys: int) -> str:
    """Publish *events* over *keys* to a new endpoint at *url*, without a server; the endpoint's id."""
    return asyncio.run(_fill(db, url, events, keys))


def park(db: str, url: str, events: int, keys: int, state: EndpointState = EndpointState.ACTIVE) -> str:
    """The same, straight into the tables: a million published takes two minutes."""
    endpoint_id = asyncio.run(_fill(db, url, 0, keys, types=("parked",), state=state))
    many_events.fill(db, events, keys, wall_now(), endpoint_id=endpoint_id, is_delivered=False)
    if db.startswith("postgresql"):
        _settle(db)
    return endpoint_id


async def _fill(
    db: str,
    url: str,
    events: int,
    keys: int,
    types: tuple[str, ...] = (),
    state: EndpointState = EndpointState.ACTIVE,
) -> str:
    store = outbox_store(db, StoreOptions(placer=places))
    await store.open()
    now = wall_now()
    key = (SigningKey(new_secret(b"a secret of thirty-two bytes....")),)
    endpoint = Endpoint(id=new_id("ep", now), url=url, created_at=now, keys=key, types=types, state=state)
    assert await store.save_endpoint(endpoint, expect=None)
    for start in range(0, events, BATCH):
        await store.publish(
            [
                Draft(
                    Event(
                        new_id("evt", now),
                        "order.created",
                        f"customer:{n % keys}",
                        b'{"order":%d,"total":"19.90"}' % n,
                        now,
                    )
                )
                for n in range(start, min(events, start + BATCH))
            ]
        )
    await store.close()
    if db.startswith("postgresql"):
        _settle(db)
    return endpoint.id


def _settle(db: str) -> None:
    """What the server would do by itself in the minutes that such a backlog takes to grow."""
    import psycopg

    with psycopg.connect(db, autocommit=True) as conn:
        conn.execute("VACUUM ANALYZE")
        conn.execute("CHECKPOINT")


def size_mb(db: str) -> float:
    """How large a SQLite file has become."""
    with sqlite3.connect(db.removeprefix("sqlite:///")) as conn:
        pages, size = (conn.execute(f"PRAGMA {what}").fetchone()[0] for what in ("page_count", "page_size"))
    return float(pages * size / 2**20)
