"""Series: figures over time for charts, with marks for what was done meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from hooklane.core.figures import QUANTILES, Figures, quantile_ms
from hooklane.model.attempt import OUTCOMES
from hooklane.model.clock import Instant, rfc3339
from hooklane.server import views
from hooklane.server.api.overview import RANGE, range_of
from hooklane.server.call import Call, Param, Response, Routes, answer
from hooklane.server.problem import Problem
from hooklane.server.schema_words import one_of, some_of
from hooklane.server.series import STEPS, since_for, step_for
from hooklane.server.shapes_of_figures import SeriesShape
from hooklane.store.recovery import AuditFilter

ENDPOINTS_SHOWN = 20
MARKS_MAX = 200
_MARKED = (
    "endpoint.paused",
    "endpoint.resumed",
    "endpoint.rotated",
    "endpoint.created",
    "endpoint.deleted",
    "job.started",
)

Values = Sequence[float | None]
_COUNTS: Mapping[str, Callable[[Figures], float]] = {
    "published": lambda one: one.published,
    "duplicates": lambda one: one.said.get("duplicate", 0),
    "stale": lambda one: one.said.get("stale", 0),
}
_GAUGES: Mapping[str, Callable[[Figures], int | None]] = {
    "backlog": lambda one: one.backlog,
    "oldest_s": lambda one: one.oldest_s,
    "blocked": lambda one: one.blocked,
    "dead": lambda one: one.dead,
}
_TIMES: Mapping[str, Callable[[Figures], Sequence[int]]] = {
    "delivery_ms": lambda one: one.delivery,
    "attempt_ms": lambda one: one.attempt,
}
MEASURES = ("published", "attempts", "delivery_ms", "attempt_ms", *_GAUGES, "duplicates", "stale")


routes = Routes("overview", "/api/v1/series")


@routes.get(
    "",
    "Figures over time, of all processes together, with marks for what was done meanwhile.",
    query=(
        Param("m", f"some of {', '.join(MEASURES)}, with commas; all unless given", some_of(MEASURES)),
        Param(
            "by",
            "how `attempts` are told apart: outcome (unless given) or endpoint",
            one_of(("outcome", "endpoint")),
        ),
        Param("endpoint", "only what was counted at this endpoint, in slots of a minute or longer"),
        RANGE,
        Param(
            "step",
            "seconds of a slot: 10, 60 or 600, as far back as the ring of each goes (1 h, 24 h, 7 d)",
            one_of(("10", "60", "600")),
        ),
    ),
    answers=SeriesShape,
)
async def series(call: Call) -> Response:
    services, query = call.services, call.query
    _, range_s = range_of(call)
    measures = call.words("m", MEASURES) or list(MEASURES)
    by = call.word("by", ("outcome", "endpoint"), "outcome")
    endpoint_id = query.get("endpoint", "")
    step_s = _step(query.get("step"), range_s, least_s=60 if endpoint_id else 10)
    now = services.now()
    since = since_for(now, range_s, step_s)
    found = (await services.series.read(call.tenant, [endpoint_id], step_s, since))[endpoint_id]
    slots = [found.get(Instant(at)) for at in range(since, now + 1, 1000 * step_s)]
    return answer(
        {
            "from": rfc3339(since),
            "step_s": step_s,
            "as_of": rfc3339(now),
            "series": [one for m in measures for one in _series(m, by, slots)],
            "marks": await _marks(call, endpoint_id or None, since),
        }
    )


def _series(m: str, by: str, slots: Sequence[Figures | None]) -> list[views.View]:
    if m == "attempts" and by == "endpoint":
        busiest = _busiest(slots)
        return [_one(m, each, [one.endpoints.get(each, 0) if one else 0 for one in slots]) for each in busiest]
    if m == "attempts":
        return [_one(m, word, [one.outcomes.get(word, 0) if one else 0 for one in slots]) for word in OUTCOMES]
    if m in _TIMES:
        counts = [_TIMES[m](one) if one else () for one in slots]
        return [_one(m, name, [quantile_ms(each, part) for each in counts]) for name, part in QUANTILES.items()]
    if m in _COUNTS:
        return [_one(m, "", [_COUNTS[m](one) if one else 0 for one in slots])]
    return [_one(m, "", _carried([_GAUGES[m](one) if one else None for one in slots]))]


def _one(m: str, by: str, values: Values) -> views.View:
    return {"m": m, "by": by, "values": list(values)}


def _busiest(slots: Sequence[Figures | None]) -> list[str]:
    totals: dict[str, int] = {}
    for one in slots:
        for endpoint_id, many in (one.endpoints if one else {}).items():
            totals[endpoint_id] = totals.get(endpoint_id, 0) + many
    return sorted(totals, key=lambda each: -totals[each])[:ENDPOINTS_SHOWN]


def _carried(values: Sequence[int | None]) -> list[float | None]:
    """Where nothing was measured, nothing has changed: a quiet server writes no rows."""
    carried: list[float | None] = []
    for value in values:
        carried.append(value if value is not None else carried[-1] if carried else None)
    return carried


async def _marks(call: Call, endpoint_id: str | None, since: Instant) -> list[views.View]:
    """What was done to endpoints, and the turns of their breakers, oldest first."""
    store = call.services.store
    wanted = AuditFilter(subjects=() if endpoint_id is None else (endpoint_id,), after=since)
    page = await store.audit(call.tenant, wanted, None, MARKS_MAX)
    marks = [
        (line.act.at, line.act.action, line.act.subject, line.act.note)
        for line in page.items
        if line.act.action in _MARKED
    ]
    turns = await store.breaker_turns(call.tenant, endpoint_id, since, MARKS_MAX)
    marks += [(turn.at, f"breaker.{turn.state}", turn.endpoint_id, f"the breaker is {turn.state}") for turn in turns]
    newest = sorted(marks, key=lambda mark: mark[0])[-MARKS_MAX:]
    return [{"at": rfc3339(at), "kind": kind, "subject": subject, "text": text} for at, kind, subject, text in newest]


def _step(text: str | None, range_s: int, least_s: int) -> int:
    finest = step_for(range_s, least_s)
    if text is None:
        return finest
    steps = [step_s for step_s in STEPS if step_s >= finest]
    if text not in map(str, steps):
        listed = ", ".join(map(str, steps))
        raise Problem("invalid_parameter", f"step for this range must be one of {listed} (seconds), got {text[:40]!r}")
    return int(text)
