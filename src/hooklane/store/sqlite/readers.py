"""Who reads for people? A few threads with connections of their own, none of which ever delivers.

A question ends when it is answered, when its time is over, or when the person who asked has left: SQLite asks between
two steps of a statement whether to go on.
"""

from __future__ import annotations

import asyncio
import os
import queue
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from hooklane.errors import SearchTooLong, StoreUnavailable
from hooklane.store.budget import NARROW, SEARCH_S_MAX
from hooklane.store.sqlite import database

T = TypeVar("T")
READERS = 3
NICENESS = 10
STEPS = 3_000
"""Steps of SQLite's machine from one look at the clock to the next: a good half of a millisecond."""


def _step_back() -> None:
    """Where all cores are busy, this thread waits, and not the one that delivers nor the process that writes.

    Not by more: while it holds the interpreter, the loop waits for it.
    """
    if sys.platform == "linux":  # elsewhere it would be the whole process
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), os.getpriority(os.PRIO_PROCESS, 0) + NICENESS)


def _let_others_run() -> None:
    """Give up the core to a thread that waits for it.

    Being nice says how much of a core a thread gets, not how soon it gives the core up: each hop of an event on its way
    (server, writer process, server) would wait for the end of a slice of the scheduler.
    """
    if sys.platform != "win32":
        os.sched_yield()


class _Question:
    """One question under way: when it must end, and whether the person who asked is still there."""

    __slots__ = ("ends_at", "was_left")

    def __init__(self, ends_at: float) -> None:
        self.ends_at = ends_at
        self.was_left = False

    def is_over(self) -> bool:
        """Asked by SQLite every so many steps: the moment in which a thread that delivers gets this core."""
        _let_others_run()
        return self.was_left or time.monotonic() > self.ends_at


class Readers:
    """Answers questions about one file beside its writer and its deliveries."""

    def __init__(self, path: str, busy_wait_ms: int) -> None:
        self._path = path
        self._is_closed = False
        self._threads = ThreadPoolExecutor(READERS, "hooklane reader for people", initializer=_step_back)
        self._idle: queue.SimpleQueue[sqlite3.Connection] = queue.SimpleQueue()
        for _ in range(READERS):
            conn = database.connect(path, busy_wait_ms=busy_wait_ms)
            conn.execute("PRAGMA query_only = ON")
            self._idle.put(conn)

    async def ask(self, ask: Callable[[sqlite3.Connection], T], *, s_max: float | None = SEARCH_S_MAX) -> T:
        """What *ask* finds; no *s_max* for what must be read to its end, as a chore in the background does."""
        if self._is_closed:
            raise StoreUnavailable(f"{self._path} is being closed: nothing more is read")
        question = _Question(float("inf") if s_max is None else time.monotonic() + s_max)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, self._answer, question, ask)
        except asyncio.CancelledError:
            question.was_left = True
            raise

    def close(self) -> None:
        self._is_closed = True
        self._threads.shutdown(cancel_futures=True)
        while not self._idle.empty():
            self._idle.get().close()

    def _answer(self, question: _Question, ask: Callable[[sqlite3.Connection], T]) -> T:
        if question.is_over():
            raise SearchTooLong(NARROW)
        with database.errors_named(self._path), self._connection() as conn:
            conn.set_progress_handler(question.is_over, STEPS)
            try:
                return ask(conn)
            except sqlite3.OperationalError as error:
                if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_INTERRUPT:
                    raise SearchTooLong(NARROW) from None
                raise
            finally:
                conn.set_progress_handler(None, 0)

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        conn = self._idle.get()
        try:
            yield conn
        finally:
            if conn.in_transaction:
                conn.execute("ROLLBACK")
            self._idle.put(conn)
