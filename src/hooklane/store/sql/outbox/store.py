"""The verbs of a sender's store in SQL: each is a flow of named statements, written once for both back-ends.

A back-end says on which connection, and in which kind of transaction, a flow runs. What each event runs through
(publishing, loading, acks) is not here: each back-end does that in its own way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from hooklane.model.clock import Instant
from hooklane.model.endpoint import Endpoint
from hooklane.model.lost import Decide, KnownPlace, LostLane
from hooklane.store.budget import LEDGER_S_MAX
from hooklane.store.colocated_inbox import Change, Question
from hooklane.store.cursors import number_of
from hooklane.store.recovery import Cutoffs, Mark, Pruned
from hooklane.store.sql.outbox import audit as audit_flows
from hooklane.store.sql.outbox import (
    counts,
    event_reads,
    jobs,
    lane_reads,
    leases,
    letter_reads,
    lost,
    recovery,
    retention,
    selection,
)
from hooklane.store.sql.outbox import endpoints as endpoint_flows
from hooklane.store.sql.outbox import health as health_flows
from hooklane.store.sql.outbox import ledger as ledger_flows
from hooklane.store.sql.outbox import tenants as tenant_flows
from hooklane.store.sql.outbox.access import SqlAccess
from hooklane.store.sql.outbox.colocated_inbox import InboxFlows
from hooklane.store.sql.outbox.dashboard import SqlDashboard
from hooklane.store.sql.outbox.running import asking, reading, writing, writing_often
from hooklane.store.sql.outbox.types import SqlTypes

T = TypeVar("T")


class SqlOutbox(SqlDashboard, SqlAccess, SqlTypes):
    """`OutboxReads`, `RecoveryStore`, `TenantStore`, `ColocatedInbox`, the rarer verbs of `OutboxStore`, and what it
    inherits."""

    _inbox: InboxFlows

    # endpoints

    save_endpoint = writing(endpoint_flows.save_endpoint)
    save_endpoints = writing(endpoint_flows.save_endpoints)
    endpoints = asking(endpoint_flows.read_endpoints)

    async def endpoint(self, tenant: str, endpoint_id: str) -> Endpoint | None:
        found = await self._ask(lambda: endpoint_flows.read_endpoint(endpoint_id))
        return found if found is not None and found.tenant == tenant else None

    note_health = writing_often(health_flows.note_health)
    health = asking(health_flows.read_health)

    async def _finish_deletions(self) -> None:
        # Looked up beside the writers: an endpoint that is owed something for a day has perhaps a million lanes.
        if (found := await self._ask(tenant_flows.finished_deletions, s_max=None)) is not None:
            await self._write(lambda: tenant_flows.finish_deletions(found))

    # tenants

    tenant = asking(tenant_flows.read_tenant)
    tenants = asking(tenant_flows.tenants)
    tenants_since = asking(tenant_flows.tenants_since, s_max=None)
    save_tenant = writing(tenant_flows.save_tenant)
    stored_bytes = asking(tenant_flows.stored_bytes, s_max=None)
    greet = writing_often(tenant_flows.greet)

    # owning

    join = writing(leases.join)
    renew = writing_often(leases.renew)
    roster = reading(leases.roster)
    acquire = writing(leases.acquire)
    release = writing(leases.release)
    leave = writing(leases.leave)
    expire = writing(leases.expire)

    async def account_for(self, places: Sequence[KnownPlace], decide: Decide, now: Instant) -> Sequence[LostLane]:
        # Looked up first, beside all others: as a rule nothing is lost, and no lane is held for that.
        unheld = await self._read(lambda: lost.unheld(places, now))
        return await self._write(lambda: lost.account_for(unheld, decide, now)) if unheld else []

    # recovering

    replay = writing(recovery.replay)
    skip = writing(recovery.skip)

    # reads for people

    event = asking(event_reads.event)
    events = asking(event_reads.events)
    deliveries = asking(event_reads.deliveries)
    attempts = asking(event_reads.attempts)
    lane = asking(lane_reads.lane)
    lane_deliveries = asking(lane_reads.lane_deliveries)
    lanes = asking(lane_reads.lanes)
    dead_letters = asking(letter_reads.dead_letters)
    dead_letter = asking(letter_reads.dead_letter)
    set_note = writing(letter_reads.set_note)
    ledger = asking(counts.ledger)
    lane_counts = asking(counts.lane_counts)
    oldest_pending_at = asking(counts.oldest_pending_at)
    size_bytes = asking(counts.size_bytes)

    # plans and jobs

    select = asking(selection.select)
    lane_events = asking(lane_reads.lane_events)
    add_members = writing(jobs.add_members)
    save_job = writing(jobs.save_job)
    job = asking(jobs.job)
    open_jobs = asking(jobs.open_jobs, s_max=None)
    members = asking(jobs.members, s_max=None)
    changed = asking(jobs.changed, s_max=None)
    carry_out = writing(jobs.carry_out)
    mark = writing(jobs.mark)
    count_members = asking(jobs.count_members, s_max=None)

    async def sweep(self, plan_id: str) -> Sequence[Mark]:
        # Looked up beside the writers: as a rule most of what is on its way has not arrived yet.
        found = await self._ask(lambda: jobs.outcomes(plan_id), s_max=None)
        return await self._write(lambda: jobs.note_outcomes(plan_id, found)) if found else []

    # audit

    record = writing(audit_flows.append)
    audit = asking(audit_flows.audit)
    audit_chain = asking(audit_flows.audit_chain)

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
            step = await self._write_often(retention.prune, cutoffs, stage, at, limit)
            return Pruned({}, None) if step is None else retention.following(stage, step[1], step[0])
        above = number_of(at or "0") or 0
        found, after = await self._ask(lambda: retention.find_events(cutoffs, above, limit), s_max=None)
        removed = await self._write_often(retention.remove_events, found) if found else {}
        return Pruned({}, None) if removed is None else retention.following(stage, after, removed)

    check_ledger = asking(ledger_flows.check_ledger, s_max=LEDGER_S_MAX)
