"""The application's connections, for the inbox to borrow: pools, factories, SQLAlchemy engines and sessions, Django.

Whatever a handler gets as `tx` is of the kind that the application uses anyway. No driver is imported here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from hooklane.errors import UsageError
from hooklane.store.caller import AsyncCaller, Flow, Statement, SyncCaller, adapt
from hooklane.store.caller.guard import blocks_of
from hooklane.store.caller.psycopg2 import Psycopg2Caller
from hooklane.store.caller.psycopg3 import IDLE, AsyncPsycopgCaller, PsycopgCaller
from hooklane.store.caller.standby_wait import standby_waited_for
from hooklane.store.caller.the_end import is_the_end

_READ_WRITE = Statement("SET TRANSACTION READ WRITE")


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


class DbapiCheckout:
    """A connection that commits and rolls back by itself: psycopg, psycopg2, sqlite3, SQLAlchemy's two kinds."""

    was_lent = False

    def __init__(self, tx: Any, give_back: Callable[[Any, bool], None]) -> None:
        self.tx = tx
        self._give_back = give_back
        self._read_only: Any = None
        try:
            self.caller = _sync(tx)
            self._only_ours_writes()
        except BaseException:
            give_back(tx, False)
            raise

    def _only_ours_writes(self) -> None:
        """psycopg2 is written in C, and its `commit` cannot be refused after a `rollback`; psycopg has cursors of many
        kinds, and blocks that begin. So what a handler begins after ours is read-only: that is a setting of the client,
        which the server hears with each BEGIN."""
        if self._setting is not None and int(self.tx.info.transaction_status) == IDLE:
            self._read_only = getattr(self.tx, self._setting)
            setattr(self.tx, self._setting, True)
            self.caller.execute(_READ_WRITE)

    @property
    def _setting(self) -> str | None:
        """What the driver calls the setting; none of SQLAlchemy's, whose sessions give connections back too early."""
        if isinstance(self.caller, Psycopg2Caller):
            return "readonly"
        return "read_only" if isinstance(self.caller, PsycopgCaller) else None

    def commit(self) -> None:
        with standby_waited_for(self.caller.session):
            self.tx.commit()

    def rollback(self) -> None:
        self.tx.rollback()

    def give_back(self, *, clean: bool) -> None:
        if clean and self._setting is not None:
            setattr(self.tx, self._setting, self._read_only)
        self._give_back(self.tx, clean)


class FactoryConnections:
    """A function that makes a connection (or a session): one for each transaction."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make

    def check_out(self, wait_ms: int) -> DbapiCheckout:
        return DbapiCheckout(self._make(), _close)

    def close(self) -> None:
        pass  # nothing is kept


def _close(tx: Any, clean: bool) -> None:
    """Close *tx*. SQLAlchemy's go back to a pool, so one whose state is not known is made invalid first."""
    if not clean and hasattr(tx, "invalidate"):
        with suppress(Exception):  # it is closed already
            tx.invalidate()
    tx.close()


class PoolConnections:
    """A pool with `getconn` and `putconn`: psycopg_pool.ConnectionPool, psycopg2.pool."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self._can_wait = type(pool).__module__.startswith("psycopg_pool")

    def check_out(self, wait_ms: int) -> DbapiCheckout:
        conn = self._pool.getconn(timeout=wait_ms / 1000) if self._can_wait else self._pool.getconn()
        return DbapiCheckout(conn, self._put)

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


class DjangoCheckout:
    was_lent = False

    def __init__(self, alias: str) -> None:
        from django.db import transaction

        self._alias = alias
        self._transaction = transaction
        held = transaction.get_connection(alias)
        if not held.in_atomic_block and not held.get_autocommit():
            # A block of Django's is a savepoint then, and its end commits nothing.
            raise UsageError(
                f"hooklane commits by itself, before it answers: autocommit is off for {alias!r}, turn it on"
            )
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
        self.hook_errors: list[BaseException] = []
        self.tx = transaction.get_connection(alias)
        self._blocks = blocks_of(self.tx)
        self.caller = _sync(self.tx)

    def commit(self) -> None:
        """Commit. Django calls what was left with `transaction.on_commit` right after, in the same breath, and an error
        of it would be taken for one of the commit: such errors are in `hook_errors`."""
        self._is_open = False
        if not self.tx.savepoint_ids:  # or it is in a TestCase of Django, which commits nothing
            hooks = self.tx.run_on_commit
            self.tx.run_on_commit = [(set(), lambda: self._call(hooks), False)]
        with standby_waited_for(self.caller.session):
            self._atomic.__exit__(None, None, None)

    def _call(self, hooks: list[Any]) -> None:
        for _, hook, *_ in hooks:
            try:
                hook()
            except BaseException as error:  # committed already: the error is told, the event is not run again
                if is_the_end(error):
                    raise
                self.hook_errors.append(error)

    def rollback(self) -> None:
        if self._is_open:
            self._is_open = False
            # One end for ours, and one for each that a handler has entered and not left.
            for _ in range(self._blocks, blocks_of(self.tx) + 1):
                self._transaction.set_rollback(True, using=self._alias)
                self._atomic.__exit__(None, None, None)

    def give_back(self, *, clean: bool) -> None:
        self.rollback()
        if not clean:
            self.tx.close_if_unusable_or_obsolete()


class DjangoConnections:
    """The connection of this thread for an alias in Django's DATABASES; `transaction.on_commit` works in handlers."""

    def __init__(self, alias: str) -> None:
        self._alias = alias

    def check_out(self, wait_ms: int) -> DjangoCheckout:
        from django.db import connections

        held = connections[self._alias]
        if held.errors_occurred and not held.in_atomic_block:
            # Django looks after a request; a worker's thread has none, and would keep a dead connection for ever.
            held.close_if_unusable_or_obsolete()
        return DjangoCheckout(self._alias)

    def close(self) -> None:
        pass  # Django closes its connections


