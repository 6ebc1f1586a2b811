"""Everything that an application may give to an `Inbox` to keep it in, each opened on a real database."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import asyncpg
import psycopg
import psycopg2
from psycopg2.pool import ThreadedConnectionPool
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import sessionmaker

Opened = AbstractAsyncContextManager[Any]


def alchemy(scheme: str, *, session: bool) -> Callable[[str], Opened]:
    @asynccontextmanager
    async def opened(url: str) -> AsyncIterator[Any]:
        engine = create_engine(scheme + url[url.index("://") :])
        yield sessionmaker(engine) if session else engine
        engine.dispose()

    return opened


def async_alchemy(scheme: str, *, session: bool) -> Callable[[str], Opened]:
    @asynccontextmanager
    async def opened(url: str) -> AsyncIterator[Any]:
        engine = create_async_engine(scheme + url[url.index("://") :])
        yield async_sessionmaker(engine) if session else engine
        await engine.dispose()

    return opened


@asynccontextmanager
async def psycopg_factory(url: str) -> AsyncIterator[Any]:
    yield lambda: psycopg.connect(url)


@asynccontextmanager
async def psycopg2_factory(url: str) -> AsyncIterator[Any]:
    yield lambda: psycopg2.connect(url)


@asynccontextmanager
async def psycopg2_pool(url: str) -> AsyncIterator[Any]:
    pool = ThreadedConnectionPool(1, 4, url)
    yield pool
    pool.closeall()


@asynccontextmanager
async def psycopg_async_factory(url: str) -> AsyncIterator[Any]:
    async def connect() -> Any:
        return await psycopg.AsyncConnection.connect(url)

    yield connect


@asynccontextmanager
async def asyncpg_pool(url: str) -> AsyncIterator[Any]:
    async with asyncpg.create_pool(url, min_size=1, max_size=4) as pool:
        yield pool


@asynccontextmanager
async def by_url(url: str) -> AsyncIterator[Any]:
    yield url


ON_SQLITE: dict[str, Callable[[str], Opened]] = {
    "sqlite-url": by_url,
    "sqlalchemy-sqlite": alchemy("sqlite", session=False),
    "sqlalchemy-sqlite-session": alchemy("sqlite", session=True),
}
SYNC: dict[str, Callable[[str], Opened]] = {
    **ON_SQLITE,
    "postgres-url": by_url,
    "psycopg": psycopg_factory,
    "psycopg2": psycopg2_factory,
    "psycopg2-pool": psycopg2_pool,
    "sqlalchemy-psycopg": alchemy("postgresql+psycopg", session=False),
    "sqlalchemy-psycopg-session": alchemy("postgresql+psycopg", session=True),
    "sqlalchemy-psycopg2": alchemy("postgresql+psycopg2", session=False),
}
ASYNC: dict[str, Callable[[str], Opened]] = {
    "sqlite-url": by_url,
    "postgres-url": by_url,
    "psycopg-async": psycopg_async_factory,
    "asyncpg-pool": asyncpg_pool,
    "sqlalchemy-psycopg-async": async_alchemy("postgresql+psycopg", session=False),
    "sqlalchemy-psycopg-async-session": async_alchemy("postgresql+psycopg", session=True),
    "sqlalchemy-asyncpg": async_alchemy("postgresql+asyncpg", session=False),
    "sqlalchemy-asyncpg-session": async_alchemy("postgresql+asyncpg", session=True),
}


def execute(tx: Any, sql: str) -> Any:
    """Run *sql* on *tx*, in the way of each driver; async ones give something to await."""
    module = type(tx).__module__.partition(".")[0]
    if module == "sqlalchemy":
        return tx.execute(text(sql))
    if module == "psycopg2":
        with tx.cursor() as cursor:
            cursor.execute(sql)
        return None
    return tx.execute(sql)
