"""The vacuum of the acks after folding: each ack lives for two seconds, and autovacuum comes by once a minute.

Until dead rows are removed, each fold reads past them, and each new index entry is sorted in among the dead ones: after
a quarter of a million of them an event costs the database a fifth more.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from hooklane.store.postgres.database import Database
from hooklane.store.postgres.outbox.fold_acks import FIRST
from hooklane.store.postgres.outbox.statements import SQL

DUE_AFTER = 20_000
REWIND_S = 10.0
REST_FACTOR = 50
"""It may take a fiftieth of the time: beside a transaction that is held open there is nothing it can remove."""


class AckVacuum:
    """Counts what was folded, knows where to go on, and vacuums when it is worth it."""

    def __init__(self) -> None:
        self._folded = 0
        self._not_before = 0.0
        self._start = FIRST
        self._rewind_at = 0.0

    @contextmanager
    def round(self) -> Iterator[str]:
        """A fold, and where it begins: behind the last, now and then at the beginning of the table.

        New acks come behind the old ones unless the table was vacuumed. Where it cannot be, folded ones stay, and
        to read past all of them every two seconds would take longer each time.
        """
        began = time.monotonic()
        is_first = began >= self._rewind_at
        if is_first:
            self._start = FIRST
        yield self._start
        if is_first:
            now = time.monotonic()
            self._rewind_at = now + max(REWIND_S, REST_FACTOR * (now - began))

    def note(self, folded: int, last: str) -> None:
        """So many acks more are dead rows, the last of them there."""
        self._folded += folded
        self._start = last

    def is_due(self) -> bool:
        return self._folded >= DUE_AFTER and time.monotonic() >= self._not_before

    async def vacuum(self, db: Database) -> None:
        """Make room where dead acks are."""
        began = time.monotonic()
        self._folded = 0
        try:
            await db.maintain(SQL["vacuum_acks"])
        finally:
            now = time.monotonic()
            self._not_before = now + REST_FACTOR * (now - began)
            self._rewind_at = 0.0  # new acks may come in front
