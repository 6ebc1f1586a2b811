"""Who may write? One transaction of this process at a time, in order of arrival.

Whoever has done its part while others wait leaves the transaction open to the next of them, and waits for the commit
that holds both: several handlers share one sync of the disk, and each is answered after it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from hooklane.errors import StoreBusy, StoreError, StoreUnavailable
from hooklane.store.sqlite.inbox.guarded import Guarded

COMMIT_WAIT_S = 60.0


class Batch:
    """An open transaction, and those who have done their part in it and wait for its commit."""

    def __init__(self, guarded: Guarded) -> None:
        self.guarded = guarded
        self.waiting = 0
        self._over: threading.Event | None = None  # made when somebody waits, which is seldom
        self._error: StoreError | None = None

    def expect(self, more: int) -> None:
        """So many more wait for the commit; only who holds the pen says so."""
        self.waiting += more
        if self._over is None:
            self._over = threading.Event()

    def wait(self) -> None:
        """Until it is committed; an error of the store when it was not."""
        assert self._over is not None
        if not self._over.wait(COMMIT_WAIT_S):
            raise StoreUnavailable("a transaction that shares its commit with a slow one was not seen to end")
        if self._error is not None:
            raise type(self._error)(str(self._error)) from self._error

    def end(self, error: StoreError | None = None) -> None:
        """It was committed, or not: the first word counts, and only who holds the pen says it."""
        if self._over is not None and not self._over.is_set():
            self._error = error
            self._over.set()


class _Waiter:
    __slots__ = ("batch", "turn")

    def __init__(self) -> None:
        self.batch: Batch | None = None
        self.turn = threading.Lock()  # held until it is its turn: cheaper than an event
        self.turn.acquire()


class Pen:
    """Held by one thread at a time, and handed on in the order in which threads asked."""

    def __init__(self, path: str, abandon: Callable[[Batch | None], None]) -> None:
        """*abandon* is called by who is interrupted in the moment in which it gets the pen."""
        self._path = path
        self._abandon = abandon
        self._lock = threading.Lock()
        self._taken = False
        self._holder = 0
        self.waiters: deque[_Waiter] = deque()

    @property
    def is_taken(self) -> bool:
        return self._taken

    @property
    def is_mine(self) -> bool:
        """Whether this thread took it."""
        return self._taken and self._holder == threading.get_ident()

    def take_at_once(self) -> bool:
        """Hold the pen, if nobody does."""
        with self._lock:
            if self._taken:
                return False
            self._taken = True
            self._holder = threading.get_ident()
            return True

    def take(self, wait_s: float) -> Batch | None:
        """Hold the pen; the batch that is open, if one is. `StoreBusy` when it is not our turn within *wait_s*."""
        with self._lock:
            if not self._taken:
                self._taken = True
                self._holder = threading.get_ident()
                return None
            waiter = _Waiter()
            self.waiters.append(waiter)
        try:
            if not waiter.turn.acquire(timeout=max(0.0, wait_s)) and self._withdraw(waiter):
                raise StoreBusy(f"{self._path} is held by another transaction of this process")
        except StoreBusy:
            raise
        except BaseException:
            if not self._withdraw(waiter):
                self._abandon(waiter.batch)
            raise
        self._holder = threading.get_ident()
        return waiter.batch

    def _withdraw(self, waiter: _Waiter) -> bool:
        """Wait no longer; False when the pen was given at that very moment."""
        with self._lock:
            if waiter not in self.waiters:
                return False
            self.waiters.remove(waiter)
            return True

    def hand_on(self, batch: Batch | None) -> bool:
        """Give the pen to who waits for it, with the *batch* that is open; False, and it is still ours, if nobody."""
        with self._lock:
            if not self.waiters:
                return False
            waiter = self.waiters.popleft()
            waiter.batch = batch
        waiter.turn.release()
        return True

    def put_down(self) -> None:
        """Nothing is open; the next may begin."""
        with self._lock:
            if not self.waiters:
                self._taken = False
                return
            waiter = self.waiters.popleft()
        waiter.turn.release()
