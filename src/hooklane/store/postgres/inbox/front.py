"""From which due time on does a claim look for work? Not from the oldest, where dead index entries make that slow.

A claimed handling leaves a dead entry in the index of those that are due. While a transaction is held open (a backup),
PostgreSQL keeps such entries, and each claim reads past all of them, the oldest first. So where that takes long, a
claim begins a minute before the oldest handling that the last claim found, or before the time at which it found none,
and only now and then at the very beginning: a handling may have been stored by a clock that is far behind, or for a
handler that was not asked for.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

SLOW_S = 0.02
SLOW_TIMES = 3
"""So many claims in a row must have taken long: a busy machine is no sign."""
REST_FACTOR = 20
"""A claim from the very beginning may take a twentieth of the time."""
SLACK_MS = 60_000

BEGINNING = 0


class Front:
    """Of one kind of claim. Threads may share it: at worst one begins too early, or too late until the next look."""

    def __init__(self) -> None:
        self._since = BEGINNING
        self._slow = 0
        self._rewind_at = 0.0

    def since(self) -> int:
        """Where the next claim begins, as a time."""
        if self._slow < SLOW_TIMES or time.monotonic() >= self._rewind_at:
            return BEGINNING
        return self._since

    def rewind(self) -> None:
        """The next claim begins at the very beginning."""
        self._rewind_at = 0.0

    def note(self, since: int, took_s: float, found: Sequence[int], until: int) -> None:
        """A claim from *since* took so long, and found handlings that were due at these times, and no more *until*."""
        if since == BEGINNING:
            self._slow = self._slow + 1 if took_s > SLOW_S else 0
            self._rewind_at = time.monotonic() + REST_FACTOR * took_s
        self._since = max(min(found, default=until) - SLACK_MS, BEGINNING + 1)
