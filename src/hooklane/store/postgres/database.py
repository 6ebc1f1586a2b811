"""How is PostgreSQL reached, and what is true when it fails? A pool, transactions for flows, errors with a meaning."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from math import ceil
from typing import Any
from urllib.parse import urlsplit

from hooklane.errors import (
    HooklaneError,
    MissingExtra,
    SearchTooLong,
    StoreError,
    StoreRefused,
    StoreUnavailable,
    StoreUnconfirmed,
    TransactionAborted,
)
from hooklane.model.database_url import shown
from hooklane.store.budget import NARROW, SEARCH_S_MAX
from hooklane.store.caller.database_identity import PostgresIdentity, identify_postgres
from hooklane.store.caller.flow import Flow, Rows, Statement, T, drive_async
from hooklane.store.caller.placeholders import Style, bind
from hooklane.store.postgres import commits
from hooklane.store.postgres.commits import left_to_itself
from hooklane.store.postgres.runs import OtherRun, Runs, Session
from hooklane.store.postgres.schema import check_version, migrate_once, version_of
from hooklane.store.sql import faults
from hooklane.store.sql.queries import queries_of

try:
    import asyncpg
except ImportError as missing:
    raise MissingExtra("asyncpg", "postgres") from missing

VERSION_MIN = 140_000
ENCODINGS = ("UTF8", "SQL_ASCII")
"""The second means that PostgreSQL does not look at the bytes; ours are always UTF-8."""
CONNECT_WAIT_S = 10.0
COMMAND_WAIT_S = 30.0
STANDING_MAX = 3
READERS = 3
"""Connections for what people ask, beside those that publish and deliver."""
TRIES = 4
RACES = (asyncpg.SerializationError, asyncpg.DeadlockDetectedError, asyncpg.LockNotAvailableError)
"""What any statement may be answered, even one that only reads: the database may be set to a stricter isolation, or to
a limit on waiting for locks."""
LOCK_WAIT_MS = 5_000

# What our sessions acknowledge is on the disk, whatever the server's or the role's default; remote_apply is stronger.
# A session of ours that stops in the middle of a transaction must not keep its row locks for ever. The isolation is the
# one for which our statements are written: where the default is stricter, publishers of one lane would fail by turns.
WRITE = (
    "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL synchronous_commit = 'on';"
    " SET LOCAL lock_timeout = '{lock_wait_ms}ms'; SET LOCAL idle_in_transaction_session_timeout = '15s'"
)
# What people ask takes one core of the database at most, and ends by itself, also where we are not there to end it.
ASK = (
    "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL jit = off; SET LOCAL statement_timeout = '{s_max}s';"
    " SET LOCAL max_parallel_workers_per_gather = 0"
)
READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL jit = off"
LOOK = "BEGIN ISOLATION LEVEL REPEATABLE READ; SET LOCAL jit = off; SET LOCAL synchronous_commit = 'on'"
WAITING_MAX = 16
_SQL = queries_of("hooklane.store.postgres")


Flows = Generator[Any, Rows, T]
"""A flow of statements, or of steps that `statement_of` knows."""


class Unknown(StoreError):
    """The connection was lost while the commit was under way: it may have happened. Repeating it is safe."""


class Database:
    """A pool of connections on which flows run, each in a transaction of its own."""

    def __init__(
        self, url: str, *, size: int = 8, statement_of: Callable[[Any], Statement | None] = lambda step: step
    ) -> None:
        """*statement_of* says what is run for a step of a flow; None where there is nothing to do."""
        self.url = re.sub(r"^postgres(ql)?(\+\w+)?://", "postgresql://", url)
        self._size = size
        self._statement_of = statement_of
        self._pool: Any = None
        self._readers: Any = None
        self._is_open = False
        self._standing: list[Any] = []
        """Connections that stay out of the pool: to check one out and back in costs as much as a small statement."""
        self.is_pooled = False
        """Whether a pooler such as PgBouncer stands between: then nothing may outlive a transaction."""
        self.runs = Runs()
        self._has_left_commits = False
        """Whether a COMMIT was left to itself lately: each holds a connection until the standby is back."""

    async def open(self) -> None:
        """Connect, or say in one line why not."""
        with opening(self.url):
            connection = await asyncpg.connect(self.url, timeout=CONNECT_WAIT_S, statement_cache_size=0)
            try:
                await connection.execute("BEGIN")
                pid, version, standby, encoding = await connection.fetchrow(_SQL["server"])
                await connection.execute("COMMIT")
                # A pooler answers with a process number of its own; the server behind it says another.
                self.is_pooled = pid != connection.get_server_pid()
            finally:
                await connection.close(timeout=CONNECT_WAIT_S)
            if version < VERSION_MIN:
                raise StoreRefused(f"PostgreSQL {version // 10_000} is too old: hooklane needs 14 or newer")
            if encoding not in ENCODINGS:
                # One key that it cannot hold would refuse all that share a commit with it.
                raise StoreRefused(
                    f"the encoding of this database is {encoding}, which cannot hold every text: hooklane needs one"
                    " made with  CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0"
                )
            if standby:
                raise StoreRefused("this PostgreSQL is a standby, which cannot be written to: give the primary's URL")
            self._pool = await self._connections(1, self._size)
            self._readers = await self._connections(0, READERS)
            self._is_open = True

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
                await self._give_back(self._standing.pop())
            for pool in (self._readers, self._pool):
                try:
                    await asyncio.wait_for(pool.close(), CONNECT_WAIT_S)
                except TimeoutError:
                    pool.terminate()

    async def migrate(self, component: str, migrations: Sequence[str]) -> None:
        """Bring *component* up to date; a database that is needs no rights beyond reading."""
        with opening(self.url):
            connection = await asyncpg.connect(self.url, timeout=CONNECT_WAIT_S, statement_cache_size=0)
            try:
                version = await self._in(connection, lambda: version_of(component), READ)
                check_version(version, component, len(migrations))
                while version < len(migrations):
                    await self._in(connection, lambda: migrate_once(component, migrations), "BEGIN")
                    version = await self._in(connection, lambda: version_of(component), READ)
            finally:
                await connection.close(timeout=CONNECT_WAIT_S)

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
                async with self.connection() as connection, self._committing(connection):
                    return await self._in(connection, flow, WRITE.format(lock_wait_ms=lock_wait_ms))
            except (asyncpg.SerializationError, asyncpg.DeadlockDetectedError) as error:
                if not left:
                    raise StoreUnavailable(f"PostgreSQL: {error}") from error
        raise AssertionError("unreachable")

    async def read(self, flow: Callable[[], Flows[T]]) -> T:
        """Run a flow that only reads, all of it on one snapshot."""
        try:
            async with self.connection() as connection:
                return await self._in(connection, flow, READ)
        except RACES as error:
            raise StoreUnavailable(f"PostgreSQL: {error}") from error

    async def look(self, flow: Callable[[], Flows[T]]) -> T:
        """The same for what is acted upon: it comes back once the synchronous standby, if there is one, has it too."""
        try:
            async with self.connection() as connection:
                return await self._in(connection, flow, LOOK)
        except RACES as error:
            raise StoreUnavailable(f"PostgreSQL: {error}") from error

    async def ask(self, flow: Callable[[], Flows[T]], *, s_max: float = SEARCH_S_MAX) -> T:
        """The same for what people ask: on connections that never publish or deliver, and not for longer than *s_max*.

        A person who leaves cancels it, and with it the statement that PostgreSQL is at.
        """
        begin = ASK.format(s_max=ceil(s_max))
        try:
            async with asyncio.timeout(s_max), self.connection(self._readers) as connection:
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
        if self.is_pooled:
            async with self.connection() as connection:
                return await self._in(connection, lambda: _single(statement), WRITE.format(lock_wait_ms=LOCK_WAIT_MS))
        connection = self._pop_standing()
        is_new = connection is None
        if is_new:
            connection = await self._take()
        stays = False
        try:
            if run is not None and connection.run != run:
                raise OtherRun(f"PostgreSQL was restarted or replaced: this is its run {connection.run}, not {run}")
            async with self._committing(connection):
                with named(unknown=True), left_to_itself(connection):
                    rows = await execute(connection, statement)
            stays = self._is_open and len(self._standing) < STANDING_MAX and (not is_new or await _settled(connection))
            return rows
        finally:
            if stays:
                self._standing.append(connection)
            else:
                await self._give_back(connection)

    async def maintain(self, command: str) -> None:
        """One command that must not be in a transaction, such as VACUUM."""
        async with self.connection() as connection:
            with named():
                await connection.execute(command, timeout=COMMAND_WAIT_S)

    async def _in(self, connection: Any, flow: Callable[[], Flows[T]], begin: str) -> T:
        async def perform(step: Any) -> Rows:
            statement = step if step.__class__ is Statement else self._statement_of(step)
            return () if statement is None else await execute(connection, statement, COMMAND_WAIT_S)

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

    @asynccontextmanager
    async def connection(self, pool: Any = None) -> AsyncIterator[Any]:
        """A connection of the pool; one whose state is not known is thrown away."""
        connection = await self._take(pool)
        try:
            yield connection
        finally:
            await self._give_back(connection, pool)

    def _pop_standing(self) -> Any:
        """One that stands ready and is alive, or None."""
        while self._standing:
            connection = self._standing.pop()
            with suppress(asyncpg.InterfaceError):  # it died, and the pool has taken it back already
                if not connection.is_closed() and self.runs.is_current(connection):
                    return connection
                connection.terminate()
        return None

    async def _take(self, pool: Any = None) -> Any:
        if not self._is_open:
            raise StoreUnavailable("the PostgreSQL store is not open")
        with named():
            pool = pool or self._pool
            connection = await pool.acquire(timeout=CONNECT_WAIT_S)
            while not self.runs.is_current(connection):  # the server was replaced, which this one does not know yet
                connection.terminate()
                await self._give_back(connection, pool)
                connection = await pool.acquire(timeout=CONNECT_WAIT_S)
            return connection

    async def _give_back(self, connection: Any, pool: Any = None) -> None:
        # It died, and the pool has taken it back already; or what was cancelled on it did not end: it is thrown away.
        with suppress(asyncpg.InterfaceError, OSError):
            if connection.is_in_transaction():
                connection.terminate()
            await (pool or self._pool).release(connection)


@asynccontextmanager
async def transaction(connection: Any, begin: str) -> AsyncIterator[None]:
    """A transaction of ours: committed at the end, undone when anything was raised, unknown when the commit failed."""
    with named():
        await connection.execute(begin, timeout=COMMAND_WAIT_S)
    try:
        with named():
            yield
    except BaseException:
        with suppress(Exception):  # the connection is thrown away if it is still inside
            if not connection.is_closed():
                await asyncio.wait_for(connection.execute("ROLLBACK"), 5.0)
        raise
    with named(unknown=True), left_to_itself(connection):
        await connection.execute("COMMIT" if "READ ONLY" in begin else commits.COMMIT)


async def execute(connection: Any, statement: Statement, wait_s: float | None = None) -> Rows:
    sql, values = bind(statement, Style.DOLLAR)
    rows: Rows = await connection.fetch(sql, *values, timeout=wait_s)
    return rows


async def _settled(connection: Any) -> bool:
    """Set for single statements what others are told by their BEGIN, and let it plan each of them once.

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


