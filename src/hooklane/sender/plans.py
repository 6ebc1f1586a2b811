"""How does a plan come about, and when may it be run? Frozen and shown first; run only while nothing has changed."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from hooklane.core.plan import MEMBERS_MAX, PLAN_MS, REFUSED_SHOWN_MAX, SKIPS_MAX, Frozen, Release, freeze, warnings
from hooklane.errors import SearchTooLong
from hooklane.model.audit import Act
from hooklane.model.clock import Instant
from hooklane.model.endpoint import Endpoint
from hooklane.model.ids import new_id
from hooklane.model.lane import DeliveryState
from hooklane.model.plan import Job, JobState, Member, Op, Progress
from hooklane.model.size import counted
from hooklane.store.budget import NARROW
from hooklane.store.outbox import OutboxStore
from hooklane.store.reads import OutboxReads
from hooklane.store.recovery import Mark, RecoveryStore, Wanted

PAGE = 1_000
FIND_S_MAX = 30.0
"""How long the members of a plan are looked for, page by page."""
KEYS_SHOWN_MAX = 50
RELEASES_SHOWN_MAX = 20
EVENTS_SHOWN_MAX = 500
"""Released events that a plan names, shared by its lanes: of one lane nearly always all of them."""
RATE_MAX = 100_000.0
GRACE_S_MAX = 300


class RecoveredStore(OutboxStore, OutboxReads, RecoveryStore, Protocol):
    """What recovery works on."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What would be done, for a person to look at. Nothing has been changed."""

    job: Job
    by_key: Sequence[tuple[str, str | None, int]]
    """(endpoint, key, members) of the keys with most members."""
    releases: Sequence[Release]
    endpoints: Mapping[str, Endpoint]
    warnings: Sequence[str]


@dataclass(frozen=True, slots=True)
class TooMany:
    """More than may be done at once: narrow the filter."""

    most: int


@dataclass(frozen=True, slots=True)
class Changed:
    """Some members are not any more as the plan saw them: look again. *names* are the first of them."""

    count: int
    names: Sequence[str]


@dataclass(frozen=True, slots=True)
class NotRun:
    """The plan was not run; *code* says why (`expired`, `digest_differs`, `note_required`, `not_found`, …)."""

    code: str
    detail: str


async def make_plan(
    store: RecoveredStore, tenant: str, op: Op, wanted: Wanted, *, asked: Mapping[str, str], now: Instant
) -> Plan | TooMany:
    """Find, freeze and keep the members; tell what running it would do."""
    most = SKIPS_MAX if op is Op.SKIP else MEMBERS_MAX
    try:
        async with asyncio.timeout(FIND_S_MAX):
            found = await _find(store, tenant, wanted, most)
    except TimeoutError:
        raise SearchTooLong(f"nothing was planned: {NARROW}") from None
    if isinstance(found, TooMany):
        return found
    # What is kept is kept as a whole, also where the person who asked has left by now.
    return await asyncio.shield(_keep(store, tenant, op, wanted, found, asked, now))


async def _find(store: RecoveredStore, tenant: str, wanted: Wanted, most: int) -> list[Member] | TooMany:
    found: list[Member] = []
    cursor: str | None = None
    while True:
        page = await store.select(tenant, wanted, cursor, PAGE)
        found += page.items
        cursor = page.next
        if len(found) > most:
            return TooMany(most)
        if cursor is None:
            return found


async def _keep(
    store: RecoveredStore,
    tenant: str,
    op: Op,
    wanted: Wanted,
    found: Sequence[Member],
    asked: Mapping[str, str],
    now: Instant,
) -> Plan:
    endpoints = {endpoint.id: endpoint for endpoint in await store.endpoints(tenant)}
    frozen = freeze(op, found, endpoints, wanted.ids)
    job = Job(
        id=new_id("pln", now),
        tenant=tenant,
        op=op,
        created_at=now,
        expires_at=Instant(now + PLAN_MS),
        digest=frozen.digest,
        members=len(frozen.members),
        keys=frozen.keys,
        asked=dict(asked),
        refused=tuple(frozen.refused[:REFUSED_SHOWN_MAX]),
        refused_count=len(frozen.refused),
        counts={Progress.PLANNED: len(frozen.members)},
    )
    for first in range(0, len(frozen.members), PAGE):
        await store.add_members(job.id, tenant, first + 1, frozen.members[first : first + PAGE])
    # Last: a plan exists when all of its members are kept.
    await store.save_job(job, expect=None)
    releases = await _releases(store, job, frozen)
    return Plan(job, _by_key(frozen), releases, endpoints, warnings(op, frozen.members, endpoints))


def _by_key(frozen: Frozen) -> list[tuple[str, str | None, int]]:
    many = Counter((member.endpoint_id, member.key) for member in frozen.members)
    return [(endpoint_id, key, count) for (endpoint_id, key), count in many.most_common(KEYS_SHOWN_MAX)]


