"""The verbs of recovery on SQLite: plans and jobs, the audit log, retention and the ledger's check."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from hooklane.model.audit import Act, AuditLine, Link
from hooklane.model.plan import Job, JobMember, Member, Op, Progress
from hooklane.store.cursors import number_of
from hooklane.store.reads import Page
from hooklane.store.recovery import AuditChain, CarriedOut, Cutoffs, LedgerLine, Mark, Pruned, Wanted
from hooklane.store.sqlite.outbox import audit, books, jobs, retention, selection

T = TypeVar("T")


class SqliteRecovery:
    """`RecoveryStore` over the two threads of the outbox."""

    @abstractmethod
    async def _read(self, question: Callable[..., T], *args: Any, **kwargs: Any) -> T: ...

    @abstractmethod
    async def _write(self, work: Callable[..., T], *args: Any, **kwargs: Any) -> T: ...

    # plans and jobs

    async def select(self, tenant: str, wanted: Wanted, cursor: str | None, limit: int) -> Page[Member]:
        return await self._read(selection.select, tenant, wanted, cursor, limit)

    async def add_members(self, plan_id: str, tenant: str, first: int, members: Sequence[Member]) -> None:
        await self._write(jobs.add_members, plan_id, tenant, first, members)

    async def save_job(self, job: Job, *, expect: Job | None, act: Act | None = None) -> bool:
        return await self._write(jobs.save_job, job, expect, act)

    async def job(self, tenant: str, id: str) -> Job | None:
        return await self._read(jobs.job, tenant, id)

    async def open_jobs(self) -> Sequence[Job]:
        return await self._read(jobs.open_jobs)

    async def members(
        self, plan_id: str, *, after: int, limit: int, progress: Sequence[Progress] | None = None
    ) -> Sequence[JobMember]:
        return await self._read(jobs.members, plan_id, after, limit, progress)

    async def changed(self, plan_id: str) -> Sequence[int]:
        return await self._read(jobs.changed, plan_id)

    async def carry_out(self, plan_id: str, op: Op, numbers: Sequence[int], *, act: Act) -> CarriedOut:
        return await self._write(jobs.carry_out, plan_id, op, numbers, act)

    async def sweep(self, plan_id: str) -> Sequence[Mark]:
        # Looked up beside the writer: as a rule most of what is on its way has not arrived yet.
        found = await self._read(jobs.outcomes, plan_id)
        if found:
            await self._write(jobs.mark, plan_id, found)
        return found

    async def mark(self, plan_id: str, marks: Sequence[Mark]) -> None:
        await self._write(jobs.mark, plan_id, marks)

    # audit

    async def record(self, act: Act) -> Link:
        return await self._write(audit.append, act)

    async def audit(self, tenant: str, cursor: str | None, limit: int) -> Page[AuditLine]:
        return await self._read(audit.audit, tenant, cursor, limit)

    async def audit_chain(self, after: int, limit: int) -> AuditChain:
        return await self._read(audit.audit_chain, after, limit)

    # retention and the ledger

    async def prune(self, cutoffs: Cutoffs, cursor: str | None, limit: int) -> Pruned:
        stage, at = retention.step_of(cursor)
        if stage == "events":
            # Found beside the writer, so that a look at much that must stay holds nobody up.
            found, after = await self._read(retention.find_events, cutoffs, number_of(at or "0") or 0, limit)
            removed = await self._write(retention.remove_events, found) if found else {}
            return retention.following(stage, "" if after is None else str(after), removed)
        removed, at = await self._write(retention.prune, cutoffs, stage, at, limit)
        return retention.following(stage, at, removed)

    async def check_ledger(self) -> Sequence[LedgerLine]:
        return await self._read(books.check_ledger)
