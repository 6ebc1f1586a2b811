"""Which database is this? A publish joins the caller's commit only where the outbox's own tables are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hooklane.errors import UsageError
from hooklane.store.caller.flow import Dialect, Flow, Statement
from hooklane.store.caller.statements import STATEMENTS

_DATABASE_LIST = Statement("PRAGMA database_list")


@dataclass(frozen=True, slots=True)
class SqliteIdentity:
    """The file that holds our tables."""

    path: Path

    @property
    def dialect(self) -> Dialect:
        return Dialect.SQLITE

    def verify(self) -> Flow[SqliteIdentity]:
        """Refuse a connection whose main database is another file."""
        rows = yield _DATABASE_LIST
        main = next((str(file or "") for _, name, file in rows if name == "main"), "")
        if not main or not self.path.exists() or not Path(main).samefile(self.path):
            where = main or "an in-memory database"
            raise UsageError(f"tx is a connection to another database: expected {self.path}, found {where}")
        return self


@dataclass(frozen=True, slots=True)
class PostgresIdentity:
    """The PostgreSQL database that holds our tables: its name and number, and the cluster it is in."""

    database: str
    oid: int
    system: int

    @property
    def dialect(self) -> Dialect:
        return Dialect.POSTGRESQL

    def verify(self) -> Flow[PostgresIdentity]:
        """Refuse a connection to another database, also one of the same name on another server."""
        other = yield from identify_postgres()
        if other != self:
            where = "on another server" if other.system != self.system else "on the same server"
            raise UsageError(
                f"tx is a connection to another database: expected {self.database!r}, found {other.database!r} {where}"
            )
        return self


DatabaseIdentity = SqliteIdentity | PostgresIdentity
"""Where our tables are."""


def identify_postgres() -> Flow[PostgresIdentity]:
    """The identity of the database at the other end; the same over every route (a pooler, a socket, an alias)."""
    ((database, oid, system),) = yield STATEMENTS["identify_postgres"]
    return PostgresIdentity(str(database), int(oid), int(system))
