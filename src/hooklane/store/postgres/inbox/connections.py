"""Connections of our own to PostgreSQL, made from a URL: psycopg for sync code, asyncpg for async code.

Small pools that belong to one process (and asyncpg's to one event loop): what a fork inherits is not used.
"""

from __future__ import annotations

import asyncio
import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet

from hooklane.errors import MissingExtra, StoreBusy
from hooklane.store.caller.asyncpg import AsyncpgCaller
from hooklane.store.caller.psycopg3 import IDLE, PsycopgCaller
from hooklane.store.postgres.address import unread
from hooklane.store.postgres.commits import commit_psycopg, left_to_itself
from hooklane.store.sql.queries import queries_of

if TYPE_CHECKING:
    import psycopg

POOL_MAX = 16
CONNECT_WAIT_S = 10

# Durable whatever the role's default says. READ COMMITTED: a duplicate must see what its twin has just committed.
_BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED, READ WRITE; "
_DURABLE = "SET LOCAL synchronous_commit = 'on'"

_LET_GO = queries_of("hooklane.store.postgres.inbox")["let_go"].rstrip("; \n")

# What an earlier handler has left on the session (a search_path, a role, a temporary table, a cursor, a lock) is
# not there for the next one. Not DISCARD ALL, which no transaction may hold, and which ends what drivers prepared.
_FORGET = (
    "RESET ALL; SET SESSION AUTHORIZATION DEFAULT; SET client_encoding = 'UTF8'; DISCARD TEMP; CLOSE ALL; UNLISTEN *;"
    f" {_LET_GO}; "
)


class PsycopgCheckout:
    was_lent = False

    def __init__(self, connections: PsycopgConnections, conn: psycopg.Connection[Any]) -> None:
        self.tx = conn
        self.caller = PsycopgCaller(conn)
        self._connections = connections

    def commit(self) -> None:
        commit_psycopg(self.tx)

    def rollback(self) -> None:
        if self.tx.info.transaction_status != IDLE:
            # A handler that failed could not let go of what it has locked, and its connection may lie idle for long.
            self.tx.execute(f"ROLLBACK; {_LET_GO}" if self.was_lent else "ROLLBACK")

    def give_back(self, *, clean: bool) -> None:
        self._connections.take_back(self.tx, clean=clean, was_lent=self.was_lent)


