"""How do many jobs share one commit? All in one transaction; one that fails is undone without its neighbours."""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from hooklane.batching.line import Ticket
from hooklane.errors import StoreError, StoreGone
from hooklane.store.database_files import DatabaseFiles
from hooklane.store.sqlite.database import is_sync_failure, named

T = TypeVar("T")
GROUP_MAX = 64


Work = Callable[[sqlite3.Connection], T]
"""Something to be written, in the transaction that is open."""
Job = Ticket[Work[Any], Any]
"""Some work, and then what came of it: a result, or an error."""


def exit_at_once(error: BaseException) -> None:
    """After a failed fsync it is not known what is on the disk: only a restart, which reads it, can tell."""
    print(
        f"hooklane: the disk failed to keep a commit ({error}); exiting so that nothing is built on it", file=sys.stderr
    )
    sys.stderr.flush()
    os._exit(70)


class Group:
    """Commits jobs on one connection."""

    def __init__(
        self,
        conn: sqlite3.Connection,
        path: str,
        *,
        undone: Callable[[], None] = lambda: None,
        fatal: Callable[[BaseException], None] = exit_at_once,
    ) -> None:
        """*undone* is told whenever work was rolled back: what was remembered of it never happened."""
        self._conn = conn
        self._path = path
        self._undone = undone
        self._fatal = fatal
        self._files = DatabaseFiles(path)

    def commit(self, group: Sequence[Job]) -> None:
        """Do them all and make them durable; each then has its result or its error."""
        conn = self._conn
        try:
            conn.execute("BEGIN IMMEDIATE")
            try:
                for job in group:
                    job.succeed(job.item(conn))
            except Exception as error:
                if is_sync_failure(error):
                    raise
                self._undo()
                conn.execute("BEGIN IMMEDIATE")
                for job in group:
                    self._do(job)
            conn.execute("COMMIT")
            if (lost := self._files.lost()) is not None:
                raise StoreGone(f"{lost} was removed or replaced while it was open: restore a backup")
        except Exception as error:
            if is_sync_failure(error):
                self._fatal(error)
            self._undo()
            told = self._named(error)
            for job in group:
                job.fail(told)

    def _undo(self) -> None:
        if self._conn.in_transaction:
            self._conn.execute("ROLLBACK")
        self._undone()

    def _named(self, error: Exception) -> StoreError:
        if isinstance(error, StoreError):
            return error
        told = (
            named(error, self._path)
            if isinstance(error, sqlite3.DatabaseError)
            else StoreError(f"{self._path}: {error}")
        )
        told.__cause__ = error
        return told

    def _do(self, job: Job) -> None:
        """One job's work in a savepoint of its own, so that its failure is not its neighbours'.

        Only where a job has failed: nearly always none does, and the group goes without.
        """
        conn = self._conn
        conn.execute("SAVEPOINT job")
        try:
            job.succeed(job.item(conn))
        except sqlite3.Error as error:
            if not conn.in_transaction:
                raise  # SQLite gave up the whole transaction (disk full, I/O error)
            conn.execute("ROLLBACK TO job")
            self._undone()
            job.fail(self._named(error))
        except Exception as error:
            conn.execute("ROLLBACK TO job")
            self._undone()
            job.fail(error)
        conn.execute("RELEASE job")
