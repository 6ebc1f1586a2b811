"""Requests of threads that share writes: `threads` says which thread writes, `line` what a failed write means."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from hooklane.batching.line import Blame, Ticket, settle
from hooklane.batching.threads import LeadLine, Waiter
from hooklane.errors import StoreUnavailable

T = TypeVar("T")
R = TypeVar("R")


class Asked(Waiter, Generic[T, R]):
    """A ticket for which a thread or an event loop waits."""

    def __init__(self, item: T) -> None:
        self.ticket: Ticket[T, R] = Ticket(item)

    def refused(self, error: BaseException) -> None:
        self.ticket.fail(error)
        self.is_over = True


class ThreadRequests(Generic[T, R]):
    """Requests of threads: the first to come writes its own, then those that came meanwhile, and hands the lead on."""

    def __init__(
        self,
        write: Callable[[list[T]], Sequence[R]],
        most: int,
        *,
        name: str,
        blame: Callable[[Exception], Blame],
        weigh: Callable[[T], int] | None = None,
    ) -> None:
        """As of `tasks.Requests`."""
        self._write = write
        self._blame = blame
        self._line: LeadLine[Asked[T, R]] = LeadLine(
            self._settle, name=name, most=most, weigh=None if weigh is None else lambda asked: weigh(asked.ticket.item)
        )

    def __len__(self) -> int:
        """How many wait."""
        return len(self._line)

    def ask(self, item: T) -> R:
        """The result for *item*, after the write that holds it."""
        asked: Asked[T, R] = Asked(item)
        self._line.enter(asked)
        return asked.ticket.value()

    def _settle(self, first: Asked[T, R], mine: Asked[T, R] | None) -> None:
        batch = self._line.batch(first)
        steps = settle([asked.ticket for asked in batch], self._blame)
        try:
            items = next(steps)
            while True:
                try:
                    results = self._write(items)
                except Exception as error:
                    items = steps.throw(error)
                else:
                    items = steps.send(results)
        except StopIteration:
            pass  # each of them is settled
        finally:
            for asked in batch:
                if not asked.ticket.is_settled:
                    asked.ticket.fail(StoreUnavailable("the thread that was storing this was interrupted"))
                asked.is_over = True
            if batch[-1] is not mine:
                self._line.tell(batch, mine)
