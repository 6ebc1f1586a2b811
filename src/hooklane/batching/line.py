"""What waits for the next write, how much of it one write takes, and what a write that fails means for each request.

    add ──▶ waiting ──take──▶ in hand ──settle──▶ settled: a result or an error
              │                  ▲  │
              └─withdraw         └──┘ one by one, when one of several may be bad

Nothing here does I/O, takes a lock or reads a clock: `tasks` and `threads` do, each in its own way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from enum import Enum
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")
S = TypeVar("S")


class Blame(Enum):
    """What an error of a write says about the requests in it."""

    ALL = "all"
    """Nothing about a single one (the store is away, or the outcome is unknown): each is told the error."""
    ONE = "one"
    """One of them may be bad: they are written one by one, so that the others do not fail with it."""
    RACE = "race"
    """None is bad, a race was lost: the same is written once more, and then each is told."""


class Ticket(Generic[T, R]):
    """One request: the *item* that it wants written, and then its *result* or its *error*."""

    def __init__(self, item: T) -> None:
        self.item = item
        self.result: R | None = None
        self.error: BaseException | None = None
        self.is_settled = False

    def succeed(self, result: R) -> None:
        self.result = result
        self.is_settled = True

    def fail(self, error: BaseException) -> None:
        self.error = error
        self.is_settled = True

    def value(self) -> R:
        """The result; the error is raised."""
        if self.error is not None:
            raise self.error
        assert self.is_settled
        return self.result  # type: ignore[return-value]


class Line(Generic[T]):
    """What waits, in order of arrival. A batch holds at most *most* items, or items that *weigh* at most so much."""

    def __init__(self, most: int, weigh: Callable[[T], int] | None = None) -> None:
        self.most = most
        self._weigh = weigh
        self.items: deque[T] = deque()

    def __len__(self) -> int:
        return len(self.items)

    def add(self, item: T) -> None:
        self.items.append(item)

    def take(self, room: int | None = None) -> list[T]:
        """The next batch, of at most *room*: the oldest first. One that is too heavy for any batch goes alone."""
        items = self.items
        room = self.most if room is None else room
        if self._weigh is not None:
            return self._take_weighed(room)
        if len(items) <= room:
            batch = list(items)
            items.clear()
            return batch
        return [items.popleft() for _ in range(room)]

    def take_beside(self, first: T) -> list[T]:
        """A batch of *first*, which waits no longer, and of those that have room beside it."""
        if not self.items:
            return [first]
        weight = 1 if self._weigh is None else self._weigh(first)
        return [first, *self.take(max(0, self.most - weight))]

    def _take_weighed(self, room: int) -> list[T]:
        assert self._weigh is not None
        items, batch, weight = self.items, list[T](), 0
        while items:
            weight += self._weigh(items[0])
            if weight > room and (batch or room < self.most):
                break
            batch.append(items.popleft())
        return batch

    def withdraw(self, item: T) -> bool:
        """*item* waits no longer; False when it was taken already."""
        if item in self.items:
            self.items.remove(item)
            return True
        return False


class FairLine(Generic[T]):
    """What waits, group by group: where not all of it has room in a batch, the groups take turns.

    Inside a group it is the oldest first. A group with much to do makes its own items wait, and no other's.
    """

    def __init__(self, most: int, group_of: Callable[[T], str]) -> None:
        self.most = most
        self._group_of = group_of
        self._groups: dict[str, deque[T]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, item: T) -> None:
        group = self._group_of(item)
        waiting = self._groups.get(group)
        if waiting is None:
            self._groups[group] = deque((item,))
        else:
            waiting.append(item)
        self._count += 1

    def take(self) -> list[T]:
        """The next batch: all that waits, or an equal share of each group, and what those leave free."""
        groups, batch = self._groups, list[T]()
        if self._count <= self.most:
            for waiting in groups.values():
                batch.extend(waiting)
            groups.clear()
            self._count = 0
            return batch
        while (room := self.most - len(batch)) > 0:
            share = max(1, room // len(groups))
            for group in list(groups)[:room]:
                waiting = groups.pop(group)
                batch.extend([waiting.popleft() for _ in range(min(share, len(waiting)))])
                if waiting:
                    groups[group] = waiting  # its next turn comes after those of all others
        self._count -= len(batch)
        return batch


def settle(
    batch: Sequence[Ticket[T, R]], blame: Callable[[Exception], Blame], again: bool = True
) -> Generator[list[T], Sequence[R], None]:
    """Asks for writes until each ticket of *batch* is settled: yields the items of one write, is sent a result for
    each of them, or is thrown the error that the write raised."""
    try:
        results = yield [ticket.item for ticket in batch]
    except Exception as error:
        what = blame(error)
        if what is Blame.RACE and again:
            yield from settle(batch, blame, False)
        elif what is Blame.ONE and len(batch) > 1:
            for ticket in batch:
                yield from settle([ticket], blame)
        else:
            for ticket in batch:
                ticket.fail(error)
        return
    for ticket, result in zip(batch, results, strict=True):
        ticket.succeed(result)


def flat(items: Sequence[Sequence[S]]) -> list[S]:
    """All parts of items that have several: what goes into one write."""
    return list(items[0]) if len(items) == 1 else [part for item in items for part in item]


def cut(results: Sequence[R], items: Sequence[Sequence[S]]) -> list[list[R]]:
    """The results of `flat(items)`, for each item its own."""
    if len(items) == 1:
        return [list(results)]
    shares, start = [], 0
    for item in items:
        shares.append(list(results[start : start + len(item)]))
        start += len(item)
    return shares
