"""How much may one search look at? Rows and time, whatever was asked; what is left is for the next page.

A filter that fits few rows has to look at many. Instead of an index for each filter, which every publish would pay for,
a search looks at a bounded window of rows, hands back what fits, and says where the next page goes on.
"""

from __future__ import annotations

import time

ROWS_MAX = 50_000
ROWS_MIN = 1_000
"""Looked at in any case: a small store is always searched in one go, on however slow a machine."""
WINDOW_MAX = 8_000
SEARCH_S = 0.03
SEARCH_S_MAX = 5.0
"""When a search is ended that is still at it, be it inside a statement or in the line before it."""
LEDGER_S_MAX = 30.0
"""When the check of the ledger is ended, which has to count every row."""
NARROW = "the search took too long and was ended: narrow it, for instance by `after` and `before`, or ask for fewer"


class Budget:
    """What one search has looked at so far, in windows that grow while the search is quick."""

    def __init__(self) -> None:
        self.window = ROWS_MIN
        self._rows = 0
        began = time.monotonic()
        self._ends_at = began + SEARCH_S
        self._slow_at = began + SEARCH_S / 4

    def spend(self, rows: int) -> None:
        """So many rows were looked at."""
        self._rows += rows
        if time.monotonic() > self._slow_at:
            return  # a larger window would outlast the time
        self.window = min(WINDOW_MAX, 2 * self.window, max(ROWS_MIN, ROWS_MAX - self._rows))

    @property
    def is_spent(self) -> bool:
        """Whether to stop here and leave the rest to the next page."""
        return self._rows >= ROWS_MAX or (self._rows >= ROWS_MIN and time.monotonic() >= self._ends_at)
