"""The write transactions of one process in one file: begun, shared, committed, undone."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Sequence
from typing import Any
from weakref import WeakSet

from hooklane.errors import StoreBusy, StoreError, TransactionMisused
from hooklane.store.sql.queries import Sql, Step
from hooklane.store.sqlite.database import errors_named
from hooklane.store.sqlite.inbox.guarded import BEGIN, COMMIT, RELEASE, ROLLBACK, SAVE, UNDO, Guarded
from hooklane.store.sqlite.inbox.pen import Batch, Pen
from hooklane.store.sqlite.inbox.statements import perform

SHARED_MAX = 16
SLOW_S = 0.05
ALONE_S = 1.0
FORK_WAIT_S = 2.0

_LIVE: WeakSet[Transactions] = WeakSet()


class Transactions:
    """Connections to the file at *path*, one of them writing at a time."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._idle: list[Guarded] = []
        # SQLite's own waiting is a poll with naps; threads of one process queue up here instead.
        self._pen = Pen(path, self.settle)
        self._alone_until = 0.0
        self._still = False
        _LIVE.add(self)

    @property
    def is_busy(self) -> bool:
        """Whether one is open right now."""
        return self._pen.is_taken

    @property
    def is_wanted(self) -> bool:
        """Whether somebody waits for the one that is open."""
        return bool(self._pen.waiters)

    def begin(self, wait_ms: int) -> SqliteSession:
        """One more, or a part of the one that is open; `StoreBusy` when it is not our turn within *wait_ms*."""
        if not self._pen.take_at_once():
            asked = time.monotonic()
            batch = self._pen.take(wait_ms / 1000)
            if batch is not None:
                return self._join(batch)
            wait_ms = max(1, wait_ms - int((time.monotonic() - asked) * 1000))
        try:
            batch = Batch(self._open(wait_ms))
        except BaseException:
            self._pen.put_down()
            raise
        return SqliteSession(self, batch, shared=False)

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

    def _join(self, batch: Batch) -> SqliteSession:
        """Go on in the transaction of others who wait for its commit; what fails here must not undo their work."""
        try:
            batch.guarded.conn.execute(SAVE)
        except BaseException:
            self.settle(batch)
            with errors_named(self.path):
                raise
        return SqliteSession(self, batch, shared=True)

    def _pop_idle(self) -> Guarded:
        try:
            return self._idle.pop()
        except IndexError:
            return Guarded(self.path)

    def read(self, steps: Sequence[Sql]) -> list[Any]:
        """The answers to *steps*, outside of any write transaction: nobody is waited for."""
        guarded = self._pop_idle()
        try:
            answers = [perform(guarded.conn, step) for step in steps]
        except BaseException:
            guarded.conn.close()
            with errors_named(self.path):
                raise
        self._idle.append(guarded)
        return answers

    def note_pace(self, began: float) -> None:
        """Handlers that are slow now will be in a moment, and nobody's answer should wait for theirs."""
        now = time.monotonic()
        if now - began > SLOW_S:
            self._alone_until = now + ALONE_S

    def share(self, batch: Batch) -> bool:
        """Leave the commit of *batch* to who waits for the pen; False: nobody does, or it may take too long."""
        if batch.waiting + 1 >= SHARED_MAX or time.monotonic() < self._alone_until:
            return False
        batch.expect(1)
        if self._pen.hand_on(batch):
            return True
        batch.expect(-1)
        return False

    def commit(self, batch: Batch) -> None:
        """Commit for all who have a part in *batch*."""
        try:
            try:
                batch.guarded.conn.execute(COMMIT)
            except sqlite3.Error:
                with errors_named(self.path):
                    raise
        except StoreError as error:
            if not batch.waiting:
                raise
            # One of them may be to blame (a deferred constraint): all try again, each for itself.
            self._alone_until = time.monotonic() + ALONE_S
            again = StoreBusy(f"{self.path}: a commit that several transactions shared failed: {error}")
            batch.end(again)
            raise again from error
        batch.end()

    def settle(self, batch: Batch | None, *, spoilt: bool = False) -> None:
        """Who had the pen has nothing (more) to write, but others may wait for the commit."""
        if batch is None:
            self._pen.put_down()
            return
        conn = batch.guarded.conn
        if batch.waiting and conn.in_transaction and not spoilt:
            # At once: handlers that fail one after the other must not keep them waiting.
            with contextlib.suppress(StoreError):  # they are told
                self.commit(batch)
        if batch.waiting:
            batch.end(StoreBusy(f"{self.path}: another transaction that shared the commit undid both"))
        try:
            if conn.in_transaction:
                conn.execute(ROLLBACK)
            self._idle.append(batch.guarded)
        except sqlite3.Error:
            conn.close()
        finally:
            self._pen.put_down()

    def hold_still(self) -> None:
        """Begin nothing until `go_on`: in a child of fork, SQLite would wait for ever for one that was open."""
        with contextlib.suppress(StoreBusy):  # a handler takes that long: the child may have to be started again
            while not self._still and not self._pen.is_mine:
                batch = self._pen.take(FORK_WAIT_S)
                if batch is None:
                    self._still = True
                else:
                    self.settle(batch)

    def go_on(self) -> None:
        """The fork is over."""
        if self._still:
            self._still = False
            self._pen.put_down()

    def close(self) -> None:
        """Let go of the connections that nobody uses."""
        while self._idle:
            self._idle.pop().conn.close()


class SqliteSession:
    """One write transaction, or a part of one that is *shared* with others who wait for its commit."""

    def __init__(self, transactions: Transactions, batch: Batch, *, shared: bool) -> None:
        self._transactions = transactions
        self._batch = batch
        self._guarded = batch.guarded
        self._shared = shared
        self._began = time.monotonic()
        self._done = False  # our part was committed, left to others to commit, or undone
        self._open = True

    @property
    def tx(self) -> sqlite3.Connection:
        return self._guarded.conn

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
        if refused or not conn.in_transaction:
            raise TransactionMisused(
                "the handler has tried to commit or roll back tx itself: hooklane does it, when it returns"
            ) from error

    def commit(self, *, alone: bool = False) -> None:
        """Durable when it returns; with *alone* at once, else perhaps together with who comes next."""
        self._transactions.note_pace(self._began)
        if not alone and self._guarded.conn.in_transaction:
            if self._shared:
                self._release()
            if self._transactions.is_wanted and self._transactions.share(self._batch):
                self._done, self._open = True, False  # whoever has the pen now commits, or hands on
                self._batch.wait()
                return
        self._transactions.commit(self._batch)
        self._done = True

    def rollback(self) -> None:
        if self._done:
            return
        self._transactions.note_pace(self._began)
        self._guarded.handed_over = False
        if self._guarded.conn.in_transaction:
            with errors_named(self._transactions.path):
                self._guarded.conn.execute(UNDO if self._shared else ROLLBACK)
        self._release()
        self._done = True

    def _release(self) -> None:
        """Our part of a shared transaction, as it is now, is part of the whole."""
        if self._shared and self._guarded.conn.in_transaction:
            with errors_named(self._transactions.path):
                self._guarded.conn.execute(RELEASE)
            self._shared = False

    def close(self) -> None:
        if not self._open:
            return
        try:
            if not self._done:
                self.rollback()
        finally:
            self._open = False
            # What could not be undone must not be committed, not even for the sake of those who wait.
            self._transactions.settle(self._batch, spoilt=not self._done)


def _before_fork() -> None:
    for each in list(_LIVE):
        each.hold_still()


def _after_fork() -> None:
    for each in list(_LIVE):
        each.go_on()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork)
