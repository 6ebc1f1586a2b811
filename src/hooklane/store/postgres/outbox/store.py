"""The PostgreSQL outbox: each verb is a flow; this class says in which kind of transaction it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import asyncpg

from hooklane.errors import StoreUnavailable
from hooklane.model.attempt import Write
from hooklane.model.audit import Act
from hooklane.model.clock import Instant
from hooklane.model.endpoint import Endpoint
from hooklane.model.event import Event
from hooklane.model.health import Health
from hooklane.model.lane import DeliveryState, LaneId, LaneRow, LaneState
from hooklane.store.outbox import (
    Capabilities,
    CommitReport,
    Draft,
    Lease,
    Load,
    News,
    PublishReport,
    Recovery,
    Roster,
    StoreOptions,
    Taken,
)
from hooklane.store.postgres.database import RACES, Database, Unknown
from hooklane.store.postgres.outbox import (
    acks,
    commit,
    counts,
    endpoints,
    event_reads,
    health,
    lane_reads,
    lanes,
    recovery,
    tidy,
    workers,
)
from hooklane.store.postgres.outbox.beside import PostgresBeside
from hooklane.store.postgres.outbox.broom import Broom
from hooklane.store.postgres.outbox.group import Group
from hooklane.store.postgres.outbox.recovering import PostgresRecovery
from hooklane.store.postgres.schema import migrations_of
from hooklane.store.reads import AttemptRow, DeadLetter, Delivery, EventFilter, LaneView, Page

COMPONENT = "outbox"
MIGRATIONS = "hooklane.store.postgres.outbox.migrations"
FOLDS_MAX = 20


class PostgresOutbox(PostgresRecovery, PostgresBeside):
    """One database, any number of workers; partitions and epochs say who may write what."""

    capabilities = Capabilities(durable=True, many_workers=True, foreign_publish=True)

    def __init__(self, url: str, options: StoreOptions) -> None:
        self.db = Database(url, size=int(options.extra.get("connections", 8)))
        self._options = options
        self._group = Group(self.db, options.placer)
        self._broom = Broom()

    async def open(self) -> None:
        await self.db.open()
        try:
            await self.db.migrate(COMPONENT, migrations_of(MIGRATIONS))
        except BaseException:
            await self.db.close()
            raise

    async def close(self) -> None:
        await self.db.close()

    # publishing

    async def publish(self, drafts: Sequence[Draft]) -> PublishReport:
        """As promised, but for a draft that meets a lock of somebody's open transaction: that one is `busy`."""
        return await self._group.publish(drafts)

    async def publish_all(self, drafts: Sequence[Draft]) -> PublishReport:
        return await self._group.publish_all(drafts)

    # endpoints

    async def save_endpoint(self, endpoint: Endpoint, *, expect: Endpoint | None, act: Act | None = None) -> bool:
        return await self.db.write(lambda: endpoints.save_endpoint(endpoint, expect, act))

    async def endpoints(self, tenant: str | None = None) -> Sequence[Endpoint]:
        return await self.db.read(lambda: endpoints.read_endpoints(tenant))

    # owning

    async def join(self, worker: str, lease_ms: int) -> Lease:
        return await self.db.write(lambda: workers.join(worker, lease_ms))

    async def renew(self, worker: str, lease_ms: int) -> Lease | None:
        return await self.db.write(lambda: workers.renew(worker, lease_ms))

    async def roster(self) -> Roster:
        return await self.db.read(workers.roster)

    async def acquire(self, worker: str, most: int) -> Sequence[Taken]:
        return await self.db.write(lambda: workers.acquire(worker, most))

    async def release(self, worker: str, pids: Sequence[int]) -> None:
        await self.db.write(lambda: workers.release(worker, pids))

    async def leave(self, worker: str) -> None:
        await self.db.write(lambda: workers.leave(worker))

    async def load(self, worker: str, epochs: Mapping[int, int]) -> Load:
        return await self.db.read(lambda: lanes.load(worker, epochs))

    async def poll(self, worker: str, pids: Sequence[int], mark: Any) -> News:
        try:
            return lanes.news_of(await self.db.once(lanes.poll_statement(pids, mark)))
        except RACES as error:
            raise StoreUnavailable(f"PostgreSQL: {error}") from error

    async def reload(self, lane_ids: Sequence[LaneId]) -> Sequence[LaneRow]:
        return await self.db.read(lambda: lanes.reload(lane_ids))

    async def fetch(self, wants: Sequence[tuple[LaneId, int, int]]) -> Sequence[tuple[LaneId, int, Event]]:
        return await self.db.read(lambda: lanes.fetch(wants))

    async def commit(self, worker: str, epochs: Mapping[int, int], writes: Sequence[Write]) -> CommitReport:
        """Made durable or known not to be: an unknown outcome is settled here, by doing the same once more."""
        try:
            return await self._commit(worker, epochs, writes)
        except Unknown:
            return await self._commit(worker, epochs, writes)

    async def _commit(self, worker: str, epochs: Mapping[int, int], writes: Sequence[Write]) -> CommitReport:
        if all(map(acks.is_ack, writes)):
            try:
                rows = await self.db.once(acks.fenced_acks(worker, epochs, writes, again=False))
                return acks.report_of(rows, writes)
            except (asyncpg.UniqueViolationError, *RACES):
                pass  # made before, though it was not known, or lost a race: the longer way does not mind
        return await self.db.write(lambda: commit.commit(worker, epochs, writes))

    async def note_health(self, turns: Sequence[Health]) -> Sequence[Health]:
        return await self.db.write(lambda: health.note_health(turns))

    async def tidy(self) -> None:
        for _ in range(FOLDS_MAX):
            with self._broom.round() as start:
                folded, last = await self.db.write(lambda start=start: tidy.fold(start=start))  # type: ignore[misc]
                self._broom.note(folded, last)
            if folded < tidy.FOLD_MAX:
                break
        if self._broom.is_due():
            await self._broom.sweep(self.db)
        await self.db.write(lambda: tidy.prune(self._options.idempotency_ms))

    # recovering

    async def replay(self, tenant: str, dead_letter_id: str, *, actor: str, now: Instant) -> Recovery | None:
        return await self.db.write(lambda: recovery.replay(tenant, dead_letter_id, actor=actor, now=now))

    async def skip(self, tenant: str, dead_letter_id: str, *, note: str, actor: str, now: Instant) -> Recovery | None:
        return await self.db.write(lambda: recovery.skip(tenant, dead_letter_id, note=note, actor=actor, now=now))

    # reads for people

    async def endpoint(self, tenant: str, endpoint_id: str) -> Endpoint | None:
        found = await self.db.read(lambda: endpoints.read_endpoint(endpoint_id))
        return found if found is not None and found.tenant == tenant else None

    async def health(self, tenant: str | None = None) -> Mapping[str, Health]:
        return await self.db.read(lambda: health.read_health(tenant))

    async def event(self, tenant: str, event_id: str) -> Event | None:
        return await self.db.read(lambda: event_reads.event(tenant, event_id))

    async def events(self, tenant: str, wanted: EventFilter, cursor: str | None, limit: int) -> Page[Event]:
        return await self.db.read(lambda: event_reads.events(tenant, wanted, cursor, limit))

    async def deliveries(self, tenant: str, event_ids: Sequence[str]) -> Mapping[str, Sequence[Delivery]]:
        return await self.db.read(lambda: event_reads.deliveries(tenant, event_ids))

    async def attempts(self, tenant: str, event_id: str) -> Sequence[AttemptRow]:
        return await self.db.read(lambda: event_reads.attempts(tenant, event_id))

    async def lane(self, tenant: str, endpoint_id: str, key: str) -> LaneView | None:
        return await self.db.read(lambda: lane_reads.lane(tenant, endpoint_id, key))

    async def lane_deliveries(self, lane_id: LaneId, from_seq: int, limit: int) -> Sequence[Delivery]:
        return await self.db.read(lambda: lane_reads.lane_deliveries(lane_id, from_seq, limit))

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
        return await self.db.read(lambda: lane_reads.lanes(tenant, states, endpoint_id, text, cursor, limit))

    async def dead_letters(
        self, tenant: str, *, endpoint_id: str | None, cursor: str | None, limit: int
    ) -> Page[DeadLetter]:
        return await self.db.read(lambda: lane_reads.dead_letters(tenant, endpoint_id, cursor, limit))

    async def dead_letter(self, tenant: str, dead_letter_id: str) -> DeadLetter | None:
        return await self.db.read(lambda: lane_reads.dead_letter(tenant, dead_letter_id))

    async def set_note(self, tenant: str, dead_letter_id: str, note: str, *, act: Act | None = None) -> bool:
        return await self.db.write(lambda: lane_reads.set_note(tenant, dead_letter_id, note, act))

    async def ledger(self, tenant: str, endpoint_id: str | None = None) -> Mapping[DeliveryState | str, int]:
        return await self.db.read(lambda: counts.ledger(tenant, endpoint_id))

    async def lane_counts(self, tenant: str | None = None) -> Mapping[LaneState, int]:
        return await self.db.read(lambda: counts.lane_counts(tenant))

    async def oldest_pending_at(self, tenant: str | None = None) -> Instant | None:
        return await self.db.read(lambda: counts.oldest_pending_at(tenant))

    async def size_bytes(self) -> int:
        return await self.db.read(counts.size_bytes)