class PsycopgConnections:
    """A pool of psycopg connections."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._start_process()

    def _start_process(self) -> None:
        self._pid = os.getpid()
        self._idle: list[psycopg.Connection[Any]] = []
        self._lent: WeakSet[psycopg.Connection[Any]] = WeakSet()
        """Those that a handler has had: for as long as they live, since a rollback brings back what it has set."""
        self._room = threading.BoundedSemaphore(POOL_MAX)

    def check_out(self, wait_ms: int) -> PsycopgCheckout:
        if self._pid != os.getpid():
            self._start_process()
        if not self._room.acquire(timeout=wait_ms / 1000):
            raise StoreBusy(f"all {POOL_MAX} connections to PostgreSQL are in use")
        try:
            return PsycopgCheckout(self, self._begun())
        except BaseException:
            self._room.release()
            raise

    def _begun(self) -> psycopg.Connection[Any]:
        import psycopg

        while self._idle:
            conn = self._idle.pop()
            try:
                # The plain protocol takes all statements in one round trip.
                forget = _FORGET if conn in self._lent else ""
                conn.pgconn.exec_(f"{_BEGIN}{forget}{_DURABLE}".encode())
                if conn.pgconn.transaction_status == psycopg.pq.TransactionStatus.INTRANS:
                    return conn
            except psycopg.Error:
                pass  # it went stale while it lay idle; the next, or a new one, will do
            conn.close()
        # Not in autocommit: what a handler writes after a rollback of its own would be kept at once. Read-only, but for
        # what we begin: its own transaction then writes nothing.
        conn = psycopg.connect(self._url, connect_timeout=CONNECT_WAIT_S, client_encoding="utf8")
        conn.read_only = True
        conn.pgconn.exec_(f"{_BEGIN}{_DURABLE}".encode())
        return conn

    def take_back(self, conn: psycopg.Connection[Any], *, clean: bool, was_lent: bool) -> None:
        if clean and not conn.closed and conn.info.transaction_status == IDLE:
            if was_lent:
                from psycopg.rows import tuple_row

                conn.row_factory = tuple_row
                self._lent.add(conn)
            self._idle.append(conn)
        else:
            with suppress(Exception):  # it is thrown away
                conn.close()
        self._room.release()

    def close(self) -> None:
        while self._idle and self._pid == os.getpid():
            self._idle.pop().close()


class AsyncpgCheckout:
    was_lent = False

    def __init__(self, connections: AsyncpgConnections, conn: Any, transaction: Any, room: asyncio.Semaphore) -> None:
        self.tx = conn
        self.caller = AsyncpgCaller(conn)
        self._connections = connections
        self._transaction = transaction
        self._room = room

    async def commit(self) -> None:
        with left_to_itself(self.tx):
            await self._transaction.commit()

    async def rollback(self) -> None:
        await self._transaction.rollback()
        if self.was_lent:
            await self.tx.execute(_LET_GO)  # as above

    async def give_back(self, *, clean: bool) -> None:
        await self._connections.take_back(self.tx, self._room, clean=clean, was_lent=self.was_lent)


class AsyncpgConnections:
    """A pool of asyncpg connections for each event loop."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._pools: WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[list[tuple[Any, bool]], asyncio.Semaphore]] = (
            WeakKeyDictionary()
        )
        """What is idle, and whether a handler has had it since it was last made to forget."""

    async def check_out(self, wait_ms: int) -> AsyncpgCheckout:
        loop = asyncio.get_running_loop()
        if loop not in self._pools:
            self._pools[loop] = ([], asyncio.Semaphore(POOL_MAX))
        idle, room = self._pools[loop]
        try:
            await asyncio.wait_for(room.acquire(), wait_ms / 1000)
        except TimeoutError:
            raise StoreBusy(f"all {POOL_MAX} connections to PostgreSQL are in use") from None
        try:
            conn, transaction = await self._begun(idle)
        except BaseException:
            room.release()
            raise
        return AsyncpgCheckout(self, conn, transaction, room)

    async def _begun(self, idle: list[tuple[Any, bool]]) -> tuple[Any, Any]:
        import asyncpg

        while idle:
            conn, was_lent = idle.pop()
            transaction = conn.transaction(isolation="read_committed")
            try:
                if was_lent:
                    await conn.execute(_FORGET)
                await transaction.start()
                return conn, transaction
            except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
                conn.terminate()  # as above
        settings = {"synchronous_commit": "on"}
        try:
            conn = await asyncpg.connect(self._url, timeout=CONNECT_WAIT_S, server_settings=settings)
        except ValueError as error:  # it reads less than libpq does
            raise unread(self._url, error) from None
        transaction = conn.transaction(isolation="read_committed")
        await transaction.start()
        return conn, transaction

    async def take_back(self, conn: Any, room: asyncio.Semaphore, *, clean: bool, was_lent: bool) -> None:
        pool = self._pools.get(asyncio.get_running_loop())
        if clean and pool is not None and not conn.is_closed() and not conn.is_in_transaction():
            pool[0].append((conn, was_lent))
        else:
            conn.terminate()
        room.release()

    async def close(self) -> None:
        idle, _ = self._pools.pop(asyncio.get_running_loop(), ([], None))
        for conn, _ in idle:
            await conn.close()

    def abandon(self) -> None:
        """From sync code: cut the connections of every loop that may not run any more."""
        for idle, _ in list(self._pools.values()):
            for conn, _ in idle:
                with suppress(Exception):  # its loop is closed; the socket goes with it
                    conn.terminate()
        self._pools.clear()


def need_psycopg() -> None:
    """Say at once that psycopg is missing, and how to get it."""
    try:
        import psycopg  # noqa: F401
    except ImportError as error:
        raise MissingExtra("psycopg", "postgres") from error


def has_asyncpg() -> bool:
    try:
        import asyncpg  # noqa: F401
    except ImportError:
        return False
    return True
