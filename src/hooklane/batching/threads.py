"""Batches across threads and event loops: the first thread to come leads and serves those that come meanwhile.

Nothing is handed from thread to thread but the result. The thread that leads hands the lead on to the request that has
waited longest; if that one waits in an event loop, which cannot be blocked, a thread of this line leads for all loops.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

from hooklane.batching.line import Line
from hooklane.batching.locks import open_in_forks
from hooklane.errors import StoreBusy, StoreUnavailable

OVERDUE_S = 60.0


class Waiter(ABC):
    """A request that waits in a thread or in an event loop until it was served, or until its thread leads."""

    # Defaults of the class: most requests meet no other, and never set them.
    deadline = math.inf
    """Until when it waits to be taken in hand, by the monotonic clock."""
    turn: threading.Lock | None = None
    """Where a thread waits for it."""
    loop: asyncio.AbstractEventLoop | None = None
    done: asyncio.Future[None] | None = None
    """Where an event loop waits for it."""
    is_over = False
    """Whether it was served, and is its owner's again."""
    leads = False
    """Whether its owner was told to serve it, and others."""

    @abstractmethod
    def refused(self, error: BaseException) -> None:
        """It is not served: it ends with *error*."""

    def overdue(self) -> None:  # noqa: B027  # most wait on
        """It has been in hand for long; raises where its owner should not wait any more."""

    def wait_in(self, loop: asyncio.AbstractEventLoop | None) -> None:
        """From now on it waits, in *loop* or in this thread."""
        self.is_over = self.leads = False
        self.loop = loop
        if loop is None:
            self.turn = threading.Lock()  # released once, when it is over or to lead: cheaper than an event
            self.turn.acquire()
        else:
            self.done = loop.create_future()


W = TypeVar("W", bound=Waiter)


