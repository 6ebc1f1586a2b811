"""Sync inline handlers on a store with one writer: the flows of many requests share one commit.

Such a store lets one transaction in at a time, and syncing the disk is most of what one costs. The thread that comes
first leads (`batching.threads`): it runs its own flow's part of the transaction, then, one after the other, those of
the threads and event loops that came meanwhile, each undone alone if it fails. No delay is added.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

from hooklane.batching.threads import LeadLine
from hooklane.receiver.drivers import Driver
from hooklane.receiver.shared_commit import transaction
from hooklane.receiver.shared_commit.part import Part
from hooklane.receiver.shared_commit.transaction import SharedTransaction
from hooklane.store.inbox import Flow, SingleWriter

T = TypeVar("T")

QUICK_S = 0.005


class InThread(Protocol):
    def __call__(self, function: Callable[..., T], *arguments: Any) -> Awaitable[T]: ...


class SharedCommits:
    """The flows of one process on one store."""

    def __init__(self, store: SingleWriter, driver: Callable[[], Driver], in_thread: InThread) -> None:
        """*driver* makes one for the steps of a flow; *in_thread* calls something from an event loop."""
        self._store = store
        self._driver = driver
        self._in_thread = in_thread
        self._line: LeadLine[Part] = LeadLine(self._share, name="hooklane-shared-commit")
        self._alone_until = 0.0
        self._since = 0.0
        """When the part that is being run began."""
        self._endings: set[asyncio.Task[None]] = set()

    @property
    def waiting(self) -> int:
        """How many wait for the thread that leads."""
        return len(self._line)

    @property
    def is_quick(self) -> bool:
        """Whether a thread leads and, as far as can be seen, what waits does not wait for a slow handler."""
        now = time.monotonic()
        return self._line.is_led and now - self._since < QUICK_S and now >= self._alone_until

    # From a thread

    def run(self, flow: Flow[T]) -> T:
        """Run *flow* to its end; each answer of a commit comes after it."""
        return self._run(Part(flow))  # type: ignore[no-any-return]

    def _run(self, part: Part) -> Any:
        while part.step is not None:
            if part.begins:
                self._line.enter(part, self._wait_ms(part) / 1000)
            else:
                part.go_on(self._driver())
        return part.result()

    def _wait_ms(self, part: Part) -> int:
        wait_ms: int | None = part.step.wait_ms
        return self._store.busy_wait_ms if wait_ms is None else wait_ms

    def _wait_ms_left(self, part: Part) -> int:
        if part.deadline == math.inf:
            return self._wait_ms(part)
        return max(1, int((part.deadline - time.monotonic()) * 1000))

    # Leading

    def _share(self, first: Part, mine: Part | None) -> None:
        """One commit, for *first* and what waits. *mine* is the part of this thread, for which no other waits."""
        self._since = time.monotonic()
        try:
            session = self._store.begin(wait_ms=self._wait_ms_left(first))
        except BaseException as error:
            first.refused(error)
            self._line.tell([first], mine)
            return
        shared = SharedTransaction(self._driver(), session)
        shared.taken.append(first)
        interrupt: BaseException | None = None
        try:
            part: Part | None = first
            while part is not None:
                self._since = shared.now
                if shared.play(part) > transaction.SLOW_S:
                    self._alone_until = shared.now + transaction.ALONE_S
                if part.error is not None and mine not in (None, part) and _is_interrupt(part.error):
                    interrupt = part.error
                    part.cut_off()
                if not session.is_whole or interrupt is not None:
                    break  # nothing is left of it, or this thread has to end
                if part.is_over:
                    shared.taken.remove(part)  # it was undone, and does not wait for the commit
                    self._line.tell([part], mine)
                part = self._next(shared, mine)
            if not shared.commit():
                self._alone_until = shared.now + transaction.ALONE_S
        finally:
            session.close()
            for part in shared.taken:
                if not part.is_over:
                    part.cut_off()
            self._line.tell(shared.taken, mine)
        if interrupt is not None:
            raise interrupt

    def _next(self, shared: SharedTransaction, mine: Part | None) -> Part | None:
        """One more that has a part in this commit."""
        if not self._line.is_wanted or shared.is_full or shared.now < self._alone_until:
            return None
        if shared.played == 1 and mine is not None and _in_event_loop():
            return None  # handlers of other requests may want a loop of their own
        return self._line.next(shared.taken)

    # From an event loop

    async def arun(self, flow: Flow[T]) -> T:
        """Run *flow* to its end without blocking the loop: its first part by a thread that leads for all loops."""
        part = Part(flow)
        if part.begins:
            await self._take_part(part)
        if part.step is None:
            return part.result()  # type: ignore[no-any-return]
        return await self._in_thread(self._run, part)

    async def _take_part(self, part: Part) -> None:
        try:
            await self._line.served(part, self._wait_ms(part) / 1000)
        except asyncio.CancelledError:
            if self._line.withdraw(part):
                part.flow.close()
            else:
                # To its end, though its request is gone: no transaction is left half-way, no failure unrecorded.
                ending = asyncio.get_running_loop().create_task(self._end(part), name="hooklane ending")
                self._endings.add(ending)
                ending.add_done_callback(self._endings.discard)
                await asyncio.wait([ending])
            raise

    async def _end(self, part: Part) -> None:
        assert part.loop is not None
        if part.done is not None:  # not woken yet
            part.done = part.loop.create_future()
            await part.done
        if part.step is not None:
            with contextlib.suppress(Exception):
                await self._in_thread(self._run, part)

    def close(self) -> None:
        """Let go of the thread."""
        self._line.close()


def _is_interrupt(error: BaseException) -> bool:
    """Whether the exception was meant for the thread, and not for the flow in which it came up."""
    return not isinstance(error, Exception)


def _in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
