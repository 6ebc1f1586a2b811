"""The inbox in a SQLite file: one write transaction at a time, durable at COMMIT."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from hooklane.errors import StoreBusy, TransactionMisused
from hooklane.model.inbox import Identity, Known
from hooklane.store.inbox import Capabilities
from hooklane.store.sql.inbox import SqlInbox
from hooklane.store.sql.queries import Many, Sql, Step, queries_of
from hooklane.store.sql.rows import identity_params, known_of
from hooklane.store.sqlite.database import BUSY_WAIT_MS, connect, errors_named, migrate, migrations_of

_QUERIES = queries_of("hooklane.store.sqlite.inbox")

# Spelled unlike anything a handler would write, so that a handler's own COMMIT never finds ours in the statement cache
# of the connection: it has to be prepared, and the guard below refuses it.
_BEGIN = "BEGIN IMMEDIATE /* hooklane */"
_COMMIT = "COMMIT /* hooklane */"
_ROLLBACK = "ROLLBACK /* hooklane */"

T = TypeVar("T")


class SqliteInbox(SqlInbox):
    """The inbox tables in the file at *path*. Handlers get the `sqlite3.Connection` of the transaction."""

    capabilities = Capabilities(
        name="sqlite", atomic=True, durable=True, survives_failover=False, single_writer=True, outbox=True
    )

    def __init__(self, path: str, *, busy_wait_ms: int = BUSY_WAIT_MS) -> None:
        self.path = path
        self._busy_wait_ms = busy_wait_ms
        conn = connect(path)
        try:
            migrate(conn, "inbox", migrations_of("hooklane.store.sqlite.inbox.migrations"), path)
        finally:
            conn.close()
        self._start_process()

    def _start_process(self) -> None:
        """Locks, threads and connections belong to one process: a child of fork starts with its own."""
        self._pid = os.getpid()
        self._idle: list[Guarded] = []
        # SQLite's own waiting is a poll with naps; threads of one process queue up here instead.
        self._turn = threading.Lock()
        # Beginning may wait for a handler that needs the other pool to commit: they must not share threads.
        self._beginners = ThreadPoolExecutor(32, thread_name_prefix="hooklane-sqlite-begin")
        self._performers = ThreadPoolExecutor(4, thread_name_prefix="hooklane-sqlite")

    def begin(self, *, wait_ms: int | None = None) -> SqliteSession:
        if self._pid != os.getpid():
            self._start_process()
        wait_ms = self._busy_wait_ms if wait_ms is None else wait_ms
        left_ms = max(1, wait_ms)
        if not self._turn.acquire(blocking=False):
            deadline = time.monotonic() + wait_ms / 1000
            if not self._turn.acquire(timeout=max(0.0, wait_ms / 1000)):
                raise StoreBusy(f"{self.path} is held by another transaction of this process")
            left_ms = max(1, int((deadline - time.monotonic()) * 1000))
        try:
            guarded = self._pop_idle()
            try:
                guarded.wait_at_most(left_ms)
                guarded.conn.execute(_BEGIN)
            except BaseException:
                guarded.conn.close()
                with errors_named(self.path):
                    raise
        except BaseException:
            self._turn.release()
            raise
        return SqliteSession(self, guarded)

    async def abegin(self, *, wait_ms: int | None = None) -> AsyncSqliteSession:
        if self._pid != os.getpid():
            self._start_process()
        loop = asyncio.get_running_loop()
        beginning = loop.run_in_executor(self._beginners, lambda: self.begin(wait_ms=wait_ms))
        try:
            session = await asyncio.shield(beginning)
        except asyncio.CancelledError:
            # The thread may still get its turn; give it back, or everyone waits for a transaction that nobody runs.
            beginning.add_done_callback(_give_back)
            raise
        return AsyncSqliteSession(session, self._performers)

    def _pop_idle(self) -> Guarded:
        try:
            return self._idle.pop()
        except IndexError:
            return Guarded(self.path)

    def look(self, identities: Sequence[Identity]) -> list[Known | None]:
        """What is known about each identity, outside any write transaction: for duplicates, who need not wait."""
        if self._pid != os.getpid():
            self._start_process()
        guarded = self._pop_idle()
        try:
            known = [
                known_of(perform(guarded.conn, Sql("known", identity_params(identity)))) for identity in identities
            ]
        except BaseException:
            guarded.conn.close()
            with errors_named(self.path):
                raise
        self._idle.append(guarded)
        return known

    @property
    def is_busy(self) -> bool:
        """Whether a transaction of this process holds the pen right now."""
        return self._turn.locked()

    def give_back(self, guarded: Guarded, *, clean: bool) -> None:
        """The transaction is over; the next may begin."""
        if clean:
            self._idle.append(guarded)
        else:
            guarded.conn.close()
        self._turn.release()

    def close(self) -> None:
        if self._pid != os.getpid():
            return  # the connections are the parent's
        while self._idle:
            self._idle.pop().conn.close()
        self._beginners.shutdown(wait=False)
        self._performers.shutdown(wait=False)

    async def aclose(self) -> None:
        self.close()


class Guarded:
    """A connection on which a handler cannot end the transaction that it was given."""

    def __init__(self, path: str) -> None:
        self.conn = connect(path)
        # Each event dirties several pages: at SQLite's default the log would be copied back every 120 commits.
        self.conn.execute("PRAGMA wal_autocheckpoint = 8000")
        self.handed_over = False
        self.refused = False
        self._wait_ms = -1
        self.conn.set_authorizer(self._authorize)

    def wait_at_most(self, wait_ms: int) -> None:
        """Wait so long for writers of other processes."""
        wait_ms = -(-wait_ms // 100) * 100  # so coarse that it is seldom another one
        if wait_ms != self._wait_ms:
            self.conn.execute(f"PRAGMA busy_timeout = {wait_ms}")
            self._wait_ms = wait_ms

    def _authorize(self, action: int, what: str | None, *_: str | None) -> int:
        if self.handed_over and action == sqlite3.SQLITE_TRANSACTION:
            self.refused = True
            return sqlite3.SQLITE_DENY
        return sqlite3.SQLITE_OK


class SqliteSession:
    """One write transaction."""

    def __init__(self, store: SqliteInbox, guarded: Guarded) -> None:
        self._store = store
        self._guarded = guarded
        self._open = True

    @property
    def tx(self) -> sqlite3.Connection:
        return self._guarded.conn

    def perform(self, step: Step) -> Any:
        try:
            return perform(self._guarded.conn, step)
        except sqlite3.Error:
            with errors_named(self._store.path):
                raise

    def handing_over(self) -> None:
        self._guarded.handed_over = True

    def taking_back(self, error: BaseException | None = None) -> None:
        guarded, conn = self._guarded, self._guarded.conn
        refused, guarded.handed_over, guarded.refused = guarded.refused, False, False
        conn.row_factory = None
        conn.text_factory = str
        if refused or not conn.in_transaction:
            raise TransactionMisused(
                "the handler has tried to commit or roll back tx itself: hooklane does it, when it returns"
            ) from error

    def commit(self) -> None:
        try:
            self._guarded.conn.execute(_COMMIT)
        except sqlite3.Error:
            with errors_named(self._store.path):
                raise

    def rollback(self) -> None:
        self._guarded.handed_over = False
        if self._guarded.conn.in_transaction:
            with errors_named(self._store.path):
                self._guarded.conn.execute(_ROLLBACK)

    def close(self) -> None:
        if not self._open:
            return
        self._open = False
        clean = False
        try:
            self.rollback()
            clean = True
        finally:
            self._store.give_back(self._guarded, clean=clean)


class AsyncSqliteSession:
    """The same for async handlers: what may take long runs in a thread, so that the loop goes on."""

    def __init__(self, session: SqliteSession, threads: ThreadPoolExecutor) -> None:
        self._session = session
        self._threads = threads

    @property
    def tx(self) -> sqlite3.Connection:
        return self._session.tx

    async def perform(self, step: Step) -> Any:
        # The lock is ours, so a statement takes microseconds: a thread would cost more than it.
        return self._session.perform(step)

    async def handing_over(self) -> None:
        self._session.handing_over()

    async def taking_back(self, error: BaseException | None = None) -> None:
        self._session.taking_back(error)

    async def commit(self) -> None:
        await self._in_thread(self._session.commit)

    async def rollback(self) -> None:
        self._session.rollback()

    async def close(self) -> None:
        self._session.close()

    async def _in_thread(self, function: Callable[[], T]) -> T:
        # Shielded: a commit that has begun is waited for, or the connection would be used by two threads.
        task = asyncio.get_running_loop().run_in_executor(self._threads, function)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            with contextlib.suppress(Exception):
                await task
            raise


def perform(conn: sqlite3.Connection, step: Step) -> Any:
    """The rows of a statement, or of each repetition of it."""
    sql = _QUERIES[step.name]
    if isinstance(step, Many):
        return [_rows(conn, sql, params) for params in step.params]
    return _rows(conn, sql, step.params)


def _rows(conn: sqlite3.Connection, sql: str, params: Mapping[str, Any]) -> list[Any]:
    return conn.execute(sql, params).fetchall()


def _give_back(beginning: asyncio.Future[SqliteSession]) -> None:
    if not beginning.cancelled() and beginning.exception() is None:
        beginning.result().close()
