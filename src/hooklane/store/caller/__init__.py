"""A caller's own connection, in whose transaction the outbox publishes and the inbox completes.

`adapt(tx)` gives a `SyncCaller` or an `AsyncCaller`; its `run(flow, home)` refuses what cannot be atomic, checks that
*tx* is on the database of our tables, and then runs the flow. Errors of the database come through unchanged. We never
commit and never roll back; durability is that of the caller's commit.
"""

from hooklane.store.caller.adapt import SUPPORTED, adapt
from hooklane.store.caller.base import AsyncCaller, SyncCaller, sqlstate
from hooklane.store.caller.flow import Dialect, Flow, Rows, Statement, drive, drive_async
from hooklane.store.caller.home import Home, PostgresHome, SqliteHome, identify_postgres
from hooklane.store.caller.locate import locate, locate_async
from hooklane.store.caller.marker import confirm, mark, undoable

__all__ = [
    "SUPPORTED",
    "AsyncCaller",
    "Dialect",
    "Flow",
    "Home",
    "PostgresHome",
    "Rows",
    "SqliteHome",
    "Statement",
    "SyncCaller",
    "adapt",
    "confirm",
    "drive",
    "drive_async",
    "identify_postgres",
    "locate",
    "locate_async",
    "mark",
    "sqlstate",
    "undoable",
]
