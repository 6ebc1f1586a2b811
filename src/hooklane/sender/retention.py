"""Who tidies up? A loop that folds, finishes deletions and prunes what is settled and old, a little at a time."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from hooklane.errors import StoreError
from hooklane.model.clock import Instant, boot_now, wall_now
from hooklane.model.jumps import Believed
from hooklane.sender.store_trouble import StoreTrouble
from hooklane.store.outbox import OutboxStore
from hooklane.store.recovery import Cutoffs, RecoveryStore

log = logging.getLogger("hooklane.retention")

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
STEP_ROWS, STEP_ROWS_MIN = 500, 50
STEP_MS = 5
"""A publish that comes meanwhile waits for the step that is under way: steps become as small as this takes."""
TIDY_MS = 2_000
ROUND_MS = 30_000
FULL_ROUND_MS = HOUR_MS
REST_MS_MIN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long what is settled is kept. What is owed, paused, dead or held stays as long as it takes."""

    events_ms: int = 30 * DAY_MS
    attempts_ms: int = 30 * DAY_MS
    idempotency_ms: int = 7 * DAY_MS
    audit_ms: int = 400 * DAY_MS
    jobs_ms: int = 30 * DAY_MS

    def cutoffs(self, now: Instant) -> Cutoffs:
        """What is older than these may go at *now*."""
        return Cutoffs(
            events=Instant(now - self.events_ms),
            attempts=Instant(now - self.attempts_ms),
            idempotency=Instant(now - self.idempotency_ms),
            audit=Instant(now - self.audit_ms),
            jobs=Instant(now - self.jobs_ms),
            # An owner that has not polled for an hour has lost its lease, and will load everything anew.
            wakeups=Instant(now - HOUR_MS),
        )


class TidiedStore(OutboxStore, RecoveryStore, Protocol):
    """What is tidied."""


class Housekeeping:
    """The loop of one process. Several may run on one store: each step is atomic, and leaves work that others do."""

    def __init__(
        self,
        store: TidiedStore,
        retention: Retention | None = None,
        *,
        now: Callable[[], Instant] | None = None,
        boot: Callable[[], Instant] = boot_now,
        tidy_ms: int = TIDY_MS,
        round_ms: int = ROUND_MS,
    ) -> None:
        """*now* is the store's clock or this host's, which is behind, unless given: one of them may be ahead."""
        self._store = store
        self._retention = retention or Retention()
        self._now = now
        self._boot = boot
        self._believed = Believed()
        self._tidy_ms = tidy_ms
        self._round_ms = round_ms
        self._stopping = asyncio.Event()
        self._reached: dict[str, str] = {}
        """Of each stage that is done piece by piece, the last place that a round has come to."""
        self._rows = STEP_ROWS_MIN
        self._trouble = StoreTrouble(log, "nothing is tidied or pruned, it is tried again")
        self.pruned: Counter[str] = Counter()
        """What was removed since the start, by table."""

    async def run(self) -> None:
        """Until `stop`; the store being away is no reason to end."""
        loop = asyncio.get_running_loop()
        next_round = next_full = loop.time()
        while not self._stopping.is_set():
            await self._guarded(self._store.tidy())
            is_full = loop.time() >= next_full
            if loop.time() >= next_round and await self._guarded(self.prune(full=is_full)):
                next_round = loop.time() + self._round_ms / 1000
                if is_full:
                    next_full = loop.time() + FULL_ROUND_MS / 1000
            await self._rest(self._tidy_ms / 1000)

    async def _guarded(self, work: Awaitable[object]) -> bool:
        """Do the *work*; whether the store did not fail it. What it fails keeps nothing else from being done."""
        try:
            await work
        except StoreError as error:
            self._trouble.tell(error)
            return False
        return True

    def stop(self) -> None:
        self._stopping.set()

    async def prune(self, *, full: bool = True) -> Counter[str]:
        """One round, in small steps with rests as long as the steps, so that no publisher waits long for the writer.

        A round that is not *full* goes on in each stage where the last one ended: what was looked at and stays behind,
        since it is owed or too young, is looked at once an hour only.
        """
        loop = asyncio.get_running_loop()
        cutoffs = self._retention.cutoffs(await self._time())
        removed: Counter[str] = Counter()
        cursor = None if full else self._reached.get("events")
        while not self._stopping.is_set():
            began = loop.time()
            step = await self._store.prune(cutoffs, cursor, self._rows)
            self._rows = rows_of_next_step(self._rows, 1000 * (loop.time() - began))
            removed.update(step.rows)
            cursor = step.next
            if cursor is None:
                break
            stage, _, at = cursor.partition(".")
            if at:
                self._reached[stage] = cursor
            elif not full:
                cursor = self._reached.get(stage, cursor)
            await self._rest(max(REST_MS_MIN / 1000, loop.time() - began))
        self.pruned.update(removed)
        return removed

    async def _time(self) -> Instant:
        """What time it is, as far as that can be believed: what is removed is gone when the clock is right again."""
        if self._now is not None:
            return self._now()
        return self._believed.at(min((await self._store.roster()).now, wall_now()), self._boot())

    async def _rest(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            pass  # rested


def rows_of_next_step(rows: int, took_ms: float) -> int:
    """How many to look at after a step of *rows* that *took_ms*: about as many as take `STEP_MS`, found by doubling."""
    if took_ms > STEP_MS:
        return max(STEP_ROWS_MIN, min(rows // 2, int(rows * STEP_MS / took_ms)))
    return min(STEP_ROWS, 2 * rows) if took_ms < STEP_MS / 2 else rows
