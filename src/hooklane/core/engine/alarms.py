"""When must the engine look again though nothing happens? A clock with many alarms."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from itertools import count

from hooklane.core.engine.endpoint_queue import EndpointQueue
from hooklane.core.engine.owned_lane import OwnedLane
from hooklane.model.clock import FOREVER, Instant


class Alarms:
    """Lanes and queues by the time for which they asked; one that has moved on since is woken up for nothing."""

    __slots__ = ("_heap", "_numbers")

    def __init__(self) -> None:
        self._heap: list[tuple[Instant, int, OwnedLane | EndpointQueue]] = []
        self._numbers = count()  # so that two of the same time are never compared

    @property
    def next_at(self) -> Instant:
        return self._heap[0][0] if self._heap else FOREVER

    def set(self, at: Instant, what: OwnedLane | EndpointQueue) -> None:
        heappush(self._heap, (at, next(self._numbers), what))

    def forget(self, pids: frozenset[int]) -> None:
        """The lanes of these partitions are no longer ours: none is kept until its time comes, perhaps a day later."""
        self._heap = [one for one in self._heap if isinstance(one[2], EndpointQueue) or one[2].pid not in pids]
        heapify(self._heap)

    def jump(self, by: int) -> None:
        """The clock was set: all alarms with it, so that their order stays."""
        self._heap = [(Instant(at + by), number, what) for at, number, what in self._heap]

    def ring(self, now: Instant) -> Iterator[OwnedLane | EndpointQueue]:
        """Everything that is due."""
        heap = self._heap
        while heap and heap[0][0] <= now:
            yield heappop(heap)[2]
