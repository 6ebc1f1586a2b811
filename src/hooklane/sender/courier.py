"""What carries requests to their targets, as the relay sees it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from hooklane.model.exchange import Result, Target


class Courier(Protocol):
    """What carries requests to their targets: the transport, or what stands where it stands."""

    @property
    def connections_max(self) -> int:
        """How many requests can be under way at once."""

    def send(self, target: Target, headers: bytes, body: bytes, done: Callable[[Result], None]) -> None:
        """POST *body*; *done* is called exactly once, later, from the loop."""

    async def close(self, grace_ms: int) -> None:
        """Take nothing new, and end what is under way within *grace_ms*."""
