"""Whose turn is it to write? Two sides take turns; on one side many may write together, since they share their commits.

In SQLite's own queue a side that waits sleeps and asks again, so a side that always has something to write would starve
the other.
"""

from __future__ import annotations

from hooklane.batching.tasks import TaskTurns


class WriteTurns:
    """Held by one side at a time; what waits is served in order, together with those of its side right behind it."""

    def __init__(self) -> None:
        self._side: object = None
        self._holders = 0
        self._turns: TaskTurns[object, None] = TaskTurns()

    async def take(self, side: object) -> None:
        """Returns when it is the turn of *side*, which gives it back with `give_back`."""
        if self._turns.is_wanted or (self._holders and self._side != side):
            await self._turns.wait(side, self._given_back)
        else:
            self._side = side
            self._holders += 1

    async def _given_back(self, _: None) -> None:
        self.give_back()

    def give_back(self) -> None:
        self._holders -= 1
        if self._holders == 0 and self._turns.is_wanted:
            self._side = self._turns.first
            while self._turns.first == self._side and self._turns.give(None):
                self._holders += 1
