"""The inbox in SQLite on the application's own connections (SQLAlchemy, Django, a factory)."""

from __future__ import annotations

from hooklane.store.caller import Dialect
from hooklane.store.inbox import Capabilities
from hooklane.store.sql.borrowed import BorrowedInbox, Verbs
from hooklane.store.sqlite.inbox.statements import QUERIES
from hooklane.store.sqlite.inbox.verbs import SqliteVerbs

VERBS = Verbs(
    dialect=Dialect.SQLITE,
    queries=QUERIES,
    migrations="hooklane.store.sqlite.inbox.migrations",
    # How durable a commit is, is up to the application's own settings (WAL, synchronous=FULL are ours).
    capabilities=Capabilities(name="sqlite", atomic=True, durable=True, survives_failover=False, outbox=True),
)


class BorrowedSqliteInbox(SqliteVerbs, BorrowedInbox):
    """The tables in a file that the application opens itself."""
