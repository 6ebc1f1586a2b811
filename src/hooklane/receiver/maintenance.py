"""Maintenance: what an inbox does besides receiving and handling. Idle moments, clock, counts of copies, figures."""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING

from hooklane.batching.locks import open_in_forks
from hooklane.errors import StoreError
from hooklane.model.clock import START, Instant
from hooklane.model.inbox import Count, RowId
from hooklane.model.jumps import set_back
from hooklane.receiver.retention import is_time
from hooklane.receiver.runner import Plan, Run
from hooklane.receiver.stats import Stats
from hooklane.receiver.steps import transaction

if TYPE_CHECKING:
    from hooklane.receiver.inbox import Inbox

CLOCK_MS = 10_000
"""So often it is written down what time it is: a clock that is set back while no worker runs costs as much at most."""
GAP_CHECK_MS = 1_000
PRUNE_MS = 3_600_000
COPIES_MAX = 1_000
STATS_WAIT_MS = 100


class Maintenance:
    """The maintenance of one inbox."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._gaps_at = self._clock_at = START
        self._pruned_at: Instant | None = None
        self._copies: Counter[RowId] = Counter()
        self._lock = open_in_forks(threading.Lock())

    def tend(self) -> Plan[int]:
        """What a worker does in its idle moments: heartbeat, gaps, counts, and pruning once an hour, until all that is
        old went; how many gaps were closed."""
        if self._inbox.retention.receives:
            yield from self._inbox.retention.beat()
        yield from self.flush_copies()
        now = self._inbox.clock()
        closed = 0
        if is_time(self._gaps_at, now, GAP_CHECK_MS):
            self._gaps_at = now
            closed = yield from self._inbox.gaps.close()
        if self._pruned_at is None:
            self._pruned_at = now  # never right after the start
        elif is_time(self._pruned_at, now, PRUNE_MS) and self._inbox.store.capabilities.sweeps:
            self._pruned_at = now
            if (yield from self._inbox.retention.prune()).more:
                self._pruned_at = Instant(now - PRUNE_MS)  # the next call goes on: what is left does not wait an hour
        return closed

    def keep_clock(self) -> Plan[None]:
        """A clock that was set back keeps nothing waiting: neither retries, nor what a dead worker had in hand."""
        clock = self._inbox.clock
        with self._lock:
            now, said = clock(), clock.latest
            clock.latest = now
        if is_time(self._clock_at, now, CLOCK_MS) or set_back(said, now):
            try:
                yield Run(transaction(self._inbox.store.keep_clock(now, said)))
            except StoreError:
                clock.latest = said
                raise
            self._clock_at = now

    def note_copy(self, id: RowId | None) -> None:
        """A duplicate arrived. It is written down with the others, not at once: a duplicate must stay cheap."""
        if id is None:
            return
        with self._lock:
            if len(self._copies) < COPIES_MAX or id in self._copies:
                self._copies[id] += 1

    def flush_copies(self, wait_ms: int | None = None) -> Plan[None]:
        """Write the counted copies down."""
        with self._lock:
            copies, self._copies = self._copies, Counter()
        if not copies:
            return
        flow = self._inbox.store.count_copies(sorted(copies.items(), key=lambda each: str(each[0])))
        try:
            yield Run(transaction(flow, wait_ms=wait_ms))
        except StoreError:
            with self._lock:
                self._copies.update(copies)
            raise

    def stats(self) -> Plan[Stats]:
        """How many rows are in which status, and what the breakers say."""
        with suppress(StoreError):  # a writer has the turn: they are counted later
            yield from self.flush_copies(wait_ms=STATS_WAIT_MS)
        counts: list[Count] = yield Run(transaction(self._inbox.store.counts()), reads=True)
        return Stats(tuple(counts), self._inbox.worker.breakers.states(), self._inbox.clock())
