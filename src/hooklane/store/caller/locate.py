"""Which PostgreSQL database does this URL lead to? Asked once, by an outbox that has no connection of its own."""

from __future__ import annotations

from hooklane.errors import MissingExtra
from hooklane.store.caller.database_identity import PostgresIdentity, identify_postgres
from hooklane.store.caller.flow import drive, drive_async


def locate(url: str) -> PostgresIdentity:
    """The identity of the database at *url*; blocks for one short connection."""
    try:
        import psycopg
    except ImportError as error:
        raise MissingExtra("psycopg", "postgres") from error
    from hooklane.store.caller.psycopg3 import PsycopgCaller

    with psycopg.connect(url, client_encoding="utf8") as connection:
        return drive(identify_postgres(), PsycopgCaller(connection).execute)


async def locate_async(url: str) -> PostgresIdentity:
    """The identity of the database at *url*, without blocking the event loop."""
    try:
        import asyncpg
    except ImportError as error:
        raise MissingExtra("asyncpg", "postgres") from error
    from hooklane.store.caller.asyncpg import AsyncpgCaller

    connection = await asyncpg.connect(url, statement_cache_size=0)
    try:
        return await drive_async(identify_postgres(), AsyncpgCaller(connection).execute)
    finally:
        await connection.close()
