"""Batches in one event loop: which task writes, which wait, and how they are told.

`BatchTask` starts a task when something waits and ends it when nothing does; `Requests` answers each request of such a
line; `TaskTurns` lets tasks take turns.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from hooklane.batching.line import Blame, FairLine, Line, Ticket, settle
from hooklane.errors import StoreUnavailable

T = TypeVar("T")
R = TypeVar("R")
K = TypeVar("K")
G = TypeVar("G")


class BatchTask(Generic[T]):
    """A line that is worked off batch by batch, by one task per busy period: no delay, and no task per item."""

    def __init__(
        self,
        work: Callable[[list[T]], Awaitable[object]],
        most: int,
        *,
        name: str,
        weigh: Callable[[T], int] | None = None,
        pause_s: float | None = None,
        group_of: Callable[[T], str] | None = None,
    ) -> None:
        """*work* raises nothing. *pause_s* passes before each batch; 0 lets in what was sent but not read yet.

        With *group_of* the groups of items take turns, where not all that waits has room in a batch; then each item
        counts as one, so that *weigh* cannot be given too.
        """
        assert weigh is None or group_of is None
        self._work = work
        self._name = name
        self._pause_s = pause_s
        self._line: Line[T] | FairLine[T] = Line(most, weigh) if group_of is None else FairLine(most, group_of)
        self._task: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._line)

    def add(self, item: T) -> None:
        self._line.add(item)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name=self._name)

    @property
    def is_idle(self) -> bool:
        return self._task is None

    async def drained(self) -> None:
        """Wait until nothing waits and nothing is in hand."""
        while self._task is not None:
            await self._task

    async def _run(self) -> None:
        try:
            while len(self._line):
                if self._pause_s is not None:
                    await asyncio.sleep(self._pause_s)
                await self._work(self._line.take())
        finally:
            self._task = None


class Requests(Generic[T, R]):
    """Requests of one event loop: those that come while a write is under way share the next one."""

    def __init__(
        self,
        write: Callable[[list[T]], Awaitable[Sequence[R]]],
        most: int,
        *,
        name: str,
        blame: Callable[[Exception], Blame],
        weigh: Callable[[T], int] | None = None,
    ) -> None:
        """*write* gives a result for each item; *blame* says what its error means."""
        self._write = write
        self._blame = blame
        weigh_of = weigh
        self._batches: BatchTask[_Asked[T, R]] = BatchTask(
            self._settle, most, name=name, weigh=None if weigh_of is None else lambda asked: weigh_of(asked.ticket.item)
        )

    async def ask(self, item: T) -> R:
        """The result for *item*, after the write that holds it."""
        asked: _Asked[T, R] = _Asked(Ticket(item), asyncio.get_running_loop().create_future())
        self._batches.add(asked)
        await asked.done
        return asked.ticket.value()

    async def _settle(self, batch: list[_Asked[T, R]]) -> None:
        steps = settle([asked.ticket for asked in batch], self._blame)
        try:
            items = next(steps)
            while True:
                try:
                    results = await self._write(items)
                except Exception as error:
                    items = steps.throw(error)
                else:
                    items = steps.send(results)
        except StopIteration:
            pass  # each of them is settled
        finally:
            for asked in batch:
                if not asked.ticket.is_settled:  # this task was cancelled
                    asked.ticket.fail(StoreUnavailable("the event loop is ending"))
                if not asked.done.done():
                    asked.done.set_result(None)


class _Asked(Generic[T, R]):
    """A ticket, and the future on which its request waits."""

    def __init__(self, ticket: Ticket[T, R], done: asyncio.Future[None]) -> None:
        self.ticket = ticket
        self.done = done


class TaskTurns(Generic[K, G]):
    """Tasks that wait for their turn, the longest wait first; each waits under a key, and is given something."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[K, asyncio.Future[G]]] = deque()

    def __len__(self) -> int:
        """How many wait; one that was cancelled or came too late waits no longer."""
        return sum(not turn.done() for _, turn in self._waiting)

    @property
    def is_wanted(self) -> bool:
        """Whether a task waits."""
        return any(not turn.done() for _, turn in self._waiting)

    @property
    def first(self) -> K | None:
        """The key of the task that has waited longest."""
        while self._waiting and self._waiting[0][1].done():
            self._waiting.popleft()
        return self._waiting[0][0] if self._waiting else None

    async def wait(
        self,
        key: K,
        given_back: Callable[[G], Awaitable[object]],
        *,
        wait_s: float | None = None,
        late: Callable[[], Exception] = TimeoutError,
    ) -> G:
        """What was given with the turn; the error of *late* after *wait_s*.

        A task that is cancelled in the moment of its turn calls *given_back*, so that the turn is not lost.
        """
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[G] = loop.create_future()
        timer = None if wait_s is None else loop.call_later(wait_s, _give_up, turn, late)
        self._waiting.append((key, turn))
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                await given_back(turn.result())
            raise
        finally:
            if timer is not None:
                timer.cancel()
            if (key, turn) in self._waiting:
                self._waiting.remove((key, turn))

    def give(self, what: G) -> bool:
        """It is the turn of the task that has waited longest, with *what*; False when none waits."""
        while self._waiting:
            _, turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(what)
                return True
        return False


def _give_up(turn: asyncio.Future[G], late: Callable[[], Exception]) -> None:
    if not turn.done():
        turn.set_exception(late())
