"""Where application code puts events on PostgreSQL: into its own transaction, or by a connection of this process."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from hooklane.batching.locks import open_in_forks
from hooklane.errors import HooklaneError, MissingExtra, StoreError
from hooklane.store.caller.database_identity import PostgresIdentity, identify_postgres
from hooklane.store.caller.flow import Flow, Statement, T, drive
from hooklane.store.caller.psycopg3 import PsycopgCaller
from hooklane.store.endpoint_cache import EndpointCache
from hooklane.store.outbox import Draft, PublishReport, StoreOptions
from hooklane.store.postgres.address import check_address
from hooklane.store.postgres.commits import ENDED, commit_psycopg
from hooklane.store.postgres.outbox.publish import publish
from hooklane.store.postgres.outbox.statements import SQL
from hooklane.store.postgres.schema import migrate_once, version_of
from hooklane.store.sql.faults import named
from hooklane.store.sql.migration_files import check_version, migrations_of
from hooklane.store.sql.queries import queries_of

try:
    import psycopg
except ImportError as missing:
    raise MissingExtra("psycopg", "postgres") from missing

COMPONENT = "outbox"
MIGRATIONS = "hooklane.store.postgres.outbox.migrations"
IDLE_MAX = 4
CONNECT_WAIT_S = 10
PREPARE_AFTER = 5
_BACKEND = Statement(SQL["backend_pid"])
_IS_ALIVE = queries_of("hooklane.store.postgres")["is_alive"].encode()


class PostgresPublishPort:
    """Publishes into the tables of a PostgreSQL, beside the processes that deliver from it. Any thread may use it."""

    def __init__(self, url: str, options: StoreOptions) -> None:
        self._url = url.replace("postgresql+psycopg", "postgresql").replace("postgres+psycopg", "postgresql")
        check_address(self._url)
        self._options = options
        self._cache = EndpointCache()
        self._idle: list[psycopg.Connection[Any]] = []
        self._pid = os.getpid()
        self._lock = open_in_forks(threading.Lock())
        self._prepare_after: int | None = None
        """How often a statement comes before the server keeps it; never, where each transaction may meet another."""
        migrations = migrations_of(MIGRATIONS)
        with self._connection() as connection:
            # A pooler such as PgBouncer answers with a process number of its own; the server behind it says another.
            if self._in(connection, _backend) == connection.info.backend_pid:
                connection.prepare_threshold = self._prepare_after = PREPARE_AFTER
            version = self._in(connection, lambda: version_of(COMPONENT))
            check_version(version, COMPONENT, len(migrations))
            while version < len(migrations) and self._in(connection, lambda: migrate_once(COMPONENT, migrations)):
                pass
            self._identity = self._in(connection, identify_postgres)

    @property
    def identity(self) -> PostgresIdentity:
        return self._identity

    def flow(self, drafts: Sequence[Draft]) -> Flow[PublishReport]:
        return publish(drafts, self._options.placer, self._cache)

    def run(self, flow: Flow[T]) -> T:
        with self._connection() as connection:
            with _named():
                connection.execute("SET LOCAL synchronous_commit = 'on'")
                connection.execute(f"SET LOCAL lock_timeout = '{self._options.busy_wait_ms}ms'")
            return self._in(connection, lambda: flow)

    def close(self) -> None:
        """Let go of the connections that no thread uses just now."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _in(self, connection: psycopg.Connection[Any], flow: Callable[[], Flow[T]]) -> T:
        with _named():
            try:
                result = drive(flow(), PsycopgCaller(connection).execute)
            except BaseException:
                with suppress(psycopg.Error):
                    connection.rollback()
                raise
        with _named(unknown=True):
            commit_psycopg(connection)
        return result

    @contextmanager
    def _connection(self) -> Iterator[psycopg.Connection[Any]]:
        """One that no other thread uses; connections are not shared with the children of a fork."""
        with self._lock:
            if self._pid != os.getpid():
                self._pid, self._idle = os.getpid(), []
            found = self._idle.pop() if self._idle else None
        if found is None or not _is_alive(found):
            with _named():
                found = psycopg.connect(
                    self._url,
                    connect_timeout=CONNECT_WAIT_S,
                    client_encoding="utf8",
                    prepare_threshold=self._prepare_after,
                )
                # Whatever the database's default is: under a stricter one two publishers of a key fail each other.
                found.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        try:
            yield found
        except BaseException:
            found.close()
            raise
        with self._lock:
            if len(self._idle) < IDLE_MAX:
                self._idle.append(found)
                return
        found.close()


def _backend() -> Flow[int]:
    ((pid,),) = yield _BACKEND
    return int(pid)


def _is_alive(connection: psycopg.Connection[Any]) -> bool:
    """A connection that lay idle may have been closed by the other side: asked before anything depends on it."""
    try:
        connection.execute(_IS_ALIVE)
    except psycopg.Error:
        connection.close()
        return False
    return True


@contextmanager
def _named(*, unknown: bool = False) -> Iterator[None]:
    """Errors of the driver as errors of ours. When *unknown*, a lost connection leaves the outcome open."""
    try:
        yield
    except HooklaneError:
        raise
    except psycopg.Error as error:
        if unknown and (not error.sqlstate or error.sqlstate.startswith(ENDED)):
            raise StoreError(f"the connection to PostgreSQL was lost during a commit: {error}") from error
        raise named(error, "PostgreSQL") from error
