"""The totals of the overview, the live page and the metrics, counted once for all callers.

Counting goes over all lanes. Where that takes long, it is done for a twentieth of the time at most, and an answer may
be as old as that makes it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hooklane.errors import SearchTooLong
from hooklane.model.clock import Instant
from hooklane.model.lane import DeliveryState, LaneState
from hooklane.store.reads import OutboxReads

QUICK_S = 0.1
"""What is counted as quickly as this is counted anew for each caller."""
SHARE = 20


@dataclass(frozen=True, slots=True)
class Counted:
    """The totals of one tenant, or of all."""

    ledger: Mapping[DeliveryState | str, int]
    lanes: Mapping[LaneState, int]
    oldest_pending_at: Instant | None
    store_bytes: int


class Totals:
    """Counts, and remembers what was counted while counting it anew would cost too much."""

    def __init__(self, reads: OutboxReads, clock: Callable[[], float] = time.monotonic) -> None:
        self._reads = reads
        self._clock = clock
        self._last: dict[str | None, tuple[Counted, float, float]] = {}
        """What was counted, when that was over, and how long it took."""
        self._counting: dict[str | None, asyncio.Task[Counted]] = {}

    async def of(self, tenant: str | None) -> Counted:
        while (counting := self._counting.get(tenant)) is not None:
            # It began before this was asked: good enough only where counting takes long.
            await asyncio.wait((counting,))
            if (known := self._known(tenant)) is not None:
                return known
        if (known := self._known(tenant)) is not None:
            return known
        task = self._counting[tenant] = asyncio.create_task(self._count(tenant), name=f"count {tenant}")
        task.add_done_callback(lambda done: self._over(tenant, done))
        try:
            return await asyncio.shield(task)  # others may wait for it too
        except SearchTooLong:
            if tenant not in self._last:
                raise
            return self._last[tenant][0]

    def _known(self, tenant: str | None) -> Counted | None:
        if tenant not in self._last:
            return None
        counted, at, took = self._last[tenant]
        return counted if took > QUICK_S and self._clock() < at + SHARE * took else None

    def _over(self, tenant: str | None, done: asyncio.Task[Counted]) -> None:
        del self._counting[tenant]
        if not done.cancelled():
            done.exception()  # told to the callers that still wait, if any

    async def _count(self, tenant: str | None) -> Counted:
        began = self._clock()
        counted = Counted(
            await self._reads.ledger(tenant),
            await self._reads.lane_counts(tenant),
            await self._reads.oldest_pending_at(tenant),
            await self._reads.size_bytes(),
        )
        self._last[tenant] = (counted, self._clock(), self._clock() - began)
        return counted
