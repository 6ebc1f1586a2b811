"""How does work reach the store in batches? What gathers while one batch is under way makes the next."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Generic, TypeVar

T = TypeVar("T")


class Pump(Generic[T]):
    """A line of items and one batch of them under way at a time, at most *most* in each."""

    def __init__(self, work: Callable[[list[T]], Awaitable[None]], most: int) -> None:
        self._work = work
        self._most = most
        self._line: list[T] = []
        self._filled = asyncio.Event()
        self.busy = False

    def add(self, items: Iterable[T]) -> None:
        self._line.extend(items)
        self._filled.set()

    def discard(self, is_void: Callable[[T], bool]) -> None:
        """Forget those of what has not started that are void by now."""
        self._line = [item for item in self._line if not is_void(item)]

    @property
    def is_idle(self) -> bool:
        return not self.busy and not self._line

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._filled.wait()
            batch, self._line = self._line[: self._most], self._line[self._most :]
            if not self._line:
                self._filled.clear()
            if not batch:
                continue
            self.busy = True
            try:
                await self._work(batch)
            finally:
                self.busy = False
