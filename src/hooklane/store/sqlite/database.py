"""How is a SQLite file opened, kept safe and brought up to date?

The standard library's sqlite3 everywhere: a second SQLite library in one process drops the first one's file
locks, and acknowledged commits vanish. Each component (outbox, inbox) has its own numbered migrations in one file.
"""

from __future__ import annotations

import contextlib
import errno
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

from hooklane.errors import StoreBusy, StoreError, StoreFull, StoreRefused
from hooklane.model.database_url import shown
from hooklane.store.sql.migration_files import check_version, due
from hooklane.store.sql.queries import queries_of
from hooklane.store.sqlite.privacy import keep_private, make_private

BUSY_WAIT_MS = 5_000

_SQL = queries_of("hooklane.store.sqlite")


def path_of(url: str) -> str:
    """The file that a `sqlite:///…` URL names; `sqlite:////abs/path` is absolute, as everywhere else."""
    prefix = "sqlite:///"
    if not url.startswith(prefix) or len(url) == len(prefix):
        raise StoreRefused(f"a SQLite database is given as sqlite:///path/to/file.db, got {shown(url)!r}")
    path = url[len(prefix) :]
    if "?" in path:  # other programs read parameters there: a file cut short at it would be another file than was meant
        raise StoreRefused(f"a SQLite database has no parameters, and no ? in the name of its file, got {shown(url)!r}")
    if path == ":memory:":  # a database of each connection alone: what one commits, the others never see
        raise StoreRefused("sqlite:///:memory: keeps nothing: name a file, or give an inbox for tests memory://")
    return path


def connect(path: str, *, busy_wait_ms: int = BUSY_WAIT_MS) -> sqlite3.Connection:
    """A connection on which every write is durable at COMMIT, and every transaction is begun by hand."""
    try:
        make_private(path)
    except OSError as error:
        raise StoreRefused(f"cannot create the data folder {Path(path).parent}: {error.strerror}") from None
    try:
        conn = sqlite3.connect(
            path, timeout=busy_wait_ms / 1000, isolation_level=None, check_same_thread=False, cached_statements=256
        )
    except sqlite3.Error as error:
        raise StoreRefused(f"cannot open {path}: {error}") from None
    try:
        # NORMAL would lose acknowledged commits in a power cut: FULL syncs the log at every commit.
        conn.execute("PRAGMA journal_mode = WAL")
        conn.execute("PRAGMA synchronous = FULL")
        conn.execute("PRAGMA foreign_keys = ON")
        conn.execute("PRAGMA temp_store = MEMORY")
    except sqlite3.Error as error:
        conn.close()
        raise StoreRefused(_why_not_opened(path, error)) from None
    keep_private(path)
    return conn


CHECKED_BYTES_MAX = 64 * 1024 * 1024


def check(conn: sqlite3.Connection, path: str) -> None:
    """Refuse a damaged file rather than build on it; nothing is repaired or created anew in silence.

    A large file is not read to its end, or every start and every command on it would take as long as that: more than a
    second for 500 MB in memory. SQLite itself refuses one that was cut short; `hooklane doctor` reads all of it.
    """
    try:
        if Path(path).stat().st_size > CHECKED_BYTES_MAX:
            conn.execute("PRAGMA schema_version").fetchone()  # what reads the first page finds that the last is missing
            return
        found = [row[0] for row in conn.execute("PRAGMA quick_check(3)")]
    except sqlite3.DatabaseError as error:
        found = [str(error)]
    if found != ["ok"]:
        raise StoreRefused(
            f"{path} is damaged ({found[0]}): move it away and restore a backup, or try `sqlite3 {path} .recover`"
        )


def version_of(conn: sqlite3.Connection, component: str) -> int:
    """The schema version of *component* in this file; 0 when it has none."""
    if not conn.execute(_SQL["schema_table"]).fetchone():
        return 0
    row = conn.execute(_SQL["schema_version"], {"component": component}).fetchone()
    return row[0] if row else 0


def migrate(conn: sqlite3.Connection, component: str, migrations: Sequence[str], path: str) -> int:
    """Bring *component* up to date, or refuse a file of a newer hooklane."""
    with errors_named(path):
        if version_of(conn, component) == len(migrations):
            return len(migrations)  # as nearly always: a process that only wants to look needs no turn to write
    while True:
        with errors_named(path), writing(conn):
            conn.execute(_SQL["create_schema_table"])
            version = version_of(conn, component)
            check_version(version, component, len(migrations), path)
            if version == len(migrations):
                return version
            statements, version = due(version, migrations)
            for statement in statements:
                conn.execute(statement)
            conn.execute(_SQL["set_schema_version"], {"component": component, "version": version})


@contextlib.contextmanager
def writing(conn: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """A write transaction. IMMEDIATE: a deferred one that turns to writing fails at once instead of waiting."""
    conn.execute("BEGIN IMMEDIATE")
    try:
        yield conn
    except BaseException:
        if conn.in_transaction:
            conn.execute("ROLLBACK")
        raise
    conn.execute("COMMIT")


@contextlib.contextmanager
def errors_named(path: str) -> Iterator[None]:
    """Errors of SQLite as errors of ours: whose fault it is, and what is true now."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        raise named(error, path) from error


def named(error: sqlite3.DatabaseError, path: str) -> StoreError:
    """The error of ours that *error* is."""
    if isinstance(error, sqlite3.OperationalError):
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return StoreBusy(
                f"a transaction elsewhere that is still open holds the database: it has one writer at a time ({error})"
            )
        if code == sqlite3.SQLITE_FULL:
            return StoreFull(f"the disk of {path} is full")
        if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN):
            return StoreRefused(_why_not_opened(path, error))
    return StoreError(f"{path}: {error}")


def is_sync_failure(error: BaseException) -> bool:
    """Whether the disk refused an fsync or a write: what was written may be gone, so the process must not go on."""
    chain: BaseException | None = error
    while chain is not None:
        code = getattr(chain, "sqlite_errorcode", 0)
        if code in (sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_DIR_FSYNC):
            return True
        if isinstance(chain, OSError) and chain.errno == errno.EIO:
            return True
        chain = chain.__cause__
    return False


def _why_not_opened(path: str, error: sqlite3.Error) -> str:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_NOTADB:
        return f"{path} is not a SQLite database"
    if code == sqlite3.SQLITE_CORRUPT:
        return f"{path} is damaged ({error}): move it away and restore a backup"
    return f"cannot write {path}: {error}"
