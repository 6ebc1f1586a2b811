"""A transaction on a borrowed connection, whoever's it is: ours from a URL, or the application's engine, pool or alias.

A *loan* knows how its kind of connection begins, commits and goes back; the caller's adapter runs the statements.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Protocol

from hooklane.errors import TransactionMisused, UsageError
from hooklane.store.caller import AsyncCaller, Statement, SyncCaller, confirm, drive, drive_async, mark
from hooklane.store.sql.faults import faults_named
from hooklane.store.sql.queries import Many, Step

Queries = Mapping[str, str]


class Loan(Protocol):
    """A connection in an open transaction. *tx* is what a handler gets."""

    @property
    def tx(self) -> Any: ...
    @property
    def caller(self) -> SyncCaller: ...
    def commit(self) -> None: ...
    def rollback(self) -> None: ...
    def give_back(self, *, clean: bool) -> None: ...


class AsyncLoan(Protocol):
    @property
    def tx(self) -> Any: ...
    @property
    def caller(self) -> AsyncCaller: ...
    async def commit(self) -> None: ...
    async def rollback(self) -> None: ...
    async def give_back(self, *, clean: bool) -> None: ...


class Lender(Protocol):
    """Lends connections to sync code."""

    def lend(self, wait_ms: int) -> Loan: ...
    def close(self) -> None: ...


class AsyncLender(Protocol):
    """Lends connections to async code."""

    async def lend(self, wait_ms: int) -> AsyncLoan: ...
    async def close(self) -> None: ...


class SqlSession:
    """One transaction of sync code."""

    def __init__(self, loan: Loan, queries: Queries, what: str) -> None:
        self._loan = loan
        self._queries = queries
        self._what = what
        self._state = _OPEN

    @property
    def tx(self) -> Any:
        return self._loan.tx

    def perform(self, step: Step) -> Any:
        with faults_named(self._what):
            sql = self._queries[step.name]
            if isinstance(step, Many):
                return [self._loan.caller.execute(Statement(sql, params)) for params in step.params]
            return self._loan.caller.execute(Statement(sql, step.params))

    def handing_over(self) -> None:
        with faults_named(self._what):
            drive(mark(), self._loan.caller.execute)

    def taking_back(self, error: BaseException | None = None) -> None:
        try:
            refuse_ended(self._loan.tx)
            with faults_named(self._what):
                drive(confirm(), self._loan.caller.execute)
        except UsageError as misuse:
            raise TransactionMisused(str(misuse)) from (error or misuse)
        except Exception:
            if error is None:
                raise
            # The handler's own error broke the transaction; that one is the news.

    def commit(self) -> None:
        with faults_named(self._what):
            self._state = _UNKNOWN
            self._loan.commit()
            self._state = _ENDED

    def rollback(self) -> None:
        if self._state is _OPEN:
            self._state = _UNKNOWN
            with suppress(Exception):  # a connection that cannot roll back is thrown away, which does it too
                self._loan.rollback()
                self._state = _ENDED

    def close(self) -> None:
        if self._state is _CLOSED:
            return
        self.rollback()
        clean, self._state = self._state is _ENDED, _CLOSED
        self._loan.give_back(clean=clean)


class AsyncSqlSession:
    """One transaction of async code."""

    def __init__(self, loan: AsyncLoan, queries: Queries, what: str) -> None:
        self._loan = loan
        self._queries = queries
        self._what = what
        self._state = _OPEN

    @property
    def tx(self) -> Any:
        return self._loan.tx

    async def perform(self, step: Step) -> Any:
        with faults_named(self._what):
            sql = self._queries[step.name]
            if isinstance(step, Many):
                return [await self._loan.caller.execute(Statement(sql, params)) for params in step.params]
            return await self._loan.caller.execute(Statement(sql, step.params))

    async def handing_over(self) -> None:
        with faults_named(self._what):
            await drive_async(mark(), self._loan.caller.execute)

    async def taking_back(self, error: BaseException | None = None) -> None:
        try:
            refuse_ended(self._loan.tx)
            with faults_named(self._what):
                await drive_async(confirm(), self._loan.caller.execute)
        except UsageError as misuse:
            raise TransactionMisused(str(misuse)) from (error or misuse)
        except Exception:
            if error is None:
                raise
            # as above

    async def commit(self) -> None:
        with faults_named(self._what):
            self._state = _UNKNOWN
            await self._loan.commit()
            self._state = _ENDED

    async def rollback(self) -> None:
        if self._state is _OPEN:
            self._state = _UNKNOWN
            with suppress(Exception):  # as above
                await self._loan.rollback()
                self._state = _ENDED

    async def close(self) -> None:
        if self._state is _CLOSED:
            return
        await self.rollback()
        clean, self._state = self._state is _ENDED, _CLOSED
        await self._loan.give_back(clean=clean)


def refuse_ended(tx: Any) -> None:
    """SQLAlchemy lets go of its connection at a commit, so there it is known without asking the database."""
    in_transaction = getattr(tx, "in_transaction", None)
    if callable(in_transaction) and not in_transaction():
        raise UsageError("the handler has committed or rolled back tx itself: hooklane does it, when it returns")


_OPEN, _UNKNOWN, _ENDED, _CLOSED = "open", "unknown", "ended", "closed"