def _single(statement: Statement) -> Flow[Rows]:
    return (yield statement)


async def _keep(connection: Any) -> None:
    """asyncpg would reset the session at each release, a round trip; ours leave nothing behind."""


# --- what an error means ---

_RACES = ("40001", "40P01", "55P03", "23505", "22012")
"""Left as they are, for the caller, which knows what to do: lost a race, a lock is held, a unique name is taken, or a
statement of ours found that what it relies on is not so (and divided by zero)."""


_LOST = (OSError, asyncpg.InterfaceError, asyncpg.InternalClientError, asyncio.IncompleteReadError)
"""A TimeoutError is an OSError; the third is what asyncpg says on a session that the server ended between two
statements, before it has seen the end itself."""


@contextmanager
def named(*, unknown: bool = False) -> Iterator[None]:
    """Errors of the driver as errors of ours. When *unknown*, a lost connection leaves the outcome open."""
    try:
        yield
    except HooklaneError:
        raise
    except asyncpg.PostgresError as error:
        if error.sqlstate in _RACES:
            raise
        raise _named(error, unknown) from error
    except _LOST as error:
        raise _lost(error, unknown) from error


def _named(error: Any, unknown: bool) -> StoreError | TransactionAborted:
    if unknown and str(error.sqlstate or "").startswith(commits.ENDED):
        return _lost(error, unknown)
    return faults.named(error, "PostgreSQL")


