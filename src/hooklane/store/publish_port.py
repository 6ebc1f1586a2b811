"""Where application code puts events: as a flow for its own transaction, or in a commit of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from hooklane.errors import UsageError, needing
from hooklane.model.database_url import shown
from hooklane.store.caller.database_identity import DatabaseIdentity, SqliteIdentity
from hooklane.store.caller.flow import Flow, T, drive
from hooklane.store.outbox import Draft, PublishReport, StoreOptions


class PublishPort(Protocol):
    """The publishing side of a store, for processes that do not run it."""

    @property
    def identity(self) -> DatabaseIdentity:
        """The database in which a caller's transaction must be."""

    def flow(self, drafts: Sequence[Draft]) -> Flow[PublishReport]:
        """All drafts in the caller's transaction, stamped in order."""

    def run(self, flow: Flow[T]) -> T:
        """Run a flow in a transaction of its own; when it raises, nothing was written."""

    def close(self) -> None:
        """Let go of the connections that are idle just now; it may be used again."""


def publish_port(url: str, options: StoreOptions) -> PublishPort:
    """The publish port of the store behind *url*; the tables are made when they are missing."""
    given: object = url
    if not isinstance(given, str):
        raise UsageError(f"events are kept at sqlite:///path/to/file.db or postgresql://…, got {given!r}")
    scheme = url.partition("://")[0].lower()  # what else is wrong with it, the driver says
    if scheme == "sqlite":
        return SqlitePublishPort(url, options)
    if scheme.startswith("postgres"):
        with needing("postgres"):
            from hooklane.store.postgres.outbox.publish_port import PostgresPublishPort
        return PostgresPublishPort(url, options)
    raise UsageError(f"events cannot be kept at {shown(url)!r}: give sqlite:///path/to/file.db or postgresql://…")


class SqlitePublishPort:
    """Publishes into a SQLite file, beside the process that delivers from it."""

    def __init__(self, url: str, options: StoreOptions) -> None:
        from hooklane.store.sql.migration_files import migrations_of
        from hooklane.store.sqlite import database
        from hooklane.store.sqlite.outbox.store import COMPONENT, MIGRATIONS

        self._path = database.path_of(url)
        self._options = options
        conn = database.connect(self._path, busy_wait_ms=options.busy_wait_ms)
        try:
            database.migrate(conn, COMPONENT, migrations_of(MIGRATIONS), self._path)
        finally:
            conn.close()

    @property
    def identity(self) -> DatabaseIdentity:
        return SqliteIdentity(Path(self._path))

    def flow(self, drafts: Sequence[Draft]) -> Flow[PublishReport]:
        from hooklane.store.sqlite.outbox.publish import publish, singly

        return singly(publish(drafts, self._options.placer))

    def run(self, flow: Flow[T]) -> T:
        from hooklane.store.caller.sqlite import execute
        from hooklane.store.sqlite import database

        conn = database.connect(self._path, busy_wait_ms=self._options.busy_wait_ms)
        try:
            with database.errors_named(self._path), database.writing(conn):
                return drive(flow, lambda statement: execute(conn, statement))
        finally:
            conn.close()

    def close(self) -> None:
        """Nothing is kept open between two publishes."""
