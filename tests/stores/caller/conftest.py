"""A database with one small table, for each kind of connection that a caller may have."""

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import psycopg
import pytest
from tests.support.connections import EVERY, ON_SQLITE, TABLE, Open

from hooklane.store.caller import DatabaseIdentity, PostgresIdentity, SqliteIdentity, adapt, identify_postgres


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    path = tmp_path / "caller.db"
    with sqlite3.connect(path) as connection:
        connection.execute(TABLE.format(bytes="blob"))
    connection.close()
    return f"sqlite:///{path}"


@pytest.fixture
def noted_postgres_url(postgres_url: str) -> str:
    with psycopg.connect(postgres_url) as connection:
        connection.execute(TABLE.format(bytes="bytea"))
    return postgres_url


@pytest.fixture
def sqlite_identity(sqlite_url: str) -> SqliteIdentity:
    return SqliteIdentity(Path(sqlite_url.removeprefix("sqlite:///")))


@pytest.fixture
def postgres_identity(noted_postgres_url: str) -> PostgresIdentity:
    with psycopg.connect(noted_postgres_url) as connection:
        return adapt(connection).run(identify_postgres())


@pytest.fixture(params=EVERY)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def url(request: pytest.FixtureRequest, kind: str) -> str:
    return str(request.getfixturevalue("sqlite_url" if kind in ON_SQLITE else "noted_postgres_url"))


@pytest.fixture
def identity(request: pytest.FixtureRequest, kind: str) -> DatabaseIdentity:
    return request.getfixturevalue("sqlite_identity" if kind in ON_SQLITE else "postgres_identity")


@pytest.fixture
async def owned(kind: str, url: str) -> AsyncIterator[Open]:
    """A connection of each kind, and how its owner ends the transaction."""
    async with EVERY[kind](url) as opened:
        yield opened