def _lost(error: BaseException, unknown: bool) -> StoreError:
    words = str(error) or type(error).__name__
    if unknown:
        return Unknown(f"the connection to PostgreSQL was lost during a commit: {words}")
    return StoreUnavailable(f"PostgreSQL cannot be reached: {words}")


@contextmanager
def opening(url: str) -> Iterator[None]:
    """What goes wrong at the start is told in one line with the address, never the password."""
    try:
        with named():
            yield
    except StoreError as error:
        raise type(error)(f"{_address(url)}: {error}") from error
    except asyncpg.LockNotAvailableError as error:
        raise StoreUnavailable(
            f"{_address(url)}: another process is migrating it, or a transaction that is still open (a backup?) holds a"
            " table that must be changed: nothing was, try again when it has ended"
        ) from error
    except ValueError as error:
        raise StoreRefused(f"{_address(url)}: {_why_misread(url) or error}") from None


def _address(url: str) -> str:
    return shown(url).partition("?")[0]


def _why_misread(url: str) -> str | None:
    """What is wrong with the URL itself. The library's words would quote what it takes for a port: a password."""
    try:
        urlsplit(url).port  # noqa: B018 - it is read when asked for
    except ValueError:
        return "this URL cannot be read: in a password, write / as %2F, @ as %40, : as %3A, # as %23"
    return None
