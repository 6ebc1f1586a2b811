"""The outbox in memory, whole: each verb is atomic because none of them waits for anything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any, Concatenate, ParamSpec, TypeVar

from hooklane.model.audit import Act
from hooklane.model.clock import Instant, wall_now
from hooklane.model.endpoint import Endpoint
from hooklane.model.event import Event
from hooklane.model.lane import LaneId, LaneState
from hooklane.store.memory.outbox import health, lost, owning, publishing, reading, recovering, settling
from hooklane.store.memory.outbox.tables import Tables
from hooklane.store.memory.outbox.tenants import MemoryTenants
from hooklane.store.outbox import (
    News,
    Recovery,
    StoreOptions,
)
from hooklane.store.reads import AttemptRow, DeadLetter, Delivery, EventFilter, LaneFilter, LaneView, LetterFilter, Page

P = ParamSpec("P")
T = TypeVar("T")


def at_once(
    verb: Callable[Concatenate[Tables, P], T],
) -> Callable[Concatenate[MemoryOutbox, P], Coroutine[Any, Any, T]]:
    """The verb of a store that is done on its tables without waiting."""

    async def done(store: MemoryOutbox, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return verb(store.tables, *args, **kwargs)

    return done


class MemoryOutbox(MemoryTenants):
    """`OutboxStore` and `OutboxReads` over plain dictionaries; *clock* judges the leases.

    The simulator runs on these tables, so they keep what it needs and the conformance suite proves: events, lanes,
    partitions, outcomes and tenants. There is no plan, no audit log and no retention here.
    """

    run = 0

    def __init__(self, options: StoreOptions, clock: Callable[[], Instant] = wall_now) -> None:
        self.tables = Tables(options, clock)

    async def open(self) -> None:
        """Nothing to connect to."""

    async def close(self) -> None:
        """Nothing to let go of: what was published stays as long as the object does."""

    # publishing

    publish = at_once(publishing.publish)
    publish_all = at_once(publishing.publish_all)

    async def save_endpoint(self, endpoint: Endpoint, *, expect: Endpoint | None, act: Act | None = None) -> bool:
        return publishing.save_endpoint(self.tables, endpoint, expect)

    async def save_endpoints(self, changes: Sequence[tuple[Endpoint, Endpoint]], *, act: Act) -> int:
        return sum(publishing.save_endpoint(self.tables, new, old) for old, new in changes)

    async def scrub(self) -> None:
        """Nothing is left behind in memory."""

    async def endpoints(self, tenant: str | None = None) -> Sequence[Endpoint]:
        mine = [one for one in self.tables.endpoints.values() if tenant in (None, one.tenant)]
        return sorted(mine, key=lambda endpoint: (endpoint.created_at, endpoint.id))

    # owning partitions

    join = at_once(owning.join)
    renew = at_once(owning.renew)
    roster = at_once(owning.roster)
    acquire = at_once(owning.acquire)
    release = at_once(owning.release)
    leave = at_once(owning.leave)
    expire = at_once(owning.expire)
    load = at_once(owning.load)
    owed = at_once(owning.owed)

    async def poll(self, worker: str, pids: Sequence[int], mark: Any) -> News:
        return owning.poll(self.tables, pids, mark)

    reload = at_once(owning.reload)
    fetch = at_once(owning.fetch)
    commit = at_once(settling.commit)
    note_health = at_once(health.note_health)
    account_for = at_once(lost.account_for)

    async def tidy(self) -> None:
        """Fold the acks, and forget deleted endpoints that are owed nothing."""
        tables = self.tables
        settling.fold(tables)
        deleted = {one.id for one in tables.endpoints.values() if one.state.is_deleted}
        if deleted:
            owing = {lane.endpoint_id for lane in tables.owed(range(len(tables.parts)))}
            for endpoint_id in deleted - owing:
                del tables.endpoints[endpoint_id]
                tables.health.pop(endpoint_id, None)
                tables.changes.append(endpoint_id)
        self.finish_deletions()

    # recovering

    async def replay(self, tenant: str, dead_letter_id: str, *, actor: str, now: Instant) -> Recovery | None:
        return recovering.replay(self.tables, tenant, dead_letter_id)

    async def skip(self, tenant: str, dead_letter_id: str, *, note: str, actor: str, now: Instant) -> Recovery | None:
        return recovering.skip(self.tables, tenant, dead_letter_id, note)

    # reading

    async def endpoint(self, tenant: str, endpoint_id: str) -> Endpoint | None:
        found = self.tables.endpoints.get(endpoint_id)
        return found if found is not None and found.tenant == tenant else None

    health = at_once(health.health)

    async def event(self, tenant: str, event_id: str) -> Event | None:
        return self.tables.events.get((tenant, event_id))

    async def events(self, tenant: str, wanted: EventFilter, cursor: str | None, limit: int) -> Page[Event]:
        return reading.page(reading.events(self.tables, tenant, wanted), cursor, limit, newest_first=True)

    deliveries = at_once(reading.deliveries)

    async def attempts(self, tenant: str, event_id: str) -> Sequence[AttemptRow]:
        return list(reading.attempts(self.tables, tenant, event_id))

    async def lane(self, tenant: str, endpoint_id: str, key: str) -> LaneView | None:
        lane_id = self.tables.lane_ids.get((endpoint_id, key))
        if lane_id is None or self.tables.lanes[lane_id].tenant != tenant:
            return None
        return reading.lane_view(self.tables, self.tables.lanes[lane_id])

    async def lane_deliveries(self, lane_id: LaneId, from_seq: int, limit: int) -> Sequence[Delivery]:
        lane = self.tables.lanes.get(lane_id)
        if lane is None:
            return []
        following = min(lane.tail, from_seq + limit - 1)
        found = [reading.delivery(self.tables, lane, seq) for seq in range(max(1, from_seq), following + 1)]
        return [replace(one, type=self.tables.events[lane.tenant, one.event_id].type) for one in found]

    async def lanes(self, tenant: str, wanted: LaneFilter, cursor: str | None, limit: int) -> Page[LaneView]:
        views = [reading.lane_view(self.tables, lane) for lane in reading.ordered_lanes(self.tables, tenant)]
        fitting = [
            (view.lane_id, view)
            for view in views
            if (wanted.states is None or view.state in wanted.states)
            and wanted.endpoint_id in (None, view.endpoint_id)
            and (wanted.text is None or wanted.text in view.key)
        ]
        return reading.page(fitting, cursor, limit)

    async def dead_letters(self, tenant: str, wanted: LetterFilter, cursor: str | None, limit: int) -> Page[DeadLetter]:
        return reading.page(reading.dead_letters(self.tables, tenant, wanted), cursor, limit)

    async def dead_letter(self, tenant: str, dead_letter_id: str) -> DeadLetter | None:
        dead_row = recovering.dead(self.tables, tenant, dead_letter_id)
        return None if dead_row is None else reading.dead_letter(self.tables, dead_row)

    async def set_note(self, tenant: str, dead_letter_id: str, note: str, *, act: Act | None = None) -> bool:
        dead_row = recovering.dead(self.tables, tenant, dead_letter_id)
        if dead_row is None:
            return False
        dead_row.note = note
        return True

    ledger = at_once(reading.ledger)

    async def lane_counts(self, tenant: str | None = None) -> Mapping[LaneState, int]:
        lanes = reading.ordered_lanes(self.tables, tenant)
        return Counter(reading.shown_state(self.tables, lane, self.tables.row_of(lane)) for lane in lanes)

    oldest_pending_at = at_once(reading.oldest_pending_at)

    async def size_bytes(self) -> int:
        return sum(len(event.data) for event in self.tables.events.values())
