"""The verbs of recovery in memory: plans and jobs, the audit log, retention and the ledger's check."""

from __future__ import annotations

from collections.abc import Sequence

from hooklane.model.audit import Act, AuditLine, Link
from hooklane.model.lane import DeliveryState, LaneState
from hooklane.model.plan import Job, JobMember, JobState, Member, Op, Progress
from hooklane.model.redelivery import is_redelivery
from hooklane.store.memory.outbox import planning, pruning, reading
from hooklane.store.memory.outbox.tables import PRUNED, Ending, Tables
from hooklane.store.reads import Page
from hooklane.store.recovery import AuditChain, CarriedOut, Cutoffs, LedgerLine, Mark, Pruned, Wanted

_PENDING = (DeliveryState.QUEUED, DeliveryState.RETRYING, DeliveryState.DEAD)


class MemoryRecovery:
    """`RecoveryStore` over plain dictionaries."""

    tables: Tables

    # plans and jobs

    async def select(self, tenant: str, wanted: Wanted, cursor: str | None, limit: int) -> Page[Member]:
        found = list(planning.selected(self.tables, tenant, wanted))
        start = int(cursor or 0)
        return Page(found[start : start + limit], str(start + limit) if len(found) > start + limit else None)

    async def add_members(self, plan_id: str, tenant: str, first: int, members: Sequence[Member]) -> None:
        kept = self.tables.members.setdefault(plan_id, {})
        kept.update({first + offset: JobMember(first + offset, one) for offset, one in enumerate(members)})

    async def save_job(self, job: Job, *, expect: Job | None, act: Act | None = None) -> bool:
        if self.tables.jobs.get(job.id) != expect:
            return False
        self.tables.jobs[job.id] = job
        if act is not None:
            self.tables.record(act)
        return True

    async def job(self, tenant: str, id: str) -> Job | None:
        jobs = self.tables.jobs.values()
        return next((job for job in jobs if job.tenant == tenant and id in (job.id, job.job_id)), None)

    async def open_jobs(self) -> Sequence[Job]:
        return [job for job in self.tables.jobs.values() if job.state is JobState.RUNNING]

    async def members(
        self, plan_id: str, *, after: int, limit: int, progress: Sequence[Progress] | None = None
    ) -> Sequence[JobMember]:
        found = []
        for n, one in self.tables.members.get(plan_id, {}).items():
            if n > after and (progress is None or one.progress in progress):
                found.append(one)
                if len(found) == limit:
                    break
        return found

    async def changed(self, plan_id: str) -> Sequence[int]:
        return planning.changed(self.tables, plan_id)

    async def carry_out(self, plan_id: str, op: Op, numbers: Sequence[int], *, act: Act) -> CarriedOut:
        return planning.carry_out(self.tables, plan_id, op, numbers, act)

    async def sweep(self, plan_id: str) -> Sequence[Mark]:
        return planning.sweep(self.tables, plan_id)

    async def mark(self, plan_id: str, marks: Sequence[Mark]) -> None:
        planning.mark(self.tables, plan_id, marks)

    # audit

    async def record(self, act: Act) -> Link:
        return self.tables.record(act)

    async def audit(self, tenant: str, cursor: str | None, limit: int) -> Page[AuditLine]:
        lines = [(line.n, line) for line in self.tables.audit if line.act.tenant == tenant]
        return reading.page(lines, cursor, limit, newest_first=True)

    async def audit_chain(self, after: int, limit: int) -> AuditChain:
        lines = [line for line in self.tables.audit if line.n > after]
        last = self.tables.audit[-1] if self.tables.audit else None
        head = self.tables.audit_anchor if last is None else Link(last.n, last.seal)
        return AuditChain(lines[:limit], self.tables.audit_anchor, head)

    # retention and the ledger

    async def prune(self, cutoffs: Cutoffs, cursor: str | None, limit: int) -> Pruned:
        return Pruned(pruning.prune(self.tables, cutoffs), None)

    async def check_ledger(self) -> Sequence[LedgerLine]:
        tables = self.tables
        owners = {(lane.tenant, lane.endpoint_id) for lane in tables.lanes.values() if not is_redelivery(lane.id)}
        return [self._books(tenant, endpoint_id) for tenant, endpoint_id in sorted(owners)]

    def _books(self, tenant: str, endpoint_id: str) -> LedgerLine:
        tables = self.tables
        accepted = 0
        counts = dict.fromkeys(DeliveryState, 0)
        faults: list[str] = []
        dead: set[tuple[int, int]] = set()
        for lane in tables.lanes.values():
            if (lane.tenant, lane.endpoint_id) != (tenant, endpoint_id) or is_redelivery(lane.id):
                continue
            row = tables.row_of(lane)
            accepted += lane.tail
            if row.state is LaneState.BLOCKED:
                dead.add((lane.id, row.head))
            for seq in range(1, lane.tail + 1):
                state = reading.state_of(lane, row, seq)
                counts[state] += 1
                if state in _PENDING and lane.events[seq - 1] is PRUNED:
                    faults.append(f"#{seq} of {lane.key} is owed and its event is gone")
        letters = {
            (one.lane_id, one.seq)
            for one in tables.dead_letters.values()
            if one.ending is Ending.DEAD
            and (tables.lanes[one.lane_id].tenant, tables.lanes[one.lane_id].endpoint_id) == (tenant, endpoint_id)
        }
        faults += [f"lane {lane} #{seq}: dead without a letter" for lane, seq in sorted(dead - letters)]
        faults += [f"lane {lane} #{seq}: a letter of nothing dead" for lane, seq in sorted(letters - dead)]
        return LedgerLine(
            tenant=tenant, endpoint_id=endpoint_id, accepted=accepted, counts=counts, faults=tuple(faults[:20])
        )
