"""Calls that a key or a session does not permit, in the audit log: the first of each kind, and then a count.

A flood of them must not become a flood of lines: the log is kept for good, and each line waits for the one before it.
"""

from __future__ import annotations

from hooklane.server.wrong_keys import Bucket

AGAIN_S = 3_600.0
"""A caller that is refused the same call again is on record once in so long, with how often it was."""
BURST = 30
PER_S = 0.5
KINDS_MAX = 10_000


class Refusals:
    """Which refusals are to be written down."""

    def __init__(self) -> None:
        self._kinds: dict[tuple[str, str], tuple[float, int]] = {}
        """When it was written last, and how often it happened since."""
        self._room = Bucket(BURST, PER_S)

    def note(self, caller: str, call: str, now: float) -> str | None:
        """*caller* was refused *call*: what to write down; None where that is on record, or too much is."""
        kind = (caller, call)
        written, more = self._kinds.get(kind, (None, 0))
        if written is None and len(self._kinds) >= KINDS_MAX:
            self._kinds.clear()
        if (written is not None and now - written < AGAIN_S) or not self._room.take(now):
            self._kinds[kind] = (now - AGAIN_S if written is None else written, more + 1)
            return None
        self._kinds[kind] = (now, 0)
        return call if not more else f"{call}, {more + 1} times"
