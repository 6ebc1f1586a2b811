"""Which store is meant? A URL or a user's engine becomes an inbox store; back-ends are imported lazily."""

from __future__ import annotations

import inspect
import sqlite3
from typing import Any

from hooklane.errors import ConfigError, MissingExtra, StoreRefused, UsageError, needing
from hooklane.model.database_url import shown
from hooklane.store.caller import Dialect, Statement, django_settings
from hooklane.store.inbox import InboxStore
from hooklane.store.sql.session import AsyncConnections, Connections

EXPECTED = (
    "a URL (sqlite:///app.db, postgresql://…, redis://…, dynamodb://table, memory://), a SQLAlchemy engine or"
    " sessionmaker (sync or async), an asyncpg, psycopg or psycopg2 pool, a function that makes connections, or an"
    " alias of Django's DATABASES"
)

_LONELY = (
    "belongs to one connection, and what it keeps is lost with that: name a file, or give an inbox for tests memory://"
)


def open_inbox(where: Any) -> InboxStore:
    """The inbox store at *where*."""
    if isinstance(where, str):
        return _by_name(where)
    if hasattr(where, "capabilities") and hasattr(where, "begin"):
        store: InboxStore = where
        return store
    return _by_kind(where)


def _by_name(name: str) -> InboxStore:
    scheme = name.partition(":")[0]
    if scheme == "sqlite":
        from hooklane.store.sqlite.database import path_of
        from hooklane.store.sqlite.inbox.store import SqliteInbox

        return SqliteInbox(path_of(name))
    if scheme == "memory":
        from hooklane.store.memory.inbox import MemoryInbox

        return MemoryInbox()
    if scheme.partition("+")[0] in ("postgresql", "postgres"):
        with needing("postgres"):
            from hooklane.store.postgres.inbox.store import by_url
        return by_url(name)
    if scheme.partition("+")[0] in ("redis", "rediss", "unix"):
        try:
            from hooklane.store.redis.store import by_url as redis_by_url
        except ModuleNotFoundError as missing:
            raise MissingExtra("redis", "redis") from missing
        return redis_by_url(name)
    if scheme == "dynamodb":
        try:
            from hooklane.store.dynamodb.store import by_url as dynamodb_by_url
        except ModuleNotFoundError as missing:
            raise MissingExtra("boto3", "dynamodb") from missing
        return dynamodb_by_url(name)
    alias = name.removeprefix("django:") or "default"
    if scheme == "django" or (":" not in name and django_settings.is_configured()):
        from hooklane.store.sql.connections import DjangoConnections

        return _borrowing(_django_dialect(alias), f"Django's {alias!r}", sync=DjangoConnections(alias))
    raise ConfigError([f"an inbox is kept at {EXPECTED}; got {scheme if '://' in name else shown(name)!r}"])


def _by_kind(where: Any) -> InboxStore:
    from hooklane.store.sql import connections

    names = {(cls.__module__.partition(".")[0], cls.__name__) for cls in type(where).__mro__}
    if ("sqlalchemy", "Engine") in names:
        _check_engine(where)
        return _borrowing(
            Dialect(where.dialect.name), "the SQLAlchemy engine", sync=connections.FactoryConnections(where.connect)
        )
    if ("sqlalchemy", "AsyncEngine") in names:
        _check_engine(where)
        return _borrowing(
            Dialect(where.dialect.name),
            "the SQLAlchemy engine",
            later=connections.AsyncFactoryConnections(where.connect),
        )
    if ("sqlalchemy", "sessionmaker") in names:
        return _borrowing(_bind_dialect(where), "the SQLAlchemy session", sync=connections.FactoryConnections(where))
    if ("sqlalchemy", "async_sessionmaker") in names:
        later = connections.AsyncFactoryConnections(where)
        return _borrowing(_bind_dialect(where), "the SQLAlchemy session", later=later)
    if ("asyncpg", "Pool") in names:
        return _borrowing(Dialect.POSTGRESQL, "PostgreSQL", later=connections.AsyncpgPoolConnections(where))
    if ("psycopg_pool", "AsyncConnectionPool") in names:
        return _borrowing(Dialect.POSTGRESQL, "PostgreSQL", later=connections.AsyncPoolConnections(where))
    if hasattr(where, "getconn") and hasattr(where, "putconn"):
        return _borrowing(Dialect.POSTGRESQL, "PostgreSQL", sync=connections.PoolConnections(where))
    if inspect.iscoroutinefunction(where):
        return _borrowing(Dialect.POSTGRESQL, "PostgreSQL", later=connections.AsyncFactoryConnections(where))
    if callable(where):
        return _borrowing(_made_dialect(where), "the database", sync=connections.FactoryConnections(where))
    raise ConfigError([f"an inbox is kept at {EXPECTED}; got a {type(where).__module__}.{type(where).__qualname__}"])


def _borrowing(
    dialect: Dialect, what: str, *, sync: Connections | None = None, later: AsyncConnections | None = None
) -> InboxStore:
    if dialect is Dialect.SQLITE:
        from hooklane.store.sqlite.inbox.borrowed import VERBS as SQLITE
        from hooklane.store.sqlite.inbox.borrowed import BorrowedSqliteInbox

        return BorrowedSqliteInbox(SQLITE, what=what, sync=sync, native_async=later)
    from hooklane.store.postgres.inbox.store import VERBS, PostgresInbox

    return PostgresInbox(VERBS, what=what, sync=sync, native_async=later)


def _bind_dialect(maker: Any) -> Dialect:
    bind = maker.kw.get("bind")
    if bind is None:
        raise UsageError("the sessionmaker has no bind: make it with sessionmaker(engine)")
    _check_engine(bind)
    return Dialect(bind.dialect.name)


def _made_dialect(make: Any) -> Dialect:
    from hooklane.store.caller import adapt

    connection = make()
    if not hasattr(connection, "close"):
        raise ConfigError([f"the function for an inbox makes connections, and gave a {type(connection).__name__}"])
    try:
        if hasattr(connection, "get_bind"):  # a session of SQLAlchemy
            _check_engine(connection.get_bind())
        elif isinstance(connection, sqlite3.Connection) and not _file_of(connection):
            raise StoreRefused(f"a SQLite database in memory {_LONELY}")
        return adapt(connection).dialect
    finally:
        connection.close()


def _check_engine(engine: Any) -> None:
    """Refuse an engine on which two threads cannot have a transaction each, in one database."""
    engine = getattr(engine, "engine", engine)  # a connection that a session is bound to
    if engine.dialect.name == "sqlite" and engine.url.database in (None, "", ":memory:"):
        raise StoreRefused(f"the SQLite database of this engine is in memory, which {_LONELY}")
    if any(kind.__name__ == "StaticPool" for kind in type(engine.pool).__mro__):
        raise StoreRefused(
            "the StaticPool of this engine gives one connection to everybody at once: transactions of several threads"
            " would be one; leave poolclass out"
        )


def _file_of(connection: sqlite3.Connection) -> str:
    from hooklane.store.caller.sqlite import execute

    # Not by its own cursor: the application's row factory may make dicts of rows, its text factory bytes of names.
    rows = execute(connection, Statement("PRAGMA database_list"))
    return next((str(file or "") for _, name, file in rows if name == "main"), "")


def _django_dialect(alias: str) -> Dialect:
    from hooklane.store.caller import adapt
    from hooklane.store.caller.django import wrapper_of

    return adapt(wrapper_of(alias)).dialect