async def _releases(store: RecoveredStore, job: Job, frozen: Frozen) -> list[Release]:
    """What a skip sets free, lane by lane: what will be sent, in order, and the jump that the receiver sees."""
    if job.op is not Op.SKIP:
        return []
    shown = [member for member in frozen.members if member.seq is not None][:RELEASES_SHOWN_MAX]
    rows = {row.id: row for row in await store.reload([member.lane_id for member in shown])}
    most = EVENTS_SHOWN_MAX // max(1, len(shown))
    events = await store.lane_events([(one.lane_id, one.seq or 0) for one in shown], most + 1)
    found: list[Release] = []
    for member in shown:
        seq, row = member.seq or 0, rows[member.lane_id]
        here = [one for one in events if one.lane_id == member.lane_id]
        gives_up = next((one for one in here if one.seq == seq), None)
        behind = [one for one in here if one.seq > seq][:most]
        left = max(0, row.tail - seq - len(behind))
        found.append(Release(member.endpoint_id, member.key or "", seq, row.acked, gives_up, behind, left))
    return found


async def run_plan(
    store: RecoveredStore,
    tenant: str,
    plan_id: str,
    *,
    actor: str,
    now: Instant,
    note: str = "",
    rate: float | None = None,
    digest: str | None = None,
    grace_s: float = 0.0,
    stop_at_first_failure: bool = False,
) -> Job | Changed | NotRun:
    """Make a job of a plan, on record, unless a member changed meanwhile. Running it twice is running it once.

    For *grace_s* seconds it can be stopped and nothing has happened.
    """
    plan = await store.job(tenant, plan_id)
    if plan is None:
        return NotRun("not_found", "there is no such plan")
    if digest is not None and digest != plan.digest:
        return NotRun("digest_differs", "the plan is not the one that was shown: its digest differs")
    if plan.state is not JobState.PLANNED:
        return plan
    if now >= plan.expires_at:
        return NotRun("expired", "the plan is older than five minutes: make it again")
    if plan.op is Op.SKIP and not note.strip():
        return NotRun("note_required", "say in `note` why these events are given up; it goes on record")
    if rate is not None and not 0 < rate <= RATE_MAX:
        return NotRun("invalid_rate", f"rate must be more than 0 and at most {RATE_MAX:.0f} a second, got {rate}")
    if not 0 <= grace_s <= GRACE_S_MAX:
        return NotRun("invalid_grace", f"grace_s must be from 0 to {GRACE_S_MAX} seconds, got {grace_s}")
    changed = await store.changed(plan.id)
    if changed:
        return Changed(len(changed), await _names(store, plan.id, changed[:20]))
    job = replace(
        plan,
        state=JobState.RUNNING,
        job_id=new_id("job", now),
        actor=actor,
        note=note.strip(),
        rate=rate,
        started_at=now,
        starts_at=Instant(now + int(1000 * grace_s)) if grace_s else None,
        stop_at_first_failure=stop_at_first_failure,
    )
    about = f"{plan.op} of {counted(plan.members, 'event')} on {counted(plan.keys, 'key')}, set {plan.digest[:16]}"
    act = Act(
        tenant=tenant,
        at=now,
        actor=actor,
        action="job.started",
        subject=job.job_id or "",
        note=f"{about}: {job.note}" if job.note else about,
    )
    if await store.save_job(job, expect=plan, act=act):
        return job
    return await store.job(tenant, plan_id) or NotRun("not_found", "there is no such plan")


async def _names(store: RecoveredStore, plan_id: str, numbers: Sequence[int]) -> list[str]:
    return [
        one.member.name for n in numbers for one in await store.members(plan_id, after=n - 1, limit=1) if one.n == n
    ]


async def stop_job(store: RecoveredStore, tenant: str, job_id: str, *, actor: str, now: Instant) -> Job | None:
    """Release nothing more; what is on its way goes on. None when there is no such job."""
    while True:
        job = await store.job(tenant, job_id)
        if job is None or job.state is not JobState.RUNNING:
            return job
        act = Act(tenant=tenant, at=now, actor=actor, action="job.stopped", subject=job.job_id or "")
        if await store.save_job(replace(job, state=JobState.STOPPED, ended_at=now), expect=job, act=act):
            break
    while left := await store.members(job.id, after=0, limit=PAGE, progress=[Progress.PLANNED]):
        await store.mark(job.id, [Mark(one.n, Progress.CANCELLED) for one in left])
    stopped = await store.job(tenant, job_id)
    return None if stopped is None else await _counted(store, stopped)


async def job_now(store: RecoveredStore, tenant: str, job_id: str) -> Job | None:
    """A job as it stands. One that was stopped has no runner: what was on its way then is looked up here."""
    job = await store.job(tenant, job_id)
    if job is None or job.state is not JobState.STOPPED or not job.counts.get(Progress.RELEASED):
        return job
    await store.sweep(job.id)
    return await _counted(store, job)


async def _counted(store: RecoveredStore, job: Job) -> Job | None:
    """A stopped job with the counts of its rows: what its runner had told last may be older."""
    told = replace(job, counts=await store.count_members(job.id))
    return told if told == job or await store.save_job(told, expect=job) else await store.job(job.tenant, job.id)


def wanted_state(text: str | None) -> DeliveryState | None:
    """The state that a filter may name; None when it is none of them."""
    states = {str(one): one for one in (DeliveryState.DEAD, DeliveryState.DELIVERED, DeliveryState.SKIPPED)}
    return states.get(text or DeliveryState.DEAD)
