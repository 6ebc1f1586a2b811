"""Plans: what a bulk replay or skip would do, frozen and shown; and running exactly that."""

from __future__ import annotations

import re
from typing import Annotated

import msgspec

from hooklane.model.clock import Instant
from hooklane.model.endpoint import Endpoint
from hooklane.model.lane import DeliveryState
from hooklane.model.plan import Job, Op, PlacedEvent
from hooklane.model.size import counted
from hooklane.sender.plans import GRACE_S_MAX, Changed, NotRun, Plan, TooMany, make_plan, run_plan, wanted_state
from hooklane.server import views
from hooklane.server.api.dead_letters import reason_of
from hooklane.server.api.jobs import STATE, job_view, jobs_of
from hooklane.server.call import PAGING, Call, Response, Routes, answer, instant_of, pattern_of
from hooklane.server.problem import Problem
from hooklane.server.schema_words import STATUS, TIME, one_of, told
from hooklane.server.shapes import ListShape
from hooklane.server.shapes_of_recovery import JobShape, KeptPlan, NewPlan, Release, ReleasedEvent
from hooklane.store.recovery import Wanted

IDS_MAX = 1_000

_AGO = re.compile(r"-([0-9]{1,6})([smhd])\Z")
_UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_WHEN = {"anyOf": [TIME, {"pattern": "^-[0-9]{1,6}[smhd]$"}]}


