"""Several flows, one commit: whoever may write runs the parts of those who wait as well, and answers them after it.

A store with a single writer lets one transaction in at a time, and syncing the disk is most of what one costs. Whoever
comes first leads: it runs its own part, then, one after the other, those of the threads and event loops that came
meanwhile, each undone alone if it fails. Nothing is handed from thread to thread but the result, and no delay is added.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar
from weakref import WeakKeyDictionary

from hooklane.errors import StoreBusy, StoreUnavailable
from hooklane.receiver import parts
from hooklane.receiver.drive import Driver
from hooklane.receiver.errand import Errand
from hooklane.receiver.parts import Batch
from hooklane.store.inbox import Flow, SingleWriter

T = TypeVar("T")

QUICK_S = 0.005
COMMIT_WAIT_S = 60.0


class InThread(Protocol):
    def __call__(self, function: Callable[..., T], *arguments: Any) -> Awaitable[T]: ...


class Together:
    """The flows of one process on one store."""

    def __init__(self, store: SingleWriter, driver: Callable[[], Driver], in_thread: InThread) -> None:
        """*driver* makes one for the steps of a flow; *in_thread* calls something from an event loop."""
        self._store = store
        self._driver = driver
        self._in_thread = in_thread
        self._starting = threading.Lock()
        self._pid = 0
        self._start_process()

    def _start_process(self) -> None:
        """A child of fork has nobody who leads or waits: it is known by its pid, as in the store."""
        with self._starting:  # the first requests of a child come together
            if self._pid != os.getpid():
                self._start_anew()
                self._pid = os.getpid()

    def _start_anew(self) -> None:
        self._lock = threading.Lock()
        self._is_led = False
        self._leader = 0
        self._alone_until = 0.0
        self._since = 0.0
        """When the part that is being run began."""
        self._waiting: deque[Errand] = deque()
        self._pool: ThreadPoolExecutor | None = None
        self._expires: WeakKeyDictionary[asyncio.AbstractEventLoop, float] = WeakKeyDictionary()
        """When it is looked next who has waited for too long in a loop."""
        self._endings: set[asyncio.Task[None]] = set()

    @property
    def waiting(self) -> int:
        """How many wait for whoever leads."""
        return len(self._waiting)

    @property
    def is_quick(self) -> bool:
        """Whether somebody leads and, as far as can be seen, who waits does not wait for a slow handler."""
        now = time.monotonic()
        return self._is_led and now - self._since < QUICK_S and now >= self._alone_until

    # From a thread

    def run(self, flow: Flow[T]) -> T:
        """Run *flow* to its end; each answer of a commit comes after it."""
        return self._run(Errand(flow))  # type: ignore[no-any-return]

    def _run(self, errand: Errand) -> Any:
        while errand.step is not None:
            if errand.begins:
                self._take_part(errand)
            else:
                errand.go_on(self._driver())
        return errand.result()

    def _take_part(self, errand: Errand) -> None:
        if self._pid != os.getpid():
            self._start_process()
        with self._lock:
            leads = not self._is_led
            self._is_led = True
            nested = not leads and self._leader == threading.get_ident()
            if leads:
                errand.deadline, errand.loop = 0.0, None
            elif not nested:
                errand.deadline = 0.0
                errand.queue_up(self._wait_ms(errand))
                self._waiting.append(errand)
        if nested:
            errand.refused(StoreBusy("the handler that is at work in this thread holds the transaction"))
        elif leads or self._await(errand):
            self._lead(errand)

    def _await(self, errand: Errand) -> bool:
        """Until another thread has run its part; True when it should be run, and others with it, by this one."""
        assert errand.turn is not None
        try:
            if not errand.turn.acquire(timeout=max(0.0, errand.deadline - time.monotonic())):
                if self._withdraw(errand):
                    errand.refused(self._busy())
                    return False
                while not errand.turn.acquire(timeout=COMMIT_WAIT_S):
                    if errand.is_kept:
                        raise StoreUnavailable("a commit that is shared with a slow one was not seen to end")
        except BaseException:
            if not self._withdraw(errand) and errand.leads:
                self._pass_on()
            raise
        return errand.leads

    def _withdraw(self, errand: Errand) -> bool:
        """Wait no longer; False when somebody has it in hand already."""
        with self._lock:
            if errand in self._waiting:
                self._waiting.remove(errand)
                return True
            return False

    def _wait_ms(self, errand: Errand) -> int:
        """How long it may wait, or still may."""
        if errand.deadline:
            return max(1, int((errand.deadline - time.monotonic()) * 1000))
        wait_ms: int | None = errand.step.wait_ms
        return self._store.busy_wait_ms if wait_ms is None else wait_ms

    def _busy(self) -> StoreBusy:
        return StoreBusy("other transactions of this process held the store")

    # Leading

    def _lead(self, mine: Errand) -> None:
        self._leader = threading.get_ident()
        try:
            self._share(mine, mine)
        finally:
            self._pass_on()

    def _pass_on(self) -> None:
        """Somebody else leads, if anybody waits."""
        with self._lock:
            self._leader = 0
            heir = self._first()
            if heir is None:
                self._is_led = False
                return
            if heir.loop is None:
                self._waiting.popleft()
                heir.leads = True
        if heir.loop is not None:
            self._start_job()
        elif heir.turn is not None:
            heir.turn.release()

    def _first(self) -> Errand | None:
        """Who has waited longest; the lock is held."""
        while self._waiting and self._waiting[0].is_over:  # its leader was interrupted while taking it
            self._waiting.popleft()
        return self._waiting[0] if self._waiting else None

    def _share(self, first: Errand, mine: Errand | None) -> None:
        """One commit, for *first* and whoever waits. *mine* is the errand of this thread, which nobody else awaits."""
        self._since = time.monotonic()
        try:
            session = self._store.begin(wait_ms=self._wait_ms(first))
        except BaseException as error:
            first.refused(error)
            self._tell([first], mine)
            return
        batch = Batch(self._driver(), session)
        interrupt: BaseException | None = None
        try:
            errand: Errand | None = batch.take(first)
            while errand is not None:
                self._since = batch.now
                if batch.play(errand) > parts.SLOW_S:
                    self._alone_until = batch.now + parts.ALONE_S
                if errand.error is not None and mine not in (None, errand) and _is_interrupt(errand.error):
                    interrupt = errand.error
                    errand.cut_off()
                if not session.is_whole or interrupt is not None:
                    break  # nothing is left of it, or nobody to go on
                if errand.is_over:
                    batch.let_go(errand)
                    self._tell([errand], mine)
                errand = self._next(batch, mine)
            if not batch.commit():
                self._alone_until = batch.now + parts.ALONE_S
        finally:
            session.close()
            for errand in batch.taken:
                if not errand.is_over:
                    errand.cut_off()
            self._tell(batch.taken, mine)
        if interrupt is not None:
            raise interrupt

    def _next(self, batch: Batch, mine: Errand | None) -> Errand | None:
        """Who else has a part in this commit."""
        if not self._waiting or batch.is_full or batch.now < self._alone_until:
            return None
        if batch.played == 1 and mine is not None and _in_event_loop():
            return None  # handlers of others may want a loop of their own
        with self._lock:
            found = self._first()
            if found is not None:
                batch.take(found)
                self._waiting.popleft()
            return found

    def _tell(self, errands: Sequence[Errand], mine: Errand | None) -> None:
        """Their owners go on."""
        if len(errands) == 1 and errands[0] is mine:
            return
        by_loop: dict[asyncio.AbstractEventLoop, list[Errand]] = {}
        for errand in errands:
            if errand is mine:
                continue
            if errand.loop is not None:
                by_loop.setdefault(errand.loop, []).append(errand)
            elif errand.turn is not None:
                errand.turn.release()
        for loop, theirs in by_loop.items():
            with contextlib.suppress(RuntimeError):  # it was closed: nobody waits there any more
                loop.call_soon_threadsafe(_wake, theirs)

    # From an event loop

    async def arun(self, flow: Flow[T]) -> T:
        """Run *flow* to its end without blocking the loop: its first part by a thread that leads for all loops."""
        errand = Errand(flow)
        if errand.begins:
            await self._atake_part(errand)
        if errand.step is None:
            return errand.result()  # type: ignore[no-any-return]
        return await self._in_thread(self._run, errand)

    async def _atake_part(self, errand: Errand) -> None:
        if self._pid != os.getpid():
            self._start_process()
        loop = asyncio.get_running_loop()
        errand.queue_up(self._wait_ms(errand), loop)
        with self._lock:
            self._waiting.append(errand)
            leads, self._is_led = not self._is_led, True
        if leads:
            self._start_job()
        self._expire_later(loop, errand.deadline)
        assert errand.done is not None
        try:
            await errand.done
        except asyncio.CancelledError:
            if self._withdraw(errand):
                errand.flow.close()
            else:
                # To its end, though nobody wants to know: no transaction is left half-way, no failure unrecorded.
                ending = loop.create_task(self._end(errand), name="hooklane ending")
                self._endings.add(ending)
                ending.add_done_callback(self._endings.discard)
                await asyncio.wait([ending])
            raise

    async def _end(self, errand: Errand) -> None:
        assert errand.loop is not None
        if errand.done is not None:  # not woken yet
            errand.done = errand.loop.create_future()
            await errand.done
        if errand.step is not None:
            with contextlib.suppress(Exception):
                await self._in_thread(self._run, errand)

    def _start_job(self) -> None:
        """A thread of ours leads, since an event loop cannot."""
        try:
            with self._lock:
                if self._pool is None:
                    self._pool = ThreadPoolExecutor(1, thread_name_prefix="hooklane-together")
                self._pool.submit(self._job)
        except RuntimeError as error:  # the interpreter is shutting down
            with self._lock:
                theirs = list(self._waiting)
                self._waiting.clear()
                self._is_led = False
            for errand in theirs:
                errand.refused(StoreUnavailable(f"nobody can be started who would store this: {error}"))
            self._tell(theirs, None)

    def _job(self) -> None:
        self._leader = threading.get_ident()
        try:
            while True:
                with self._lock:
                    errand = self._first()
                    if errand is None:
                        self._is_led, self._leader = False, 0
                        return
                    self._waiting.popleft()
                self._share(errand, None)
        except BaseException:
            self._pass_on()
            raise

    def _expire_later(self, loop: asyncio.AbstractEventLoop, deadline: float) -> None:
        """One timer for all who wait in *loop*: nearly all of them are woken long before."""
        if deadline < self._expires.get(loop, math.inf):
            self._expires[loop] = deadline
            loop.call_later(max(0.0, deadline - time.monotonic()), self._expire, loop)

    def _expire(self, loop: asyncio.AbstractEventLoop) -> None:
        """Who was not taken in time waits no longer."""
        self._expires.pop(loop, None)
        now = time.monotonic()
        with self._lock:
            here = [errand for errand in self._waiting if errand.loop is loop]
            late = [errand for errand in here if errand.deadline <= now]
            for errand in late:
                self._waiting.remove(errand)
        for errand in late:
            errand.refused(self._busy())
        _wake(late)
        if len(late) < len(here):
            self._expire_later(loop, min(errand.deadline for errand in here if errand not in late))

    def close(self) -> None:
        """Let go of the thread."""
        pool, self._pool = self._pool, None
        if pool is not None and self._pid == os.getpid():
            pool.shutdown(wait=False)


def _wake(errands: Iterable[Errand]) -> None:
    """In their event loop: their owners go on."""
    for errand in errands:
        done, errand.done = errand.done, None
        if done is not None and not done.done():
            done.set_result(None)


def _is_interrupt(error: BaseException) -> bool:
    """Whether it was meant for the thread, and not for the flow in which it came up."""
    return not isinstance(error, Exception)


def _in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
