"""The inbox in a SQLite file: one write transaction at a time, durable at COMMIT."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from hooklane.model.inbox import Identity, Known
from hooklane.store.inbox import Capabilities
from hooklane.store.sql.migration_files import migrations_of
from hooklane.store.sql.queries import Sql, Step
from hooklane.store.sql.rows import identity_params, known_of
from hooklane.store.sqlite.database import BUSY_WAIT_MS, connect, migrate
from hooklane.store.sqlite.inbox.transactions import SqliteSession, Transactions
from hooklane.store.sqlite.inbox.verbs import SqliteVerbs

T = TypeVar("T")


class SqliteInbox(SqliteVerbs):
    """The inbox tables in the file at *path*. Handlers get the `sqlite3.Connection` of the transaction."""

    capabilities = Capabilities(
        name="sqlite", atomic=True, durable=True, survives_failover=False, single_writer=True, outbox=True
    )

    def __init__(self, path: str, *, busy_wait_ms: int = BUSY_WAIT_MS) -> None:
        self.path = path
        self.busy_wait_ms = busy_wait_ms
        conn = connect(path)
        try:
            migrate(conn, "inbox", migrations_of("hooklane.store.sqlite.inbox.migrations"), path)
        finally:
            conn.close()
        self._start_process()

    def _start_process(self) -> None:
        """Locks, threads and connections belong to one process: a child of fork starts with its own.

        It is known by its pid and not by a hook of `os.fork`: servers that fork in C, as uWSGI does, call none.
        """
        self._pid = os.getpid()
        self.transactions = Transactions(self.path)
        # Beginning may wait for a handler that needs the other pool to commit: they must not share threads.
        self._beginners = ThreadPoolExecutor(32, thread_name_prefix="hooklane-sqlite-begin")
        self._performers = ThreadPoolExecutor(4, thread_name_prefix="hooklane-sqlite")

    def begin(self, *, wait_ms: int | None = None) -> SqliteSession:
        if self._pid != os.getpid():
            self._start_process()
        return self.transactions.begin(self.busy_wait_ms if wait_ms is None else wait_ms)

    def begin_look(self) -> SqliteSession:
        """A transaction that only reads, beside the one that writes."""
        if self._pid != os.getpid():
            self._start_process()
        return self.transactions.look(self.busy_wait_ms)

    async def abegin(self, *, wait_ms: int | None = None) -> AsyncSqliteSession:
        if self._pid != os.getpid():
            self._start_process()
        loop = asyncio.get_running_loop()
        beginning = loop.run_in_executor(self._beginners, lambda: self.begin(wait_ms=wait_ms))
        try:
            session = await asyncio.shield(beginning)
        except asyncio.CancelledError:
            # The thread may still get its turn; give it back, or all others wait for a transaction that is not run.
            beginning.add_done_callback(_give_back)
            raise
        return AsyncSqliteSession(session, self._performers)

    def look(self, identities: Sequence[Identity]) -> list[Known | None]:
        """What is known about each identity, outside any write transaction: for duplicates, who need not wait."""
        if self._pid != os.getpid():
            self._start_process()
        answers = self.transactions.read([Sql("known", identity_params(identity)) for identity in identities])
        return [None] * len(identities) if answers is None else [known_of(lines) for lines in answers]

    @property
    def is_busy(self) -> bool:
        """Whether a transaction of this process is open right now."""
        return self.transactions.is_busy

    def close(self) -> None:
        if self._pid != os.getpid():
            return  # the connections are the parent's
        self.transactions.close()
        self._beginners.shutdown(wait=False)
        self._performers.shutdown(wait=False)

    async def aclose(self) -> None:
        self.close()


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

    @property
    def is_whole(self) -> bool:
        return self._session.is_whole

    @property
    def is_marked(self) -> bool:
        return self._session.is_marked

    async def save(self) -> None:
        self._session.save()

    async def keep(self) -> None:
        self._session.keep()

    async def undo(self) -> None:
        self._session.undo()

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


def _give_back(beginning: asyncio.Future[SqliteSession]) -> None:
    if not beginning.cancelled() and beginning.exception() is None:
        beginning.result().close()
