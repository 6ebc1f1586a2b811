"""How is PostgreSQL asked and written? Flows of statements, each in a transaction of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Generator, Sequence
from contextlib import asynccontextmanager
from math import ceil
from typing import Any

from hooklane.errors import MissingExtra, SearchTooLong, StoreError, StoreUnavailable, StoreUnconfirmed
from hooklane.store.budget import NARROW, SEARCH_S_MAX
from hooklane.store.caller.database_identity import PostgresIdentity, identify_postgres
from hooklane.store.caller.flow import Flow, Rows, Statement, T, drive_async
from hooklane.store.postgres.commits import left_to_itself
from hooklane.store.postgres.driver_errors import RACES, named
from hooklane.store.postgres.pool import Pool
from hooklane.store.postgres.schema import migrate_once, version_of
from hooklane.store.postgres.transactions import (
    ASK,
    COMMAND_WAIT_S,
    LOCK_WAIT_MS,
    LOOK,
    MIGRATE,
    MIGRATION_WAIT_S,
    READ,
    WRITE,
    execute,
    transaction,
)
from hooklane.store.sql.migration_files import check_version
from hooklane.store.sql.queries import queries_of

try:
    import asyncpg
except ImportError as missing:
    raise MissingExtra("asyncpg", "postgres") from missing

TRIES = 4
WAITING_MAX = 16
_SQL = queries_of("hooklane.store.postgres")

Flows = Generator[Any, Rows, T]
"""A flow of statements, or of steps that `statement_of` knows."""


class Database:
    """A PostgreSQL on which flows run."""

    def __init__(
        self, url: str, *, size: int = 8, statement_of: Callable[[Any], Statement | None] = lambda step: step
    ) -> None:
        """*statement_of* says what is run for a step of a flow; None where there is nothing to do."""
        self.pool = Pool(url, size)
        self._statement_of = statement_of
        self._has_left_commits = False
        """Whether a COMMIT was left to itself lately: each holds a connection until the standby is back."""

    async def open(self) -> None:
        """Connect, or say in one line why not."""
        await self.pool.open()

    async def close(self) -> None:
        await self.pool.close()

    async def migrate(self, component: str, migrations: Sequence[str]) -> None:
        """Bring *component* up to date; a database that is needs no rights beyond reading."""
        async with self.pool.alone() as connection:
            version = await self._in(connection, lambda: version_of(component), READ)
            check_version(version, component, len(migrations))
            while version < len(migrations):
                await self._in(connection, lambda: migrate_once(component, migrations), MIGRATE, MIGRATION_WAIT_S)
                version = await self._in(connection, lambda: version_of(component), READ)

    async def identity(self) -> PostgresIdentity:
        """Which database this is, to compare with a caller's."""
        return await self.read(identify_postgres)

    # --- running flows ---

    async def write(self, flow: Callable[[], Flows[T]]) -> T:
        """Run a flow and commit it durably; one that lost a race with another transaction runs again."""
        try:
            return await self.try_write(flow, lock_wait_ms=LOCK_WAIT_MS)
        except asyncpg.LockNotAvailableError as error:
            raise StoreUnavailable(f"PostgreSQL: {error}") from error
        except asyncpg.UniqueViolationError as error:
            raise StoreError(f"PostgreSQL: {error}") from error

    async def try_write(self, flow: Callable[[], Flows[T]], *, lock_wait_ms: int) -> T:
        """The same, but a held lock or a taken name comes back as the database's own error: the caller knows better."""
        for left in reversed(range(TRIES)):
            try:
                async with self.pool.connection() as connection, self._committing(connection):
                    return await self._in(connection, flow, WRITE.format(lock_wait_ms=lock_wait_ms))
            except (asyncpg.SerializationError, asyncpg.DeadlockDetectedError) as error:
                if not left:
                    raise StoreUnavailable(f"PostgreSQL: {error}") from error
        raise AssertionError("unreachable")

    async def read(self, flow: Callable[[], Flows[T]]) -> T:
        """Run a flow that only reads, all of it on one snapshot."""
        return await self._read(flow, READ)

    async def look(self, flow: Callable[[], Flows[T]]) -> T:
        """Run a flow that reads what is acted upon: it returns once the synchronous standby, if any, has it too."""
        return await self._read(flow, LOOK)

    async def _read(self, flow: Callable[[], Flows[T]], begin: str) -> T:
        try:
            async with self.pool.connection() as connection:
                return await self._in(connection, flow, begin)
        except RACES as error:
            raise StoreUnavailable(f"PostgreSQL: {error}") from error

    async def ask(self, flow: Callable[[], Flows[T]], *, s_max: float = SEARCH_S_MAX) -> T:
        """Run a flow that reads for people: on connections that never publish or deliver, for *s_max* seconds at most.

        A person who leaves cancels it, and with it the statement that PostgreSQL is at.
        """
        begin = ASK.format(s_max=ceil(s_max))
        try:
            async with asyncio.timeout(s_max), self.pool.connection(reads=True) as connection:
                return await self._in(connection, flow, begin)
        except RACES as error:
            raise StoreUnavailable(f"PostgreSQL: {error}") from error
        except TimeoutError:
            raise SearchTooLong(NARROW) from None
        except StoreUnavailable as error:
            if isinstance(error.__cause__, asyncpg.QueryCanceledError):
                raise SearchTooLong(NARROW) from None
            raise

    async def once(self, statement: Statement, *, run: int | None = None) -> Rows:
        """One statement that is a transaction of its own: one round trip, where no pooler stands between.

        A race that it lost (`RACES`), or a taken name, comes back as the database's own error. With *run* it is done
        in that run of the server, or not at all (`OtherRun`).
        """
        if self.pool.is_pooled:
            async with self.pool.connection() as connection:
                return await self._in(connection, lambda: _single(statement), WRITE.format(lock_wait_ms=LOCK_WAIT_MS))
        async with self.pool.standing(run) as connection, self._committing(connection):
            with named(unknown=True), left_to_itself(connection):
                return await execute(connection, statement)

    async def maintain(self, command: str) -> None:
        """One command that must not be in a transaction, such as VACUUM."""
        async with self.pool.connection() as connection:
            with named():
                await connection.execute(command, timeout=COMMAND_WAIT_S)

    async def _in(self, connection: Any, flow: Callable[[], Flows[T]], begin: str, wait_s: float = COMMAND_WAIT_S) -> T:
        async def perform(step: Any) -> Rows:
            statement = step if step.__class__ is Statement else self._statement_of(step)
            return () if statement is None else await execute(connection, statement, wait_s)

        async with transaction(connection, begin):
            return await drive_async(flow(), perform)

    @asynccontextmanager
    async def _committing(self, connection: Any) -> AsyncIterator[None]:
        """Where commits are left to themselves because the standby is away, do not leave ever more of them."""
        if self._has_left_commits:
            with named():
                waiting = await connection.fetchval(_SQL["waiting_commits"], timeout=COMMAND_WAIT_S)
            if waiting >= WAITING_MAX:
                raise StoreUnavailable(f"{waiting} commits wait for the synchronous standby of PostgreSQL already")
            self._has_left_commits = waiting > 0
        try:
            yield
        except StoreUnconfirmed:
            self._has_left_commits = True
            raise


def _single(statement: Statement) -> Flow[Rows]:
    return (yield statement)
