"""Where is measured, so that nothing of yours is touched? In a database of its own, on the same disk or server."""

from __future__ import annotations

import asyncio
import os
import secrets
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from hooklane.cli.exits import CallFailed, Exit
from hooklane.store.sqlite.database import path_of


@contextmanager
def scratch(db: str) -> Iterator[str]:
    """The address of a new and empty database beside *db*; it is removed at the end."""
    name = f"hooklane_bench_{os.getpid()}_{secrets.token_hex(3)}"
    if db.startswith("postgres"):
        asyncio.run(_on_server(db, f'CREATE DATABASE "{name}" TEMPLATE template0'))
        try:
            yield urlunsplit(urlsplit(db)._replace(path=f"/{name}"))
        finally:
            asyncio.run(_on_server(db, f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)'))
        return
    folder = Path(path_of(db)).absolute().parent
    if not folder.is_dir():
        raise CallFailed(f"there is no folder {folder} to measure in: name your database with --db", Exit.USAGE)
    path = folder / f"{name}.db"
    try:
        yield f"sqlite:///{path}"
    finally:
        for left in folder.glob(f"{name}.db*"):
            left.unlink(missing_ok=True)


async def _on_server(db: str, statement: str) -> None:
    from hooklane.store.postgres.driver_errors import opening  # first, since it names the extra that is missing

    import asyncpg  # isort: skip

    with opening(db):
        connection = await asyncpg.connect(db, timeout=10)
    try:
        await connection.execute(statement)
    except asyncpg.InsufficientPrivilegeError as error:
        raise CallFailed(
            f"bench measures in a database of its own, and this role may not make one ({error}):"
            " ALTER ROLE … CREATEDB, or name another server with --db",
            Exit.REFUSED,
        ) from error
    finally:
        await connection.close()


def commits_per_second(db: str, seconds: float) -> float:
    """One row, one durable commit, each after the other: the limit of whatever does not share commits."""
    if db.startswith("postgres"):
        return asyncio.run(_postgres_commits(db, seconds))
    path = Path(path_of(db))
    limit = path.with_name(f"{path.name}-limit")
    conn = sqlite3.connect(limit, isolation_level=None)
    try:
        conn.execute("PRAGMA journal_mode = WAL")
        conn.execute("PRAGMA synchronous = FULL")
        conn.execute("CREATE TABLE t (n INTEGER PRIMARY KEY, data BLOB)")
        many, began = 0, time.perf_counter()
        while time.perf_counter() - began < seconds:
            conn.execute("INSERT INTO t (data) VALUES (zeroblob(200))")
            many += 1
        return many / (time.perf_counter() - began)
    finally:
        conn.close()


async def _postgres_commits(db: str, seconds: float) -> float:
    import asyncpg

    connection = await asyncpg.connect(db, timeout=10)
    try:
        await connection.execute("SET synchronous_commit = on; CREATE TABLE t (n bigserial PRIMARY KEY, data bytea)")
        many, began = 0, time.perf_counter()
        while time.perf_counter() - began < seconds:
            await connection.execute("INSERT INTO t (data) VALUES (decode(repeat('00', 200), 'hex'))")
            many += 1
        return many / (time.perf_counter() - began)
    finally:
        await connection.close()
