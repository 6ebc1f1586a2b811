"""When must the engine look again though nothing happens? A clock with many alarms."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush

from hooklane.core.engine.desk import Desk
from hooklane.core.engine.slot import Slot
from hooklane.model.clock import FOREVER, Instant


class Alarms:
    """Lanes and desks by the time for which they asked; one that has moved on since is woken up for nothing."""

    __slots__ = ("_count", "_heap")

    def __init__(self) -> None:
        self._heap: list[tuple[Instant, int, Slot | Desk]] = []
        self._count = 0

    @property
    def next_at(self) -> Instant:
        return self._heap[0][0] if self._heap else FOREVER

    def set(self, at: Instant, what: Slot | Desk) -> None:
        self._count += 1  # so that two of the same time are never compared
        heappush(self._heap, (at, self._count, what))

    def ring(self, now: Instant) -> Iterator[Slot | Desk]:
        """Everything that is due."""
        heap = self._heap
        while heap and heap[0][0] <= now:
            yield heappop(heap)[2]
