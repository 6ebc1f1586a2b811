"""Jobs: how far a bulk replay or skip has come, member by member; and stopping one."""

from __future__ import annotations

from hooklane.model.plan import Job, JobMember, JobState, Progress
from hooklane.sender.plans import job_now, stop_job
from hooklane.server import views
from hooklane.server.call import PAGING, Call, Param, Response, Routes, answer
from hooklane.server.problem import Problem
from hooklane.server.schema_words import some_of
from hooklane.server.shapes import ListShape
from hooklane.server.shapes_of_recovery import JobShape, MemberShape
from hooklane.store.reads import Page

STATE = Param("state", f"some of {', '.join(JobState)}, with commas", some_of(JobState))
routes = Routes("jobs", "/api/v1/jobs")


@routes.get("/{id}", "How far a job has come.", answers=JobShape)
async def show(call: Call) -> Response:
    return answer(job_view(await _find(call)))


@routes.get("", "Jobs, the newest first.", query=(STATE, *PAGING), answers=ListShape[JobShape])
async def listing(call: Call) -> Response:
    page = await jobs_of(call, "jobs", run=True)
    return answer(call.listed("jobs", page, map(job_view, page.items)))


async def jobs_of(call: Call, listing: str, *, run: bool) -> Page[Job]:
    """The page that the call asks for, of jobs or (without *run*) of all plans."""
    cursor, states = call.cursor(listing), call.words("state", JobState)
    return await call.services.store.jobs(call.tenant, run=run, states=states, cursor=cursor, limit=call.limit())


@routes.get(
    "/{id}/members",
    "What became of each member.",
    query=(Param("progress", f"some of {', '.join(Progress)}, with commas", some_of(Progress)), *PAGING),
    answers=ListShape[MemberShape],
)
async def members(call: Call) -> Response:
    job = await _find(call)
    progress = call.words("progress", Progress)
    limit = call.limit()
    after = call.cursor("members")
    found = await call.services.store.members(job.id, after=int(after or 0), limit=limit + 1, progress=progress)
    page = Page(found[:limit], str(found[limit - 1].n) if len(found) > limit else None)
    return answer(call.listed("members", page, map(_member, page.items)))


@routes.delete("/{id}", "Release nothing more; what is on its way goes on.", answers=JobShape)
async def stop(call: Call) -> Response:
    await _find(call)
    services = call.services
    job = await stop_job(services.store, call.tenant, call.params["id"], actor=call.actor, now=services.now())
    if job is None:
        raise Problem("not_found", "there is no job with this id")
    return answer(job_view(job))


async def _find(call: Call) -> Job:
    job = await job_now(call.services.store, call.tenant, call.params["id"])
    if job is None or job.job_id is None:
        raise Problem("not_found", "there is no job with this id")
    return job


def job_view(job: Job) -> views.View:
    counts = {str(progress): job.counts.get(progress, 0) for progress in Progress}
    settled = job.members - counts[Progress.PLANNED] - counts[Progress.RELEASED]
    return views.filled(
        JobShape, job, id=job.job_id, plan=job.id, settled=settled, counts=counts, filter=dict(job.asked)
    )


def _member(one: JobMember) -> views.View:
    return views.filled(
        MemberShape, one.member, n=one.n, was=one.member.state, progress=one.progress, result=one.result
    )
