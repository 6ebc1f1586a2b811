"""The SQLite outbox: each verb is a function on a connection; this class says on which thread it runs."""

from __future__ import annotations

import asyncio
import fcntl
import os
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from hooklane.errors import StoreRefused
from hooklane.model.attempt import Write
from hooklane.model.audit import Act
from hooklane.model.clock import Instant
from hooklane.model.endpoint import Endpoint
from hooklane.model.event import Event
from hooklane.model.health import Health
from hooklane.model.lane import DeliveryState, LaneId, LaneRow, LaneState
from hooklane.store.caller.flow import Rows, Statement
from hooklane.store.outbox import (
    Capabilities,
    CommitReport,
    Draft,
    Lease,
    Load,
    News,
    NotAll,
    Placer,
    PublishReport,
    Recovery,
    Roster,
    StoreOptions,
    Taken,
    all_or_nothing,
)
from hooklane.store.reads import AttemptRow, DeadLetter, Delivery, EventFilter, LaneView, Page
from hooklane.store.sqlite import database
from hooklane.store.sqlite.outbox import (
    counts,
    endpoints,
    event_reads,
    health,
    lane_reads,
    lanes,
    leases,
    letter_reads,
    orders,
    outcomes,
    recovery,
)
from hooklane.store.sqlite.outbox.beside import SqliteBeside
from hooklane.store.sqlite.outbox.publish import EndpointCache, Placed, place_all, publish
from hooklane.store.sqlite.outbox.recovering import SqliteRecovery
from hooklane.store.sqlite.pen import Pen
from hooklane.store.sqlite.rows import Many, PublishFlow
from hooklane.store.sqlite.scribe import Order, Scribe, exit_without_scribe
from hooklane.store.sqlite.writer import Writer

T = TypeVar("T")
COMPONENT = "outbox"
MIGRATIONS = "hooklane.store.sqlite.outbox.migrations"


