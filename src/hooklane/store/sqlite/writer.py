"""The writer of a SQLite file: one thread, one connection; jobs that queued during a commit share the next one."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any, TypeVar

from hooklane.batching.thread_requests import Asked
from hooklane.batching.threads import LeadLine
from hooklane.errors import StoreUnavailable
from hooklane.store.sqlite.group import GROUP_MAX, Group, Work, exit_at_once

T = TypeVar("T")
_Job = Asked[Work[Any], Any]


class Writer:
    """The single writer of a database file in this process."""

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
        self._group = Group(conn, path, undone=undone, fatal=fatal)
        self._fatal = fatal
        self._path = path
        self._line: LeadLine[_Job] = LeadLine(self._commit, name="hooklane-writer", most=GROUP_MAX)
        self._is_ending = False

    async def run(self, work: Work[T]) -> T:
        """Run *work* inside the next group commit; returns when that is durable. Cancelled, the write stands."""
        if self._is_ending:
            raise StoreUnavailable(f"{self._path} is being closed: nothing more is written")
        job: Asked[Work[T], T] = Asked(work)
        await self._line.served(job)
        return job.ticket.value()

    def end(self) -> None:
        """Take no more work. To be called in the event loop, before `close`: no write then comes after the closing."""
        self._is_ending = True

    def close(self) -> None:
        """Finish what was queued, then close the connection."""
        self.end()
        self._line.close(wait=True)
        self._conn.close()

    def _commit(self, first: _Job, _: _Job | None) -> None:
        jobs = self._line.batch(first)
        try:
            self._group.commit([job.ticket for job in jobs])
        except BaseException as error:
            self._fatal(error)  # each of these writes would wait for ever
            raise
        for job in jobs:
            job.is_over = True
        self._line.tell(jobs, None)