class LeadLine(Generic[W]):
    """Which thread leads, what waits and how it is told."""

    def __init__(
        self,
        serve: Callable[[W, W | None], None],
        *,
        name: str,
        most: int = 1,
        weigh: Callable[[W], int] | None = None,
        busy: str = "other transactions of this process held the store",
    ) -> None:
        """*serve* is called by the thread that leads, with the first request to serve and the thread's own, if it has
        one; it takes more from the line (`next`, `batch`) and tells them (`tell`). *busy* is what a request is told
        that was not taken in hand until its deadline."""
        self._serve = serve
        self._name = name
        self._most = most
        self._weigh = weigh
        self._busy = busy
        self._starting = open_in_forks(threading.Lock())
        self._is_closed = False
        self._pid = 0
        self._start_process()

    def _start_process(self) -> None:
        """In a child of fork no thread leads or waits; a child is known by its pid."""
        with self._starting:  # the first requests of a child come together
            if self._pid != os.getpid():
                self._start_anew()
                self._pid = os.getpid()

    def _start_anew(self) -> None:
        self._lock = threading.Lock()
        self._line: Line[W] = Line(self._most, self._weigh)
        self.is_led = False
        self._leader = 0
        self._pool: ThreadPoolExecutor | None = None
        self._expires: WeakKeyDictionary[asyncio.AbstractEventLoop, float] = WeakKeyDictionary()
        """When it is looked next which requests of a loop have waited for too long."""

    def __len__(self) -> int:
        """How many wait for the thread that leads."""
        return len(self._line)

    @property
    def is_wanted(self) -> bool:
        """Whether a request waits."""
        return bool(self._line.items)

    # From a thread

    def enter(self, waiter: W, wait_s: float = math.inf) -> None:
        """Returns when *waiter* is over: served by another thread within *wait_s*, or by this one."""
        if self._pid != os.getpid():
            self._start_process()
        with self._lock:
            leads = not self.is_led
            self.is_led = True
            nested = not leads and self._leader == threading.get_ident()
            if leads:
                waiter.deadline, waiter.loop = math.inf, None
            elif not nested:
                waiter.deadline = time.monotonic() + wait_s
                waiter.wait_in(None)
                self._line.add(waiter)
        if nested:
            waiter.refused(StoreBusy("the handler that is at work in this thread holds the transaction"))
        elif leads or self._wait(waiter):
            self._lead(waiter)

    def _wait(self, waiter: W) -> bool:
        """Until another thread has served it; True when this thread should, and others with it."""
        turn = waiter.turn
        assert turn is not None
        try:
            if not turn.acquire(timeout=_timeout_s(waiter.deadline)):
                if self.withdraw(waiter):
                    waiter.refused(StoreBusy(self._busy))
                    return False
                while not turn.acquire(timeout=OVERDUE_S):
                    waiter.overdue()
        except BaseException:
            if not self.withdraw(waiter) and waiter.leads:
                self._pass_on()
            raise
        return waiter.leads

    def withdraw(self, waiter: W) -> bool:
        """*waiter* waits no longer; False when it is in hand already."""
        with self._lock:
            return self._line.withdraw(waiter)

    # Leading

    def _lead(self, mine: W) -> None:
        self._leader = threading.get_ident()
        try:
            self._serve(mine, mine)
        finally:
            self._pass_on()

    def _pass_on(self) -> None:
        """The request that has waited longest leads, if one waits."""
        with self._lock:
            self._leader = 0
            heir = self._first() if self._line.items else None
            if heir is None:
                self.is_led = False
                return
            if heir.loop is None:
                self._line.withdraw(heir)
                heir.leads = True
        if heir.loop is not None:
            self._start_thread()
        elif heir.turn is not None:
            heir.turn.release()

    def _first(self) -> W | None:
        """The request that has waited longest; the lock is held."""
        items = self._line.items
        while items and items[0].is_over:  # the thread that led was interrupted while it took it
            items.popleft()
        return items[0] if items else None

    def next(self, taken: list[W]) -> W | None:
        """One more request to serve, appended to *taken*, which the thread that leads has to tell."""
        with self._lock:
            found = self._first()
            if found is not None:
                taken.append(found)
                self._line.withdraw(found)
            return found

    def batch(self, first: W) -> list[W]:
        """*first* and those that have room beside it."""
        if not self._line.items:
            return [first]
        with self._lock:
            return self._line.take_beside(first)

    def tell(self, waiters: Sequence[W], mine: W | None) -> None:
        """The owners of *waiters* go on; no thread waits for *mine*."""
        if len(waiters) == 1 and waiters[0] is mine:
            return
        by_loop: dict[asyncio.AbstractEventLoop, list[W]] = {}
        for waiter in waiters:
            if waiter is mine:
                continue
            if waiter.loop is not None:
                by_loop.setdefault(waiter.loop, []).append(waiter)
            elif waiter.turn is not None:
                waiter.turn.release()
        for loop, theirs in by_loop.items():
            with contextlib.suppress(RuntimeError):  # it was closed, so no task waits there any more
                loop.call_soon_threadsafe(_wake, theirs)

    # From an event loop

    async def served(self, waiter: W, wait_s: float = math.inf) -> None:
        """Returns when *waiter* is over, without blocking the loop. Cancelled, it says nothing about *waiter*."""
        if self._pid != os.getpid():
            self._start_process()
        loop = asyncio.get_running_loop()
        waiter.deadline = time.monotonic() + wait_s
        waiter.wait_in(loop)
        done = waiter.done
        assert done is not None
        with self._lock:
            self._line.add(waiter)
            leads, self.is_led = not self.is_led, True
        if leads:
            self._start_thread()
        if wait_s < math.inf:
            self._expire_later(loop, waiter.deadline)
        await done

    def _start_thread(self) -> None:
        """A thread of this line leads, since an event loop cannot."""
        try:
            with self._lock:
                if self._is_closed:
                    raise RuntimeError("this line is closed: nothing more is written")
                if self._pool is None:
                    self._pool = ThreadPoolExecutor(1, thread_name_prefix=self._name)
                self._pool.submit(self._lead_for_loops)
        except RuntimeError as error:  # or the interpreter is shutting down
            with self._lock:
                theirs = [waiter for waiter in list(self._line.items) if self._line.withdraw(waiter)]
                self.is_led = False
            for waiter in theirs:
                waiter.refused(StoreUnavailable(f"no thread can be started to store this: {error}"))
            self.tell(theirs, None)

    def _lead_for_loops(self) -> None:
        self._leader = threading.get_ident()
        try:
            while True:
                with self._lock:
                    first = self._first()
                    if first is None:
                        self.is_led, self._leader = False, 0
                        return
                    self._line.withdraw(first)
                self._serve(first, None)
        except BaseException:
            self._pass_on()
            raise

    def _expire_later(self, loop: asyncio.AbstractEventLoop, deadline: float) -> None:
        """One timer for all that wait in *loop*: nearly all of them are woken long before."""
        if deadline < self._expires.get(loop, math.inf):
            self._expires[loop] = deadline
            loop.call_later(max(0.0, deadline - time.monotonic()), self._expire, loop)

    def _expire(self, loop: asyncio.AbstractEventLoop) -> None:
        """What was not taken in hand in time waits no longer."""
        self._expires.pop(loop, None)
        now = time.monotonic()
        with self._lock:
            here = [waiter for waiter in self._line.items if waiter.loop is loop]
            late = [waiter for waiter in here if waiter.deadline <= now and self._line.withdraw(waiter)]
        for waiter in late:
            waiter.refused(StoreBusy(self._busy))
        _wake(late)
        if len(late) < len(here):
            self._expire_later(loop, min(waiter.deadline for waiter in here if waiter not in late))

    def close(self, *, wait: bool = False) -> None:
        """Let go of the thread, for good: what an event loop asks later is refused. With *wait*, after it has served
        what waits."""
        with self._lock:
            self._is_closed = True
            pool, self._pool = self._pool, None
        if pool is not None and self._pid == os.getpid():
            pool.shutdown(wait=wait)


def _wake(waiters: Iterable[Waiter]) -> None:
    """In their event loop: their owners go on."""
    for waiter in waiters:
        done, waiter.done = waiter.done, None
        if done is not None and not done.done():
            done.set_result(None)


def _timeout_s(deadline: float) -> float:
    return -1 if deadline == math.inf else max(0.0, deadline - time.monotonic())
