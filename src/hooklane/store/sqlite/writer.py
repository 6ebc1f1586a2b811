"""Who writes? One thread with one connection: all jobs that queued while the last commit ran share the next one."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import sqlite3
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from hooklane.store.sqlite.group import GROUP_MAX, Group, Job, exit_at_once

T = TypeVar("T")


class _Promised(Job[T]):
    """A job for which somebody waits."""

    __slots__ = ("future",)

    def __init__(self, work: Callable[[sqlite3.Connection], T], future: asyncio.Future[T]) -> None:
        super().__init__(work)
        self.future = future

    def resolve(self) -> None:
        if self.future.done():
            return  # the caller went away; the write stands all the same
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)


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
        self._jobs: queue.SimpleQueue[_Promised[Any] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="hooklane writer", daemon=True)
        self._thread.start()

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run *work* inside the next group commit; returns when that is durable."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._jobs.put(_Promised(work, future))
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
            self._group.commit(group)
            for loop in {job.future.get_loop() for job in group}:
                mine = [job for job in group if job.future.get_loop() is loop]
                with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                    loop.call_soon_threadsafe(_resolve, mine)
            if ended:
                return


def _resolve(jobs: list[_Promised[Any]]) -> None:
    for job in jobs:
        job.resolve()
