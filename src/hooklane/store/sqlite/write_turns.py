"""Whose turn is it to write? Two sides take turns; on one side many may write together, since they share their commits.

In SQLite's own queue a side that waits sleeps and asks again, so a side that always has something to write would starve
the other.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hooklane.batching.tasks import TaskTurns


class WriteTurns:
    """Held by one side at a time; what waits is served in order, together with those of its side right behind it."""

    def __init__(self) -> None:
        self._side: object = None
        self._holders = 0
        self._turns: TaskTurns[object, None] = TaskTurns()

    @asynccontextmanager
    async def held(self, side: object) -> AsyncIterator[None]:
        if self._turns.is_wanted or (self._holders and self._side != side):
            await self._turns.wait(side, self._given_back)
        else:
            self._side = side
            self._holders += 1
        try:
            yield
        finally:
            self._give_back()

    async def _given_back(self, _: None) -> None:
        self._give_back()

    def _give_back(self) -> None:
        self._holders -= 1
        if self._holders == 0 and self._turns.is_wanted:
            self._side = self._turns.first
            while self._turns.first == self._side and self._turns.give(None):
                self._holders += 1
