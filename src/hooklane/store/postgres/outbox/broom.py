"""Who sweeps up after a fold? We do: each ack lives for two seconds, and autovacuum comes by once a minute.

Until they are swept, dead rows are read past by each fold and each ack's index entry is sorted in among theirs: after a
quarter of a million of them an event costs the database a fifth more.
"""

from __future__ import annotations

import time

from hooklane.store.postgres.database import Database

DUE_AFTER = 20_000
REST_FACTOR = 50
"""It may take a fiftieth of the time: beside a transaction that is held open there is nothing it can remove."""

# A role that does not own the table is warned, and nothing is swept; nor is a table that another sweeps already. The
# file keeps its size, since to shorten it would lock everybody out.
_SWEEP = "VACUUM (SKIP_LOCKED, TRUNCATE false) hooklane.ack"


class Broom:
    """Counts what was folded, and sweeps when it is worth it."""

    def __init__(self) -> None:
        self._folded = 0
        self._not_before = 0.0

    def note(self, folded: int) -> None:
        """So many acks more are dead rows."""
        self._folded += folded

    def is_due(self) -> bool:
        return self._folded >= DUE_AFTER and time.monotonic() >= self._not_before

    async def sweep(self, db: Database) -> None:
        """Make room where dead acks are."""
        began = time.monotonic()
        self._folded = 0
        try:
            await db.maintain(_SWEEP)
        finally:
            now = time.monotonic()
            self._not_before = now + REST_FACTOR * (now - began)