# Async


class _Uncancelled:
    """A commit that goes on when its task is cancelled: drivers would ask the server to cancel it, which does not undo
    it, but ends its wait for a synchronous standby. Its connection goes back when it is over."""

    _committing: asyncio.Future[None] | None = None
    _later: asyncio.Task[None] | None = None

    async def _to_its_end(self, commit: Awaitable[None]) -> None:
        self._committing = asyncio.ensure_future(commit)
        await asyncio.shield(self._committing)

    async def _after_commit(self, give_back: Callable[[], Awaitable[None]]) -> None:
        if self._committing is None or self._committing.done():
            await give_back()
            return
        self._later = asyncio.create_task(_when_over(self._committing, give_back))


async def _when_over(commit: asyncio.Future[None], give_back: Callable[[], Awaitable[None]]) -> None:
    await asyncio.wait([commit])
    if not commit.cancelled():
        commit.exception()  # the task that asked for it is gone
    await give_back()


class AsyncpgPoolCheckout(_Uncancelled):
    was_lent = False

    def __init__(self, pool: Any, conn: Any, transaction: Any, caller: AsyncCaller) -> None:
        self.tx = conn
        self.caller = caller
        self._pool = pool
        self._transaction = transaction

    async def commit(self) -> None:
        with standby_waited_for(self.caller.session):
            await self._to_its_end(self._transaction.commit())

    async def rollback(self) -> None:
        await self._transaction.rollback()

    async def give_back(self, *, clean: bool) -> None:
        async def release() -> None:
            if not clean:
                _terminate(self.tx)
            await self._pool.release(self.tx)

        await self._after_commit(release)


def _terminate(conn: Any) -> None:
    import asyncpg

    with suppress(asyncpg.InterfaceError):  # the pool has let go of a connection that the server ended
        conn.terminate()


class AsyncpgPoolConnections:
    """An `asyncpg.Pool`."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool

    async def check_out(self, wait_ms: int) -> AsyncpgPoolCheckout:
        conn = await self._pool.acquire(timeout=wait_ms / 1000)
        try:
            transaction = conn.transaction()
            await transaction.start()
            return AsyncpgPoolCheckout(self._pool, conn, transaction, await _async(conn))
        except BaseException:
            _terminate(conn)
            await self._pool.release(conn)
            raise

    async def close(self) -> None:
        pass  # the pool is the application's


class AsyncDbapiCheckout(_Uncancelled):
    """An async connection that commits and rolls back by itself: psycopg, SQLAlchemy's two kinds."""

    was_lent = False

    def __init__(self, tx: Any, caller: AsyncCaller, give_back: Callable[[Any, bool], Any]) -> None:
        self.tx = tx
        self.caller = caller
        self._give_back = give_back
        self._read_only: Any = None

    @classmethod
    async def of(cls, tx: Any, give_back: Callable[[Any, bool], Any]) -> AsyncDbapiCheckout:
        """*tx* in a transaction. What a handler begins after ours is read-only, as with `DbapiCheckout`."""
        checkout = cls(tx, await _async(tx), give_back)
        if isinstance(checkout.caller, AsyncPsycopgCaller) and int(tx.info.transaction_status) == IDLE:
            checkout._read_only = tx.read_only
            await tx.set_read_only(True)
            await checkout.caller.execute(_READ_WRITE)
        return checkout

    async def commit(self) -> None:
        with standby_waited_for(self.caller.session):
            await self._to_its_end(self.tx.commit())

    async def rollback(self) -> None:
        await self.tx.rollback()

    async def give_back(self, *, clean: bool) -> None:
        async def back() -> None:
            if clean and isinstance(self.caller, AsyncPsycopgCaller):
                await self.tx.set_read_only(self._read_only)
            await self._give_back(self.tx, clean)

        await self._after_commit(back)


class AsyncFactoryConnections:
    """A function that makes an async connection or session (awaited where it must be)."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make

    async def check_out(self, wait_ms: int) -> AsyncDbapiCheckout:
        made = self._make()
        tx = await made if hasattr(made, "__await__") else made
        try:
            return await AsyncDbapiCheckout.of(tx, self._close)
        except BaseException:
            await tx.close()
            raise

    async def _close(self, tx: Any, clean: bool) -> None:
        if not clean and hasattr(tx, "invalidate"):
            with suppress(Exception):  # as above
                await tx.invalidate()
        await tx.close()

    async def close(self) -> None:
        pass  # nothing is kept


class AsyncPoolConnections:
    """`psycopg_pool.AsyncConnectionPool`."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool

    async def check_out(self, wait_ms: int) -> AsyncDbapiCheckout:
        conn = await self._pool.getconn(timeout=wait_ms / 1000)
        try:
            return await AsyncDbapiCheckout.of(conn, self._put)
        except BaseException:
            await self._put(conn, False)
            raise

    async def _put(self, conn: Any, clean: bool) -> None:
        if not clean:
            await conn.close()
        await self._pool.putconn(conn)

    async def close(self) -> None:
        pass  # the pool is the application's
