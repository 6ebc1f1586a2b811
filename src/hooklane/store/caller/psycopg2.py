"""`psycopg2` connections, of any cursor factory; unless in autocommit, the first statement begins a transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hooklane.errors import UsageError
from hooklane.store.caller.base import SyncCaller
from hooklane.store.caller.flow import Dialect, Rows, Statement
from hooklane.store.caller.placeholders import Style, bind
from hooklane.store.caller.psycopg3 import IDLE, IN_ERROR

if TYPE_CHECKING:
    import psycopg2.extensions


class Psycopg2Caller(SyncCaller):
    dialect = Dialect.POSTGRESQL
    name = "psycopg2 connection"

    def __init__(self, tx: psycopg2.extensions.connection) -> None:
        self._tx = tx

    @property
    def session(self) -> object:
        return self._tx

    def check(self) -> None:
        if self._tx.closed:
            raise self._closed()
        if self._tx.async_:
            raise UsageError("tx is a psycopg2 connection in async mode, which has no transactions: use a plain one")
        status = self._tx.get_transaction_status()
        if status == IN_ERROR:
            raise self._aborted()
        if status == IDLE and self._tx.autocommit:
            raise self._autocommit("set  conn.autocommit = False")

    def execute(self, statement: Statement) -> Rows:
        from psycopg2.extensions import cursor as plain_cursor

        sql, values = bind(statement, Style.FORMAT)
        with self._tx.cursor(cursor_factory=plain_cursor) as cursor:
            cursor.execute(sql, values)
            return plain(cursor.fetchall()) if cursor.description is not None else ()


def plain(rows: Rows) -> Rows:
    """psycopg2 gives a bytea as a memoryview; the other drivers give bytes."""
    return [tuple([bytes(value) if isinstance(value, memoryview) else value for value in row]) for row in rows]
