"""`psycopg.Connection` and `psycopg.AsyncConnection` (psycopg 3).

A plain cursor is used, so that the caller's row factory and cursor factory do not matter. Unless in autocommit, the
first statement begins a transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hooklane.errors import UsageError
from hooklane.store.caller.base import AsyncCaller, Caller, SyncCaller
from hooklane.store.caller.flow import Dialect, Rows, Statement
from hooklane.store.caller.placeholders import Style, bind

if TYPE_CHECKING:
    import psycopg

IDLE, ACTIVE, IN_TRANSACTION, IN_ERROR, UNKNOWN = range(5)  # libpq's PGTransactionStatusType


class _Psycopg(Caller):
    dialect = Dialect.POSTGRESQL
    _tx: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]

    @property
    def session(self) -> object:
        return self._tx

    def check(self) -> None:
        if self._tx.pgconn.pipeline_status:
            raise UsageError(f"tx ({self.name}) is in pipeline mode, where its transaction may have failed unseen")
        match int(self._tx.info.transaction_status):
            case status if self._tx.closed or status == UNKNOWN:
                raise self._closed()
            case status if status == IN_ERROR:
                raise self._aborted()
            case status if status == IDLE and self._tx.autocommit:
                raise self._autocommit("use  with conn.transaction():")
            case _:
                pass


class PsycopgCaller(_Psycopg, SyncCaller):
    name = "psycopg.Connection"

    def __init__(self, tx: psycopg.Connection[Any]) -> None:
        self._tx: psycopg.Connection[Any] = tx

    def execute(self, statement: Statement) -> Rows:
        from psycopg import Cursor
        from psycopg.rows import tuple_row

        sql, values = bind(statement, Style.BINARY)
        with Cursor(self._tx, row_factory=tuple_row) as cursor:
            cursor.execute(sql.encode(), values)
            return cursor.fetchall() if cursor.description is not None else ()


class AsyncPsycopgCaller(_Psycopg, AsyncCaller):
    name = "psycopg.AsyncConnection"

    def __init__(self, tx: psycopg.AsyncConnection[Any]) -> None:
        self._tx: psycopg.AsyncConnection[Any] = tx

    async def execute(self, statement: Statement) -> Rows:
        from psycopg import AsyncCursor
        from psycopg.rows import tuple_row

        sql, values = bind(statement, Style.BINARY)
        async with AsyncCursor(self._tx, row_factory=tuple_row) as cursor:
            await cursor.execute(sql.encode(), values)
            return await cursor.fetchall() if cursor.description is not None else ()
