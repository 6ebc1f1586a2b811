"""The write transactions of one process in one file: begun, committed, undone, whole or in part."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
from collections.abc import Sequence
from typing import Any
from weakref import WeakSet

from hooklane.errors import CommitRefused, StoreBusy, StoreError, TransactionAborted, TransactionMisused
from hooklane.store.caller.guard import CAUGHT, CLOSED, ENDED
from hooklane.store.sql.queries import Sql, Step
from hooklane.store.sqlite.database import errors_named
from hooklane.store.sqlite.inbox.fair_lock import FairLock
from hooklane.store.sqlite.inbox.guarded import BEGIN, COMMIT, LOOK, RELEASE, ROLLBACK, SAVE, UNDO, Guarded
from hooklane.store.sqlite.inbox.statements import perform

FORK_WAIT_S = 2.0

_LIVE: WeakSet[Transactions] = WeakSet()


class Transactions:
    """Connections to the file at *path*, one of them writing at a time."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._idle: list[Guarded] = []
        # SQLite's own waiting is a poll with naps; threads of one process queue up here instead.
        self._writing = FairLock(path)
        self._gate = threading.Lock()
        self._still = False
        self._readers = 0
        _LIVE.add(self)

    @property
    def is_busy(self) -> bool:
        """Whether one is open right now."""
        return self._writing.is_taken

    @property
    def is_wanted(self) -> bool:
        """Whether a thread waits for the one that is open."""
        return self._writing.is_wanted

    def begin(self, wait_ms: int) -> SqliteSession:
        """Begin a write transaction; `StoreBusy` when it is not our turn within *wait_ms*."""
        if not self._writing.acquire_at_once():
            asked = time.monotonic()
            self._writing.acquire(wait_ms / 1000)
            wait_ms = max(1, wait_ms - int((time.monotonic() - asked) * 1000))
        try:
            return SqliteSession(self, self._open(wait_ms))
        except BaseException:
            self._writing.release()
            raise

    def _open(self, wait_ms: int) -> Guarded:
        guarded = self._pop_idle()
        try:
            guarded.wait_at_most(wait_ms)
            guarded.conn.execute(BEGIN)
        except BaseException:
            guarded.conn.close()
            with errors_named(self.path):
                raise
        return guarded

    def _pop_idle(self) -> Guarded:
        try:
            return self._idle.pop()
        except IndexError:
            return Guarded(self.path)

    def read(self, steps: Sequence[Sql]) -> list[Any] | None:
        """The answers to *steps*, outside of any write transaction, so without a wait. None while a fork is near."""
        with self._gate:
            if self._still:
                return None
            self._readers += 1
        try:
            return self._read(steps)
        finally:
            with self._gate:
                self._readers -= 1

    def look(self, wait_ms: int) -> SqliteSession:
        """A transaction that only reads what was committed when it began; it waits for no writer, only for a fork."""
        with self._gate:
            is_still = self._still
            self._readers += not is_still
        if is_still:
            return self.begin(wait_ms)
        try:
            guarded = self._pop_idle()
            guarded.wait_at_most(wait_ms)
            with errors_named(self.path):
                guarded.conn.execute(LOOK)
        except BaseException:
            with self._gate:
                self._readers -= 1
            raise
        return LookSession(self, guarded)

    def end_look(self, guarded: Guarded) -> None:
        """The look on *guarded* is over."""
        try:
            self._end(guarded)
        finally:
            with self._gate:
                self._readers -= 1

    def _read(self, steps: Sequence[Sql]) -> list[Any]:
        guarded = self._pop_idle()
        try:
            answers = [perform(guarded.conn, step) for step in steps]
        except BaseException:
            guarded.conn.close()
            with errors_named(self.path):
                raise
        self._idle.append(guarded)
        return answers

    def end(self, guarded: Guarded) -> None:
        """The transaction on *guarded* is over; what is left of it is undone."""
        try:
            self._end(guarded)
        finally:
            self._writing.release()

    def _end(self, guarded: Guarded) -> None:
        conn = guarded.conn
        try:
            if conn.in_transaction:
                conn.execute(ROLLBACK)
            if guarded.is_marked:
                conn.close()
            else:
                self._idle.append(guarded)
        except sqlite3.Error:
            conn.close()

    def hold_still(self) -> None:
        """Begin nothing until `go_on`: in a child of fork, SQLite would wait for ever for who was at work in it."""
        with contextlib.suppress(StoreBusy):  # a handler takes that long: the child may have to be started again
            if not self._still and not self._writing.is_mine:
                self._writing.acquire(FORK_WAIT_S)
                with self._gate:
                    self._still = True
                deadline = time.monotonic() + FORK_WAIT_S
                while self._readers and time.monotonic() < deadline:  # polled: a fork is rare, looks are not
                    time.sleep(0.0002)

    def go_on(self) -> None:
        """The fork is over."""
        if self._still:
            with self._gate:
                self._still = False
            self._writing.release()

    def close(self) -> None:
        """Let go of the connections that no thread uses."""
        while self._idle:
            self._idle.pop().conn.close()


