"""How far is a job? Plans and jobs as documents, their members as rows, and what is released and settled of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hooklane.model.audit import Act
from hooklane.model.lane import DeliveryState, LaneId
from hooklane.model.plan import Job, JobMember, JobState, Member, Op, Progress
from hooklane.model.redelivery import redelivery_lane
from hooklane.store.codec import decode_job, encode_job
from hooklane.store.reads import Page
from hooklane.store.recovery import CarriedOut, Mark
from hooklane.store.sql.outbox import audit, recovery
from hooklane.store.sql.outbox.endpoints import read_endpoints
from hooklane.store.sql.outbox.steps import Batch, Flow, sql

_ENDED = (JobState.STOPPED, JobState.DONE)
_UNRELEASED = (Progress.HELD, Progress.CANCELLED)
"""What a member can be only instead of being released."""
_NOT_DEAD = "it is not a dead letter any more"
_NOT_SKIPPED = "it is not skipped any more: it was published again"
_COLUMNS = (
    *("event_id", "type", "endpoint_id", "lane_id", "pid", "key", "seq", "place", "state", "version"),
    *("dead_letter_id", "reason", "waiting"),
)


def save_job(job: Job, expect: Job | None, act: Act | None = None) -> Flow[bool]:
    rows = yield sql("job_to_save", id=job.id)
    if (decode_job(bytes(rows[0][0])) if rows else None) != expect:
        return False
    columns = {name: getattr(job, name) for name in ("id", "tenant", "job_id", "state", "created_at", "ended_at")}
    yield sql("save_job", **columns, doc=encode_job(job))
    if act is not None:
        yield from audit.append(act)
    return True


def job(tenant: str, id: str) -> Flow[Job | None]:
    rows = yield sql("job", tenant=tenant, id=id)
    return decode_job(bytes(rows[0][0])) if rows else None


def page(tenant: str, run: bool, states: Sequence[JobState] | None, cursor: str | None, limit: int) -> Flow[Page[Job]]:
    """Ids are in the order of time, so the newest has the largest."""
    asked = {"run": run, "states": None if states is None else list(states), "below": cursor or "~"}
    rows = yield sql("jobs_page", tenant=tenant, **asked, limit=limit + 1)
    found = [decode_job(bytes(doc)) for (doc,) in rows]
    return Page(found[:limit], found[limit - 1].id if len(found) > limit else None)


def open_jobs() -> Flow[list[Job]]:
    return [decode_job(bytes(doc)) for (doc,) in (yield sql("open_jobs"))]


def add_members(plan_id: str, tenant: str, first: int, members: Sequence[Member]) -> Flow[None]:
    rows = [
        {**{name: getattr(one, name) for name in _COLUMNS}, "letter": one.dead_letter_id, "n": first + offset}
        for offset, one in enumerate(members)
    ]
    yield Batch("add_members", rows, {"plan": plan_id, "tenant": tenant})


def members(plan_id: str, after: int, limit: int, progress: Sequence[Progress] | None = None) -> Flow[list[JobMember]]:
    rows = yield sql("members", plan=plan_id, after=after, words=list(progress or Progress), limit=limit)
    return [_job_member(row) for row in rows]


def _job_member(row: Sequence[Any]) -> JobMember:
    n, progress, result, *columns = row
    fields = dict(zip(_COLUMNS, columns, strict=True))
    fields["state"] = DeliveryState(fields["state"])
    return JobMember(n, Member(**fields), Progress(progress), result)


def changed(plan_id: str) -> Flow[list[int]]:
    return [n for (n,) in (yield sql("changed_members", plan=plan_id))]


def carry_out(plan_id: str, op: Op, numbers: Sequence[int], act: Act) -> Flow[CarriedOut]:
    jobs = yield sql("job_to_save", id=plan_id)  # locked: it is stopped before this commit, or after it
    if not jobs or decode_job(bytes(jobs[0][0])).state in _ENDED:
        return CarriedOut()
    rows = yield sql("planned_members", plan=plan_id, ns=list(numbers))
    by_n = {row[0]: _job_member(row) for row in rows}
    waiting = [by_n[n] for n in numbers if n in by_n]  # in the order given; the others were done before
    again = [one for one in waiting if one.member.state is DeliveryState.DELIVERED]
    skipped = [one for one in waiting if one.member.state is DeliveryState.SKIPPED]
    dead = [one for one in waiting if one.member.state not in (DeliveryState.DELIVERED, DeliveryState.SKIPPED)]
    refused: dict[int, str] = {}
    lanes: list[LaneId] = []
    skips: list[Act] = []
    if again:
        lanes += yield from _send_again(plan_id, again, act, refused)
    if skipped:
        still = yield from _skipped_still(plan_id, [one.n for one in skipped])
        refused |= {one.n: _NOT_SKIPPED for one in skipped if one.n not in still}
    if dead:
        lanes += yield from _recover(op, dead, act, refused, skips)
    word = Progress.SKIPPED if op is Op.SKIP else Progress.RELEASED
    yield from _note(
        plan_id,
        [Mark(one.n, Progress.REFUSED, refused[one.n]) if one.n in refused else Mark(one.n, word) for one in waiting],
    )
    if skips:
        yield from audit.append_all(skips)
    return CarriedOut(sorted(refused.items()), lanes, [one.n for one in waiting if one.n not in refused])


def _recover(
    op: Op, dead: Sequence[JobMember], act: Act, refused: dict[int, str], skips: list[Act]
) -> Flow[list[LaneId]]:
    note = act.note if op is Op.SKIP else ""
    letters = {one.member.dead_letter_id or "": one.n for one in reversed(dead)}  # of twins the first
    done = yield from recovery.recover(op, act.tenant, list(letters), note=note, actor=act.actor, now=act.at)
    recovered = {letters[letter] for letter in done}
    refused |= {one.n: _NOT_DEAD for one in dead if one.n not in recovered}
    if op is Op.SKIP:
        skips += [replace(act, action="dead_letter.skipped", subject=letter) for letter in done]
    return [one.lane_id for one in done.values()]


def _send_again(plan_id: str, again: Sequence[JobMember], act: Act, refused: dict[int, str]) -> Flow[list[LaneId]]:
    taking = {one.id for one in (yield from read_endpoints(act.tenant)) if not one.state.is_deleted}
    ids = [one.member.event_id for one in again]
    kept = {id for (id,) in (yield sql("kept_events", tenant=act.tenant, ids=ids))}
    lines: dict[str, list[JobMember]] = {}
    for one in again:
        if one.member.endpoint_id not in taking:
            refused[one.n] = "its endpoint is deleted"
        elif one.member.event_id not in kept:
            refused[one.n] = "it is not kept any more"
        else:
            lines.setdefault(one.member.line, []).append(one)
    wanted = [
        {"line": line, "endpoint_id": some[0].member.endpoint_id, "pid": some[0].member.pid, "many": len(some)}
        for line, some in sorted(lines.items())
    ]
    plan = {"plan": plan_id, "tenant": act.tenant, "now": act.at}
    grown = {row[0]: row for row in (yield Batch("grow_redeliveries", wanted, plan))}
    placed: list[dict[str, int]] = []
    for line, some in lines.items():
        if line not in grown:
            refused |= dict.fromkeys((one.n for one in some), "an earlier event of its key failed")
            continue
        _, redelivery, tail, _ = grown[line]
        first = tail - len(some) + 1
        placed += [{"n": one.n, "redelivery": redelivery, "pos": first + at} for at, one in enumerate(some)]
    yield Batch("place_members", placed, plan)
    woken = [{"lane_id": redelivery_lane(n), "pid": pid} for _, n, _, pid in grown.values()]
    yield Batch("wake", woken, plan)
    return [row["lane_id"] for row in woken]


def outcomes(plan_id: str) -> Flow[list[Mark]]:
    """What became of the members that were released, where it is known by now."""
    rows = yield sql("job_outcomes", plan=plan_id)
    return [Mark(n, Progress(came), reason or "" if came == "failed" else "") for n, came, reason in rows]


def note_outcomes(plan_id: str, marks: Sequence[Mark]) -> Flow[list[Mark]]:
    """Note what `outcomes` found, for the members whose outcome no other process has noted meanwhile."""
    return (yield from _note(plan_id, marks, released=True))


def mark(plan_id: str, marks: Sequence[Mark]) -> Flow[list[Mark]]:
    """Close letters and mark their members in one commit; a member whose letter another job has closed is refused."""
    published = [one.n for one in marks if one.progress is Progress.PUBLISHED]
    still = (yield from _skipped_still(plan_id, published)) if published else set()
    if still:
        yield sql("close_skipped_letters", plan=plan_id, ns=sorted(still))
    late = {n: Mark(n, Progress.REFUSED, _NOT_SKIPPED) for n in published if n not in still}
    kept = [late.get(one.n, one) for one in marks]
    noted = yield from _note(plan_id, [one for one in kept if one.progress in _UNRELEASED])
    return [
        *noted,
        *(yield from _note(plan_id, [one for one in kept if one.progress not in _UNRELEASED], released=True)),
    ]


def count_members(plan_id: str) -> Flow[dict[Progress, int]]:
    found = {Progress(word): many for word, many in (yield sql("count_members", plan=plan_id))}
    return {progress: found.get(progress, 0) for progress in Progress}


def _skipped_still(plan_id: str, numbers: Sequence[int]) -> Flow[set[int]]:
    return {n for (n,) in (yield sql("skipped_members", plan=plan_id, ns=list(numbers)))}


def _note(plan_id: str, marks: Sequence[Mark], *, released: bool = False) -> Flow[list[Mark]]:
    """Mark those that are planned still or, with *released*, on their way; the marks that were made."""
    rows = [{"n": one.n, "progress": one.progress, "result": one.result} for one in marks]
    noted = {n for (n,) in (yield Batch("mark_members", rows, {"plan": plan_id, "released": released}))}
    return [one for one in marks if one.n in noted]
