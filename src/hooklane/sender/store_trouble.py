"""When is a store's failure told? At once, and then once a minute: what is repeated fails many times a second."""

from __future__ import annotations

import logging
import time

from hooklane.errors import StoreError

AGAIN_S = 60.0


class StoreTrouble:
    """Failures of one part's calls to the store, in the log."""

    def __init__(self, log: logging.Logger, what: str) -> None:
        """*what* is true of the part while its calls fail."""
        self._log = log
        self._what = what
        self._told_at: float | None = None

    def tell(self, error: StoreError) -> None:
        """Log *error*, unless one was logged within the last minute."""
        now = time.monotonic()
        if self._told_at is None or now - self._told_at >= AGAIN_S:
            self._told_at = now
            self._log.warning("%s: %s", self._what, error)
