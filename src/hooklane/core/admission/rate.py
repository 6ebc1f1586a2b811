"""May one more request come in? A token bucket; the caller brings the time."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hooklane.model.clock import START, Instant


@dataclass(slots=True)
class Bucket:
    """*rate* requests a second on average, *burst* at once."""

    rate: float
    burst: float
    _tokens: float = -1.0
    _at: Instant = START

    def take(self, now: Instant) -> int | None:
        """None when the request may come in, else after how many seconds there is room."""
        if self._tokens < 0:
            self._tokens, self._at = self.burst, now
        elapsed_ms = max(0, now - self._at)
        self._tokens = min(self.burst, self._tokens + elapsed_ms * self.rate / 1000)
        self._at = now
        if self._tokens >= 1:
            self._tokens -= 1
            return None
        return max(1, math.ceil((1 - self._tokens) / self.rate))
