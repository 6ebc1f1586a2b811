"""A clock that moves when it is told to: `Inbox(…, clock=Clock())`."""

from __future__ import annotations

from hooklane.model.clock import Instant, wall_now


class Clock:
    """Stands still at the time of its making, or at *now*, until `advance`."""

    def __init__(self, now: Instant | None = None) -> None:
        self.now = wall_now() if now is None else now

    def __call__(self) -> Instant:
        return self.now

    def advance(self, seconds: float) -> None:
        """Let *seconds* pass."""
        self.now = Instant(self.now + int(seconds * 1000))
