"""The attempts of late, in memory: what a page shows first, and the live stream after that.

Failures are kept; of deliveries that succeed only as many as a page can show, or a busy process would spend more on
telling than on sending.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from hooklane.model.attempt import Delivered
from hooklane.server.attempt_views import settled_attempt
from hooklane.telemetry.deliveries import Happening, Recorded

KEPT = 500
KEPT_OF_BATCH = 100
DELIVERED_MAX, EVERY_S = 50, 0.1
"""So many successes in so much time: the live stream tells no more of them either."""

Told = tuple[str, dict[str, Any]]
"""A tenant, and an attempt in the shape of the API."""


class RecentAttempts:
    """A ring of attempts, the newest last. *tell* gets each batch as it comes."""

    def __init__(self, tell: Callable[[Sequence[Told]], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._room, self._room_until = 0, 0.0
        """So many successes may still be kept until then."""
        self._ring: deque[Told] = deque(maxlen=KEPT)
        self._untold: deque[Told] = deque(maxlen=KEPT_OF_BATCH)
        self._tell = tell

    def listen(self, happening: Happening) -> None:
        """The relay's listener."""
        if not isinstance(happening, Recorded):
            return
        settled = happening.settlements
        now = self._clock()
        if now >= self._room_until:
            self._room, self._room_until = DELIVERED_MAX, now + EVERY_S
        # The newest, as far as there is room, and failures before them.
        first = len(settled) - self._room
        kept = [one for at, one in enumerate(settled) if at >= first or not isinstance(one.outcome, Delivered)]
        kept = kept[-KEPT_OF_BATCH:]
        self._room -= sum(isinstance(one.outcome, Delivered) for one in kept)
        if kept:
            self.add([(one.send.endpoint.tenant, settled_attempt(one)) for one in kept])

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
