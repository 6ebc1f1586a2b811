"""The runtime of a transport: the loop, the clock, the deadlines and the counters that all its requests share."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

from hooklane.model.exchange import Failure
from hooklane.sender.transport.wheel import DeadlineWheel


class Counters:
    """What happened since the start; plain numbers that an exporter reads."""

    __slots__ = ("answers", "connections_opened", "connections_reused", "failures")

    def __init__(self) -> None:
        self.answers = 0
        self.failures: Counter[Failure] = Counter()
        self.connections_opened = 0
        self.connections_reused = 0


class Runtime:
    """Shared by a transport's parts; it counts the requests under way and wakes `drained` after the last."""

    __slots__ = ("_drained", "clock", "counters", "in_flight", "loop", "wheel")

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Callable[[], float]) -> None:
        self.loop = loop
        self.clock = clock
        self.wheel = DeadlineWheel(loop, clock)
        self.counters = Counters()
        self.in_flight = 0
        self._drained: asyncio.Event | None = None

    def wake_drained(self) -> None:
        """The last request has ended."""
        if self._drained is not None:
            self._drained.set()

    async def drained(self) -> None:
        """Returns when no request is under way."""
        while self.in_flight:
            if self._drained is None:
                self._drained = asyncio.Event()
            self._drained.clear()
            await self._drained.wait()
