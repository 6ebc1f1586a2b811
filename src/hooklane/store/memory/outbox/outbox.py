"""The outbox in memory, whole: each verb is atomic because none of them waits for anything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hooklane.model.attempt import Write
from hooklane.model.audit import Act
from hooklane.model.clock import Instant, wall_now
from hooklane.model.endpoint import Endpoint, EndpointState
from hooklane.model.event import Event
from hooklane.model.health import Health
from hooklane.model.lane import DeliveryState, LaneId, LaneRow, LaneState
from hooklane.model.plan import PlacedEvent
from hooklane.store.memory.outbox import health, owning, publishing, reading, recovering, settling
from hooklane.store.memory.outbox.access import MemoryAccess
from hooklane.store.memory.outbox.recovery import MemoryRecovery
from hooklane.store.memory.outbox.tables import Tables
from hooklane.store.memory.outbox.tenants import MemoryTenants
from hooklane.store.memory.outbox.types import MemoryTypes
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
from hooklane.store.reads import AttemptRow, DeadLetter, Delivery, EventFilter, LaneView, Page
from hooklane.store.shown import excerpt_of

_DELETED = (EndpointState.DRAINING, EndpointState.CANCELLING)


class MemoryOutbox(MemoryTenants, MemoryRecovery, MemoryAccess, MemoryTypes):
    """`OutboxStore` and `OutboxReads` over plain dictionaries; *clock* judges the leases."""

    capabilities = Capabilities(durable=False, many_workers=True, foreign_publish=False)

    def __init__(self, options: StoreOptions, clock: Callable[[], Instant] = wall_now) -> None:
        self.tables = Tables(options, clock)

    async def open(self) -> None:
        """Nothing to connect to."""

    async def close(self) -> None:
        """Nothing to let go of: what was published stays as long as the object does."""

    # publishing

    async def publish(self, drafts: Sequence[Draft]) -> PublishReport:
        return publishing.publish(self.tables, drafts)

    async def publish_all(self, drafts: Sequence[Draft]) -> PublishReport:
        return publishing.publish_all(self.tables, drafts)

    async def save_endpoint(self, endpoint: Endpoint, *, expect: Endpoint | None, act: Act | None = None) -> bool:
        return publishing.save_endpoint(self.tables, endpoint, expect, act)

    async def save_endpoints(self, changes: Sequence[tuple[Endpoint, Endpoint]], *, act: Act) -> int:
        many = sum(publishing.save_endpoint(self.tables, new, old) for old, new in changes)
        if many:
            self.tables.record(act)
        return many

    async def scrub(self) -> None:
        """Nothing is left behind in memory."""

    async def endpoints(self, tenant: str | None = None) -> Sequence[Endpoint]:
        mine = [one for one in self.tables.endpoints.values() if tenant in (None, one.tenant)]
        return sorted(mine, key=lambda endpoint: (endpoint.created_at, endpoint.id))

    # owning partitions

    async def join(self, worker: str, lease_ms: int) -> Lease:
        return owning.join(self.tables, worker, lease_ms)

    async def renew(self, worker: str, lease_ms: int) -> Lease | None:
        return owning.renew(self.tables, worker, lease_ms)

    async def roster(self) -> Roster:
        return owning.roster(self.tables)

    async def acquire(self, worker: str, most: int) -> Sequence[Taken]:
        return owning.acquire(self.tables, worker, most)

    async def release(self, worker: str, pids: Sequence[int]) -> None:
        owning.release(self.tables, worker, pids)

    async def leave(self, worker: str) -> None:
        owning.leave(self.tables, worker)

    async def expire(self, workers: Sequence[str]) -> None:
        owning.expire(self.tables, workers)

    async def load(self, worker: str, epochs: Mapping[int, int]) -> Load:
        return owning.load(self.tables, worker, epochs)

    async def owed(self, worker: str, epochs: Mapping[int, int]) -> Mapping[int, Sequence[LaneRow]]:
        return owning.owed(self.tables, worker, epochs)

    async def poll(self, worker: str, pids: Sequence[int], mark: Any) -> News:
        return owning.poll(self.tables, pids, mark)

    async def reload(self, lane_ids: Sequence[LaneId]) -> Sequence[LaneRow]:
        return owning.reload(self.tables, lane_ids)

    async def fetch(self, wants: Sequence[tuple[LaneId, int, int]]) -> Sequence[tuple[LaneId, int, Event]]:
        return owning.fetch(self.tables, wants)

    async def commit(self, worker: str, epochs: Mapping[int, int], writes: Sequence[Write]) -> CommitReport:
        return settling.commit(self.tables, worker, epochs, writes)

    async def note_health(self, turns: Sequence[Health]) -> Sequence[Health]:
        return health.note_health(self.tables, turns)

    async def tidy(self) -> None:
        """Fold the acks, and forget deleted endpoints that are owed nothing."""
        tables = self.tables
        settling.fold(tables)
        deleted = {one.id for one in tables.endpoints.values() if one.state in _DELETED}
        if deleted:
            owing = {lane.endpoint_id for lane in tables.owed(range(len(tables.parts)))}
            for endpoint_id in deleted - owing:
                del tables.endpoints[endpoint_id]
                tables.health.pop(endpoint_id, None)
                tables.changes.append(endpoint_id)
        self.finish_deletions()

    # recovering

    async def replay(self, tenant: str, dead_letter_id: str, *, actor: str, now: Instant) -> Recovery | None:
        return recovering.replay(self.tables, tenant, dead_letter_id, actor, now)

    async def skip(self, tenant: str, dead_letter_id: str, *, note: str, actor: str, now: Instant) -> Recovery | None:
        return recovering.skip(self.tables, tenant, dead_letter_id, note, actor, now)

    # reading

    async def endpoint(self, tenant: str, endpoint_id: str) -> Endpoint | None:
        found = self.tables.endpoints.get(endpoint_id)
        return found if found is not None and found.tenant == tenant else None

    async def health(self, tenant: str | None = None) -> Mapping[str, Health]:
        return health.health(self.tables, tenant)

    async def event(self, tenant: str, event_id: str) -> Event | None:
        return self.tables.events.get((tenant, event_id))

    async def events(self, tenant: str, wanted: EventFilter, cursor: str | None, limit: int) -> Page[Event]:
        return reading.page(reading.events(self.tables, tenant, wanted), cursor, limit, newest_first=True)

    async def deliveries(self, tenant: str, event_ids: Sequence[str]) -> Mapping[str, Sequence[Delivery]]:
        return reading.deliveries(self.tables, tenant, event_ids)

    async def attempts(self, tenant: str, event_id: str) -> Sequence[AttemptRow]:
        return list(reading.attempts(self.tables, tenant, event_id))

    async def lane(self, tenant: str, endpoint_id: str, key: str) -> LaneView | None:
        lane_id = self.tables.lane_ids.get((endpoint_id, key))
        if lane_id is None or self.tables.lanes[lane_id].tenant != tenant:
            return None
        return reading.lane_view(self.tables, self.tables.lanes[lane_id])

    async def lane_events(self, places: Sequence[tuple[LaneId, int]], limit: int) -> Sequence[PlacedEvent]:
        found = []
        for lane_id, seq in places:
            lane = self.tables.lanes.get(lane_id)
            for one in await self.lane_deliveries(lane_id, seq, limit):
                event = self.tables.events[lane.tenant if lane else "", one.event_id]
                found.append(PlacedEvent(lane_id, one.seq or 0, event.id, event.type, excerpt_of(event.data)))
        return found

    async def lane_deliveries(self, lane_id: LaneId, from_seq: int, limit: int) -> Sequence[Delivery]:
        lane = self.tables.lanes.get(lane_id)
        if lane is None:
            return []
        following = min(lane.tail, from_seq + limit - 1)
        found = [reading.delivery(self.tables, lane, seq) for seq in range(max(1, from_seq), following + 1)]
        return [replace(one, type=self.tables.events[lane.tenant, one.event_id].type) for one in found]

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
        views = [reading.lane_view(self.tables, lane) for lane in reading.ordered_lanes(self.tables, tenant)]
        wanted = [
            (view.lane_id, view)
            for view in views
            if (states is None or view.state in states)
            and endpoint_id in (None, view.endpoint_id)
            and (text is None or text in view.key)
        ]
        return reading.page(wanted, cursor, limit)

    async def dead_letters(
        self, tenant: str, *, endpoint_id: str | None, cursor: str | None, limit: int
    ) -> Page[DeadLetter]:
        return reading.page(reading.dead_letters(self.tables, tenant, endpoint_id), cursor, limit, newest_first=True)

    async def dead_letter(self, tenant: str, dead_letter_id: str) -> DeadLetter | None:
        dead_row = recovering.dead(self.tables, tenant, dead_letter_id)
        return None if dead_row is None else reading.dead_letter(self.tables, dead_row)

    async def set_note(self, tenant: str, dead_letter_id: str, note: str, *, act: Act | None = None) -> bool:
        dead_row = recovering.dead(self.tables, tenant, dead_letter_id)
        if dead_row is None:
            return False
        dead_row.note = note
        if act is not None:
            self.tables.record(act)
        return True

    async def ledger(self, tenant: str | None, endpoint_id: str | None = None) -> Mapping[DeliveryState | str, int]:
        return reading.ledger(self.tables, tenant, endpoint_id)

    async def lane_counts(self, tenant: str | None = None) -> Mapping[LaneState, int]:
        lanes = reading.ordered_lanes(self.tables, tenant)
        return Counter(reading.shown_state(self.tables, lane, self.tables.row_of(lane)) for lane in lanes)

    async def oldest_pending_at(self, tenant: str | None = None) -> Instant | None:
        return reading.oldest_pending_at(self.tables, tenant)

    async def size_bytes(self) -> int:
        return sum(len(event.data) for event in self.tables.events.values())
