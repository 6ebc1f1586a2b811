"""Who carries a job out? One runner at a time releases its members, watches what becomes of them, and tells."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from hooklane.core.job import JobRun, Pace, counts_of
from hooklane.errors import StoreError
from hooklane.model.audit import Act
from hooklane.model.clock import Instant, boot_now, wall_now
from hooklane.model.event import Event
from hooklane.model.ids import new_id
from hooklane.model.jumps import Observed, is_too_long
from hooklane.model.lane import DeliveryState
from hooklane.model.plan import Job, JobMember, JobState, Op, Progress
from hooklane.sender.plans import PAGE, RecoveredStore
from hooklane.sender.store_trouble import StoreTrouble
from hooklane.store.outbox import BUSY, Draft, Published, PublishReport, Refused
from hooklane.store.recovery import Mark

log = logging.getLogger("hooklane.jobs")

RELEASE_MAX = 500
ANEW_MAX = 20
"""Skipped events that are released at once, to be published one by one: so few go on after a stop at most."""
LEASE_MS = 15_000
TICK_MS = 200

Feed = Callable[[PublishReport], None]


@dataclass(slots=True)
class _Going:
    """A job that this runner carries out."""

    job: Job
    run: JobRun
    pace: Pace
    anew: dict[int, JobMember]
    """Those to be published again; of the others the numbers are enough."""
    owed: list[int]
    """Those of them that were released and are not published yet, in order."""
    is_torn: bool = False
    """The store has failed a step of it: what became of that is read again before the next one."""


class Jobs:
    """The runner of a process. Any process may have one: a job's lease says whose it is, and its rows say the rest."""

    def __init__(
        self,
        store: RecoveredStore,
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
        self._trouble = StoreTrouble(log, "jobs wait for the store, which is asked again")
        self._woken = asyncio.Event()
        self._stopping = False

    async def run(self) -> None:
        """Until `stop`; what is on its way then goes on without us."""
        while not self._stopping:
            try:
                busy = await self.step()
            except StoreError as error:
                self._trouble.tell(error)
                busy = False
                for going in self._going.values():
                    going.is_torn = True
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
        opened = await self._store.open_jobs()
        for id in set(self._going) - {job.id for job in opened}:
            await self._guarded(id, self._let_go(id))
        return any([await self._guarded(job.id, self._carry_on(job)) for job in opened])

    async def _guarded(self, id: str, work: Awaitable[bool]) -> bool:
        """Do the *work* for one job; one that the store fails holds up no other."""
        try:
            return await work
        except StoreError as error:
            self._trouble.tell(error)
            if id in self._going:
                self._going[id].is_torn = True
            return False

    async def _carry_on(self, job: Job) -> bool:
        """Do the next step of the job if this process runs it; whether it does."""
        ours = await self._claim(job)
        if ours is None:
            if job.runner != self._name:
                self._going.pop(job.id, None)  # another's; one of ours was stopped just now (`_let_go`)
            return False
        await self._advance(ours)
        return True

    async def _let_go(self, id: str) -> bool:
        """A job that is not open any more: what was released before it was stopped is still published."""
        going = self._going[id]
        if going.is_torn:
            going.anew, going.owed = _to_publish(await self._members(id))
            going.is_torn = False
        if is_done := await self._publish_owed(going):
            del self._going[id]
        return not is_done

    async def _claim(self, job: Job) -> Job | None:
        """Take the job for this process, if no other living one runs it; None where another does."""
        now = self._now()
        if job.runner == self._name and job.id in self._going and not self._going[job.id].is_torn:
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
        members = await self._members(job.id)
        run = JobRun(job.op, members)
        await self._store.mark(job.id, [Mark(n, Progress.HELD) for n in run.begin()])
        return _Going(job, run, Pace(job.rate, boot_now()), *_to_publish(members))

    async def _members(self, id: str) -> list[JobMember]:
        members: list[JobMember] = []
        while True:
            page = await self._store.members(id, after=members[-1].n if members else 0, limit=PAGE)
            members += page
            if len(page) < PAGE:
                return members

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
        if not await self._publish_owed(going):
            await self._report(job, going.run)
            return
        most = min(going.pace.room(boot_now()), ANEW_MAX) if going.anew else going.pace.room(boot_now())
        taken = going.run.take(most)
        going.pace.used(len(taken))
        for first in range(0, len(taken), RELEASE_MAX):
            if not await self._release(job, going, taken[first : first + RELEASE_MAX]):
                return
        if len(taken) == ANEW_MAX and going.anew:
            self.wake()  # there may be more: the next slice follows at once
        await self._report(job, going.run)

    async def _release(self, job: Job, going: _Going, numbers: list[int]) -> bool:
        """Release members; False where some are not planned any more: the job was stopped, or taken over."""
        done = await self._store.carry_out(job.id, job.op, numbers, act=self._act(job, "job.released"))
        going.owed += [n for n in done.done if n in going.anew]
        for n, _ in done.refused:
            going.run.settled(n, Progress.REFUSED)
        if job.op is Op.SKIP:
            for n in done.done:
                going.run.settled(n, Progress.SKIPPED)
        if done.lanes and self._nudge is not None:
            self._nudge()
        await self._publish_owed(going)
        if len(done.done) + len(done.refused) == len(numbers):
            return True
        if not going.owed:
            del self._going[job.id]  # the rows say where it stands, should it still be ours
        return False

    async def _publish_owed(self, going: _Going) -> bool:
        """Publish what was released of the skipped events, as new ones at the tail; False where the next is held up.

        Each is published first and then, in one commit, its letter is closed and its member marked. A crash between the
        two leaves a released member of an open letter: the process that goes on publishes it under the same name, which
        is the letter's and not the job's, and is told of the event that is there. So is another job for the same
        letter, and as one of them alone closes the letter, the other's member is refused. Closing first could lose it:
        a job that is stopped while its runner is dead would leave a closed letter and no event.
        """
        # What follows a busy one of its key must not overtake it, so each goes by itself: such a job is small.
        while going.owed:
            mark = await self._publish_anew(going.job, going.anew[going.owed[0]])
            if mark is None:
                return False
            made = await self._store.mark(going.job.id, [mark])
            del going.owed[0]
            for one in made:
                going.run.settled(one.n, one.progress)
        return True

    async def _publish_anew(self, job: Job, one: JobMember) -> Mark | None:
        """What came of it; None where a transaction elsewhere holds the lane: it is tried again at the next step."""
        now = self._now()
        old = await self._store.event(job.tenant, one.member.event_id)
        if old is None:
            return Mark(one.n, Progress.REFUSED, "it is not kept any more")
        event = Event(new_id("evt", now), old.type, old.key, old.data, now, job.tenant, old.id)
        digest = hashlib.sha256(f"{old.id}\n{one.member.endpoint_id}".encode()).digest()
        draft = Draft(event, (one.member.endpoint_id,), (f"replay:{one.member.name}",), digest)
        report = await self._store.publish([draft])
        if self._feed is not None and report.grown:
            self._feed(report)
        match report.results[0]:
            case Published(event_id=id):
                return Mark(one.n, Progress.PUBLISHED, id)
            case Refused(code=code, detail=detail):
                return None if code == BUSY else Mark(one.n, Progress.REFUSED, detail)

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
        is_kept = await self._store.save_job(told, expect=job, act=act)
        # It was stopped, or taken over; or it is done. What was released before is still published (`_let_go`).
        if (not is_kept or run.is_over) and not self._going[job.id].owed:
            del self._going[job.id]

    def _act(self, job: Job, action: str, note: str | None = None) -> Act:
        return Act(
            tenant=job.tenant,
            at=self._now(),
            actor=job.actor,
            action=action,
            subject=job.job_id or "",
            note=job.note if note is None else note,
        )


def _to_publish(members: Sequence[JobMember]) -> tuple[dict[int, JobMember], list[int]]:
    """Those of *members* that are published again, and which of them were released and are not published yet."""
    anew = {one.n: one for one in members if one.member.state is DeliveryState.SKIPPED}
    return anew, [n for n, one in anew.items() if one.progress is Progress.RELEASED]
