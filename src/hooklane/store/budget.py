"""How much may one search look at? Rows and time, whatever was asked; what is left is for the next page.

A filter that fits few rows has to look at many. Instead of an index for each filter, which every publish would pay for,
a search looks at a bounded window of rows, hands back what fits, and says where the next page goes on.
"""

from __future__ import annotations

import time
from collections.abc import Callable

ROWS_MAX = 50_000
ROWS_MIN = 1_000
"""Looked at in any case: a small store is always searched in one go, on however slow a machine."""
WINDOW_MAX = 8_000
SEARCH_S = 0.03
SEARCH_S_MAX = 5.0
"""When a search is ended that is still at it, be it inside a statement or in the line before it."""
LEDGER_S_MAX = 30.0
"""The same for the check of the ledger, which has to count every row."""
NARROW = "the search took too long and was ended: narrow it, for instance by `after` and `before`, or ask for fewer"


class Budget:
    """What one search has looked at so far, in windows that grow while the search is quick."""

    def __init__(
        self, *, rows_max: int = ROWS_MAX, s_max: float = SEARCH_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.window = ROWS_MIN
        self._rows = 0
        self._rows_max = rows_max
        self._clock = clock
        self._ends_at = clock() + s_max
        self._slow_at = clock() + s_max / 4

    def spend(self, rows: int) -> None:
        """So many rows were looked at."""
        self._rows += rows
        if self._clock() > self._slow_at:
            return  # a larger window would outlast the time
        self.window = min(WINDOW_MAX, 2 * self.window, max(ROWS_MIN, self._rows_max - self._rows))

    @property
    def is_spent(self) -> bool:
        """Whether to stop here and leave the rest to the next page."""
        return self._rows >= self._rows_max or (self._rows >= ROWS_MIN and self._clock() >= self._ends_at)
