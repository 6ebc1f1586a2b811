"""The verbs of a sender's store in SQL: each is a flow of named statements, written once for both back-ends.

A back-end says on which connection, and in which kind of transaction, a flow runs. What each event runs through
(publishing, loading, acks) is not here: each back-end does that in its own way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from hooklane.model.audit import Act, AuditLine, Link
from hooklane.model.clock import Instant
from hooklane.model.endpoint import Endpoint, EndpointState
from hooklane.model.event import Event
from hooklane.model.health import Health
from hooklane.model.lane import DeliveryState, LaneId, LaneState
from hooklane.model.plan import Job, JobMember, Member, Op, PlacedEvent, Progress
from hooklane.model.tenant import Tenant
from hooklane.store.budget import LEDGER_S_MAX
from hooklane.store.colocated_inbox import Change, Question
from hooklane.store.cursors import number_of
from hooklane.store.outbox import Lease, Recovery, Roster, Taken
from hooklane.store.reads import AttemptRow, DeadLetter, Delivery, EventFilter, LaneView, Page
from hooklane.store.recovery import AuditChain, CarriedOut, Cutoffs, LedgerLine, Mark, Pruned, Wanted
from hooklane.store.sql.outbox import (
    audit,
    counts,
    endpoints,
    event_reads,
    health,
    jobs,
    lane_reads,
    leases,
    ledger,
    letter_reads,
    recovery,
    retention,
    selection,
    tenants,
)
from hooklane.store.sql.outbox.access import SqlAccess
from hooklane.store.sql.outbox.colocated_inbox import InboxFlows
from hooklane.store.sql.outbox.dashboard import SqlDashboard
from hooklane.store.sql.outbox.types import SqlTypes
from hooklane.store.tenants import TenantNews

T = TypeVar("T")


class SqlOutbox(SqlDashboard, SqlAccess, SqlTypes):
    """`OutboxReads`, `RecoveryStore`, `TenantStore`, `ColocatedInbox`, the rarer verbs of `OutboxStore`, and what it
    inherits."""

    _inbox: InboxFlows

    # endpoints

    async def save_endpoint(self, endpoint: Endpoint, *, expect: Endpoint | None, act: Act | None = None) -> bool:
        return await self._write(lambda: endpoints.save_endpoint(endpoint, expect, act))

    async def save_endpoints(self, changes: Sequence[tuple[Endpoint, Endpoint]], *, act: Act) -> int:
        return await self._write(lambda: endpoints.save_endpoints(changes, act))

    async def endpoints(self, tenant: str | None = None) -> Sequence[Endpoint]:
        return await self._ask(lambda: endpoints.read_endpoints(tenant))

    async def endpoint(self, tenant: str, endpoint_id: str) -> Endpoint | None:
        found = await self._ask(lambda: endpoints.read_endpoint(endpoint_id))
        return found if found is not None and found.tenant == tenant else None

    async def note_health(self, turns: Sequence[Health]) -> Sequence[Health]:
        return await self._write(lambda: health.note_health(turns))

    async def health(self, tenant: str | None = None) -> Mapping[str, Health]:
        return await self._ask(lambda: health.read_health(tenant))

    # tenants

    async def tenant(self, tenant_id: str) -> Tenant | None:
        return await self._ask(lambda: tenants.read_tenant(tenant_id))

    async def tenants(self, cursor: str | None, limit: int) -> Page[Tenant]:
        return await self._ask(lambda: tenants.tenants(cursor, limit))

    async def tenants_since(self, rev: int) -> TenantNews:
        return await self._ask(lambda: tenants.tenants_since(rev))

    async def save_tenant(
        self, tenant: Tenant, *, expect: Tenant | None, endpoints: EndpointState | None = None, act: Act | None = None
    ) -> bool:
        return await self._write(lambda: tenants.save_tenant(tenant, expect, endpoints, act))

    async def stored_bytes(self, tenant_id: str) -> int:
        return await self._ask(lambda: tenants.stored_bytes(tenant_id), s_max=None)

    async def greet(self, server: str, until_ms: int) -> int:
        return await self._write(lambda: tenants.greet(server, until_ms))

    # owning

    async def join(self, worker: str, lease_ms: int) -> Lease:
        return await self._write(lambda: leases.join(worker, lease_ms))

    async def renew(self, worker: str, lease_ms: int) -> Lease | None:
        return await self._write(lambda: leases.renew(worker, lease_ms))

    async def roster(self) -> Roster:
        return await self._read(leases.roster)

    async def acquire(self, worker: str, most: int) -> Sequence[Taken]:
        return await self._write(lambda: leases.acquire(worker, most))

    async def release(self, worker: str, pids: Sequence[int]) -> None:
        await self._write(lambda: leases.release(worker, pids))

    async def leave(self, worker: str) -> None:
        await self._write(lambda: leases.leave(worker))

    async def expire(self, workers: Sequence[str]) -> None:
        await self._write(lambda: leases.expire(workers))

    # recovering

    async def replay(self, tenant: str, dead_letter_id: str, *, actor: str, now: Instant) -> Recovery | None:
        return await self._write(lambda: recovery.replay(tenant, dead_letter_id, actor=actor, now=now))

    async def skip(self, tenant: str, dead_letter_id: str, *, note: str, actor: str, now: Instant) -> Recovery | None:
        return await self._write(lambda: recovery.skip(tenant, dead_letter_id, note=note, actor=actor, now=now))

    # reads for people

    async def event(self, tenant: str, event_id: str) -> Event | None:
        return await self._ask(lambda: event_reads.event(tenant, event_id))

    async def events(self, tenant: str, wanted: EventFilter, cursor: str | None, limit: int) -> Page[Event]:
        return await self._ask(lambda: event_reads.events(tenant, wanted, cursor, limit))

    async def deliveries(self, tenant: str, event_ids: Sequence[str]) -> Mapping[str, Sequence[Delivery]]:
        return await self._ask(lambda: event_reads.deliveries(tenant, event_ids))

    async def attempts(self, tenant: str, event_id: str) -> Sequence[AttemptRow]:
        return await self._ask(lambda: event_reads.attempts(tenant, event_id))

    async def lane(self, tenant: str, endpoint_id: str, key: str) -> LaneView | None:
        return await self._ask(lambda: lane_reads.lane(tenant, endpoint_id, key))

    async def lane_deliveries(self, lane_id: LaneId, from_seq: int, limit: int) -> Sequence[Delivery]:
        return await self._ask(lambda: lane_reads.lane_deliveries(lane_id, from_seq, limit))

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
        return await self._ask(lambda: lane_reads.lanes(tenant, states, endpoint_id, text, cursor, limit))

    async def dead_letters(
        self, tenant: str, *, endpoint_id: str | None, cursor: str | None, limit: int
    ) -> Page[DeadLetter]:
        return await self._ask(lambda: letter_reads.dead_letters(tenant, endpoint_id, cursor, limit))

    async def dead_letter(self, tenant: str, dead_letter_id: str) -> DeadLetter | None:
        return await self._ask(lambda: letter_reads.dead_letter(tenant, dead_letter_id))

    async def set_note(self, tenant: str, dead_letter_id: str, note: str, *, act: Act | None = None) -> bool:
        return await self._write(lambda: letter_reads.set_note(tenant, dead_letter_id, note, act))

    async def ledger(self, tenant: str | None, endpoint_id: str | None = None) -> Mapping[DeliveryState | str, int]:
        return await self._ask(lambda: counts.ledger(tenant, endpoint_id))

    async def lane_counts(self, tenant: str | None = None) -> Mapping[LaneState, int]:
        return await self._ask(lambda: counts.lane_counts(tenant))

    async def oldest_pending_at(self, tenant: str | None = None) -> Instant | None:
        return await self._ask(lambda: counts.oldest_pending_at(tenant))

    async def size_bytes(self) -> int:
        return await self._ask(counts.size_bytes)

    # plans and jobs

    async def select(self, tenant: str, wanted: Wanted, cursor: str | None, limit: int) -> Page[Member]:
        return await self._ask(lambda: selection.select(tenant, wanted, cursor, limit))

    async def lane_events(self, places: Sequence[tuple[LaneId, int]], limit: int) -> Sequence[PlacedEvent]:
        return await self._ask(lambda: lane_reads.lane_events(places, limit))

    async def add_members(self, plan_id: str, tenant: str, first: int, members: Sequence[Member]) -> None:
        await self._write(lambda: jobs.add_members(plan_id, tenant, first, members))

    async def save_job(self, job: Job, *, expect: Job | None, act: Act | None = None) -> bool:
        return await self._write(lambda: jobs.save_job(job, expect, act))

    async def job(self, tenant: str, id: str) -> Job | None:
        return await self._ask(lambda: jobs.job(tenant, id))

    async def open_jobs(self) -> Sequence[Job]:
        return await self._ask(jobs.open_jobs, s_max=None)

    async def members(
        self, plan_id: str, *, after: int, limit: int, progress: Sequence[Progress] | None = None
    ) -> Sequence[JobMember]:
        return await self._ask(lambda: jobs.members(plan_id, after, limit, progress), s_max=None)

    async def changed(self, plan_id: str) -> Sequence[int]:
        return await self._ask(lambda: jobs.changed(plan_id), s_max=None)

    async def carry_out(self, plan_id: str, op: Op, numbers: Sequence[int], *, act: Act) -> CarriedOut:
        return await self._write(lambda: jobs.carry_out(plan_id, op, numbers, act))

    async def sweep(self, plan_id: str) -> Sequence[Mark]:
        # Looked up beside the writers: as a rule most of what is on its way has not arrived yet.
        found = await self._ask(lambda: jobs.outcomes(plan_id), s_max=None)
        if found:
            await self._write(lambda: jobs.mark(plan_id, found))
        return found

    async def mark(self, plan_id: str, marks: Sequence[Mark]) -> None:
        await self._write(lambda: jobs.mark(plan_id, marks))

    # audit

    async def record(self, act: Act) -> Link:
        return await self._write(lambda: audit.append(act))

    async def audit(self, tenant: str, cursor: str | None, limit: int) -> Page[AuditLine]:
        return await self._ask(lambda: audit.audit(tenant, cursor, limit))

    async def audit_chain(self, after: int, limit: int) -> AuditChain:
        return await self._ask(lambda: audit.audit_chain(after, limit))

    # the inbox in the same database

    @property
    def inbox_kind(self) -> str:
        return self._inbox.kind

    async def ask_inbox(self, question: Question[T]) -> T | None:
        return await self._ask(lambda: self._inbox.asked(question))

    async def inbox_of_late(self, since: Instant) -> Mapping[str, tuple[int, int]]:
        return await self._ask(lambda: self._inbox.of_late(since))

    async def change_inbox(self, change: Change[T]) -> T | None:
        return await self._write(lambda: self._inbox.changed(change))

    # retention and the ledger

    async def prune(self, cutoffs: Cutoffs, cursor: str | None, limit: int) -> Pruned:
        stage, at = retention.step_of(cursor)
        if stage != "events":
            step = await self._write(lambda: retention.prune(cutoffs, stage, at, limit))
            return Pruned({}, None) if step is None else retention.following(stage, step[1], step[0])
        above = number_of(at or "0") or 0
        found, after = await self._ask(lambda: retention.find_events(cutoffs, above, limit), s_max=None)
        removed = await self._write(lambda: retention.remove_events(found)) if found else {}
        return Pruned({}, None) if removed is None else retention.following(stage, after, removed)

    async def check_ledger(self) -> Sequence[LedgerLine]:
        return await self._ask(ledger.check_ledger, s_max=LEDGER_S_MAX)
