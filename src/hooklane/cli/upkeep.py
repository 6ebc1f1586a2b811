"""What runs beside the API and the relay? The runner of jobs, the housekeeping, and the look for room."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path

from hooklane.config import Settings
from hooklane.sender.recovery import Jobs
from hooklane.sender.relay import Relay
from hooklane.sender.retention import Housekeeping, Retention
from hooklane.sender.room import Room
from hooklane.store.open import Outbox
from hooklane.store.sqlite.database import path_of


def room_for(settings: Settings, store: Outbox) -> Room:
    """The guard of publishes over HTTP. A database that is not a file of ours looks after its own disk."""
    folder = None
    if settings.db.startswith("sqlite:"):
        folder = Path(path_of(settings.db)).parent
    return Room(store, folder=folder, free_min=settings.disk_free_min, quota=settings.quota)


def jobs_for(store: Outbox, relay: Relay | None) -> Jobs:
    name = f"{socket.gethostname()}-{os.getpid()}"
    if relay is None:
        return Jobs(store, name)
    return Jobs(store, name, nudge=relay.nudge, feed=relay.feed)


class Upkeep:
    """The three loops of a process, started and stopped together."""

    def __init__(self, settings: Settings, store: Outbox, jobs: Jobs, room: Room) -> None:
        retention = Retention(
            events_ms=settings.retention,
            attempts_ms=settings.retention_attempts,
            audit_ms=settings.retention_audit,
        )
        self.housekeeping = Housekeeping(store, retention)
        self._delivers = "deliver" in settings.role
        self._jobs = jobs
        self._room = room

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._room.run(), name="look for room")
            if self._delivers:
                group.create_task(self._jobs.run(), name="jobs")
                group.create_task(self.housekeeping.run(), name="housekeeping")

    def stop(self) -> None:
        self._room.stop()
        self._jobs.stop()
        self.housekeeping.stop()
