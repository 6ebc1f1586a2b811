"""What runs beside the API and the relay: jobs (bulk replay and skip), retention, and the check of free disk space."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path
from typing import Protocol

from hooklane.config import Settings
from hooklane.sender.publish_limits import PublishLimits
from hooklane.sender.recovery import Jobs
from hooklane.sender.relay import Relay
from hooklane.sender.retention import Housekeeping, Retention
from hooklane.sender.tenant_directory import TenantDirectory
from hooklane.server.services import Services
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


class Loop(Protocol):
    async def run(self) -> None:
        """Work until `stop`."""

    def stop(self) -> None: ...


class Maintenance:
    """The loops of a process, started and stopped together."""

    def __init__(self, settings: Settings, services: Services, *, tenants: bool) -> None:
        """*tenants*: whether they are followed, as by a process that answers calls."""
        self._loops: dict[str, Loop] = {
            "check disk space and quota": services.publish_limits,
            "operational events": services.operational,
        }
        if tenants:
            self._loops["follow the tenants"] = services.tenants
        if services.published is not None:
            self._loops["what was published and is lost"] = services.published
        if "deliver" in settings.role:
            retention = Retention(
                events_ms=settings.retention,
                attempts_ms=settings.retention_attempts,
                audit_ms=settings.retention_audit,
            )
            self._loops |= {"jobs": services.jobs, "housekeeping": Housekeeping(services.store, retention)}

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for name, loop in self._loops.items():
                group.create_task(loop.run(), name=name)

    def stop(self) -> None:
        for loop in self._loops.values():
            loop.stop()
