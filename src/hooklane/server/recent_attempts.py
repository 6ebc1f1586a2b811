"""The attempts of late, in memory: what a page shows first, and the live stream after that.

Failures are kept; of deliveries that succeed only some of each batch, or a busy process would spend more on telling
than on sending.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from hooklane.model.attempt import Delivered
from hooklane.server.attempt_views import settled_attempt
from hooklane.telemetry.deliveries import Happening, Recorded

KEPT = 500
DELIVERED_OF_BATCH = 20
FAILED_OF_BATCH = 100

Told = tuple[str, dict[str, Any]]
"""A tenant, and an attempt in the shape of the API."""


class RecentAttempts:
    """A ring of attempts, the newest last. *tell* gets each batch as it comes."""

    def __init__(self, tell: Callable[[Sequence[Told]], None]) -> None:
        self._ring: deque[Told] = deque(maxlen=KEPT)
        self._untold: deque[Told] = deque(maxlen=FAILED_OF_BATCH)
        self._tell = tell

    def listen(self, happening: Happening) -> None:
        """The relay's listener."""
        if not isinstance(happening, Recorded):
            return
        settled = happening.settlements
        if len(settled) > DELIVERED_OF_BATCH:
            failed = [one for one in settled if not isinstance(one.outcome, Delivered)][-FAILED_OF_BATCH:]
            settled = [*failed, *settled[-DELIVERED_OF_BATCH:]] if failed else settled[-DELIVERED_OF_BATCH:]
            settled = list({id(one): one for one in settled}.values())
        self.add([(one.send.endpoint.tenant, settled_attempt(one)) for one in settled])

    def add(self, told: Sequence[Told]) -> None:
        """Attempts that this process or one of its workers has made."""
        self._ring.extend(told)
        self._untold.extend(told)
        self._tell(told)

    def take(self) -> list[Told]:
        """What came since the last call, or the newest of it: for the process that this one works for."""
        taken = list(self._untold)
        self._untold.clear()
        return taken

    def of(self, tenant: str) -> Iterable[dict[str, Any]]:
        """The newest first."""
        return (view for whose, view in reversed(self._ring) if whose == tenant)
