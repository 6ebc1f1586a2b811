"""Jobs: how far a bulk replay or skip has come, member by member; and stopping one."""

from __future__ import annotations

from hooklane.model.clock import rfc3339
from hooklane.model.plan import Job, JobMember, JobState, Progress
from hooklane.sender.plans import job_now, stop_job
from hooklane.server import views
from hooklane.server.call import PAGING, Call, Param, Response, Route, answer
from hooklane.server.problem import Problem
from hooklane.server.schema_words import some_of
from hooklane.server.shapes import ListShape
from hooklane.server.shapes_of_recovery import JobShape, MemberShape
from hooklane.store.reads import Page


async def show(call: Call) -> Response:
    return answer(job_view(await _find(call)))


async def listing(call: Call) -> Response:
    services = call.services
    cursor = services.cursors.open("jobs", call.query)
    states = job_states(call.query.get("state"))
    page = await services.store.jobs(call.tenant, run=True, states=states, cursor=cursor, limit=call.limit())
    return answer(services.sealed(call, "jobs", page, [job_view(job) for job in page.items]))


def job_states(text: str | None) -> list[JobState] | None:
    if text is None:
        return None
    words = text.split(",")
    if unknown := [word for word in words if word not in tuple(JobState)]:
        raise Problem(
            "invalid_parameter", f"state must be one or more of {', '.join(JobState)}, got {unknown[0][:40]!r}"
        )
    return [JobState(word) for word in words]


async def members(call: Call) -> Response:
    job = await _find(call)
    words = call.query.get("progress")
    progress = None
    if words is not None:
        if unknown := [word for word in words.split(",") if word not in tuple(Progress)]:
            raise Problem(
                "invalid_parameter", f"progress must be one or more of {', '.join(Progress)}, got {unknown[0][:40]!r}"
            )
        progress = [Progress(word) for word in words.split(",")]
    limit = call.limit()
    after = call.cursor("members")
    found = await call.services.store.members(job.id, after=int(after or 0), limit=limit + 1, progress=progress)
    page = Page(found[:limit], str(found[limit - 1].n) if len(found) > limit else None)
    return answer(call.services.sealed(call, "members", page, [_member(one) for one in page.items]))


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
    return {
        "id": job.job_id,
        "plan": job.id,
        "op": job.op,
        "state": job.state,
        "members": job.members,
        "keys": job.keys,
        "settled": settled,
        "counts": counts,
        "rate": job.rate,
        "note": job.note,
        "actor": job.actor,
        "stop_at_first_failure": job.stop_at_first_failure,
        "starts_at": None if job.starts_at is None else rfc3339(job.starts_at),
        "started_at": None if job.started_at is None else rfc3339(job.started_at),
        "ended_at": None if job.ended_at is None else rfc3339(job.ended_at),
        "filter": dict(job.asked),
    }


def _member(one: JobMember) -> views.View:
    member = one.member
    return {
        "n": one.n,
        "event": member.event_id,
        "type": member.type,
        "endpoint": member.endpoint_id,
        "key": member.key,
        "seq": member.seq,
        "was": member.state,
        "dead_letter": member.dead_letter_id,
        "progress": one.progress,
        "result": one.result,
    }


STATE = Param("state", f"some of {', '.join(JobState)}, with commas", some_of(JobState))

ROUTES = (
    Route(
        "GET",
        "/api/v1/jobs",
        listing,
        "Jobs, the newest first.",
        query=(STATE, *PAGING),
        tag="jobs",
        answers=ListShape[JobShape],
    ),
    Route("GET", "/api/v1/jobs/{id}", show, "How far a job has come.", tag="jobs", answers=JobShape),
    Route(
        "GET",
        "/api/v1/jobs/{id}/members",
        members,
        "What became of each member.",
        query=(Param("progress", f"some of {', '.join(Progress)}, with commas", some_of(Progress)), *PAGING),
        tag="jobs",
        answers=ListShape[MemberShape],
    ),
    Route(
        "DELETE",
        "/api/v1/jobs/{id}",
        stop,
        "Release nothing more; what is on its way goes on.",
        tag="jobs",
        answers=JobShape,
    ),
)
