"""May more requests come in? A token bucket; the caller brings the time."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hooklane.model.clock import START, Instant

WAIT_S_MAX = 86_400


@dataclass(slots=True)
class Bucket:
    """*rate* requests a second on average, *burst* at once."""

    rate: float
    burst: float
    _tokens: float | None = None
    """What may come in now; below 0 after more than a burst came in together. None: nothing was asked for yet."""
    _at: Instant = START

    def take(self, now: Instant, many: int = 1) -> int | None:
        """None when *many* requests may come in together, else after how many seconds they may; then none is taken.

        More than a burst come in where the bucket is full, and those behind them wait for as long as that takes: else
        they never could.
        """
        after_s = self.wait(now, many)
        if after_s is None and self._tokens is not None:
            self._tokens -= many
        return after_s

    def wait(self, now: Instant, many: int = 1) -> int | None:
        """The same, and none is taken in either case."""
        tokens = self.burst
        if self._tokens is not None:
            tokens = min(self.burst, self._tokens + max(0, now - self._at) * self.rate / 1000)
        wanted = min(float(many), self.burst)
        self._tokens, self._at = tokens, now
        if tokens >= wanted:
            return None
        return max(1, math.ceil(min(WAIT_S_MAX, (wanted - tokens) / self.rate)))
