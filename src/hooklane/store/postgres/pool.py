"""Connections to one PostgreSQL: a pool to publish and deliver, one for what people ask, and a few that stand ready."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from hooklane.errors import MissingExtra, StoreRefused, StoreUnavailable
from hooklane.store.postgres.driver_errors import named, opening
from hooklane.store.postgres.encoding import check_encoding
from hooklane.store.postgres.runs import OtherRun, Runs, Session
from hooklane.store.postgres.transactions import COMMAND_WAIT_S
from hooklane.store.sql.queries import queries_of

try:
    import asyncpg
except ImportError as missing:
    raise MissingExtra("asyncpg", "postgres") from missing

VERSION_MIN = 140_000
CONNECT_WAIT_S = 10.0
STANDING_MAX = 3
READERS = 3
"""Connections for what people ask, beside those that publish and deliver."""
_SQL = queries_of("hooklane.store.postgres")


class Pool:
    """Connections to one PostgreSQL, taken and given back; one whose state is not known is thrown away."""

    def __init__(self, url: str, size: int) -> None:
        self.url = re.sub(r"^postgres(ql)?(\+\w+)?://", "postgresql://", url)
        self._size = size
        self._pool: Any = None
        self._readers: Any = None
        self._is_open = False
        self._standing: list[Any] = []
        """Connections that stay out of the pool: to check one out and back in costs as much as a small statement."""
        self.is_pooled = False
        """Whether a pooler such as PgBouncer stands between: then nothing may outlive a transaction."""
        self.runs = Runs()

    async def open(self) -> None:
        """Connect, or say in one line why not."""
        async with self.alone() as connection:
            await connection.execute("BEGIN")
            pid, version, standby, encoding = await connection.fetchrow(_SQL["server"])
            await connection.execute("COMMIT")
            # A pooler answers with a process number of its own; the server behind it says another.
            self.is_pooled = pid != connection.get_server_pid()
            if version < VERSION_MIN:
                raise StoreRefused(f"PostgreSQL {version // 10_000} is too old: hooklane needs 14 or newer")
            check_encoding(encoding)
            if standby:
                raise StoreRefused("this PostgreSQL is a standby, which cannot be written to: give the primary's URL")
        with opening(self.url):
            self._pool = await self._connections(1, self._size)
            self._readers = await self._connections(0, READERS)
            self._is_open = True

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[Any]:
        """A connection outside of the pool, for what is done once at the start."""
        with opening(self.url):
            connection = await asyncpg.connect(self.url, timeout=CONNECT_WAIT_S, statement_cache_size=0)
            try:
                yield connection
            finally:
                await connection.close(timeout=CONNECT_WAIT_S)

    async def _connections(self, least: int, most: int) -> Any:
        return await asyncpg.create_pool(
            self.url,
            min_size=least,
            max_size=most,
            timeout=CONNECT_WAIT_S,
            connection_class=Session,
            init=None if self.is_pooled else self.runs.greet,
            statement_cache_size=0 if self.is_pooled else 256,
            max_inactive_connection_lifetime=60.0,
            reset=_keep,
        )

    async def close(self) -> None:
        if self._is_open:
            self._is_open = False
            while self._standing:
                await self._give_back(self._standing.pop(), self._pool)
            for pool in (self._readers, self._pool):
                try:
                    await asyncio.wait_for(pool.close(), CONNECT_WAIT_S)
                except TimeoutError:
                    pool.terminate()

    @asynccontextmanager
    async def connection(self, *, reads: bool = False) -> AsyncIterator[Any]:
        """A connection of the pool; with *reads* one of those that never publish or deliver."""
        pool = self._readers if reads else self._pool
        connection = await self._take(pool)
        try:
            yield connection
        finally:
            await self._give_back(connection, pool)

    @asynccontextmanager
    async def standing(self, run: int | None) -> AsyncIterator[Any]:
        """A connection that stands ready for single statements, and does so again when nothing was raised.

        With *run* it leads to that run of the server, or there is none (`OtherRun`).
        """
        connection = self._pop_standing()
        is_new = connection is None
        if is_new:
            connection = await self._take(self._pool)
        stays = False
        try:
            if run is not None and connection.run != run:
                raise OtherRun(f"PostgreSQL was restarted or replaced: this is its run {connection.run}, not {run}")
            yield connection
            stays = self._is_open and len(self._standing) < STANDING_MAX and (not is_new or await _settled(connection))
        finally:
            if stays:
                self._standing.append(connection)
            else:
                await self._give_back(connection, self._pool)

    def _pop_standing(self) -> Any:
        """One that stands ready and is alive, or None."""
        while self._standing:
            connection = self._standing.pop()
            with suppress(asyncpg.InterfaceError):  # it died, and the pool has taken it back already
                if not connection.is_closed() and self.runs.is_current(connection):
                    return connection
                connection.terminate()
        return None

    async def _take(self, pool: Any) -> Any:
        if not self._is_open:
            raise StoreUnavailable("the PostgreSQL store is not open")
        with named():
            connection = await pool.acquire(timeout=CONNECT_WAIT_S)
            while not self.runs.is_current(connection):  # the server was replaced, which this one does not know yet
                connection.terminate()
                await self._give_back(connection, pool)
                connection = await pool.acquire(timeout=CONNECT_WAIT_S)
            return connection

    async def _give_back(self, connection: Any, pool: Any) -> None:
        # It died, and the pool has taken it back already; or what was cancelled on it did not end: it is thrown away.
        with suppress(asyncpg.InterfaceError, OSError):
            if connection.is_in_transaction():
                connection.terminate()
            await pool.release(connection)


async def _settled(connection: Any) -> bool:
    """Prepare a connection for single statements: the settings that a BEGIN would carry, and one plan per statement.

    Planning takes a third as long as running it. Left to itself PostgreSQL may plan it every time, for lists whose
    length it knows, and not ask what that costs.
    """
    try:
        await connection.execute(
            "SET plan_cache_mode = force_generic_plan; SET default_transaction_isolation = 'read committed'",
            timeout=COMMAND_WAIT_S,
        )
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
        return False
    return True


async def _keep(connection: Any) -> None:
    """asyncpg would reset the session at each release, a round trip; ours leave nothing behind."""