class PlanFilter(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Which deliveries: all that fit. Times as RFC 3339, or `-2h` for two hours ago."""

    state: Annotated[str, told(one_of(("dead", "delivered", "skipped")))] | None = None
    endpoint: str | None = None
    key: str | None = None
    type: str | None = None
    reason: str | None = None
    http: Annotated[str, told(STATUS)] | None = None
    after: Annotated[str, told(_WHEN)] | None = None
    before: Annotated[str, told(_WHEN)] | None = None


class PlanBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What to do, with dead letters or events by id, or with all that a filter finds.

    An event by its id means its deliveries at all endpoints; with `endpoint`, the one at that endpoint.
    """

    op: Op
    ids: Annotated[list[str], told({"minItems": 1, "maxItems": IDS_MAX})] | None = None
    endpoint: str | None = None
    filter: PlanFilter | None = None


class RunBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """How to run a plan. `digest` makes sure that it is the plan that was shown.

    For `grace_s` seconds (up to 300) nothing is done yet, and `DELETE` of the job is as if it had never been run.
    """

    note: str = ""
    rate: float | None = None
    digest: str | None = None
    grace_s: Annotated[float, told({"minimum": 0, "maximum": GRACE_S_MAX})] = 0.0
    stop_at_first_failure: bool = False


routes = Routes("plans", "/api/v1/plans")


@routes.post(
    "",
    "What a bulk replay or skip would do; nothing is changed. Valid for five minutes.",
    searches=True,
    status=201,
    takes=PlanBody,
    answers=NewPlan,
)
async def create(call: Call) -> Response:
    body = call.read(PlanBody)
    if (body.ids is None) == (body.filter is None):
        raise Problem("invalid_body", "give either `ids` or `filter`, and not both")
    if body.filter is not None and body.endpoint is not None:
        raise Problem("invalid_body", "`endpoint` goes with `ids`; a filter has an `endpoint` of its own")
    _check_texts(body)
    now = call.services.now()
    if body.ids is not None:
        wanted = Wanted(ids=_ids(body.ids), endpoint_id=body.endpoint)
        at = {} if body.endpoint is None else {"endpoint": body.endpoint}
        asked = {"ids": str(len(wanted.ids)), **at}
    else:
        wanted, asked = _wanted(body.filter or PlanFilter(), now), _asked(body.filter or PlanFilter())
    plan = await make_plan(call.services.store, call.tenant, body.op, wanted, asked=asked, now=now)
    if isinstance(plan, TooMany):
        raise Problem(
            "too_many_members",
            f"more than {plan.most:,} deliveries match, and a {body.op} takes {plan.most:,} at most: narrow the filter",
        )
    return answer(plan_view(plan), 201, headers=[("location", f"/api/v1/plans/{plan.job.id}")])


@routes.get("/{id}", "A plan as it was kept.", answers=KeptPlan)
async def show(call: Call) -> Response:
    """The plan as it was kept; what it would release is worked out when it is made."""
    job = await call.services.store.job(call.tenant, call.params["id"])
    if job is None:
        raise Problem("not_found", "there is no plan with this id")
    return answer(_kept(job))


@routes.post(
    "/{id}/run",
    "Do exactly that, as a job; 409 when a member changed since. Running it twice runs it once.",
    status=202,
    takes=RunBody,
    answers=JobShape,
)
async def run(call: Call) -> Response:
    body = call.read(RunBody) if call.body else RunBody()
    services = call.services
    done = await run_plan(
        services.store,
        call.tenant,
        call.params["id"],
        actor=call.actor,
        now=services.now(),
        note=views.checked_note(body.note),
        rate=body.rate,
        digest=body.digest,
        grace_s=body.grace_s,
        stop_at_first_failure=body.stop_at_first_failure,
    )
    match done:
        case Changed(count=count, names=names):
            errors = [{"id": name} for name in names]
            raise Problem(
                "plan_changed",
                f"{_changed(count)} since the plan was made: make a new plan and review it",
                errors=errors,
            )
        case NotRun(code="not_found"):
            raise Problem("not_found", "there is no plan with this id")
        case NotRun(code=code, detail=detail):
            codes = {"expired": "plan_expired", "digest_differs": "plan_changed", "note_required": "note_required"}
            raise Problem(codes.get(code, "invalid_body"), detail)
        case Job():
            services.jobs.wake()
            return answer(job_view(done), 202, headers=[("location", f"/api/v1/jobs/{done.job_id}")])


def _changed(count: int) -> str:
    return counted(count, "delivery has changed", "deliveries have changed")


def plan_view(plan: Plan) -> views.View:
    return {
        **_kept(plan.job),
        "by_key": [{"endpoint": at, "key": key, "members": many} for at, key, many in plan.by_key],
        "releases": [
            views.filled(
                Release,
                one,
                skips=one.skipped,
                skipped=None if one.gives_up is None else _placed(one.gives_up),
                released=[_placed(event) for event in one.released],
                **_receiver(plan.endpoints.get(one.endpoint_id)),
            )
            for one in plan.releases
        ],
        "warnings": list(plan.warnings),
    }


def _placed(event: PlacedEvent) -> views.View:
    return views.filled(ReleasedEvent, event)


def _receiver(endpoint: Endpoint | None) -> views.View:
    """Where the released events go. Without the query of the URL: that is where people put tokens."""
    if endpoint is None:
        return {"endpoint_name": "", "url": "", "order": None}
    return {"endpoint_name": endpoint.name, "url": endpoint.url.partition("?")[0], "order": endpoint.order}


@routes.get(
    "", "Plans, the newest first, also those that were run.", query=(STATE, *PAGING), answers=ListShape[KeptPlan]
)
async def listing(call: Call) -> Response:
    page = await jobs_of(call, "plans", run=False)
    return answer(call.listed("plans", page, map(_kept, page.items)))


def _kept(job: Job) -> views.View:
    return views.filled(
        KeptPlan,
        job,
        job=job.job_id,
        filter=dict(job.asked),
        counts={"members": job.members, "keys": job.keys, "refused": job.refused_count},
        refused=[{"id": id, "why": why} for id, why in job.refused],
    )


def _check_texts(body: PlanBody) -> None:
    """Nothing that is stored holds a NUL, and PostgreSQL cannot be asked for one."""
    texts = [
        *(("ids", one) for one in body.ids or ()),
        ("endpoint", body.endpoint or ""),
        *_asked(body.filter or PlanFilter()).items(),
    ]
    if named := next((name for name, text in texts if "\0" in text), None):
        raise Problem("invalid_body", f"{named} must not hold a NUL character")


def _ids(ids: list[str]) -> list[str]:
    if not 1 <= len(ids) <= IDS_MAX:
        raise Problem(
            "invalid_body", f"ids must name from 1 to {IDS_MAX:,} deliveries, got {len(ids):,}; use a filter for more"
        )
    return list(dict.fromkeys(ids))


def _wanted(asked: PlanFilter, now: Instant) -> Wanted:
    state = wanted_state(asked.state)
    if state is None:
        raise Problem("invalid_body", f"state must be dead, delivered or skipped, got {str(asked.state)[:40]!r}")
    if state is DeliveryState.DELIVERED and (asked.reason is not None or asked.http is not None):
        word = "http" if asked.reason is None else "reason"
        raise Problem(
            "invalid_body",
            f"{word} says why an event failed, so it cannot be combined with state delivered: leave it out",
        )
    return Wanted(
        state=state,
        endpoint_id=asked.endpoint,
        key=asked.key,
        type=pattern_of(asked.type, "type", "invalid_body"),
        reason=reason_of(asked.reason, asked.http, "invalid_body"),
        after=_instant(asked.after, "after", now),
        before=_instant(asked.before, "before", now),
    )


def _asked(asked: PlanFilter) -> dict[str, str]:
    return {name: value for name in asked.__struct_fields__ if (value := getattr(asked, name)) is not None}


def _instant(text: str | None, name: str, now: Instant) -> Instant | None:
    if text is None:
        return None
    if ago := _AGO.match(text):
        return Instant(now - int(ago[1]) * _UNITS_MS[ago[2]])
    at = instant_of(text)
    if at is None:
        raise Problem("invalid_body", f"{name} must be a time such as 2026-03-01T12:00:00Z or -2h")
    return at
