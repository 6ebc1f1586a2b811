"""Who writes? One thread with one connection: all jobs that queued while the last commit ran share the next one."""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import sqlite3
import sys
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from hooklane.errors import StoreError
from hooklane.store.sqlite.database import errors_named, is_sync_failure

T = TypeVar("T")
GROUP_MAX = 64


class _Job(Generic[T]):
    __slots__ = ("error", "future", "result", "work")

    def __init__(self, work: Callable[[sqlite3.Connection], T], future: asyncio.Future[T]) -> None:
        self.work = work
        self.future = future
        self.result: T
        self.error: BaseException | None = None

    def resolve(self) -> None:
        if self.future.done():
            return  # the caller went away; the write stands all the same
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)


def exit_at_once(error: BaseException) -> None:
    """After a failed fsync nobody knows what is on the disk: only a restart, which reads it, can tell."""
    print(
        f"hooklane: the disk failed to keep a commit ({error}); exiting so that nothing is built on it", file=sys.stderr
    )
    sys.stderr.flush()
    os._exit(70)


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
        self._path = path
        self._undone = undone
        self._fatal = fatal
        self._jobs: queue.SimpleQueue[_Job[Any] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="hooklane writer", daemon=True)
        self._thread.start()

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run *work* inside the next group commit; returns when that is durable."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._jobs.put(_Job(work, future))
        return await future

    def close(self) -> None:
        """Finish what was queued, then end."""
        self._jobs.put(None)
        self._thread.join()
        self._conn.close()

    def _run(self) -> None:
        while True:
            job = self._jobs.get()
            if job is None:
                return
            group, ended = [job], False
            while len(group) < GROUP_MAX:
                try:
                    job = self._jobs.get_nowait()
                except queue.Empty:
                    break
                if job is None:
                    ended = True
                    break
                group.append(job)
            self._commit(group)
            for loop in {job.future.get_loop() for job in group}:
                mine = [job for job in group if job.future.get_loop() is loop]
                with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                    loop.call_soon_threadsafe(_resolve, mine)
            if ended:
                return

    def _commit(self, group: list[_Job[Any]]) -> None:
        conn = self._conn
        try:
            with errors_named(self._path):
                conn.execute("BEGIN IMMEDIATE")
                try:
                    for job in group:
                        job.result = job.work(conn)
                except Exception as error:
                    if is_sync_failure(error):
                        raise
                    self._undo()
                    conn.execute("BEGIN IMMEDIATE")
                    for job in group:
                        self._do(job)
                conn.execute("COMMIT")
        except Exception as error:
            if is_sync_failure(error):
                self._fatal(error)
            self._undo()
            named = error if isinstance(error, StoreError) else StoreError(f"{self._path}: {error}")
            for job in group:
                job.error = named

    def _undo(self) -> None:
        if self._conn.in_transaction:
            self._conn.execute("ROLLBACK")
        self._undone()

    def _do(self, job: _Job[Any]) -> None:
        """One job's work in a savepoint of its own, so that its failure is not its neighbours'.

        Only where a job has failed: nearly always none does, and the group goes without.
        """
        conn = self._conn
        conn.execute("SAVEPOINT job")
        try:
            job.result = job.work(conn)
        except sqlite3.Error as error:
            if not conn.in_transaction:
                raise  # SQLite gave up the whole transaction (disk full, I/O error)
            conn.execute("ROLLBACK TO job")
            self._undone()
            try:
                with errors_named(self._path):
                    raise error
            except StoreError as named:
                job.error = named
        except Exception as error:
            conn.execute("ROLLBACK TO job")
            self._undone()
            job.error = error
        conn.execute("RELEASE job")


def _resolve(jobs: list[_Job[Any]]) -> None:
    for job in jobs:
        job.resolve()
