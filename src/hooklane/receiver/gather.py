"""Group commit: whoever comes while a commit is under way shares the next one. No delay is added for it."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from weakref import WeakKeyDictionary

from hooklane.errors import StoreBusy, StoreUnavailable
from hooklane.receiver.flows.receive import Arrival
from hooklane.receiver.receipt import Receipt

ARRIVALS_MAX = 256
BYTES_MAX = 4_194_304


class _Ticket:
    """What one request waits for: its receipts, an error, or its turn to lead."""

    __slots__ = ("arrivals", "error", "receipts", "turn")

    def __init__(self, arrivals: Sequence[Arrival]) -> None:
        self.arrivals = arrivals
        self.receipts: list[Receipt] | None = None
        self.error: BaseException | None = None
        self.turn: threading.Event | None = None

    def result(self) -> list[Receipt]:
        if self.error is not None:
            raise self.error
        assert self.receipts is not None
        return self.receipts


def _take(waiting: deque[_Ticket]) -> list[_Ticket]:
    """The next batch: in order of arrival, bounded in number and in bytes, never empty."""
    batch = [waiting.popleft()]
    number = len(batch[0].arrivals)
    size = sum(len(arrival.message.body) for arrival in batch[0].arrivals)
    while waiting:
        number += len(waiting[0].arrivals)
        size += sum(len(arrival.message.body) for arrival in waiting[0].arrivals)
        if number > ARRIVALS_MAX or size > BYTES_MAX:
            break
        batch.append(waiting.popleft())
    return batch


def _share(batch: list[_Ticket], receipts: list[Receipt]) -> None:
    start = 0
    for ticket in batch:
        ticket.receipts = receipts[start : start + len(ticket.arrivals)]
        start += len(ticket.arrivals)


def _blame(batch: list[_Ticket], error: Exception) -> None:
    for ticket in batch:
        ticket.error = error


class Gatherer:
    """For threads: the first to come leads, commits for all who wait, and hands the lead on."""

    def __init__(self, store: Callable[[list[Arrival]], list[Receipt]]) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._waiting: deque[_Ticket] = deque()
        self._is_led = False

    def submit(self, arrivals: Sequence[Arrival]) -> list[Receipt]:
        """Receipts for *arrivals*, after the commit that holds them."""
        ticket = _Ticket(arrivals)
        with self._lock:
            self._waiting.append(ticket)
            if self._is_led:
                ticket.turn = threading.Event()
            self._is_led = True
        if ticket.turn is not None:
            ticket.turn.wait()
        if ticket.receipts is None and ticket.error is None:
            self._lead()
        return ticket.result()

    def _lead(self) -> None:
        with self._lock:
            batch = _take(self._waiting)
        try:
            self._settle(batch)
        finally:
            with self._lock:
                self._is_led = bool(self._waiting)
                heir = self._waiting[0] if self._waiting else None
            for ticket in batch:
                if ticket.receipts is None and ticket.error is None:  # this thread was interrupted
                    ticket.error = StoreUnavailable("the thread that was storing this was ended")
                if ticket.turn is not None:
                    ticket.turn.set()
            if heir is not None and heir.turn is not None:
                heir.turn.set()

    def _settle(self, batch: list[_Ticket], *, again: bool = True) -> None:
        try:
            _share(batch, self._store([arrival for ticket in batch for arrival in ticket.arrivals]))
        except StoreBusy as error:  # it lost a race with another process: once more
            if again:
                self._settle(batch, again=False)
            else:
                _blame(batch, error)
        except Exception as error:
            if len(batch) == 1 or isinstance(error, StoreUnavailable):
                _blame(batch, error)
                return
            for ticket in batch:  # one of them is bad; the others must not fail with it
                self._settle([ticket])


class AsyncGatherer:
    """For event loops: a task commits for all who wait, and ends when nobody does."""

    def __init__(self, store: Callable[[list[Arrival]], Awaitable[list[Receipt]]]) -> None:
        self._store = store
        self._of: WeakKeyDictionary[asyncio.AbstractEventLoop, _Loop] = WeakKeyDictionary()

    async def submit(self, arrivals: Sequence[Arrival]) -> list[Receipt]:
        """Receipts for *arrivals*, after the commit that holds them."""
        loop = asyncio.get_running_loop()
        state = self._of.get(loop)
        if state is None:
            state = self._of[loop] = _Loop()
        ticket = _Ticket(arrivals)
        done = loop.create_future()
        state.waiting.append(ticket)
        state.futures[ticket] = done
        if state.task is None:
            state.task = loop.create_task(self._lead(state), name="hooklane group commit")
        await done
        return ticket.result()

    async def _lead(self, state: _Loop) -> None:
        try:
            while state.waiting:
                batch = _take(state.waiting)
                try:
                    await self._settle(batch)
                finally:
                    for ticket in batch:
                        if ticket.receipts is None and ticket.error is None:  # cancelled at shutdown
                            ticket.error = StoreUnavailable("the server is shutting down")
                        done = state.futures.pop(ticket)
                        if not done.done():
                            done.set_result(None)
        finally:
            state.task = None

    async def _settle(self, batch: list[_Ticket], *, again: bool = True) -> None:
        try:
            _share(batch, await self._store([arrival for ticket in batch for arrival in ticket.arrivals]))
        except StoreBusy as error:  # as above
            if again:
                await self._settle(batch, again=False)
            else:
                _blame(batch, error)
        except Exception as error:
            if len(batch) == 1 or isinstance(error, StoreUnavailable):
                _blame(batch, error)
                return
            for ticket in batch:  # as above
                await self._settle([ticket])


class _Loop:
    """What is waiting in one event loop."""

    def __init__(self) -> None:
        self.waiting: deque[_Ticket] = deque()
        self.futures: dict[_Ticket, asyncio.Future[None]] = {}
        self.task: asyncio.Task[None] | None = None
