"""How an inbox is doing, in figures."""

from __future__ import annotations

from dataclasses import dataclass

from hooklane.core.admission.breaker import BreakerState
from hooklane.model.clock import Instant
from hooklane.model.inbox import Count
from hooklane.model.message import Status


@dataclass(frozen=True, slots=True)
class Stats:
    """How an inbox is doing."""

    counts: tuple[Count, ...]
    breakers: dict[tuple[str, str], BreakerState]
    now: Instant

    def total(self, status: Status) -> int:
        """How many handlings (or rows without one) are in *status*."""
        return sum(count.rows for count in self.counts if count.status is status)

    @property
    def dead(self) -> int:
        """Dead letters: an operator should look at them."""
        return self.total(Status.DEAD)

    @property
    def lag_ms(self) -> int:
        """The age of the oldest event that is still owed."""
        owed = (Status.PENDING, Status.IN_PROGRESS, Status.FAILED, Status.HELD)
        return max((self.now - count.oldest_at for count in self.counts if count.status in owed), default=0)
