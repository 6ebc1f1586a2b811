"""Which partitions are ours, and until when? The lease, the fair share, and giving back without duplicates."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from hooklane.core.engine import EndpointChanged, Engine, HealthSeen, Leaving, Loaded
from hooklane.core.engine.inputs import Input
from hooklane.core.share import fair_share
from hooklane.errors import StoreError
from hooklane.model.clock import Instant, boot_now
from hooklane.model.lane import PARTITIONS
from hooklane.store.outbox import Lease, News, OutboxStore, Span, Taken

SAFE_PART = 0.95
"""We stop sending a little before the lease ends by our own clock; safety itself comes from the fence."""
LET_GO_POLL_MS = 20
SPANS_MAX = 1_000


class Told(Protocol):
    """Whom ownership tells: the relay."""

    engine: Engine

    def set_time(self, store_now: Instant) -> None: ...
    def now(self) -> Instant: ...
    def put(self, *inputs: Input) -> None: ...
    def loaded(self, inputs: Sequence[Input]) -> None: ...
    def lease(self, until: Instant, share: float) -> None: ...
    def drop(self, pids: frozenset[int]) -> None: ...


class Ownership:
    """A worker's place in the roster and its partitions, each with the epoch under which it is ours."""

    def __init__(self, store: OutboxStore, told: Told, lease_ms: int) -> None:
        self._store = store
        self._told = told
        self._lease_ms = lease_ms
        self.worker = _new_name()
        self.epochs: dict[int, int] = {}
        self._mark: Any = None
        self._loading = 0
        self._polling = False
        # Loads and polls take turns, or the older of two reads would be believed last about an endpoint.
        self._reading = asyncio.Lock()
        self._spans: deque[Span] = deque(maxlen=SPANS_MAX)

    async def begin(self) -> None:
        """Join, and take the fair share of what is free."""
        before = boot_now()
        self._leased(before, await self._store.join(self.worker, self._lease_ms))
        await self._balance()
        self._set_lease(before)

    async def keep(self) -> None:
        """Renew, and keep to the fair share, three times in the life of a lease."""
        while True:
            await asyncio.sleep(self._lease_ms / 3000)
            try:
                await self._renew()
            except StoreError:
                continue  # the store is away; our own deadline stops the sending in time

    async def end(self) -> None:
        """Give everything back; the next owner starts clean."""
        with contextlib.suppress(StoreError):  # then the lease expires, and the next owner is careful
            await self._store.leave(self.worker)

    def fenced(self, pids: frozenset[int], epochs: Mapping[int, int]) -> None:
        """The store says that these are not ours any more; unless they are again, under a newer epoch than *epochs*."""
        for pid in pids:
            if self.epochs.get(pid) == epochs.get(pid):
                self.epochs.pop(pid, None)

    async def poll(self) -> News | None:
        """News for our partitions since the last poll; None while there is nothing to poll for, or a load runs."""
        if self._mark is None or self._reading.locked():
            return None
        async with self._reading:
            asked, worker = list(self.epochs), self.worker
            self._polling = True
            try:
                news = await self._store.poll(worker, asked, self._mark)
            finally:
                self._polling = False
        if self.worker != worker:
            return None  # everything was lost and loaded anew meanwhile: this mark belongs to what was before
        # A poll knows nothing of partitions that were being loaded meanwhile: what they grew by between their load and
        # this poll would never be told, so the older mark stays. It reports some news twice, and misses none.
        if not self._loading and self.epochs.keys() <= set(asked):
            self._mark = news.mark
            self._pass()
        return news

    def fed(self, span: Span | None) -> None:
        """The engine was told of what this process published itself: the next poll need not read it again.

        Only while every partition is ours and loaded: the engine does not listen for others.
        """
        if span is not None and self._mark is not None and len(self.epochs) == PARTITIONS:
            self._spans.append(span)
            if not self._polling:
                self._pass()

    def _pass(self) -> None:
        while self._spans:
            mark = self._spans[0].past(self._mark)
            if mark is None:
                return  # somebody else published in between: the poll finds that, and goes on from there
            self._mark = mark
            self._spans.popleft()

    async def _renew(self) -> None:
        before = boot_now()
        lease = await self._store.renew(self.worker, self._lease_ms)
        if lease is None:
            # An expired lease is never revived: others may own everything by now.
            await self._start_anew()
            return
        self._leased(before, lease)
        await self._balance()
        self._set_lease(before)

    async def _start_anew(self) -> None:
        """Forget everything and come back under a new name."""
        self._told.drop(frozenset(self.epochs))
        self.epochs, self._mark, self.worker = {}, None, _new_name()
        self._spans.clear()
        await self.begin()

    def _leased(self, before: Instant, lease: Lease) -> None:
        self._told.set_time(lease.now)
        self._set_lease(before)

    def _set_lease(self, before: Instant) -> None:
        left_ms = before + int(self._lease_ms * SAFE_PART) - boot_now()
        self._told.lease(Instant(self._told.now() + left_ms), max(1, len(self.epochs)) / PARTITIONS)

    async def _balance(self) -> None:
        roster = await self._store.roster()
        share = fair_share(len(set(roster.owned) | {self.worker}))
        owned = roster.owned.get(self.worker, 0)
        if owned < len(self.epochs):
            # Others took something of ours and we did not notice (their clock said that our lease was over).
            await self._start_anew()
        elif owned > len(self.epochs):
            # An acquire or a release whose reply was lost: what we do not work on, others must get.
            await self._store.release(self.worker, [pid for pid in range(PARTITIONS) if pid not in self.epochs])
        elif len(self.epochs) > share:
            await self._give_back(sorted(self.epochs)[share:])
        elif len(self.epochs) < share and roster.free:
            await self._take(await self._store.acquire(self.worker, share - len(self.epochs)))

    async def _take(self, taken: Sequence[Taken]) -> None:
        """The acquire has committed; only now may the lanes be read, or a late ack of the old owner would be missed."""
        if not taken:
            return
        async with self._reading:
            self._loading += 1
            try:
                load = await self._store.load(self.worker, {one.pid: one.epoch for one in taken})
            finally:
                self._loading -= 1
            self.epochs.update({one.pid: one.epoch for one in taken})
            if self._mark is None:
                # Later loads keep the older mark: it reports some news twice, and misses none.
                self._mark = load.mark
            changed = [EndpointChanged(endpoint) for endpoint in load.endpoints]
            lanes = [Loaded(one.pid, one.epoch, load.lanes.get(one.pid, ()), one.unclean) for one in taken]
            self._told.loaded([*changed, HealthSeen(load.health), *lanes])

    async def _give_back(self, pids: Sequence[int]) -> None:
        """Start nothing more there, wait for what is in flight, and only then let others have it: no duplicates."""
        leaving = frozenset(pids)
        self._told.put(Leaving(leaving))
        patience = self._lease_ms // (3 * LET_GO_POLL_MS)
        for _ in range(patience):
            await asyncio.sleep(LET_GO_POLL_MS / 1000)
            if not self._told.engine.busy(leaving):
                break
        busy = self._told.engine.busy(leaving)
        quiet = [pid for pid in pids if pid not in busy]
        self._told.put(Leaving(frozenset()))  # what is still busy stays ours, and goes on
        self._told.drop(frozenset(quiet))
        for pid in quiet:
            self.epochs.pop(pid, None)
        await self._store.release(self.worker, quiet)


def _new_name() -> str:
    return f"{socket.gethostname()}-{os.getpid()}-{os.urandom(4).hex()}"
