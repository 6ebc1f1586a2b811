"""`asyncpg.Connection`, also as acquired from a pool; outside `conn.transaction()` it is in autocommit."""

from __future__ import annotations

from typing import Any

from hooklane.errors import UsageError
from hooklane.store.caller.base import AsyncCaller
from hooklane.store.caller.flow import Dialect, Rows, Statement
from hooklane.store.caller.placeholders import Style, bind


class AsyncpgCaller(AsyncCaller):
    dialect = Dialect.POSTGRESQL
    name = "asyncpg.Connection"

    def __init__(self, tx: Any) -> None:
        self._tx = tx

    @property
    def session(self) -> object:
        # A pool hands out a new proxy each time; what it stands for is what stays on its database.
        return getattr(self._tx, "_con", self._tx)

    def check(self) -> None:
        from asyncpg import InterfaceError

        # An aborted transaction shows itself at the first statement: asyncpg keeps its status to itself.
        try:
            is_closed = self._tx.is_closed()
        except InterfaceError as error:
            raise UsageError(f"tx ({self.name}) was given back to its pool") from error
        if is_closed:
            raise self._closed()
        if not self._tx.is_in_transaction():
            raise self._autocommit("use  async with conn.transaction():")

    async def execute(self, statement: Statement) -> Rows:
        from asyncpg import Record

        sql, values = bind(statement, Style.DOLLAR)
        rows: Rows = await self._tx.fetch(sql, *values, record_class=Record)
        return rows