class SqliteOutbox(SqliteRecovery, SqliteBeside):
    """One file, one writing thread, one reading thread; other processes may publish, only one may deliver.

    With the option `scribe`, a command, what is written most is written by a process of its own.
    """

    capabilities = Capabilities(durable=True, many_workers=False, foreign_publish=True)

    def __init__(self, path: str, options: StoreOptions) -> None:
        self.path = path
        self._options = options
        self._cache = EndpointCache()
        self._lock_fd: int | None = None
        self._readers: ThreadPoolExecutor | None = None
        self._scribe: Scribe | None = None
        self._pen = Pen()

    async def open(self) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self._open)
        if command := self._options.extra.get("scribe"):
            self._scribe = await Scribe.start(command, self.path, self._options.busy_wait_ms, exit_without_scribe)

    def _open(self) -> None:
        conn = database.connect(self.path, busy_wait_ms=self._options.busy_wait_ms)
        try:
            database.check(conn, self.path)
            database.migrate(conn, COMPONENT, database.migrations_of(MIGRATIONS), self.path)
        except BaseException:
            conn.close()
            raise
        self._writer = Writer(conn, self.path, undone=self._cache.forget)
        self._reader = database.connect(self.path, busy_wait_ms=self._options.busy_wait_ms)
        self._readers = ThreadPoolExecutor(1, "hooklane reader")

    async def close(self) -> None:
        if self._readers is None:
            return
        if self._scribe is not None:
            await self._scribe.close()
        await asyncio.get_running_loop().run_in_executor(None, self._close)

    def _close(self) -> None:
        assert self._readers is not None
        self._writer.close()
        self._readers.shutdown()
        self._reader.close()
        self._close_beside()
        self._readers = None
        if self._lock_fd is not None:
            os.close(self._lock_fd)
            self._lock_fd = None

    async def _read(self, question: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        def ask() -> T:
            with database.errors_named(self.path):
                return question(self._reader, *args, **kwargs)

        return await asyncio.get_running_loop().run_in_executor(self._readers, ask)

    async def _write(self, work: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        if self._scribe is None:
            return await self._writer.run(lambda conn: work(conn, *args, **kwargs))
        async with self._pen.held(self):
            return await self._writer.run(lambda conn: work(conn, *args, **kwargs))

    async def _order(self, scribe: Scribe, kind: int, text: bytes) -> bytes:
        async with self._pen.held(scribe):
            return await scribe.order(kind, text)

    # publishing

    async def publish(self, drafts: Sequence[Draft]) -> PublishReport:
        if self._scribe is None:
            return await self._write(self._publish, drafts)
        return await self._ordered(self._scribe, orders.PUBLISH, drafts)

    async def publish_all(self, drafts: Sequence[Draft]) -> PublishReport:
        if self._scribe is not None:
            return await self._ordered(self._scribe, orders.PUBLISH_ALL, drafts)
        try:
            return await self._write(lambda conn: all_or_nothing(self._publish(conn, drafts)))
        except NotAll as refused:
            return refused.report

    async def _ordered(self, scribe: Scribe, kind: int, drafts: Sequence[Draft]) -> PublishReport:
        return orders.published(drafts, await self._order(scribe, kind, orders.publish_order(drafts)))

    def _publish(self, conn: sqlite3.Connection, drafts: Sequence[Draft]) -> PublishReport:
        return _drive(conn, publish(drafts, self._options.placer, self._cache))

    # endpoints

    async def save_endpoint(self, endpoint: Endpoint, *, expect: Endpoint | None, act: Act | None = None) -> bool:
        return await self._write(endpoints.save_endpoint, endpoint, expect, act)

    async def endpoints(self, tenant: str | None = None) -> Sequence[Endpoint]:
        return await self._read(endpoints.read_endpoints, tenant)

    # owning

    async def join(self, worker: str, lease_ms: int) -> Lease:
        if self._lock_fd is None:
            self._lock_fd = _lock_delivery(self.path)
            # The lock proves that whoever delivered from this file before is gone: no lease to wait for.
            await self._write(leases.expire_all)
        return await self._write(leases.join, worker, lease_ms)

    async def renew(self, worker: str, lease_ms: int) -> Lease | None:
        return await self._write(leases.renew, worker, lease_ms)

    async def roster(self) -> Roster:
        return await self._read(leases.roster)

    async def acquire(self, worker: str, most: int) -> Sequence[Taken]:
        return await self._write(leases.acquire, worker, most)

    async def release(self, worker: str, pids: Sequence[int]) -> None:
        await self._write(leases.release, worker, pids)

    async def leave(self, worker: str) -> None:
        await self._write(leases.leave, worker)

    async def load(self, worker: str, epochs: Mapping[int, int]) -> Load:
        return await self._read(lanes.load, worker, epochs)

    async def poll(self, worker: str, pids: Sequence[int], mark: Any) -> News:
        return await self._read(lanes.poll, pids, mark)

    async def reload(self, lane_ids: Sequence[LaneId]) -> Sequence[LaneRow]:
        return await self._read(lanes.reload, lane_ids)

    async def fetch(self, wants: Sequence[tuple[LaneId, int, int]]) -> Sequence[tuple[LaneId, int, Event]]:
        return await self._read(lambda conn: list(lanes.fetch(conn, wants)))

    async def commit(self, worker: str, epochs: Mapping[int, int], writes: Sequence[Write]) -> CommitReport:
        if self._scribe is None:
            return await self._write(outcomes.commit, worker, epochs, writes)
        order = orders.commit_order(worker, epochs, writes)
        return orders.committed(await self._order(self._scribe, orders.COMMIT, order))

    async def note_health(self, turns: Sequence[Health]) -> Sequence[Health]:
        return await self._write(health.note_health, turns)

    async def tidy(self) -> None:
        """Nothing to fold: one process delivers, so it writes the heads themselves. Deletions are finished."""
        if await self._read(endpoints.any_deleted):
            await self._write(endpoints.finish_deletions)

    # recovering

    async def replay(self, tenant: str, dead_letter_id: str, *, actor: str, now: Instant) -> Recovery | None:
        return await self._write(recovery.replay, tenant, dead_letter_id, actor=actor, now=now)

    async def skip(self, tenant: str, dead_letter_id: str, *, note: str, actor: str, now: Instant) -> Recovery | None:
        return await self._write(recovery.skip, tenant, dead_letter_id, note=note, actor=actor, now=now)

    # reads for people

    async def endpoint(self, tenant: str, endpoint_id: str) -> Endpoint | None:
        found = await self._read(endpoints.read_endpoint, endpoint_id)
        return found if found is not None and found.tenant == tenant else None

    async def health(self, tenant: str | None = None) -> Mapping[str, Health]:
        return await self._read(health.health, tenant)

    async def event(self, tenant: str, event_id: str) -> Event | None:
        return await self._read(event_reads.event, tenant, event_id)

    async def events(self, tenant: str, wanted: EventFilter, cursor: str | None, limit: int) -> Page[Event]:
        return await self._read(event_reads.events, tenant, wanted, cursor, limit)

    async def deliveries(self, tenant: str, event_ids: Sequence[str]) -> Mapping[str, Sequence[Delivery]]:
        return await self._read(event_reads.deliveries, tenant, event_ids)

    async def attempts(self, tenant: str, event_id: str) -> Sequence[AttemptRow]:
        return await self._read(event_reads.attempts, tenant, event_id)

    async def lane(self, tenant: str, endpoint_id: str, key: str) -> LaneView | None:
        return await self._read(lane_reads.lane, tenant, endpoint_id, key)

    async def lane_deliveries(self, lane_id: LaneId, from_seq: int, limit: int) -> Sequence[Delivery]:
        return await self._read(lane_reads.lane_deliveries, lane_id, from_seq, limit)

    async def lanes(
        self,
        tenant: str,
        *,
        states: Sequence[LaneState] | None,
        endpoint_id: str | None,
        text: str | None,
        cursor: str | None,
        limit: int,
    ) -> Page[LaneView]:
        return await self._read(lane_reads.lanes, tenant, states, endpoint_id, text, cursor, limit)

    async def dead_letters(
        self, tenant: str, *, endpoint_id: str | None, cursor: str | None, limit: int
    ) -> Page[DeadLetter]:
        return await self._read(letter_reads.dead_letters, tenant, endpoint_id, cursor, limit)

    async def dead_letter(self, tenant: str, dead_letter_id: str) -> DeadLetter | None:
        return await self._read(letter_reads.dead_letter, tenant, dead_letter_id)

    async def set_note(self, tenant: str, dead_letter_id: str, note: str, *, act: Act | None = None) -> bool:
        return await self._write(letter_reads.set_note, tenant, dead_letter_id, note, act)

    async def ledger(self, tenant: str, endpoint_id: str | None = None) -> Mapping[DeliveryState | str, int]:
        return await self._read(counts.ledger, tenant, endpoint_id)

    async def lane_counts(self, tenant: str | None = None) -> Mapping[LaneState, int]:
        return await self._read(counts.lane_counts, tenant)

    async def oldest_pending_at(self, tenant: str | None = None) -> Instant | None:
        return await self._read(counts.oldest_pending_at, tenant)

    async def size_bytes(self) -> int:
        return await self._read(counts.size_bytes, self.path)


def orders_for(placer: Placer) -> tuple[Mapping[int, Order], Callable[[], None]]:
    """What a scribe of this store is asked to do, and what it must be told when work was undone."""
    cache = EndpointCache()

    def place(conn: sqlite3.Connection, drafts: Sequence[Draft]) -> Placed:
        return _drive(conn, place_all(drafts, placer, cache))

    return {
        orders.PUBLISH: orders.do_publish(place),
        orders.PUBLISH_ALL: orders.do_publish_all(place, cache.forget),
        orders.COMMIT: orders.do_commit,
    }, cache.forget


def _drive(conn: sqlite3.Connection, flow: PublishFlow[T]) -> T:
    """Run a publish on our own connection; many rows go in by one statement."""
    try:
        wanted = next(flow)
        while True:
            rows: Rows = ()
            match wanted:
                case Statement(sql=sql, params=params):
                    rows = conn.execute(sql, params).fetchall()
                case Many(insert=insert, rows=many):
                    rows = insert.run(conn, many)
            wanted = flow.send(rows)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


def _lock_delivery(path: str) -> int:
    """Keep a second deliver role out; the lock ends with the process, however that ends."""
    # Beside the file itself: a symbolic link to it must not lead to another lock.
    fd = os.open(f"{os.path.realpath(path)}-deliver.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        raise StoreRefused(
            f"another process already delivers from {path}: stop it, or use PostgreSQL for many"
        ) from None
    return fd
