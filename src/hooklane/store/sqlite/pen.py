"""Whose turn is it to write? Two sides take turns; on one side many may write together, since they share their commits.

In SQLite's own queue whoever waits sleeps and asks again, so a side that always has something to write would starve the
other.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Pen:
    """Held by one side at a time; who waits is served in order, together with those of its side right behind it."""

    def __init__(self) -> None:
        self._side: object = None
        self._holders = 0
        self._line: deque[tuple[object, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def held(self, side: object) -> AsyncIterator[None]:
        if self._line or (self._holders and self._side != side):
            await self._wait(side)
        else:
            self._side = side
            self._holders += 1
        try:
            yield
        finally:
            self._give_back()

    async def _wait(self, side: object) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._line.append((side, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._give_back()  # it became ours in the same moment
            else:
                self._line.remove((side, turn))
            raise

    def _give_back(self) -> None:
        self._holders -= 1
        if self._holders == 0 and self._line:
            self._side = self._line[0][0]
            while self._line and self._line[0][0] == self._side:
                _, turn = self._line.popleft()
                if not turn.done():
                    self._holders += 1
                    turn.set_result(None)
