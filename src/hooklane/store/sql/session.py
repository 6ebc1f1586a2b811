"""A transaction on a borrowed connection: ours from a URL, or the application's engine, pool or alias.

A *checkout* knows how its kind of connection begins, commits and goes back; the caller's adapter runs the statements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Generic, Protocol, TypeVar

from hooklane.errors import TransactionMisused
from hooklane.store.caller import AsyncCaller, Guard, Statement, SyncCaller, drive, drive_async, guard_of
from hooklane.store.sql.faults import commits_named, faults_named
from hooklane.store.sql.queries import Many, Step

Queries = Mapping[str, str]


class Checkout(Protocol):
    """A connection in an open transaction. *tx* is what a handler gets."""

    was_lent: bool
    """Whether a handler has had it, and may have left something on its session."""

    @property
    def tx(self) -> Any: ...
    @property
    def caller(self) -> SyncCaller: ...
    def commit(self) -> None: ...
    def rollback(self) -> None: ...
    def give_back(self, *, clean: bool) -> None: ...


class AsyncCheckout(Protocol):
    was_lent: bool

    @property
    def tx(self) -> Any: ...
    @property
    def caller(self) -> AsyncCaller: ...
    async def commit(self) -> None: ...
    async def rollback(self) -> None: ...
    async def give_back(self, *, clean: bool) -> None: ...


C = TypeVar("C", bound=Checkout | AsyncCheckout)


class Connections(Protocol):
    """Lends connections to sync code."""

    def check_out(self, wait_ms: int) -> Checkout: ...
    def close(self) -> None: ...


class AsyncConnections(Protocol):
    """Lends connections to async code."""

    async def check_out(self, wait_ms: int) -> AsyncCheckout: ...
    async def close(self) -> None: ...


class _Session(Generic[C]):
    """A transaction, and how far it has come."""

    def __init__(self, checkout: C, queries: Queries, what: str) -> None:
        self._checkout = checkout
        self._queries = queries
        self._what = what
        self._state = _OPEN
        self._guard: Guard | None = None

    @property
    def tx(self) -> Any:
        return self._checkout.tx


class SqlSession(_Session[Checkout]):
    """One transaction of sync code."""

    @property
    def hook_errors(self) -> Sequence[BaseException]:
        """What the connection's own hooks raised at the commit: those of Django, no other kind has any."""
        return getattr(self._checkout, "hook_errors", ())

    def perform(self, step: Step) -> Any:
        with faults_named(self._what):
            sql = self._queries[step.name]
            if isinstance(step, Many):
                return [self._checkout.caller.execute(Statement(sql, params)) for params in step.params]
            return self._checkout.caller.execute(Statement(sql, step.params))

    def handing_over(self) -> None:
        self._checkout.was_lent = True
        self._guard = guard_of(self._checkout.caller, self._checkout.tx)
        with faults_named(self._what):
            drive(self._guard.set(), self._checkout.caller.execute)

    def taking_back(self, error: BaseException | None = None) -> None:
        assert self._guard is not None
        try:
            with faults_named(self._what):
                drive(self._guard.lift(error), self._checkout.caller.execute)
        except TransactionMisused:
            self._state = _UNKNOWN  # the refusal of a commit ends the database's session: it is thrown away
            raise

    def commit(self) -> None:
        with commits_named(self._what):
            self._state = _UNKNOWN
            self._checkout.commit()
            self._state = _ENDED

    def rollback(self) -> None:
        if self._state is _OPEN:
            self._state = _UNKNOWN
            with suppress(Exception):  # a connection that cannot roll back is thrown away, which does it too
                self._checkout.rollback()
                self._state = _ENDED

    def close(self) -> None:
        if self._state is _CLOSED:
            return
        self.rollback()
        clean, self._state = self._state is _ENDED, _CLOSED
        self._checkout.give_back(clean=clean)


class AsyncSqlSession(_Session[AsyncCheckout]):
    """One transaction of async code."""

    async def perform(self, step: Step) -> Any:
        with faults_named(self._what):
            sql = self._queries[step.name]
            if isinstance(step, Many):
                return [await self._checkout.caller.execute(Statement(sql, params)) for params in step.params]
            return await self._checkout.caller.execute(Statement(sql, step.params))

    async def handing_over(self) -> None:
        self._checkout.was_lent = True
        self._guard = guard_of(self._checkout.caller, self._checkout.tx)
        with faults_named(self._what):
            await drive_async(self._guard.set(), self._checkout.caller.execute)

    async def taking_back(self, error: BaseException | None = None) -> None:
        assert self._guard is not None
        try:
            with faults_named(self._what):
                await drive_async(self._guard.lift(error), self._checkout.caller.execute)
        except TransactionMisused:
            self._state = _UNKNOWN  # the refusal of a commit ends the database's session: it is thrown away
            raise

    async def commit(self) -> None:
        with commits_named(self._what):
            self._state = _UNKNOWN
            await self._checkout.commit()
            self._state = _ENDED

    async def rollback(self) -> None:
        if self._state is _OPEN:
            self._state = _UNKNOWN
            with suppress(Exception):  # as above
                await self._checkout.rollback()
                self._state = _ENDED

    async def close(self) -> None:
        if self._state is _CLOSED:
            return
        await self.rollback()
        clean, self._state = self._state is _ENDED, _CLOSED
        await self._checkout.give_back(clean=clean)


_OPEN, _UNKNOWN, _ENDED, _CLOSED = "open", "unknown", "ended", "closed"
