"""Limits of publishes over HTTP: 507 while the disk has too little free space, 429 beyond a quota.

It stands before the store, not in it: an application that publishes in its own transaction is never refused for want of
quota, since that would fail its own work by surprise. A disk that really is full fails all of them, with StoreFull.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from hooklane.errors import DiskSpaceLow, StoreError, StoreGone
from hooklane.model.lane import DeliveryState
from hooklane.model.size import counted
from hooklane.model.tenant import Tenant
from hooklane.sender.tenant_directory import TenantDirectory
from hooklane.sender.tenant_limits import QUOTA_EXCEEDED, TenantLimits
from hooklane.store.database_files import DatabaseFiles
from hooklane.store.outbox import Draft, Refused
from hooklane.store.reads import OutboxReads
from hooklane.store.tenants import TenantStore

LOOK_MS = 2_000

_STORED = (DeliveryState.QUEUED, DeliveryState.IN_FLIGHT, DeliveryState.RETRYING, DeliveryState.DEAD)


def free_bytes(folder: Path) -> int:
    """What an ordinary user may still write there."""
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize


class CountedStore(OutboxReads, TenantStore, Protocol):
    """What is counted."""


class PublishLimits:
    """How much may still come in, as of the last look; in between it counts what it lets through."""

    def __init__(
        self,
        reads: CountedStore,
        *,
        tenants: TenantDirectory | None = None,
        file: Path | None = None,
        free_min: int = 0,
        quota: int | None = None,
        free: Callable[[Path], int] = free_bytes,
        look_ms: int = LOOK_MS,
    ) -> None:
        """*file* is the database where it is a file of ours; *quota* is what a tenant may have undelivered."""
        self._reads = reads
        self.tenants = None if tenants is None else TenantLimits(reads, tenants)
        self._file = file
        self._files = None if file is None else DatabaseFiles(str(file))
        self._free_min = free_min
        self._quota = quota
        self._free = free
        self._look_ms = look_ms
        self._trouble: StoreError | None = None
        self._stored: dict[str, int] = {}
        self._since: Counter[str] = Counter()
        self._came: set[str] = set()
        """Who had published since the look before the last one. Others only have less than they had."""
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        while not self._stopping.is_set():
            with contextlib.suppress(StoreError, OSError):  # the store itself will say no, if it must
                await self.look()
            try:
                async with asyncio.timeout(self._look_ms / 1000):
                    await self._stopping.wait()
            except TimeoutError:
                pass  # time for the next look

    def stop(self) -> None:
        self._stopping.set()

    async def look(self) -> None:
        """Measure anew: the disk, and what each tenant has undelivered that published lately or has much."""
        if self._file is not None:
            self._trouble = self._trouble_of(self._file)
        if self.tenants:
            await self.tenants.look()
        if self._quota is None:
            return
        came = {tenant for tenant, many in self._since.items() if many}
        near = {tenant for tenant, many in self._stored.items() if 2 * many > self._quota}
        for tenant in came | self._came | near:
            before = self._since[tenant]
            ledger = await self._reads.ledger(tenant)
            self._stored[tenant] = sum(ledger.get(state, 0) for state in _STORED)
            self._since[tenant] -= before  # what came while we looked may be counted twice, never not at all
        self._came = came  # and once more: of what came right before the look, the commit may have been on its way

    def tell_reached(self, tenant: Tenant, quota: str) -> None:
        """A quota that is judged elsewhere was reached."""
        if self.tenants is not None and self.tenants.reached is not None:
            self.tenants.reached(tenant, quota)

    @property
    def trouble(self) -> StoreError | None:
        """Why nothing at all may come in, as of the last look."""
        return self._trouble

    def _trouble_of(self, file: Path) -> StoreError | None:
        if self._files is not None and (lost := self._files.lost()) is not None:
            return StoreGone(f"{lost} was removed or replaced")
        free = self._free(file.parent) if self._free_min > 0 else 0
        if free >= self._free_min:
            return None
        return DiskSpaceLow(
            f"{free // 2**20} MiB are free where the database is, and {self._free_min // 2**20} MiB are to be kept free"
        )

    def used_up(self, tenant: str) -> Refused | None:
        """Why no event of *tenant* may come in now, whatever it is: a refusal that needs no look at its body."""
        return self.tenants.used_up(tenant) if self.tenants else None

    def refusal(self, *drafts: Draft) -> Refused | StoreError | None:
        """Why *drafts*, of one tenant, may not come in together; None when they may, and then they count."""
        if self._trouble is not None:
            return self._trouble
        if self.tenants and (refused := self.tenants.refusal(*drafts)) is not None:
            return refused
        if self._quota is None:
            return None
        tenant = drafts[0].event.tenant
        undelivered = self._stored.get(tenant, 0) + self._since[tenant]
        if undelivered + len(drafts) > self._quota:
            events = counted(undelivered, "event is", "events are")
            return Refused(QUOTA_EXCEEDED, f"{events} undelivered already, and the quota is {self._quota:,}")
        self._since[tenant] += len(drafts)
        return None
