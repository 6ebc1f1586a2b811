"""How is PostgreSQL reached, and what is true when it fails? A pool, transactions for flows, errors with a meaning."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

from hooklane.errors import HooklaneError, MissingExtra, StoreError, StoreFull, StoreRefused, StoreUnavailable
from hooklane.store.caller.flow import Flow, Rows, Statement, T, drive_async
from hooklane.store.caller.home import PostgresHome, identify_postgres
from hooklane.store.caller.placeholders import Style, bind
from hooklane.store.postgres.schema import check_version, migrate_once, version_of

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
READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL jit = off"


class Unknown(StoreError):
    """The connection was lost while the commit was under way: it may have happened. Repeating it is safe."""


class Database:
    """A pool of connections on which flows run, each in a transaction of its own."""

    def __init__(self, url: str, *, size: int = 8) -> None:
        self.url = re.sub(r"^postgres(ql)?(\+\w+)?://", "postgresql://", url)
        self._size = size
        self._pool: Any = None
        self._is_open = False
        self._standing: list[Any] = []
        """Connections that stay out of the pool: to lend one and take it back costs as much as a small statement."""
        self.is_pooled = False
        """Whether a pooler such as PgBouncer stands between: then nothing may outlive a transaction."""

    async def open(self) -> None:
        """Connect, or say in one line why not."""
        with opening(self.url):
            connection = await asyncpg.connect(self.url, timeout=CONNECT_WAIT_S, statement_cache_size=0)
            try:
                await connection.execute("BEGIN")
                pid, version, standby, encoding = await connection.fetchrow(
                    "SELECT pg_backend_pid(), current_setting('server_version_num')::int, pg_is_in_recovery(),"
                    " current_setting('server_encoding')"
                )
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
            self._pool = await asyncpg.create_pool(
                self.url,
                min_size=1,
                max_size=self._size,
                timeout=CONNECT_WAIT_S,
                command_timeout=COMMAND_WAIT_S,
                statement_cache_size=0 if self.is_pooled else 256,
                max_inactive_connection_lifetime=60.0,
                reset=_keep,
            )
            self._is_open = True

    async def close(self) -> None:
        if self._is_open:
            self._is_open = False
            while self._standing:
                await self._give_back(self._standing.pop())
            try:
                await asyncio.wait_for(self._pool.close(), CONNECT_WAIT_S)
            except TimeoutError:
                self._pool.terminate()

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

    async def home(self) -> PostgresHome:
        """Which database this is, to compare with a caller's."""
        return await self.read(identify_postgres)

    # --- running flows ---

    async def write(self, flow: Callable[[], Flow[T]]) -> T:
        """Run a flow and commit it durably; one that lost a race with another transaction runs again."""
        try:
            return await self.try_write(flow, lock_wait_ms=LOCK_WAIT_MS)
        except asyncpg.LockNotAvailableError as error:
            raise StoreUnavailable(f"PostgreSQL: {error}") from error
        except asyncpg.UniqueViolationError as error:
            raise StoreError(f"PostgreSQL: {error}") from error

    async def try_write(self, flow: Callable[[], Flow[T]], *, lock_wait_ms: int) -> T:
        """The same, but a held lock or a taken name comes back as the database's own error: the caller knows better."""
        for left in reversed(range(TRIES)):
            try:
                async with self.connection() as connection:
                    return await self._in(connection, flow, WRITE.format(lock_wait_ms=lock_wait_ms))
            except (asyncpg.SerializationError, asyncpg.DeadlockDetectedError) as error:
                if not left:
                    raise StoreUnavailable(f"PostgreSQL: {error}") from error
        raise AssertionError("unreachable")

    async def read(self, flow: Callable[[], Flow[T]]) -> T:
        """Run a flow that only reads, all of it on one snapshot."""
        try:
            async with self.connection() as connection:
                return await self._in(connection, flow, READ)
        except RACES as error:
            raise StoreUnavailable(f"PostgreSQL: {error}") from error

    async def once(self, statement: Statement) -> Rows:
        """One statement that is a transaction of its own: one round trip, where no pooler stands between.

        A race that it lost (`RACES`), or a taken name, comes back as the database's own error.
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
            with named(unknown=True):
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
                await connection.execute(command)

    async def _in(self, connection: Any, flow: Callable[[], Flow[T]], begin: str) -> T:
        async with transaction(connection, begin):
            return await drive_async(flow(), lambda statement: execute(connection, statement))

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Any]:
        """A connection of the pool; one whose state is not known is thrown away."""
        connection = await self._take()
        try:
            yield connection
        finally:
            await self._give_back(connection)

    def _pop_standing(self) -> Any:
        """One that stands ready and is alive, or None."""
        while self._standing:
            connection = self._standing.pop()
            with suppress(asyncpg.InterfaceError):  # it died, and the pool has taken it back already
                if not connection.is_closed():
                    return connection
        return None

    async def _take(self) -> Any:
        if not self._is_open:
            raise StoreUnavailable("the PostgreSQL store is not open")
        with named():
            return await self._pool.acquire(timeout=CONNECT_WAIT_S)

    async def _give_back(self, connection: Any) -> None:
        with suppress(asyncpg.InterfaceError):  # it died, and the pool has taken it back already
            if connection.is_in_transaction():
                connection.terminate()
            await self._pool.release(connection)


@asynccontextmanager
async def transaction(connection: Any, begin: str) -> AsyncIterator[None]:
    """A transaction of ours: committed at the end, undone when anything was raised, unknown when the commit failed."""
    with named():
        await connection.execute(begin)
    try:
        with named():
            yield
    except BaseException:
        with suppress(Exception):  # the connection is thrown away if it is still inside
            if not connection.is_closed():
                await asyncio.wait_for(connection.execute("ROLLBACK"), 5.0)
        raise
    with named(unknown=True):
        await connection.execute("COMMIT")


async def execute(connection: Any, statement: Statement) -> Rows:
    sql, values = bind(statement, Style.DOLLAR)
    rows: Rows = await connection.fetch(sql, *values)
    return rows


async def _settled(connection: Any) -> bool:
    """Set for single statements what others are told by their BEGIN, and let it plan each of them once.

    Planning takes a third as long as running it. Left to itself PostgreSQL may plan it every time, for lists whose
    length it knows, and not ask what that costs.
    """
    try:
        await connection.execute(
            "SET plan_cache_mode = force_generic_plan; SET default_transaction_isolation = 'read committed'"
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
"""Left as they are, for whoever knows what to do: lost a race, a lock is held, a unique name is taken, or a statement
of ours found that what it relies on is not so (and divided by zero)."""


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
    except (OSError, asyncpg.InterfaceError, asyncio.IncompleteReadError) as error:  # TimeoutError is an OSError
        raise _lost(error, unknown) from error


def _named(error: Any, unknown: bool) -> StoreError:
    state = str(error.sqlstate or "")
    if state == "53100":
        return StoreFull(f"the disk of PostgreSQL is full: {error}")
    if state.startswith(("08", "57P")):
        return _lost(error, unknown)
    if state.startswith(("53", "25006", "57014", "25P03")):
        return StoreUnavailable(f"PostgreSQL: {error}")
    if state.startswith(("28", "3D", "42501", "3F", "42P01")):
        return StoreRefused(f"PostgreSQL: {error}")
    return StoreError(f"PostgreSQL: {error}")


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
        raise StoreRefused(f"{_address(url)}: {error}") from error


def _address(url: str) -> str:
    return re.sub(r"//[^@/]*@", "//", url.partition("?")[0])
