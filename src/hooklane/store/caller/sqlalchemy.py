"""SQLAlchemy 2: `Connection`, `Session`, `AsyncConnection`, `AsyncSession`, and their scoped kinds.

Statements go through SQLAlchemy's own connection, so its autobegin, events and echo work as for the caller's own.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from hooklane.errors import UsageError
from hooklane.store.caller.base import AsyncCaller, Caller, SyncCaller
from hooklane.store.caller.database_identity import DatabaseIdentity
from hooklane.store.caller.flow import Dialect, Flow, Rows, Statement, T
from hooklane.store.caller.placeholders import Style, bind
from hooklane.store.caller.psycopg2 import plain
from hooklane.store.caller.psycopg3 import IDLE, IN_ERROR
from hooklane.store.caller.sqlite import is_autocommit
from hooklane.store.caller.statements import STATEMENTS

if TYPE_CHECKING:
    from sqlalchemy import Connection, CursorResult
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
    from sqlalchemy.orm import Session

_STYLES = {
    "sqlite+pysqlite": Style.QMARK,
    "postgresql+psycopg": Style.FORMAT,
    "postgresql+psycopg2": Style.FORMAT,
    "postgresql+asyncpg": Style.DOLLAR,
}
_BEGIN = Statement("BEGIN IMMEDIATE")


class _Alchemy(Caller):
    """A session takes its connection from the pool when it is first used, so *_connection* is found late."""

    _connection: Connection

    def __init__(self, tx: Any) -> None:
        self._tx = tx
        self.name = f"SQLAlchemy {type(tx).__name__}"
        dialect = self._bind_of(tx).dialect
        driver = f"{dialect.name}+{dialect.driver.removesuffix('_async')}"
        if driver not in _STYLES:
            raise UsageError(f"tx ({self.name}) is on {driver}: hooklane knows {', '.join(_STYLES)}")
        self._style, self.dialect = _STYLES[driver], Dialect(dialect.name)

    def _bind_of(self, tx: Any) -> Any:
        if not hasattr(tx, "get_bind"):
            return tx
        from sqlalchemy.exc import UnboundExecutionError

        try:
            return tx.get_bind()
        except UnboundExecutionError as error:
            raise UsageError(f"tx ({self.name}) has no single database: pass one of its connections") from error

    def _check_session(self, session: Session | AsyncSession) -> None:
        if not session.is_active:
            raise self._aborted()

    @property
    def session(self) -> object:
        return self._connection.connection.driver_connection

    def check(self) -> None:
        if self._connection.closed:
            raise self._closed()
        if self.dialect is Dialect.SQLITE:
            return  # see open(): only after SQLAlchemy has begun
        dbapi: Any = self._connection.connection.dbapi_connection
        info = getattr(self.session, "info", None)  # asyncpg has none; there the first statement tells
        status = None if info is None else int(info.transaction_status)
        if status == IN_ERROR:
            raise self._aborted()
        if dbapi.autocommit and status in (IDLE, None):
            raise self._autocommit('isolation_level="AUTOCOMMIT" cannot hold a transaction')

    def open(self) -> Flow[None]:
        if self.dialect is not Dialect.SQLITE:
            return
        # The first statement makes SQLAlchemy begin, perhaps by the caller's own "begin" event; then look.
        yield STATEMENTS["nothing"]
        raw = self.session
        assert isinstance(raw, sqlite3.Connection)
        if raw.in_transaction:
            return
        if is_autocommit(raw):
            raise self._autocommit('isolation_level="AUTOCOMMIT" cannot hold a transaction')
        yield _BEGIN


class AlchemyCaller(_Alchemy, SyncCaller):
    """`Connection` or `Session`."""

    _tx: Connection | Session

    def run(self, flow: Flow[T], identity: DatabaseIdentity | None = None) -> T:
        from sqlalchemy.orm import Session

        if isinstance(self._tx, Session):
            self._check_session(self._tx)
            self._connection = self._tx.connection()
        else:
            self._connection = self._tx
        return super().run(flow, identity)

    def execute(self, statement: Statement) -> Rows:
        sql, values = bind(statement, self._style)
        return _rows(self._connection.exec_driver_sql(sql, values))


class AsyncAlchemyCaller(_Alchemy, AsyncCaller):
    """`AsyncConnection` or `AsyncSession`."""

    _tx: AsyncConnection | AsyncSession

    def run(self, flow: Flow[T], identity: DatabaseIdentity | None = None) -> Coroutine[Any, Any, T]:
        return self._run(flow, identity)

    async def _run(self, flow: Flow[T], identity: DatabaseIdentity | None) -> T:
        from sqlalchemy.ext.asyncio import AsyncSession

        if isinstance(self._tx, AsyncSession):
            self._check_session(self._tx)
            self._async_connection = await self._tx.connection()
        else:
            self._async_connection = self._tx
        if self._async_connection.closed or self._async_connection.sync_connection is None:
            raise self._closed()
        self._connection = self._async_connection.sync_connection
        return await super().run(flow, identity)

    async def execute(self, statement: Statement) -> Rows:
        sql, values = bind(statement, self._style)
        return _rows(await self._async_connection.exec_driver_sql(sql, values))


def _rows(result: CursorResult[Any]) -> Rows:
    return plain(result.all()) if result.returns_rows else ()
