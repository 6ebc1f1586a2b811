"""Whose connection is this? The object's own class says it, so a driver that is not installed is never imported."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from hooklane.errors import UsageError
from hooklane.store.caller import django_settings
from hooklane.store.caller.base import AsyncCaller, SyncCaller

SUPPORTED = (
    "sqlite3.Connection, psycopg.Connection, psycopg.AsyncConnection, a psycopg2 connection, asyncpg.Connection,"
    " SQLAlchemy Connection, Session, AsyncConnection and AsyncSession, and Django's connection"
)


def adapt(tx: object) -> SyncCaller | AsyncCaller:
    """The adapter of a caller's own connection *tx*, or an error that names what is supported."""
    if isinstance(tx, ModuleType) and tx.__name__ == "django.db.transaction":
        return _django_alias(None)
    if isinstance(tx, str) and django_settings.is_configured():
        return _django_alias(tx)
    for cls in type(tx).__mro__:
        known = _KINDS.get((cls.__module__.partition(".")[0], cls.__name__))
        if known is not None:
            return known(tx)
    raise UsageError(_unknown(tx))


def _unknown(tx: object) -> str:
    if tx is None:
        # Above all  with transaction.atomic() as tx:  which would otherwise publish outside it, in silence.
        return (
            "tx is None: pass the connection (with Django: django.db.connection, atomic() yields None) or leave it out"
        )
    cls = type(tx)
    hint = ""
    if any(word in cls.__name__.lower() for word in ("pool", "engine", "sessionmaker", "cursor", "transaction")):
        hint = "; pass the connection on which your transaction is open"
    return f"tx cannot be a {cls.__module__}.{cls.__qualname__}{hint}; supported are {SUPPORTED}"


def _sqlite(tx: Any) -> SyncCaller:
    from hooklane.store.caller.sqlite import SqliteCaller

    return SqliteCaller(tx)


def _psycopg(tx: Any) -> SyncCaller:
    from hooklane.store.caller.psycopg3 import PsycopgCaller

    return PsycopgCaller(tx)


def _async_psycopg(tx: Any) -> AsyncCaller:
    from hooklane.store.caller.psycopg3 import AsyncPsycopgCaller

    return AsyncPsycopgCaller(tx)


def _psycopg2(tx: Any) -> SyncCaller:
    from hooklane.store.caller.psycopg2 import Psycopg2Caller

    return Psycopg2Caller(tx)


def _asyncpg(tx: Any) -> AsyncCaller:
    from hooklane.store.caller.asyncpg import AsyncpgCaller

    return AsyncpgCaller(tx)


def _alchemy(tx: Any) -> SyncCaller:
    from hooklane.store.caller.sqlalchemy import AlchemyCaller

    return AlchemyCaller(tx)


def _async_alchemy(tx: Any) -> AsyncCaller:
    from hooklane.store.caller.sqlalchemy import AsyncAlchemyCaller

    return AsyncAlchemyCaller(tx)


def _django(tx: Any) -> SyncCaller:
    from hooklane.store.caller.django import DjangoCaller

    return DjangoCaller(tx)


def _django_alias(alias: str | None) -> SyncCaller:
    from hooklane.store.caller.django import wrapper_of

    return _django(wrapper_of(alias))


def _django_proxy(tx: Any) -> SyncCaller:
    return _django_alias(tx.alias)


_KINDS: dict[tuple[str, str], Callable[[Any], SyncCaller | AsyncCaller]] = {
    ("sqlite3", "Connection"): _sqlite,
    ("psycopg", "Connection"): _psycopg,
    ("psycopg", "AsyncConnection"): _async_psycopg,
    ("psycopg2", "connection"): _psycopg2,
    ("asyncpg", "Connection"): _asyncpg,
    ("asyncpg", "PoolConnectionProxy"): _asyncpg,
    ("sqlalchemy", "Connection"): _alchemy,
    ("sqlalchemy", "Session"): _alchemy,
    ("sqlalchemy", "scoped_session"): lambda tx: _alchemy(tx()),
    ("sqlalchemy", "AsyncConnection"): _async_alchemy,
    ("sqlalchemy", "AsyncSession"): _async_alchemy,
    ("sqlalchemy", "async_scoped_session"): lambda tx: _async_alchemy(tx()),
    ("django", "BaseDatabaseWrapper"): _django,
    ("django", "ConnectionProxy"): _django_proxy,
}
"""By the top package and the class name, looked up along the method resolution order, so subclasses count."""
