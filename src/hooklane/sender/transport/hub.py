"""What all requests of one transport share: the loop, the clock, the deadlines and the counters."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable

from hooklane.model.exchange import Answer, Failure, Result
from hooklane.sender.transport.wheel import DeadlineWheel


class Counters:
    """What happened since the start; plain numbers that an exporter reads."""

    __slots__ = ("answers", "connections_opened", "connections_reused", "failures", "statuses")

    def __init__(self) -> None:
        self.answers = 0
        self.statuses: Counter[int] = Counter()
        self.failures: Counter[Failure] = Counter()
        self.connections_opened = 0
        self.connections_reused = 0

    def count(self, result: Result) -> None:
        """One more request has ended."""
        if isinstance(result, Answer):
            self.answers += 1
            self.statuses[result.status] += 1
        else:
            self.failures[result.failure] += 1


class Hub:
    """Shared by a transport's parts; it knows how many requests are under way, and who waits for the last."""

    __slots__ = ("_drained", "clock", "counters", "in_flight", "loop", "wheel")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        # Not loop.time(): uvloop's stands still during a turn of the loop, and is in whole milliseconds.
        self.clock: Callable[[], float] = time.monotonic
        self.wheel = DeadlineWheel(loop, self.clock)
        self.counters = Counters()
        self.in_flight = 0
        self._drained: asyncio.Event | None = None

    def ended(self) -> None:
        """One request less is under way."""
        self.in_flight -= 1
        if self._drained is not None and self.in_flight == 0:
            self._drained.set()

    async def drained(self) -> None:
        """Returns when no request is under way."""
        while self.in_flight:
            if self._drained is None:
                self._drained = asyncio.Event()
            self._drained.clear()
            await self._drained.wait()
