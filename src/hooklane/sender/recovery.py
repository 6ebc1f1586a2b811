"""Who carries a job out? One runner at a time releases its members, watches what becomes of them, and tells."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from hooklane.core.job import JobRun, Pace, counts_of
from hooklane.errors import StoreBusy, StoreError
from hooklane.model.audit import Act
from hooklane.model.clock import Instant, boot_now, wall_now
from hooklane.model.event import Event
from hooklane.model.ids import new_id
from hooklane.model.jumps import Observed, is_too_long
from hooklane.model.lane import DeliveryState
from hooklane.model.plan import Job, JobMember, JobState, Op, Progress
from hooklane.sender.plans import PAGE, Store
from hooklane.store.outbox import BUSY, Draft, Published, PublishReport, Refused
from hooklane.store.recovery import Mark

RELEASE_MAX = 500
LEASE_MS = 15_000
TICK_MS = 200
BUSY_WAIT_MS = 50
BUSY_TRIES_MAX = 100

Feed = Callable[[PublishReport], None]


@dataclass(slots=True)
class _Going:
    """A job that this runner carries out."""

    run: JobRun
    pace: Pace
    members: dict[int, JobMember]
    """Those to be published again; of the others the numbers are enough."""


class Jobs:
    """The runner of a process. Any process may have one: a job's lease says whose it is, and its rows say the rest."""

    def __init__(
        self,
        store: Store,
        name: str,
        *,
        nudge: Callable[[], None] | None = None,
        feed: Feed | None = None,
        now: Callable[[], Instant] = wall_now,
        tick_ms: int = TICK_MS,
    ) -> None:
        """*nudge* wakes the relay of this process, *feed* gives it what was published; others poll."""
        self._store = store
        self._name = name
        self._nudge = nudge
        self._feed = feed
        self._now = now
        self._tick_ms = tick_ms
        self._going: dict[str, _Going] = {}
        self._others = Observed(LEASE_MS)
        self._woken = asyncio.Event()
        self._stopping = False

    async def run(self) -> None:
        """Until `stop`; what is on its way then goes on without us."""
        while not self._stopping:
            try:
                busy = await self.step()
            except StoreError:
                busy = False  # the rows say where every job stands: it is taken up again
                self._going.clear()
            try:
                # A job whose members land one by one is worth a closer look than the question whether there is one.
                async with asyncio.timeout(self._tick_ms / 1000 if busy else 5 * self._tick_ms / 1000):
                    await self._woken.wait()
            except TimeoutError:
                pass  # the usual rhythm
            self._woken.clear()

    def stop(self) -> None:
        self._stopping = True
        self._woken.set()

    def wake(self) -> None:
        """A job was started, or something of one has landed."""
        self._woken.set()

    async def step(self) -> bool:
        """Bring each of our jobs one step further; whether there are any."""
        jobs = [ours for job in await self._store.open_jobs() if (ours := await self._claim(job)) is not None]
        for id in set(self._going) - {job.id for job in jobs}:
            del self._going[id]
        for job in jobs:
            await self._advance(job)
        return bool(jobs)

    async def _claim(self, job: Job) -> Job | None:
        """The job as ours, if it is, or if no living runner has it."""
        now = self._now()
        if job.runner == self._name and job.id in self._going:
            return job
        if job.runner != self._name and not self._others.is_over(job.id, job.runner_until, now, boot_now()):
            return None
        claimed = replace(job, runner=self._name, runner_until=Instant(now + LEASE_MS))
        if not await self._store.save_job(claimed, expect=job):
            return None  # another was quicker
        self._going[job.id] = await self._take_up(claimed)
        return claimed

    async def _take_up(self, job: Job) -> _Going:
        """Read where the job stands: after a crash of its runner as well as at its start."""
        members: list[JobMember] = []
        while True:
            page = await self._store.members(job.id, after=members[-1].n if members else 0, limit=PAGE)
            members += page
            if len(page) < PAGE:
                break
        run = JobRun(job.op, members)
        await self._store.mark(job.id, [Mark(n, Progress.HELD) for n in run.begin()])
        anew = {one.n: one for one in members if one.member.state is DeliveryState.SKIPPED}
        return _Going(run, Pace(job.rate, boot_now()), anew)

    async def _advance(self, job: Job) -> None:
        going = self._going[job.id]
        if job.starts_at is not None and self._now() < job.starts_at:
            await self._report(job, going.run)  # it can still be stopped; this runner says that it lives
            return
        held: list[int] = []
        for mark in await self._store.sweep(job.id):
            held += going.run.settled(mark.n, mark.progress)
        await self._store.mark(job.id, [Mark(n, Progress.HELD) for n in held])
        if job.stop_at_first_failure and going.run.counts[Progress.FAILED]:
            await self._store.mark(job.id, [Mark(n, Progress.CANCELLED) for n in going.run.stop()])
        taken = going.run.take(going.pace.room(boot_now()))
        going.pace.used(len(taken))
        for first in range(0, len(taken), RELEASE_MAX):
            await self._release(job, going, taken[first : first + RELEASE_MAX])
        await self._report(job, going.run)

    async def _release(self, job: Job, going: _Going, numbers: list[int]) -> None:
        act = self._act(job, "job.released")
        anew = [going.members[n] for n in numbers if n in going.members]
        others = [n for n in numbers if n not in going.members]
        if others:
            done = await self._store.carry_out(job.id, job.op, others, act=act)
            refused = dict(done.refused)
            for n in others:
                if n in refused:
                    going.run.settled(n, Progress.REFUSED)
                elif job.op is Op.SKIP:
                    going.run.settled(n, Progress.SKIPPED)
            if done.lanes and self._nudge is not None:
                self._nudge()
        if anew:
            marks = await self._publish_anew(job, anew)
            await self._store.mark(job.id, marks)
            for mark in marks:
                going.run.settled(mark.n, mark.progress)

    async def _publish_anew(self, job: Job, members: Sequence[JobMember]) -> list[Mark]:
        """Skipped events as new ones at the tail. Named after the job, so that a repeat publishes nothing twice."""
        now = self._now()
        marks: list[Mark] = []
        drafts: list[tuple[int, Draft]] = []
        for one in members:
            old = await self._store.event(job.tenant, one.member.event_id)
            if old is None:
                marks.append(Mark(one.n, Progress.REFUSED, "it is not kept any more"))
                continue
            event = Event(new_id("evt", now), old.type, old.key, old.data, now, job.tenant, old.id)
            name = f"replay:{job.job_id}:{one.n}"
            digest = hashlib.sha256(f"{old.id}\n{one.member.endpoint_id}".encode()).digest()
            drafts.append((one.n, Draft(event, (one.member.endpoint_id,), (name,), digest)))
        # What follows a busy one of its key must not overtake it, so each goes by itself: such a job is small.
        for n, draft in drafts:
            result = await self._publish_one(draft)
            if isinstance(result, Published):
                marks.append(Mark(n, Progress.PUBLISHED, result.event_id))
            else:
                marks.append(Mark(n, Progress.REFUSED, result.detail))
        return marks

    async def _publish_one(self, draft: Draft) -> Published | Refused:
        for _ in range(BUSY_TRIES_MAX):
            report = await self._store.publish([draft])
            if self._feed is not None and report.grown:
                self._feed(report)
            (result,) = report.results
            if not isinstance(result, Refused) or result.code != BUSY:
                return result
            await asyncio.sleep(BUSY_WAIT_MS / 1000)
        raise StoreBusy("a transaction elsewhere holds the lane; the job goes on when it ends")

    async def _report(self, job: Job, run: JobRun) -> None:
        """Write the counts down, which also says that this runner lives; and the end of the job, on record."""
        now = self._now()
        counts = counts_of(run)
        is_due = job.runner_until - now < LEASE_MS / 2 or is_too_long(job.runner_until, now, LEASE_MS)
        if counts == job.counts and not run.is_over and not is_due:
            return
        told = replace(job, counts=counts, runner_until=Instant(now + LEASE_MS))
        act = None
        if run.is_over:
            told = replace(told, state=JobState.DONE, ended_at=now)
            words = ", ".join(f"{many} {progress}" for progress, many in counts.items() if many)
            act = self._act(job, "job.ended", words or "nothing to do")
        if not await self._store.save_job(told, expect=job, act=act) or run.is_over:
            self._going.pop(job.id, None)  # it was stopped, or taken over; or it is done

    def _act(self, job: Job, action: str, note: str | None = None) -> Act:
        return Act(
            tenant=job.tenant,
            at=self._now(),
            actor=job.actor,
            action=action,
            subject=job.job_id or "",
            note=job.note if note is None else note,
        )
