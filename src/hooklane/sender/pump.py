"""How does work reach the store in batches? What gathers while one batch is under way makes the next."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Generic, TypeVar

T = TypeVar("T")
FEW = 8
LINGER_MS = 25


class Pump(Generic[T]):
    """A line of items and one batch of them under way at a time, at most *most* in each.

    Items that *can_wait* make no batch of their own until they are a few or it has been a while, and only a few of them
    join one: to whoever waits for a batch, each of them is a delay.
    """

    def __init__(
        self, work: Callable[[list[T]], Awaitable[None]], most: int, *, can_wait: Callable[[T], bool] | None = None
    ) -> None:
        self._work = work
        self._most = most
        self._can_wait = can_wait
        self._line: list[T] = []
        self._patient: list[T] = []
        self._filled = asyncio.Event()
        self._pressed = asyncio.Event()
        """There is something that cannot wait, or enough of what can."""
        self.busy = False

    def add(self, items: Iterable[T]) -> None:
        if self._can_wait is None:
            self._line.extend(items)
        else:
            for item in items:
                (self._patient if self._can_wait(item) else self._line).append(item)
        self._filled.set()
        if self._line or len(self._patient) >= FEW:
            self._pressed.set()

    def discard(self, is_void: Callable[[T], bool]) -> None:
        """Forget those of what has not started that are void by now."""
        self._line = [item for item in self._line if not is_void(item)]
        self._patient = [item for item in self._patient if not is_void(item)]

    @property
    def is_idle(self) -> bool:
        return not self.busy and not self._line and not self._patient

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._filled.wait()
            if not self._pressed.is_set():
                await self._linger()
            batch = self._take()
            if not self._line and len(self._patient) < FEW:
                self._pressed.clear()
                if not self._patient:
                    self._filled.clear()
            if not batch:
                continue
            self.busy = True
            try:
                await self._work(batch)
            finally:
                self.busy = False

    async def _linger(self) -> None:
        try:
            async with asyncio.timeout(LINGER_MS / 1000):
                await self._pressed.wait()
        except TimeoutError:
            pass  # nobody else came, so they go by themselves

    def _take(self) -> list[T]:
        # A part of them where they are many: their line must not grow for ever because each batch has its price.
        few = max(FEW, len(self._patient) // 4)
        patient, self._patient = self._patient[:few], self._patient[few:]
        room = self._most - len(patient)
        urgent, self._line = self._line[:room], self._line[room:]
        return urgent + patient
