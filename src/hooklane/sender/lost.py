"""What did this process publish that the database has lost? Asked by a server that has no worker to ask it.

A worker remembers what it sent and what its process published (`core/worker/witness.py`). A server that only answers
calls remembers what it has answered 202 for, and asks as soon as the database is another run than before.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence

from hooklane.core.lost import mend
from hooklane.core.worker.witness import Witness
from hooklane.errors import StoreError
from hooklane.model.clock import wall_now
from hooklane.model.lost import LostLane
from hooklane.store.outbox import OutboxStore, PublishReport
from hooklane.telemetry.deliveries import Listener, Lost

log = logging.getLogger("hooklane.lost")

LOOK_S = 1.0


class PublishedPlaces:
    """The last places that this process published, compared with the store when its server was replaced."""

    def __init__(self, store: OutboxStore, tell: Listener, feed: Callable[[PublishReport], None] | None) -> None:
        """*feed* is told of what was published, as before."""
        self._store = store
        self._tell = tell
        self._then = feed
        self._witness = Witness()
        self._run = store.run
        self._stopping = asyncio.Event()

    def feed(self, report: PublishReport) -> None:
        self._witness.published(report.grown)
        if self._then is not None:
            self._then(report)

    async def run(self) -> None:
        """Until `stop`; while the store is away there is nothing to compare with."""
        while not self._stopping.is_set():
            with contextlib.suppress(StoreError):
                await self.look()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), LOOK_S)

    def stop(self) -> None:
        self._stopping.set()

    async def look(self) -> None:
        """Ask for what was published, if the server is not the one of the last look."""
        run = self._store.run
        if run == self._run:
            return
        if self._witness:
            now = wall_now()
            report_lost(await self._store.account_for(self._witness.places(now), mend, now), self._tell)
        self._run = run


def report_lost(lanes: Sequence[LostLane], tell: Listener | None) -> None:
    """A line of the log for each lane, and a count for the metrics."""
    for lane in lanes:
        where = lane.endpoint_id if lane.key is None else f"{lane.endpoint_id} {lane.key!r}"
        log.error("the database lost events that were sent or published: %s: %s", where, lane.note)
    if lanes and tell is not None:
        tell(Lost(sum(len(lane.lost) + len(lane.reused) for lane in lanes)))
