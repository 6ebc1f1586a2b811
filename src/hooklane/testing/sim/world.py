"""When does what happen? One heap of things to come, one source of chance, and a hash over everything that happened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import Any

from hooklane.testing.sim.faults import NONE, Faults

T0 = 1_750_000_000_000


class World:
    """Simulated time in milliseconds. The same seed makes the same world, to the last step."""

    def __init__(self, seed: int, faults: Faults) -> None:
        self.chance = Random(seed)
        self.roll = self.chance.random
        self.faults = faults
        self.now = 0.0
        self.counts: Counter[str] = Counter()
        self.hash = seed
        self.steps = 0
        self.gone: set[str] = set()
        """Processes that have crashed where others can see it."""
        self._heap: list[tuple[float, float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._count = 0

    def after(self, delay_ms: float, do: Callable[..., None], *args: Any) -> None:
        """Do something later; what is due at the same time is done in any order, by chance."""
        self._count += 1
        heappush(self._heap, (self.now + delay_ms, self.roll(), self._count, do, args))

    def after_without_chance(self, delay_ms: float, do: Callable[..., None], *args: Any) -> None:
        """As `after`, in the order of asking: an onlooker that uses it changes nothing of what the world does."""
        self._count += 1
        heappush(self._heap, (self.now + delay_ms, 1.0, self._count, do, args))

    def every(self, mean_ms: float, do: Callable[[], None]) -> None:
        """Do something again and again, at random times, while the world is unkind."""
        if mean_ms <= 0:
            return

        def again() -> None:
            if self.faults is NONE:
                return
            do()
            self.after(self.chance.expovariate(1.0 / mean_ms), again)

        self.after(self.chance.expovariate(1.0 / mean_ms), again)

    def calm(self) -> None:
        """No more faults from here on."""
        self.faults = NONE

    def is_gone(self, worker: str) -> bool:
        """Whether the process of a worker's name is certainly dead."""
        return worker.partition(".")[0] in self.gone

    def trace(self, kind: int, *facts: int) -> None:
        # Integers only: their hash is the same in every process.
        self.hash = hash((self.hash, int(self.now * 1000), kind, *facts))

    def run(self, until: Callable[[], bool], limit_ms: float) -> bool:
        """Go on until a condition holds; False when it did not within *limit_ms*."""
        heap, end = self._heap, self.now + limit_ms
        while heap and heap[0][0] <= end:
            self.now, _, _, do, args = heappop(heap)
            do(*args)
            self.steps += 1
            if self.steps & 63 == 0 and until():
                return True
        return until()
