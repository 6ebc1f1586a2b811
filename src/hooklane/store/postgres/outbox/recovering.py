"""The verbs of recovery on PostgreSQL: plans and jobs, the audit log, retention and the ledger's check."""

from __future__ import annotations

from collections.abc import Sequence

from hooklane.model.audit import Act, AuditLine, Link
from hooklane.model.plan import Job, JobMember, Member, Op, Progress
from hooklane.store.postgres.database import Database
from hooklane.store.postgres.outbox import audit, books, jobs, retention, selection
from hooklane.store.reads import Page
from hooklane.store.recovery import AuditChain, CarriedOut, Cutoffs, LedgerLine, Mark, Pruned, Wanted


class PostgresRecovery:
    """`RecoveryStore` on the outbox's pool."""

    db: Database

    # plans and jobs

    async def select(self, tenant: str, wanted: Wanted, cursor: str | None, limit: int) -> Page[Member]:
        return await self.db.read(lambda: selection.select(tenant, wanted, cursor, limit))

    async def add_members(self, plan_id: str, tenant: str, first: int, members: Sequence[Member]) -> None:
        await self.db.write(lambda: jobs.add_members(plan_id, tenant, first, members))

    async def save_job(self, job: Job, *, expect: Job | None, act: Act | None = None) -> bool:
        return await self.db.write(lambda: jobs.save_job(job, expect, act))

    async def job(self, tenant: str, id: str) -> Job | None:
        return await self.db.read(lambda: jobs.job(tenant, id))

    async def open_jobs(self) -> Sequence[Job]:
        return await self.db.read(jobs.open_jobs)

    async def members(
        self, plan_id: str, *, after: int, limit: int, progress: Sequence[Progress] | None = None
    ) -> Sequence[JobMember]:
        return await self.db.read(lambda: jobs.members(plan_id, after, limit, progress))

    async def changed(self, plan_id: str) -> Sequence[int]:
        return await self.db.read(lambda: jobs.changed(plan_id))

    async def carry_out(self, plan_id: str, op: Op, numbers: Sequence[int], *, act: Act) -> CarriedOut:
        return await self.db.write(lambda: jobs.carry_out(plan_id, op, numbers, act))

    async def sweep(self, plan_id: str) -> Sequence[Mark]:
        return await self.db.write(lambda: jobs.sweep(plan_id))

    async def mark(self, plan_id: str, marks: Sequence[Mark]) -> None:
        await self.db.write(lambda: jobs.mark(plan_id, marks))

    # audit

    async def record(self, act: Act) -> Link:
        return await self.db.write(lambda: audit.append(act))

    async def audit(self, tenant: str, cursor: str | None, limit: int) -> Page[AuditLine]:
        return await self.db.read(lambda: audit.audit(tenant, cursor, limit))

    async def audit_chain(self, after: int, limit: int) -> AuditChain:
        return await self.db.read(lambda: audit.audit_chain(after, limit))

    # retention and the ledger

    async def prune(self, cutoffs: Cutoffs, cursor: str | None, limit: int) -> Pruned:
        return await self.db.write(lambda: retention.prune(cutoffs, cursor, limit))

    async def check_ledger(self) -> Sequence[LedgerLine]:
        return await self.db.read(books.check_ledger)
