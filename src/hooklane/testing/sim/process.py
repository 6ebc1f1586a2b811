"""A process of a simulated world: it crashes, stalls and comes back as a zombie, and its clock runs a little wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hooklane.model.clock import Instant
from hooklane.testing.sim.world import World


class Process:
    """Everything it does goes through `do`: at once, or when it wakes up, or never."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.number = number
        self.alive = True
        self._stalled = False
        self._missed: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self._clock_rate = 1.0 + world.faults.clock_drift * (2.0 * world.roll() - 1.0)
        self._clock_lag = 0.0

    def do(self, what: Callable[..., None], *args: Any) -> None:
        """Run something of this process: at once, or when it wakes up, or never."""
        if not self.alive:
            return
        if self._stalled:
            self._missed.append((what, args))
        else:
            what(*args)

    def after(self, delay_ms: float, what: Callable[..., None], *args: Any) -> None:
        self.world.after(delay_ms, self.do, what, *args)

    def crash(self) -> None:
        self.alive = False
        self._missed.clear()
        self.world.counts["crash"] += 1
        self.world.trace(9, self.number)

    def stall(self, for_ms: float, clock_stops: bool) -> None:
        """Everything stops for a while; with a clock that stops as well, the process does not notice afterwards."""
        if self._stalled or not self.alive:
            return
        self._stalled = True
        if clock_stops:
            self._clock_lag += for_ms
        self.world.counts["stall"] += 1
        self.world.trace(10, self.number)
        self.world.after(for_ms, self._wake)

    def _wake(self) -> None:
        if not self.alive:
            return
        self._stalled = False
        missed, self._missed = self._missed, []
        for what, args in missed:
            self.do(what, *args)

    @property
    def keeps_time(self) -> bool:
        """Its clock has never stood still, so that it knows how long it stalled."""
        return not self._clock_lag

    def boot(self) -> Instant:
        """Its own clock, which runs a little wrong and may have stood still."""
        return Instant(int(self.world.now * self._clock_rate - self._clock_lag))
