"""What runs beside the API and the relay: jobs (bulk replay and skip), retention, and the check of free disk space."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path

from hooklane.config import Settings
from hooklane.sender.lost import PublishedPlaces
from hooklane.sender.operational import OperationalEvents
from hooklane.sender.publish_limits import PublishLimits
from hooklane.sender.recovery import Jobs
from hooklane.sender.relay import Relay
from hooklane.sender.retention import Housekeeping, Retention
from hooklane.sender.tenant_directory import TenantDirectory
from hooklane.store.open import Outbox
from hooklane.store.sqlite.database import path_of


def publish_limits_for(settings: Settings, store: Outbox, tenants: TenantDirectory) -> PublishLimits:
    """The guard of publishes over HTTP. A database that is not a file of ours looks after its own disk.

    A process that only delivers takes no publishes, so it has no share in the quotas of tenants.
    """
    mine = tenants if "api" in settings.role else None
    file = Path(path_of(settings.db)) if settings.db.startswith("sqlite:") else None
    return PublishLimits(store, tenants=mine, file=file, free_min=settings.disk_free_min, quota=settings.quota)


def jobs_for(store: Outbox, relay: Relay | None) -> Jobs:
    name = f"{socket.gethostname()}-{os.getpid()}"
    if relay is None:
        return Jobs(store, name)
    return Jobs(store, name, nudge=relay.nudge, feed=relay.feed)


class Maintenance:
    """The loops of a process, started and stopped together."""

    def __init__(
        self,
        settings: Settings,
        store: Outbox,
        jobs: Jobs,
        limits: PublishLimits,
        operational: OperationalEvents,
        tenants: TenantDirectory | None = None,
        published: PublishedPlaces | None = None,
    ) -> None:
        retention = Retention(
            events_ms=settings.retention,
            attempts_ms=settings.retention_attempts,
            audit_ms=settings.retention_audit,
        )
        self.housekeeping = Housekeeping(store, retention)
        self._delivers = "deliver" in settings.role
        self._jobs = jobs
        self._limits = limits
        self._operational = operational
        self._tenants = tenants
        self._published = published

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._limits.run(), name="check disk space and quota")
            group.create_task(self._operational.run(), name="operational events")
            if self._tenants is not None:
                group.create_task(self._tenants.run(), name="follow the tenants")
            if self._published is not None:
                group.create_task(self._published.run(), name="what was published and is lost")
            if self._delivers:
                group.create_task(self._jobs.run(), name="jobs")
                group.create_task(self.housekeeping.run(), name="housekeeping")

    def stop(self) -> None:
        self._limits.stop()
        self._operational.stop()
        if self._tenants is not None:
            self._tenants.stop()
        if self._published is not None:
            self._published.stop()
        self._jobs.stop()
        self.housekeeping.stop()