class SqliteSession:
    """One write transaction; what several write in it are parts, each but the first with a savepoint."""

    def __init__(self, transactions: Transactions, guarded: Guarded) -> None:
        self._transactions = transactions
        self._guarded = guarded
        self._spoilt = False  # a part could not be undone: nothing of it may be committed
        self._open = True

    @property
    def tx(self) -> sqlite3.Connection:
        return self._guarded.conn

    @property
    def is_whole(self) -> bool:
        return self._guarded.in_transaction and not self._spoilt

    @property
    def is_marked(self) -> bool:
        return self._guarded.is_marked

    def perform(self, step: Step) -> Any:
        try:
            return perform(self._guarded.conn, step)
        except sqlite3.Error:
            with errors_named(self._transactions.path):
                raise

    def handing_over(self) -> None:
        self._guarded.handed_over = True

    def taking_back(self, error: BaseException | None = None) -> None:
        guarded, conn = self._guarded, self._guarded.conn
        refused, guarded.handed_over, guarded.refused = guarded.refused, False, False
        conn.row_factory = None
        conn.text_factory = str
        if refused:
            raise TransactionMisused(ENDED) from error
        if guarded.is_closed:
            raise TransactionMisused(CLOSED) from error
        if error is None and not conn.in_transaction:  # some errors of SQLite undo all of a transaction
            raise TransactionAborted(CAUGHT)

    def save(self) -> None:
        self._execute(SAVE)

    def keep(self) -> None:
        self._execute(RELEASE)

    def undo(self) -> None:
        self._guarded.handed_over = False
        if self._guarded.in_transaction:  # or all of it is undone
            self._spoilt = True
            self._execute(UNDO)
            self._execute(RELEASE)
            self._spoilt = False

    def commit(self) -> None:
        try:
            self._execute(COMMIT)
        except StoreError as error:
            if isinstance(error.__cause__, sqlite3.IntegrityError):
                raise CommitRefused(str(error)) from error.__cause__
            raise

    def rollback(self) -> None:
        self._guarded.handed_over = False
        if self._guarded.in_transaction:
            self._execute(ROLLBACK)

    def close(self) -> None:
        if self._open:
            self._open = False
            self._guarded.handed_over = False
            self._transactions.end(self._guarded)

    def _execute(self, sql: str) -> None:
        try:
            self._guarded.conn.execute(sql)
        except sqlite3.Error:
            with errors_named(self._transactions.path):
                raise


class LookSession(SqliteSession):
    """A transaction that only reads: no turn is waited for, and none is given back."""

    def close(self) -> None:
        if self._open:
            self._open = False
            self._transactions.end_look(self._guarded)


def _before_fork() -> None:
    for each in list(_LIVE):
        each.hold_still()


def _after_fork() -> None:
    for each in list(_LIVE):
        each.go_on()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork)
