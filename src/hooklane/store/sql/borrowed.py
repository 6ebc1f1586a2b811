"""An inbox on borrowed connections: ours from a URL, or the application's own engine, pool or Django alias."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from hooklane.batching.locks import open_in_forks
from hooklane.errors import StoreBusy, UsageError
from hooklane.store.caller import Dialect, Flow, drive, drive_async
from hooklane.store.inbox import Capabilities
from hooklane.store.sql.faults import faults_named
from hooklane.store.sql.session import AsyncConnections, AsyncSqlSession, Connections, SqlSession

WAIT_MS = 5_000
POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class Verbs:
    """What belongs to a dialect: its statements, its migrations, and what it can do."""

    dialect: Dialect
    queries: Mapping[str, str]
    migrations: str
    capabilities: Capabilities


class BorrowedInbox:
    """Sessions on borrowed connections. The schema is brought up to date once, by whichever kind comes first."""

    def __init__(
        self, verbs: Verbs, *, what: str, sync: Connections | None = None, native_async: AsyncConnections | None = None
    ) -> None:
        self._verbs = verbs
        self._what = what
        self._sync = sync
        self._async = native_async
        self._is_migrated = False
        self._migrating = open_in_forks(threading.Lock())
        has_async = native_async is not None
        self.capabilities = replace(
            verbs.capabilities, sync=sync is not None, native_async=has_async, async_handlers=has_async
        )
        if sync is not None:
            self._migrate()

    def begin(self, *, wait_ms: int | None = None) -> SqlSession:
        if self._sync is None:
            raise UsageError("this inbox was given an async engine or pool: its handlers must be async")
        with faults_named(self._what):
            checkout = self._sync.check_out(WAIT_MS if wait_ms is None else wait_ms)
        return SqlSession(checkout, self._verbs.queries, self._what)

    async def abegin(self, *, wait_ms: int | None = None) -> AsyncSqlSession:
        if self._async is None:
            raise UsageError(
                "this inbox has no async connections: its handlers must be sync, or give it an async engine or pool"
            )
        if not self._is_migrated:
            await self._amigrate()
        with faults_named(self._what):
            checkout = await self._async.check_out(WAIT_MS if wait_ms is None else wait_ms)
        return AsyncSqlSession(checkout, self._verbs.queries, self._what)

    def close(self) -> None:
        if self._sync is not None:
            self._sync.close()
        abandon = getattr(self._async, "abandon", None)
        if abandon is not None:
            abandon()

    async def aclose(self) -> None:
        if self._async is not None:
            await self._async.close()
        if self._sync is not None:
            await asyncio.to_thread(self._sync.close)

    def _migrate(self) -> None:
        assert self._sync is not None
        deadline = time.monotonic() + WAIT_MS / 1000
        with self._migrating:
            while not self._is_migrated:
                try:
                    self._migrate_once(self._sync)
                except StoreBusy:  # another process of the same application is at it
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(POLL_S)

    def _migrate_once(self, connections: Connections) -> None:
        with faults_named(self._what):
            checkout = connections.check_out(WAIT_MS)
            clean = False
            try:
                done = not drive(self._migration(), checkout.caller.execute)
                checkout.commit()
                self._is_migrated, clean = done, True
            finally:
                checkout.give_back(clean=clean)

    async def _amigrate(self) -> None:
        assert self._async is not None
        while not self._is_migrated:
            with faults_named(self._what):
                checkout = await self._async.check_out(WAIT_MS)
                clean = False
                try:
                    done = not await drive_async(self._migration(), checkout.caller.execute)
                    await checkout.commit()
                    self._is_migrated, clean = done, True
                finally:
                    await checkout.give_back(clean=clean)

    def _migration(self) -> Flow[bool]:
        """Apply the next migration, if there is one."""
        from hooklane.store.sql.migration import next_migration

        return next_migration(self._verbs.dialect, "inbox", self._verbs.migrations)
