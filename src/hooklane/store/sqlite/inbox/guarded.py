"""The SQLite connection that a handler is given: the handler writes on it, and only hooklane can commit."""

from __future__ import annotations

import sqlite3

from hooklane.store.sqlite.database import connect

# Spelled unlike anything a handler would write, so that a handler's own COMMIT never finds ours in the statement cache
# of the connection: it has to be prepared, and the guard below refuses it.
BEGIN = "BEGIN IMMEDIATE /* hooklane */"
LOOK = "BEGIN DEFERRED /* hooklane */"
COMMIT = "COMMIT /* hooklane */"
ROLLBACK = "ROLLBACK /* hooklane */"
SAVE = "SAVEPOINT hooklane /* ours */"
RELEASE = "RELEASE hooklane /* ours */"
UNDO = "ROLLBACK TO hooklane /* ours */"

_TEMPORARY = (
    sqlite3.SQLITE_CREATE_TEMP_TABLE,
    sqlite3.SQLITE_CREATE_TEMP_VIEW,
    sqlite3.SQLITE_CREATE_TEMP_TRIGGER,
    sqlite3.SQLITE_CREATE_TEMP_INDEX,
)
_ASKING = (
    *("table_info", "table_xinfo", "table_list", "index_info", "index_xinfo", "index_list", "foreign_key_list"),
    *("foreign_key_check", "integrity_check", "quick_check", "defer_foreign_keys"),
)
"""What PRAGMA may be given a value for without a setting that outlives the transaction."""


class Guarded:
    """A connection on which a handler cannot end the transaction that it was given."""

    def __init__(self, path: str) -> None:
        self.conn = connect(path)
        # An event dirties four pages, so the log is copied back every 500 commits. More would not pay: a log that still
        # grows costs each commit 80 us more, because the file system has to write down its new size as well.
        self.conn.execute("PRAGMA wal_autocheckpoint = 2000")
        self.handed_over = False
        self.refused = False
        self.is_marked = False
        """Whether a handler has left on it what the next must not find: a temporary table, a setting."""
        self._wait_ms = -1
        self.conn.set_authorizer(self._authorize)

    @property
    def is_closed(self) -> bool:
        """Whether a handler has closed it, which undoes what was written."""
        try:
            self.conn.total_changes  # noqa: B018  there is nothing else to ask
        except sqlite3.ProgrammingError:
            return True
        return False

    @property
    def in_transaction(self) -> bool:
        return not self.is_closed and self.conn.in_transaction

    def wait_at_most(self, wait_ms: int) -> None:
        """Wait so long for writers of other processes."""
        wait_ms = -(-wait_ms // 100) * 100  # so coarse that it is seldom another one
        if wait_ms != self._wait_ms:
            self.conn.execute(f"PRAGMA busy_timeout = {wait_ms}")
            self._wait_ms = wait_ms

    def _authorize(self, action: int, what: str | None, name: str | None, *_: str | None) -> int:
        if self.handed_over and (
            action == sqlite3.SQLITE_TRANSACTION or (action == sqlite3.SQLITE_SAVEPOINT and name == "hooklane")
        ):
            self.refused = True
            return sqlite3.SQLITE_DENY
        if self.handed_over and (
            action in _TEMPORARY or (action == sqlite3.SQLITE_PRAGMA and name is not None and what not in _ASKING)
        ):
            self.is_marked = True
        return sqlite3.SQLITE_OK
