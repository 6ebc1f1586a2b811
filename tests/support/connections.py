"""Every kind of connection that a caller may have, each opened on a real database: what the tests here run on."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from inspect import isawaitable
from typing import Any

import asyncpg
import psycopg
import psycopg2
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from hooklane.store.caller import Flow, Rows, Statement

TABLE = "CREATE TABLE note (id bigint PRIMARY KEY, words text, raw {bytes})"


@dataclass(slots=True)
class Open:
    """A connection *tx* inside a fresh transaction, and how its owner ends it."""

    tx: Any
    commit: Callable[[], Any]
    rollback: Callable[[], Any]


Opener = Callable[[str], AbstractAsyncContextManager[Open]]


async def settle(value: Any) -> Any:
    """The value, awaited where it must be: so one test serves blocking and async connections."""
    return await value if isawaitable(value) else value


def ask(sql: str, **params: Any) -> Flow[Rows]:
    rows = yield Statement(sql, params)
    return rows


@asynccontextmanager
async def sqlite(url: str) -> AsyncIterator[Open]:
    connection = sqlite3.connect(url.removeprefix("sqlite:///"))
    yield Open(connection, connection.commit, connection.rollback)
    connection.close()


@asynccontextmanager
async def psycopg_sync(url: str) -> AsyncIterator[Open]:
    connection = psycopg.connect(url)
    yield Open(connection, connection.commit, connection.rollback)
    connection.close()


@asynccontextmanager
async def psycopg_async(url: str) -> AsyncIterator[Open]:
    connection = await psycopg.AsyncConnection.connect(url)
    yield Open(connection, connection.commit, connection.rollback)
    await connection.close()


@asynccontextmanager
async def psycopg_two(url: str) -> AsyncIterator[Open]:
    connection = psycopg2.connect(url)
    yield Open(connection, connection.commit, connection.rollback)
    connection.close()


@asynccontextmanager
async def asyncpg_plain(url: str) -> AsyncIterator[Open]:
    connection = await asyncpg.connect(url)
    transaction = connection.transaction()
    await transaction.start()
    yield Open(connection, transaction.commit, transaction.rollback)
    await connection.close()


@asynccontextmanager
async def asyncpg_pooled(url: str) -> AsyncIterator[Open]:
    async with asyncpg.create_pool(url, min_size=1, max_size=1) as pool, pool.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        yield Open(connection, transaction.commit, transaction.rollback)
        with suppress(asyncpg.InterfaceError):  # the server may have ended it, and then the pool has let go of it
            connection.terminate()


def alchemy(scheme: str, *, session: bool) -> Opener:
    @asynccontextmanager
    async def opened(url: str) -> AsyncIterator[Open]:
        engine = create_engine(scheme + url[url.index("://") :])
        tx = Session(engine) if session else engine.connect()
        yield Open(tx, tx.commit, tx.rollback)
        tx.close()
        engine.dispose()

    return opened


def async_alchemy(scheme: str, *, session: bool) -> Opener:
    @asynccontextmanager
    async def opened(url: str) -> AsyncIterator[Open]:
        engine = create_async_engine(scheme + url[url.index("://") :])
        tx = AsyncSession(engine) if session else await engine.connect()
        yield Open(tx, tx.commit, tx.rollback)
        await tx.close()
        await engine.dispose()

    return opened


ON_SQLITE: dict[str, Opener] = {
    "sqlite3": sqlite,
    "sqlalchemy-sqlite-connection": alchemy("sqlite", session=False),
    "sqlalchemy-sqlite-session": alchemy("sqlite", session=True),
}
ON_POSTGRES: dict[str, Opener] = {
    "psycopg": psycopg_sync,
    "psycopg-async": psycopg_async,
    "psycopg2": psycopg_two,
    "asyncpg": asyncpg_plain,
    "asyncpg-pool": asyncpg_pooled,
    "sqlalchemy-psycopg-connection": alchemy("postgresql+psycopg", session=False),
    "sqlalchemy-psycopg-session": alchemy("postgresql+psycopg", session=True),
    "sqlalchemy-psycopg2-connection": alchemy("postgresql+psycopg2", session=False),
    "sqlalchemy-psycopg-async-connection": async_alchemy("postgresql+psycopg", session=False),
    "sqlalchemy-psycopg-async-session": async_alchemy("postgresql+psycopg", session=True),
    "sqlalchemy-asyncpg-connection": async_alchemy("postgresql+asyncpg", session=False),
    "sqlalchemy-asyncpg-session": async_alchemy("postgresql+asyncpg", session=True),
}
EVERY = {**ON_SQLITE, **ON_POSTGRES}

Run = Callable[[Any], Awaitable[Any]]
