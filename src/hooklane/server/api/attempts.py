"""Attempts of late, over all events: for the first load of a page that then follows the stream."""

from __future__ import annotations

from typing import Any

from hooklane.model.attempt import OUTCOMES
from hooklane.model.clock import rfc3339
from hooklane.server.attempt_views import attempt_line
from hooklane.server.call import PAGING, Call, Param, Response, Routes, answer
from hooklane.server.schema_words import TIME, one_of
from hooklane.server.shapes import AttemptLine, ListShape

routes = Routes("events", "/api/v1/attempts")


@routes.get(
    "",
    "Attempts of late, the newest first: those that this server knows of, and the failures that lanes wait for.",
    query=(
        Param("endpoint", "id of an endpoint"),
        Param("outcome", f"one of {', '.join(OUTCOMES)}", one_of(OUTCOMES)),
        Param("after", "started at or after this time", TIME),
        PAGING[1],
    ),
    answers=ListShape[AttemptLine],
)
async def search(call: Call) -> Response:
    """From memory, and from the store the failures that still matter: those at the head of a lane."""
    services, query = call.services, call.query
    endpoint_id, limit = query.get("endpoint"), call.limit()
    outcome = call.word("outcome", OUTCOMES, None)
    after = call.instant("after")
    since = "" if after is None else rfc3339(after)
    found = {view["id"]: view for view in services.recent.of(call.tenant)}
    if outcome != "delivered":
        for view in await _stored(call, endpoint_id, limit):
            found.setdefault(view["id"], view)
    fitting = [
        view
        for view in found.values()
        if (endpoint_id is None or view["endpoint"] == endpoint_id)
        and (outcome is None or view["outcome"] == outcome)
        and view["started_at"] >= since
    ]
    newest = sorted(fitting, key=lambda view: (view["started_at"], view["id"]), reverse=True)
    return answer({"items": newest[:limit], "next": None})


async def _stored(call: Call, endpoint_id: str | None, limit: int) -> list[dict[str, Any]]:
    store = call.services.store
    bounds = {one.id: one.attempts_max for one in await store.endpoints(call.tenant)}
    failures = await store.failures(call.tenant, endpoint_id, limit)
    return [attempt_line(one.attempt, one.type, one.key, bounds.get(one.attempt.endpoint_id)) for one in failures]
