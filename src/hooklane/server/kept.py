"""Answers that cost much are kept for a moment and given to all who ask: up to five seconds old, and it is told.

While an answer is fresh enough it is given at once, and a new one is made beside it. No caller waits for counting but
the first, and a caller that comes after a while without calls.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from hooklane.errors import StoreError
from hooklane.model.clock import Instant, wall_now

T = TypeVar("T")
QUICK_S = 0.05
"""What is made as quickly as this is made anew for each caller."""
AGE_S_MAX = 5.0
SHARE = 10
"""Making answers may take a tenth of the time: what takes half a second or longer may be older than five seconds."""
KEYS_MAX = 1_000


@dataclass(frozen=True, slots=True)
class Made(Generic[T]):
    """An answer, and what time it was when the question was asked."""

    value: T
    as_of: Instant


@dataclass(slots=True)
class _Known(Generic[T]):
    made: Made[T]
    at: float
    took_s: float

    def is_fresh(self, now: float) -> bool:
        """Young enough that nothing need be done."""
        return self.took_s > QUICK_S and now < self.at + max(AGE_S_MAX / 2, SHARE * self.took_s / 2)

    def may_be_told(self, now: float) -> bool:
        return self.took_s > QUICK_S and now < self.at + max(AGE_S_MAX, SHARE * self.took_s)


class Kept(Generic[T]):
    """Answers of one kind, by key (a tenant)."""

    def __init__(self, ask: Callable[[str], Awaitable[T]], name: str) -> None:
        self._ask = ask
        self._name = name
        self._known: dict[str, _Known[T]] = {}
        self._making: dict[str, asyncio.Task[Made[T]]] = {}

    async def of(self, key: str) -> Made[T]:
        known = self._known.get(key)
        if known is not None and known.is_fresh(time.monotonic()):
            return known.made
        began_before = key in self._making
        task = self._making.get(key) or self._start(key)
        if known is not None and known.may_be_told(time.monotonic()):
            return known.made
        try:
            made = await asyncio.shield(task)  # others may wait for it too
        except StoreError:
            if known is None:
                raise
            return known.made
        # It began before this was asked: good enough only where it takes long.
        newest = self._known.get(key)
        if began_before and newest is not None and newest.took_s <= QUICK_S:
            return await asyncio.shield(self._making.get(key) or self._start(key))
        return made

    def _start(self, key: str) -> asyncio.Task[Made[T]]:
        task = self._making[key] = asyncio.create_task(self._make(key), name=f"{self._name} of {key}")
        task.add_done_callback(lambda done: self._over(key, done))
        return task

    def _over(self, key: str, done: asyncio.Task[Made[T]]) -> None:
        del self._making[key]
        if not done.cancelled():
            done.exception()  # told to the callers that still wait, if any

    async def _make(self, key: str) -> Made[T]:
        began, as_of = time.monotonic(), wall_now()
        made = Made(await self._ask(key), as_of)
        if len(self._known) >= KEYS_MAX:
            self._known.clear()
        self._known[key] = _Known(made, time.monotonic(), time.monotonic() - began)
        return made
