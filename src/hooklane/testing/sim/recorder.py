"""The steps of a simulated run, in order: everything that the checker is told of and a person would want to see."""

from __future__ import annotations

from collections.abc import Callable

from hooklane.testing.invariants import Invariants
from hooklane.testing.lane_book import Rules

Told = Callable[[str, int, int, int | None, float | None], None]
"""Kind, lane, seq, attempt, and the instant until which the head waits."""


class Recorder(Invariants):
    """A checker that also hands on what became durable, as it does; what it checks stays the same."""

    def __init__(self, clock: Callable[[], float], told: Told) -> None:
        super().__init__(clock)
        self._told = told

    def accepted(self, lane: int, pid: int, seq: int, event_id: str, rules: Rules) -> None:
        super().accepted(lane, pid, seq, event_id, rules)
        self._told("published", lane, seq, None, None)

    def acked(self, worker: str, epoch: int, lane: int, seq: int) -> None:
        super().acked(worker, epoch, lane, seq)
        self._told("acked", lane, seq, None, None)

    def failed(
        self, worker: str, epoch: int, lane: int, seq: int, attempt: int, at: int, next_at: int | None, *, seen: bool
    ) -> None:
        super().failed(worker, epoch, lane, seq, attempt, at, next_at, seen=seen)
        if next_at is not None:
            self._told("retry", lane, seq, attempt, float(next_at))

    def died(self, worker: str, epoch: int, lane: int, seq: int, *, seen: bool = True) -> None:
        super().died(worker, epoch, lane, seq, seen=seen)
        self._told("dead", lane, seq, None, None)
