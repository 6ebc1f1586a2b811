"""A caller's own connection, in whose transaction the outbox publishes and the inbox completes.

`adapt(tx)` gives a `SyncCaller` or an `AsyncCaller`; its `run(flow, identity)` refuses what cannot be atomic, checks
that *tx* is on the database of our tables, and then runs the flow. Errors of the database come through unchanged. We
never commit and never roll back; durability is that of the caller's commit.
"""

from hooklane.store.caller.adapt import adapt
from hooklane.store.caller.base import AsyncCaller, SyncCaller
from hooklane.store.caller.causes import causes, meanings
from hooklane.store.caller.database_identity import (
    DatabaseIdentity,
    PostgresIdentity,
    SqliteIdentity,
    identify_postgres,
)
from hooklane.store.caller.flow import Dialect, Flow, Rows, Statement, drive, drive_async
from hooklane.store.caller.guard import Guard, guard_of
from hooklane.store.caller.marker import undoable

__all__ = [
    "AsyncCaller",
    "DatabaseIdentity",
    "Dialect",
    "Flow",
    "Guard",
    "PostgresIdentity",
    "Rows",
    "SqliteIdentity",
    "Statement",
    "SyncCaller",
    "adapt",
    "causes",
    "drive",
    "drive_async",
    "guard_of",
    "identify_postgres",
    "meanings",
    "undoable",
]
