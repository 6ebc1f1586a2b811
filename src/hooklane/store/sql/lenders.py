"""The application's own connections, lent to the inbox: pools, factories, SQLAlchemy engines and sessions, Django.

Whatever a handler gets as `tx` is of the kind that the application uses anyway. No driver is imported here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from hooklane.errors import UsageError
from hooklane.store.caller import AsyncCaller, Flow, SyncCaller, adapt


def _enter() -> Flow[None]:
    """Nothing: running it makes the caller's adapter check the connection and open its transaction."""
    yield from ()


def _sync(tx: Any) -> SyncCaller:
    caller = adapt(tx)
    if not isinstance(caller, SyncCaller):
        raise UsageError(f"a connection for sync handlers was expected, got {type(tx).__name__}")
    caller.run(_enter())
    return caller


async def _async(tx: Any) -> AsyncCaller:
    caller = adapt(tx)
    if not isinstance(caller, AsyncCaller):
        raise UsageError(f"a connection for async handlers was expected, got {type(tx).__name__}")
    await caller.run(_enter())
    return caller


# Sync


class DbapiLoan:
    """A connection that commits and rolls back by itself: psycopg, psycopg2, sqlite3, SQLAlchemy's two kinds."""

    def __init__(self, tx: Any, give_back: Callable[[Any, bool], None]) -> None:
        self.tx = tx
        self._give_back = give_back
        try:
            self.caller = _sync(tx)
        except BaseException:
            give_back(tx, False)
            raise

    def commit(self) -> None:
        self.tx.commit()

    def rollback(self) -> None:
        self.tx.rollback()

    def give_back(self, *, clean: bool) -> None:
        self._give_back(self.tx, clean)


class FactoryLender:
    """A function that makes a connection (or a session): one for each transaction."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make

    def lend(self, wait_ms: int) -> DbapiLoan:
        return DbapiLoan(self._make(), lambda tx, clean: tx.close())

    def close(self) -> None:
        pass  # nothing is kept


class PoolLender:
    """A pool with `getconn` and `putconn`: psycopg_pool.ConnectionPool, psycopg2.pool."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self._can_wait = type(pool).__module__.startswith("psycopg_pool")

    def lend(self, wait_ms: int) -> DbapiLoan:
        conn = self._pool.getconn(timeout=wait_ms / 1000) if self._can_wait else self._pool.getconn()
        return DbapiLoan(conn, self._put)

    def _put(self, conn: Any, clean: bool) -> None:
        if not clean:
            conn.close()
        self._pool.putconn(conn)

    def close(self) -> None:
        pass  # the pool is the application's


@contextmanager
def _as_a_writer(connection: Any) -> Iterator[None]:
    """Have Django begin on SQLite as a writer at once, unless the project says how: a transaction that reads first and
    finds another writer when it writes is refused without a wait. Before Django 5.1 it cannot be told so."""
    if connection.vendor != "sqlite" or connection.in_atomic_block:
        yield
        return
    connection.ensure_connection()  # which reads the project's own wish
    wish = getattr(connection, "transaction_mode", None)
    connection.transaction_mode = wish or "IMMEDIATE"
    try:
        yield
    finally:
        connection.transaction_mode = wish


class DjangoLoan:
    def __init__(self, alias: str) -> None:
        from django.db import transaction

        self._alias = alias
        self._transaction = transaction
        held = transaction.get_connection(alias)
        # durable: inside ATOMIC_REQUESTS an answer would go out before the commit, so Django refuses it.
        self._atomic = transaction.atomic(using=alias, durable=True)
        try:
            with _as_a_writer(held):
                self._atomic.__enter__()
        except RuntimeError as error:
            raise UsageError(
                "hooklane commits by itself, before it answers: call it outside transaction.atomic, and mark the view"
                f" with transaction.non_atomic_requests where ATOMIC_REQUESTS is on ({error})"
            ) from error
        self._is_open = True
        self.tx = transaction.get_connection(alias)
        self.caller = _sync(self.tx)

    def commit(self) -> None:
        self._is_open = False
        self._atomic.__exit__(None, None, None)

    def rollback(self) -> None:
        if self._is_open:
            self._is_open = False
            self._transaction.set_rollback(True, using=self._alias)
            self._atomic.__exit__(None, None, None)

    def give_back(self, *, clean: bool) -> None:
        self.rollback()
        if not clean:
            self.tx.close_if_unusable_or_obsolete()


class DjangoLender:
    """The connection of this thread for an alias in Django's DATABASES; `transaction.on_commit` works in handlers."""

    def __init__(self, alias: str) -> None:
        self._alias = alias

    def lend(self, wait_ms: int) -> DjangoLoan:
        from django.db import connections

        held = connections[self._alias]
        if held.errors_occurred and not held.in_atomic_block:
            # Django looks after a request; a worker's thread has none, and would keep a dead connection for ever.
            held.close_if_unusable_or_obsolete()
        return DjangoLoan(self._alias)

    def close(self) -> None:
        pass  # Django closes its connections


# Async


class AsyncpgPoolLoan:
    def __init__(self, pool: Any, conn: Any, transaction: Any, caller: AsyncCaller) -> None:
        self.tx = conn
        self.caller = caller
        self._pool = pool
        self._transaction = transaction

    async def commit(self) -> None:
        await self._transaction.commit()

    async def rollback(self) -> None:
        await self._transaction.rollback()

    async def give_back(self, *, clean: bool) -> None:
        if not clean:
            self.tx.terminate()
        await self._pool.release(self.tx)


class AsyncpgPoolLender:
    """An `asyncpg.Pool`."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool

    async def lend(self, wait_ms: int) -> AsyncpgPoolLoan:
        conn = await self._pool.acquire(timeout=wait_ms / 1000)
        try:
            transaction = conn.transaction()
            await transaction.start()
            return AsyncpgPoolLoan(self._pool, conn, transaction, await _async(conn))
        except BaseException:
            conn.terminate()
            await self._pool.release(conn)
            raise

    async def close(self) -> None:
        pass  # the pool is the application's


class AsyncLoanOf:
    """An async connection that commits and rolls back by itself: psycopg, SQLAlchemy's two kinds."""

    def __init__(self, tx: Any, caller: AsyncCaller, give_back: Callable[[Any, bool], Any]) -> None:
        self.tx = tx
        self.caller = caller
        self._give_back = give_back

    async def commit(self) -> None:
        await self.tx.commit()

    async def rollback(self) -> None:
        await self.tx.rollback()

    async def give_back(self, *, clean: bool) -> None:
        await self._give_back(self.tx, clean)


class AsyncFactoryLender:
    """A function that makes an async connection or session (awaited where it must be)."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make

    async def lend(self, wait_ms: int) -> AsyncLoanOf:
        made = self._make()
        tx = await made if hasattr(made, "__await__") else made
        try:
            return AsyncLoanOf(tx, await _async(tx), self._close)
        except BaseException:
            await tx.close()
            raise

    async def _close(self, tx: Any, clean: bool) -> None:
        await tx.close()

    async def close(self) -> None:
        pass  # nothing is kept


class AsyncPoolLender:
    """`psycopg_pool.AsyncConnectionPool`."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool

    async def lend(self, wait_ms: int) -> AsyncLoanOf:
        conn = await self._pool.getconn(timeout=wait_ms / 1000)
        try:
            return AsyncLoanOf(conn, await _async(conn), self._put)
        except BaseException:
            await self._put(conn, False)
            raise

    async def _put(self, conn: Any, clean: bool) -> None:
        if not clean:
            await conn.close()
        await self._pool.putconn(conn)

    async def close(self) -> None:
        pass  # the pool is the application's
