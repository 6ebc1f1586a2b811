"""A sender's SQLite file copied into an empty PostgreSQL, so that every lane goes on with its next seq.

All of it in one transaction there, while the file is locked here: a copy is whole, or it did not happen.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hooklane.errors import StoreRefused, needing
from hooklane.store.sql.migration_files import migrations_of
from hooklane.store.sql.queries import queries_of
from hooklane.store.sqlite import database

BATCH = 5_000
LEFT = {
    "schema": "the schema of PostgreSQL has versions of its own",
    "part": "partitions have no owner in a database that no worker has joined",
    "worker": "no worker has joined",
    "server": "no server takes publishes there yet",
    "recovered": "news for workers, of which there are none",
    "inbox_last": "PostgreSQL numbers the rows of an inbox by itself",
    "health": "breakers begin closed, and open again where an endpoint still fails",
}
"""Tables that are not copied, and why."""
ELSEWHERE = {"lane_tail": "lane_name"}
"""Tables that have another name in PostgreSQL."""
FIRST = ("endpoint", "inbox_row")
SEQUENCES = {"event": "event_n", "loose": "loose_n"}
_COUNTS = {"loose": "count_loose_there"}
_LAST_NUMBERS = {"inbox_row": "last_inbox_row_here"}

Progress = Callable[[str, int, int], None]
"""Hears of a table, how many rows are copied, and how many there are."""


@dataclass(frozen=True, slots=True)
class Copied:
    """How many rows of each table were copied."""

    rows: Mapping[str, int]


def copy(source: str, target: str, progress: Progress) -> Copied:
    """Copy the sender (and the inbox beside it) from the SQLite file *source* into the PostgreSQL *target*."""
    if not source.startswith("sqlite:") or not target.startswith(("postgresql://", "postgres://")):
        raise StoreRefused("copy goes from sqlite:///path/to/file.db to postgresql://host/name")
    path = database.path_of(source)
    if not Path(path).exists():
        raise StoreRefused(f"there is no file {path}")
    with needing("postgres"):
        import hooklane.store.postgres.database  # noqa: F401
    with _held(path) as file:
        return asyncio.run(_copy(file, target, progress))


@contextmanager
def _held(path: str) -> Iterator[sqlite3.Connection]:
    """The file, in which nothing is published or delivered meanwhile."""
    from hooklane.store.sqlite.outbox.store import COMPONENT, MIGRATIONS, lock_delivery

    lock = lock_delivery(path)
    conn = database.connect(path, busy_wait_ms=5_000)
    try:
        database.check(conn, path)
        database.migrate(conn, COMPONENT, migrations_of(MIGRATIONS), path)
        try:
            conn.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            raise StoreRefused(f"{path} is being written by another process: stop what publishes ({error})") from None
        yield conn
    finally:
        conn.close()
        os.close(lock)


async def _copy(file: sqlite3.Connection, target: str, progress: Progress) -> Copied:
    from hooklane.store.postgres.driver_errors import named
    from hooklane.store.postgres.transactions import MIGRATE, transaction

    here = {table for (table,) in file.execute(_sql()["tables_here"])}
    await _make_tables(target, with_inbox="inbox_row" in here)
    from hooklane.store.postgres.pool import Pool

    pool = Pool(target, 1)
    with named():
        async with pool.alone() as connection, transaction(connection, MIGRATE):
            await connection.execute(queries_of("hooklane.store.postgres")["take_time"])
            await connection.execute(_sql()["keep_others_out"])
            if await connection.fetchval(_sql()["is_used"]):
                raise StoreRefused("the database is not empty: give --to one that no hooklane sender has used before")
            there = await _columns(connection)
            return Copied(
                {table: await _copy_table(file, connection, table, there, progress) for table in _order(here)}
            )


def _order(here: set[str]) -> list[str]:
    """What others refer to comes first."""
    return sorted(here - LEFT.keys(), key=lambda table: (table not in FIRST, table))


async def _make_tables(target: str, *, with_inbox: bool) -> None:
    from hooklane.cli.process import open_store
    from hooklane.config import Settings
    from hooklane.store.open_inbox import open_inbox

    store = open_store(Settings(db=target))
    await store.open()
    await store.close()
    if with_inbox:
        await asyncio.to_thread(lambda: open_inbox(target).close())


async def _columns(connection: Any) -> dict[str, dict[str, tuple[str, bool]]]:
    """The tables of PostgreSQL: type of each column, and whether the database numbers it."""
    found: dict[str, dict[str, tuple[str, bool]]] = {}
    for table, column, kind, is_identity in await connection.fetch(_sql()["columns_there"]):
        found.setdefault(table, {})[column] = kind, is_identity
    return found


async def _copy_table(
    file: sqlite3.Connection,
    connection: Any,
    source: str,
    there: Mapping[str, Mapping[str, tuple[str, bool]]],
    progress: Progress,
) -> int:
    table = ELSEWHERE.get(source, source)
    if table not in there:
        raise StoreRefused(
            f"this hooklane does not know what to do with the table hooklane_{source}: nothing was copied"
        )
    sql = _sql(table=table, source=source)
    (total,) = file.execute(sql["count_here"]).fetchone()
    rows = file.execute(_select(file, source, table, there[table]))
    columns = [column[0] for column in rows.description]
    kinds = [there[table][column][0] for column in columns]
    await connection.execute(sql["clear"])
    copied = 0
    while batch := rows.fetchmany(BATCH):
        records = [tuple(map(_as_kind, row, kinds)) for row in batch]
        await connection.copy_records_to_table(table, schema_name="hooklane", columns=columns, records=records)
        copied += len(batch)
        progress(source, copied, total)
    if source == "loose":
        copied += await _copy_delivered(file, connection)
    if copied != total or await connection.fetchval(sql[_COUNTS.get(source, "count_there")]) != total:
        raise StoreRefused(f"{copied} of {total} rows of hooklane_{source} could be copied: nothing was copied")
    (last,) = file.execute(sql[_LAST_NUMBERS.get(source, "last_number_here")]).fetchone()
    for column, (_, is_identity) in there[table].items():
        if is_identity:
            await connection.execute(_sql(table=table, column=column)["go_on_numbering"], last)
    if table in SEQUENCES:
        await connection.execute(_sql(table=table, sequence=SEQUENCES[table])["go_on_numbering_by"], last)
    return copied


async def _copy_delivered(file: sqlite3.Connection, connection: Any) -> int:
    """Deliveries without order that are done: PostgreSQL keeps their number by endpoint, and no rows."""
    sums = file.execute(_sql()["loose_delivered"]).fetchall()
    columns = ("tenant", "endpoint_id", "many")
    await connection.copy_records_to_table("loose_delivered", schema_name="hooklane", columns=columns, records=sums)
    return sum(many for _, _, many in sums)


def _select(file: sqlite3.Connection, source: str, table: str, there: Mapping[str, Any]) -> str:
    if table in ("lane_event", "lane_name", "breaker_turn"):
        return _sql()[table]
    of_file = [row[1] for row in file.execute(f"PRAGMA table_info(hooklane_{source})")]
    columns = ", ".join(f'"{column}"' for column in of_file if column in there)
    return _sql(columns=columns, source=f"hooklane_{source}")["loose" if source == "loose" else "rows"]


def _as_kind(value: Any, kind: str) -> Any:
    """SQLite keeps text where bytes are wanted, and whole numbers where others are, if it was told to."""
    if kind == "bytea" and isinstance(value, str):
        return value.encode()
    if kind == "double precision" and value is not None:
        return float(value)
    if kind == "boolean" and value is not None:
        return bool(value)
    return value


def _sql(**names: Any) -> dict[str, str]:
    """The statements, about a table."""
    unknown: Sequence[str] = ("columns", "source", "table", "column", "sequence")
    return queries_of("hooklane.store.move", **{name: names.get(name, name) for name in unknown})
