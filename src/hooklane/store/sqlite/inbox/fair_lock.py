"""A lock that is handed on in order of arrival: one transaction of this process writes at a time."""

from __future__ import annotations

import threading
from collections import deque

from hooklane.errors import StoreBusy


class FairLock:
    """A lock that is handed on in the order in which threads asked, and may be put down by another thread."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._taken = False
        self._holder = 0
        self._waiters: deque[threading.Lock] = deque()

    @property
    def is_taken(self) -> bool:
        return self._taken

    @property
    def is_wanted(self) -> bool:
        """Whether a thread waits for it."""
        return bool(self._waiters)

    @property
    def is_mine(self) -> bool:
        """Whether this thread took it."""
        return self._taken and self._holder == threading.get_ident()

    def acquire_at_once(self) -> bool:
        """Hold the lock, if no thread does."""
        with self._lock:
            if self._taken:
                return False
            self._taken = True
            self._holder = threading.get_ident()
            return True

    def acquire(self, wait_s: float) -> None:
        """Hold the lock. `StoreBusy` when it is not our turn within *wait_s*."""
        with self._lock:
            if not self._taken:
                self._taken = True
                self._holder = threading.get_ident()
                return
            turn = threading.Lock()  # held until it is our turn: cheaper than an event
            turn.acquire()
            self._waiters.append(turn)
        try:
            if not turn.acquire(timeout=max(0.0, wait_s)) and self._withdraw(turn):
                raise StoreBusy(f"{self._path} is held by another transaction of this process")
        except StoreBusy:
            raise
        except BaseException:
            if not self._withdraw(turn):
                self.release()
            raise
        self._holder = threading.get_ident()

    def _withdraw(self, turn: threading.Lock) -> bool:
        """Wait no longer; False when the lock was given at that very moment."""
        with self._lock:
            if turn not in self._waiters:
                return False
            self._waiters.remove(turn)
            return True

    def release(self) -> None:
        """Nothing is open; the next may begin."""
        with self._lock:
            if not self._waiters:
                self._taken = False
                return
            turn = self._waiters.popleft()
        turn.release()
